"""The HTML of the page. All text is escaped here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.records import Record
from whence._version import __version__
from whence.objects.opening import open_object
from whence.store.names import ELF_KINDS

if TYPE_CHECKING:
    from whence._base.model import Frame
    from whence.store.index import IndexRow
    from whence.store.meta import Meta
    from whence.store.wanted import MissedId

SECTIONS = 200
GRADES = ((4, ("DWARF", "with lines")), (3, ("DWARF",)), (3, ("pclntab",)), (2, (".symtab",)), (1, (".dynsym",)))
BARS = 4
LONGEST_NAME = 300
TITLES = {400: "Bad request", 401: "A token is required", 403: "Not allowed", 404: "Not found"}
AROUND = 3  # lines of source above and below


class AddressAnswer(Record, frozen=True):
    """The frames at an address, innermost first, each with source lines; or the reason `why` they are missing."""

    why: str
    steps: tuple[tuple[Frame, list[tuple[int, str]]], ...]


class FunctionList(Record, frozen=True):
    """Functions as (name, vaddr, size) whose names contain `text`, or the reason `why` they are missing.

    `more`: the list is incomplete.
    """

    text: str
    why: str
    rows: tuple[tuple[str, int, int], ...]
    more: bool


class Commands(Record, frozen=True):
    """The commands that the page shows: for a store at `url` and a server at `address`, which may take uploads."""

    url: str
    address: str
    uploads: bool

    def add(self) -> str:
        """Return the command that adds files on the server."""
        return escape(f"whence store add {shlex.quote(self.url)} FILES")

    def upload(self) -> str:
        """Return the command that uploads a file."""
        return escape(f"curl -T FILE {shlex.quote(self.address + 'upload/')}")

    def use(self) -> str:
        """Return the command that lets debuggers ask the server."""
        return escape(f"export DEBUGINFOD_URLS={shlex.quote(self.address)}")

    def empty_store(self) -> str:
        """Return what an empty store shows."""
        commands = [self.add(), *([self.upload()] if self.uploads else []), self.use()]
        lines = "\n".join(commands)
        return f'<p>The store is empty. Add files, and let debuggers use them:</p><pre tabindex="0">{lines}</pre>'


def page(title: str, body: str) -> str:
    """Return a page with a header."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/page.css">
<script type="module" src="/static/page.js"></script>
</head>
<body>
<header><a class="home" href="/">whence</a> <span class="quiet">{escape(__version__)}</span></header>
<main>
{body}
</main>
</body>
</html>
"""


def stack(answers: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the page of a stack token: the build-id and the lines of each address."""
    rows = [
        (str(number), "<br>".join(f"<code>{escape(line)}</code>" for line in lines), link(build_id) if build_id else "")
        for number, (build_id, lines) in enumerate(answers)
    ]
    return page("Stack", "<h1>Stack</h1>" + table(("frame", "function", "build-id"), rows, "The token has no frames."))


def index(commands: Commands, query: str, rows: Sequence[IndexRow], count: int, missing: Sequence[MissedId]) -> str:
    """Return the start page; `rows` are the first of `count` build-ids."""
    binaries = table(
        ("name", "build-id", "names from", "size", "added"),
        [
            (
                escape(row.name or "?"), link(row.build_id), grade(row.quality),
                size(row.debuginfo + row.executable + row.archive), day(row.added),
            )
            for row in rows
        ],
        "No binary matches.",
    )  # fmt: skip
    requested = table(
        ("build-id", "requests", "by", "path"),
        [
            (
                f"<code>{escape(missed.build_id)}</code>", str(missed.count), escape(", ".join(sorted(missed.asked))),
                escape(missed.path),
            )
            for missed in missing
        ],
        f"No missing build-ids. Let clients ask this server: <code>{commands.use()}</code>",
    )  # fmt: skip
    if not rows and not query:
        binaries = commands.empty_store()
    all_shown = f"{count:,} build-id{'s' if count != 1 else ''}"
    shown = all_shown if count == len(rows) else f"the newest {len(rows):,} of {count:,} build-ids"
    drop = (
        '<p><label class="drop" data-drop="upload">Drop debug files or programs here, or choose files'
        '<input type="file" multiple></label></p><ul class="status" data-status="upload" aria-live="polite"></ul>'
        if commands.uploads
        else f"<p>Uploads are disabled. Add files on the server: <code>{commands.add()}</code></p>"
    )
    return page(
        "whence",
        f"""<h1>Symbol server</h1>
<section aria-labelledby="profile"><h2 id="profile">Name a profile</h2>
<p><label class="drop" data-drop="profile">Drop a profile here, or choose a file (pprof, perf.data, OTLP, Firefox, ...)
<input type="file"></label></p>
<p class="status" data-status="profile" aria-live="polite"></p>
<iframe id="flame" title="the named profile" sandbox="allow-scripts" hidden></iframe></section>
<section aria-labelledby="binaries"><h2 id="binaries">Binaries</h2>
<form role="search"><label for="q">Name, build-id or package</label>
<input id="q" name="q" type="search" value="{escape(query)}">
<button>Search</button></form>
<p class="quiet">{shown} in {escape(commands.url)}</p>{binaries}</section>
<section aria-labelledby="wanted"><h2 id="wanted">Missing debug info</h2>
<p>Requested but missing, most requested first.</p>{requested}{drop}</section>
<section aria-labelledby="health"><h2 id="health">Server health</h2>
<div id="plots" class="plots"></div><p><a href="/metrics">metrics</a>, <a href="/limits">limits</a></p></section>""",
    )


def refusal(status: int, why: str) -> str:
    """Return the page of a refused request."""
    title = TITLES.get(status, f"Error {status}")
    return page(
        f"{title} - whence",
        f"""<h1>{title}</h1><p>{escape(why[:1].upper() + why[1:])}.</p>
<form role="search" action="/"><label for="q">Search by name, build-id or package</label>
<input id="q" name="q" type="search"> <button>Search</button></form>
<p><a href="/">All binaries</a></p>""",
    )


def binary(
    described: Meta,
    sections: Sequence[tuple[str, int, int]],
    functions: FunctionList,
    address: str,
    answer: AddressAnswer | None,
) -> str:
    """Return the page of a binary."""
    files = table(
        ("file", "size", "names from", "added", "origin"),
        [
            (
                f'<a href="/buildid/{escape(described.build_id)}/{escape(kind)}">{escape(kind)}</a>', size(entry.size),
                grade(str(entry.quality)) if kind in ELF_KINDS else "", day(entry.added), escape(entry.origin),
            )
            for kind, entry in sorted(described.files.items())
        ],
        "No files.",
    )  # fmt: skip
    section_rows = table(
        ("section", "address", "size"),
        [
            (f"<code>{escape(name)}</code>", f"<code>{vaddr:#x}</code>", size(length))
            for name, vaddr, length in sections
        ],
        "The file has no sections.",
    )
    details = [
        ("build-id", described.build_id),
        ("debug id", described.debug_id),
        ("machine", described.machine),
        ("note", described.note),
    ]
    facts = "".join(f"<dt>{name}</dt><dd><code>{escape(text)}</code></dd>" for name, text in details if text)
    return page(
        f"{described.name or described.build_id} - whence",
        f"""<h1>{escape(described.name or described.build_id)}</h1>
<dl>{facts}</dl>
<section aria-labelledby="lookup"><h2 id="lookup">Look up an address</h2>
<form><label for="address">Address (vaddr in hex)</label>
<input id="address" name="address" value="{escape(address)}" autocomplete="off" spellcheck="false">
<button>Look up</button></form>{chain(answer) if answer is not None else ""}</section>
<section aria-labelledby="functions"><h2 id="functions">Functions</h2>
<form action="#functions"><label for="function">Name contains</label>
<input id="function" name="function" value="{escape(functions.text)}" autocomplete="off" spellcheck="false">
<button>List</button></form>{listed_functions(described.build_id, functions)}</section>
<section aria-labelledby="files"><h2 id="files">Files</h2>{files}</section>
<section aria-labelledby="sections"><h2 id="sections">Sections</h2>{section_rows}</section>""",
    )


def listed_functions(build_id: str, functions: FunctionList) -> str:
    """Return the table of functions, each with a link to its address."""
    if functions.why:
        return f"<p>{escape(functions.why)}</p>"
    rows = [
        (
            f'<a href="/binary/{escape(build_id)}?address={vaddr:#x}">{escape(name[:LONGEST_NAME] or "?")}</a>',
            f"<code>{vaddr:#x}</code>", size(length),
        )
        for name, vaddr, length in functions.rows
    ]  # fmt: skip
    note = '<p class="quiet">The list is incomplete: enter a part of the name.</p>' if functions.more else ""
    empty = "No function matches." if functions.text else "The file has no named functions."
    return table(("function", "address", "size"), rows, empty) + note


def grade(quality: str) -> str:
    """Return the quality of names in words, and as zero to four bars."""
    best = next((count for count, words in GRADES if all(word in quality for word in words)), 0)
    bars = "".join(f'<i class="{"full" if number < best else "none"}"></i>' for number in range(BARS))
    return f'<span class="grade" aria-hidden="true">{bars}</span> {escape(quality or "?")}'


def chain(answer: AddressAnswer) -> str:
    """Return the frames at an address, innermost first."""
    if answer.why:
        return f'<p role="status">{escape(answer.why)}</p>'
    steps = []
    for frame, lines in answer.steps:
        location = f"{frame.file}:{frame.line}" if frame.file else ""
        note = ' <span class="quiet">inlined</span>' if frame.inlined else ""
        source = "".join(
            f'<span class="{"here" if number == frame.line else "near"}">{number:6} {escape(text)}\n</span>'
            for number, text in lines
        )
        steps.append(
            f"<li><b>{escape(frame.function or '?')}</b>{note}<br><code>{escape(location)}</code>"
            + (f'<pre tabindex="0">{source}</pre>' if source else "")
            + "</li>"
        )
    return f'<ol class="chain">{"".join(steps)}</ol>'


def lines_around(data: bytes, line: int) -> list[tuple[int, str]]:
    """Return a line of a source file and the lines around it, with their numbers."""
    lines = data.decode("utf-8", "replace").splitlines()
    first = max(line - AROUND, 1)
    return list(enumerate(lines[first - 1 : line + AROUND], first))


def sections_of(path: Path) -> list[tuple[str, int, int]]:
    """Return names, vaddrs and sizes of a file's first sections; [] if it can't be read."""
    try:
        with open_object(path) as elf:
            sections = elf.sections[:SECTIONS]
            return [(section.name, section.vaddr, section.size) for section in sections if section.name]
    except (WhenceError, OSError):
        return []


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """Return a table whose cells are HTML, or the HTML text `empty` if there are no rows."""
    if not rows:
        return f'<p class="quiet">{empty}</p>'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    label = escape(", ".join(heads))
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def link(build_id: str) -> str:
    """Return a link to the page of a binary."""
    text = escape(build_id)
    return f'<a href="/binary/{text}" title="{text}"><code>{text}</code></a>'


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count = count // 1000 if unit == "B" and count >= 1_000_000 else count / 1000  # type: ignore[assignment]
    return f"{count:,.3g} GB"


def day(seconds: int) -> str:
    """Return the date of a time in seconds since 1970; "" for 0."""
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""
