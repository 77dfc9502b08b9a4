"""A crash report as an HTML page, which needs no other files and makes no requests. All text is escaped here."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from whence._base.words import counted, plain
from whence.crashes.text import (
    TAB,
    code_lines,
    code_title,
    facts,
    group_title,
    hex_lines,
    location_text,
    variable_texts,
)
from whence.symbolize.stacks import ending

if TYPE_CHECKING:
    from whence.crashes.model import CrashReport, ReportFunction, ThreadGroup

OPEN_GROUPS = 1  # stacks that are shown at first
KEYS = "<kbd>j</kbd> <kbd>k</kbd> next and previous stack, <kbd>e</kbd> <kbd>c</kbd> expand and collapse all"


@functools.cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def report_page(report: CrashReport) -> str:
    """Return the page of a report."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; base-uri 'none'"
    signal = report.signal.name if report.signal is not None else "No signal"
    program = report.signature.program or report.command or report.name
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{_text(signal)} in {_text(program)}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1><b>{_text(signal)}</b> in {_text(program)}</h1>
{_facts(report)}
{"".join(_sections(report))}</main>
<p class="keys soft">{KEYS}</p>
<script>{script}</script>
</body>
</html>
"""


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _text(text: object) -> str:
    """Return text for HTML, without control characters."""
    return escape(plain(text))


def _facts(report: CrashReport) -> str:
    rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts(report))
    return f"<dl>{rows}<dt>contents</dt><dd>This report {_text(report.contents)}.</dd></dl>"


def _sections(report: CrashReport) -> Iterator[str]:
    if report.warnings:
        yield _section("Incomplete", _list(report.warnings))
    stacks = (_group(group, index) for index, group in enumerate(report.groups))
    yield _section("Threads", "".join(stacks) or "<p>The dump has no threads.</p>")
    yield _section(_capital(code_title(report.code)), _pre(code_lines(report.code), "=>"))
    yield _section("Registers", _registers(report))
    yield _section("Modules", _modules(report))
    if report.has_memory:
        parts = (
            f"<h3>{_text(part.title)}, {part.address:#x}</h3>{_pre(hex_lines(part.content, part.address))}"
            for part in report.memory
        )
        yield _section("Memory", "".join(parts) or "<p>The dump has none of it.</p>")


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>\n{body}\n</section>\n"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>"


def _pre(lines: Iterator[str], marked: str = "") -> str:
    """Return lines as preformatted text; lines that begin with `marked` are highlighted."""
    shown = (f"<mark>{_text(line)}</mark>" if marked and line.startswith(marked) else _text(line) for line in lines)
    return '<pre class="panel" tabindex="0">' + "\n".join(shown) + "</pre>"


def _group(group: ThreadGroup, index: int) -> str:
    rows = []
    if len(group.tids) > 1 and any(entry.variables for entry in group.functions):
        rows.append(f'<li class="soft">Values are those of thread {group.tids[0]}.</li>')
    for entry in group.shown():
        if isinstance(entry, int):
            rows.append(f'<li class="soft">{counted(entry, "function")} left out; the JSON report has them</li>')
        else:
            rows.append(_function(entry))
    rows.append(f'<li class="soft">End: {_text(ending(group.stack))}</li>')
    title = _capital(group_title(group, is_crash=not index))
    is_open = " open" if index < OPEN_GROUPS else ""
    mark = ' class="crash"' if not index else ""
    return f"<details{mark}{is_open}><summary>{_text(title)}</summary>\n<ol>{''.join(rows)}</ol></details>\n"


def _function(entry: ReportFunction) -> str:
    parts = [
        f'<li><span class="number">#{entry.number}</span> <code><b>{_text(entry.name)}</b></code>'
        f'<span class="soft">{escape(location_text(entry))}</span>'
    ]
    variables = variable_texts(entry)
    if variables:
        parts.append(f"<pre>{escape(chr(10).join(variables))}</pre>")
    if entry.source is not None and entry.function is not None:
        lines = []
        for number, text in enumerate(entry.source.lines, entry.source.first):
            line = f"{number:6}  {_text(text.expandtabs(TAB))}"
            lines.append(f"<mark>{line}</mark>" if number == entry.function.line else line)
        parts.append("<pre>" + "\n".join(lines) + "</pre>")
    parts.append("</li>")
    return "".join(parts)


def _registers(report: CrashReport) -> str:
    shown = report.register_texts()
    return _pre("   ".join(shown[index : index + 3]) for index in range(0, len(shown), 3))


def _modules(report: CrashReport) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(module.path)}</code></td><td><code>{_text(module.build_id or '-')}</code></td>"
        f"<td><code>{module.start:#x}</code></td><td>{module.frames or ''}</td>"
        f'<td>{f"""<span class="alert">{_text(module.missing)}</span>: """ if module.missing else ""}'
        f"{_text(module.remedy)}</td></tr>"
        for module in report.modules
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("file", "build-id", "start", "frames", "missing"))
    return f'<div class="wide" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
