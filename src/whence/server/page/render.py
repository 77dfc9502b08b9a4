"""HTML of what the page shows. Every text is escaped here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.records import Record
from whence._version import __version__
from whence.objects.elf import ElfFile
from whence.store.names import ARCHIVE

if TYPE_CHECKING:
    from whence._base.model import Frame
    from whence.store.index import IndexRow
    from whence.store.meta import Meta
    from whence.store.wanted import MissedId

SECTIONS = 200
GRADES = ((4, ("DWARF", "with lines")), (3, ("DWARF",)), (3, ("pclntab",)), (2, (".symtab",)), (1, (".dynsym",)))
BARS = 4
LONGEST_NAME = 300
AROUND = 3  # lines of source above and below


class Answer(Record, frozen=True):
    """The chain at an address, innermost first, each frame with lines of its source; `why` where there is none."""

    why: str
    steps: tuple[tuple[Frame, list[tuple[int, str]]], ...]


class Functions(Record, frozen=True):
    """Functions as (name, vaddr, bytes) whose names have the text `wanted`; `why` where there are none; `more` when not
    all were looked at or listed."""

    wanted: str
    why: str
    rows: tuple[tuple[str, int, int], ...]
    more: bool


def page(title: str, body: str) -> str:
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


def index(
    url: str, query: str, rows: Sequence[IndexRow], count: int, questions: Sequence[MissedId], uploads: bool
) -> str:
    held = table(
        ("name", "build-id", "names from", "size", "came"),
        [
            (
                escape(one.name or "?"), link(one.build_id), grade(one.quality),
                size(one.debuginfo + one.executable + one.archive), day(one.added),
            )
            for one in rows
        ],
    )  # fmt: skip
    asked = table(
        ("build-id", "asked", "by", "path"),
        [
            (
                f"<code>{escape(one.build_id)}</code>", str(one.count), escape(", ".join(sorted(one.asked))),
                escape(one.path),
            )
            for one in questions
        ],
    )  # fmt: skip
    shown = f"{count:,}" if count == len(rows) else f"the youngest {len(rows):,} of {count:,}"
    drop = (
        '<p><label class="drop" data-drop="upload">Drop debug files or programs here, or choose them'
        '<input type="file" multiple></label></p><ul class="status" data-status="upload" aria-live="polite"></ul>'
        if uploads
        else "<p>This server takes no files.</p>"
    )
    return page(
        "whence",
        f"""<h1>Names for addresses</h1>
<section aria-labelledby="profile"><h2 id="profile">Name a profile</h2>
<p><label class="drop" data-drop="profile">Drop a profile here, or choose it: pprof, perf.data, OTLP, Firefox, folded
<input type="file"></label></p>
<p class="status" data-status="profile" aria-live="polite"></p>
<iframe id="flame" title="the named profile" sandbox="allow-scripts" hidden></iframe></section>
<section aria-labelledby="held"><h2 id="held">In the store</h2>
<form role="search"><label for="q">Name, build-id or package</label>
<input id="q" name="q" type="search" value="{escape(query)}">
<button>Search</button></form>
<p class="quiet">{shown} in {escape(url)}</p>{held}</section>
<section aria-labelledby="wanted"><h2 id="wanted">Wanted</h2>
<p>Asked for and not here, what is asked for most first.</p>{asked}{drop}</section>
<section aria-labelledby="health"><h2 id="health">Health</h2>
<div id="plots" class="plots"></div><p><a href="/metrics">metrics</a>, <a href="/limits">limits</a></p></section>""",
    )


def binary(
    known: Meta, sections: Sequence[tuple[str, int, int]], functions: Functions, address: str, answer: Answer | None
) -> str:
    files = table(
        ("file", "size", "names from", "came", "from"),
        [
            (
                f'<a href="/buildid/{escape(known.build_id)}/{escape(kind)}">{escape(kind)}</a>', size(held.size),
                grade(str(held.quality)) if kind != ARCHIVE else "", day(held.added), escape(held.origin),
            )
            for kind, held in sorted(known.files.items())
        ],
    )  # fmt: skip
    listed = table(
        ("section", "vaddr", "size"),
        [
            (f"<code>{escape(name)}</code>", f"<code>{vaddr:#x}</code>", size(length))
            for name, vaddr, length in sections
        ],
    )
    details = [
        ("build-id", known.build_id),
        ("debug id", known.debug_id),
        ("machine", known.machine),
        ("note", known.note),
    ]
    facts = "".join(f"<dt>{name}</dt><dd><code>{escape(text)}</code></dd>" for name, text in details if text)
    return page(
        f"{known.name or known.build_id} - whence",
        f"""<h1>{escape(known.name or known.build_id)}</h1>
<dl>{facts}</dl>
<section aria-labelledby="lookup"><h2 id="lookup">What is at an address</h2>
<form><label for="address">Address (vaddr in hex)</label>
<input id="address" name="address" value="{escape(address)}" autocomplete="off" spellcheck="false">
<button>Look up</button></form>{chain(answer) if answer is not None else ""}</section>
<section aria-labelledby="functions"><h2 id="functions">Functions</h2>
<form action="#functions"><label for="function">Part of a name</label>
<input id="function" name="function" value="{escape(functions.wanted)}" autocomplete="off" spellcheck="false">
<button>List</button></form>{listed_functions(known.build_id, functions)}</section>
<section aria-labelledby="files"><h2 id="files">Files</h2>{files}</section>
<section aria-labelledby="sections"><h2 id="sections">Sections</h2>{listed}</section>""",
    )


def listed_functions(build_id: str, functions: Functions) -> str:
    if functions.why:
        return f"<p>{escape(functions.why)}</p>"
    rows = [
        (
            f'<a href="/binary/{escape(build_id)}?address={vaddr:#x}">{escape(name[:LONGEST_NAME] or "?")}</a>',
            f"<code>{vaddr:#x}</code>", size(length),
        )
        for name, vaddr, length in functions.rows
    ]  # fmt: skip
    note = '<p class="quiet">There are more: name a part of what you look for.</p>' if functions.more else ""
    return table(("function", "vaddr", "bytes"), rows) + note


def grade(quality: str) -> str:
    """What names addresses, in words and at a glance: from no bar to four."""
    best = next((count for count, words in GRADES if all(word in quality for word in words)), 0)
    bars = "".join(f'<i class="{"full" if number < best else "none"}"></i>' for number in range(BARS))
    return f'<span class="grade" aria-hidden="true">{bars}</span> {escape(quality or "?")}'


def chain(answer: Answer) -> str:
    """The frames of an address, innermost first."""
    if answer.why:
        return f'<p role="status">{escape(answer.why)}</p>'
    steps = []
    for frame, lines in answer.steps:
        place = f"{frame.file}:{frame.line}" if frame.file else ""
        note = ' <span class="quiet">inlined</span>' if frame.inlined else ""
        source = "".join(
            f'<span class="{"here" if number == frame.line else "near"}">{number:6} {escape(text)}\n</span>'
            for number, text in lines
        )
        steps.append(
            f"<li><b>{escape(frame.function or '?')}</b>{note}<br><code>{escape(place)}</code>"
            + (f'<pre tabindex="0">{source}</pre>' if source else "")
            + "</li>"
        )
    return f'<ol class="chain">{"".join(steps)}</ol>'


def lines_around(data: bytes, line: int) -> list[tuple[int, str]]:
    """A line of a source file with those around it, numbered from 1."""
    lines = data.decode("utf-8", "replace").splitlines()
    first = max(line - AROUND, 1)
    return list(enumerate(lines[first - 1 : line + AROUND], first))


def sections_of(path: Path) -> list[tuple[str, int, int]]:
    """Names, vaddrs and sizes of a file's first sections; [] where it can't be read."""
    try:
        with ElfFile.open(path) as elf:
            return [(one.name, one.vaddr, one.size) for one in elf.sections[:SECTIONS] if one.name]
    except (WhenceError, OSError):
        return []


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    if not rows:
        return '<p class="quiet">Nothing.</p>'
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    label = escape(", ".join(heads))
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def link(build_id: str) -> str:
    return f'<a href="/binary/{escape(build_id)}"><code>{escape(build_id)}</code></a>'


def size(count: int) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count = count // 1000 if unit == "B" and count >= 1_000_000 else count / 1000  # type: ignore[assignment]
    return f"{count:,.3g} GB"


def day(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""
