"""A crash report as text. Everything from the dump and from files is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.words import counted, plain
from whence._version import __version__
from whence.symbolize.stacks import ending
from whence.unwind import FoundBy

if TYPE_CHECKING:
    from whence.crashes.model import CrashReport, FaultCode, ReportFunction, ReportModule, ThreadGroup

REGISTERS_A_LINE = 3
BYTES_A_LINE = 16
HEX_WIDTH = 3 * BYTES_A_LINE - 1
TAB = 8


def report_text(report: CrashReport) -> str:
    """Return a report as text."""
    return "\n".join(report_lines(report)) + "\n"


def report_lines(report: CrashReport) -> Iterator[str]:
    """Yield the lines of a report."""
    for name, value in facts(report):
        yield f"{name:10} {value}"
    yield f"{'contents':10} this report {report.contents}"
    for index, group in enumerate(report.groups):
        yield ""
        yield group_title(group, is_crash=not index)
        yield from _group_lines(group)
    yield ""
    yield code_title(report.code)
    yield from (f"  {line}" for line in code_lines(report.code))
    yield ""
    yield f"registers of thread {report.groups[0].tids[0]}" if report.groups else "registers"
    shown = report.register_texts()
    for index in range(0, len(shown), REGISTERS_A_LINE):
        yield "  " + "  ".join(shown[index : index + REGISTERS_A_LINE])
    yield ""
    yield "modules"
    yield from (f"  {line}" for module in report.modules for line in module_lines(module))
    if report.has_memory:
        yield ""
        yield "memory"
        for part in report.memory:
            yield f"  {part.title}, {part.address:#x}"
            yield from (f"    {line}" for line in hex_lines(part.content, part.address))
    if report.warnings:
        yield ""
        yield "incomplete"
        yield from (f"  {plain(warning)}" for warning in report.warnings)


def facts(report: CrashReport) -> list[tuple[str, str]]:
    """Return names and values of the head of a report."""
    process = ", ".join(
        plain(part) for part in (report.command, f"pid {report.pid}" if report.pid else "", report.executable) if part
    )
    rows = [
        ("program", process),
        ("command", plain(report.arguments)),
        ("signal", str(report.signal or "none")),
        ("fault", "" if report.fault is None else plain(report.fault)),
        ("signature", plain(report.signature)),
        (
            report.kind,
            ", ".join(filter(None, (plain(report.name), f"{report.machine}, {report.bits} bits", report.written))),
        ),
        ("made by", f"whence {__version__}"),
    ]
    return [(name, value) for name, value in rows if value]


def group_title(group: ThreadGroup, *, is_crash: bool) -> str:
    """Return the heading of threads with equal stacks."""
    tids = ", ".join(map(str, group.tids[:8])) + (f" and {len(group.tids) - 8:,} more" if len(group.tids) > 8 else "")
    names = plain(", ".join(dict.fromkeys(filter(None, group.names))))
    title = (
        f"thread {tids}" if len(group.tids) == 1 else f"{counted(len(group.tids), 'thread')} with this stack: {tids}"
    )
    return f"{title}{f' ({names})' if names else ''}{', which crashed' if is_crash else ''}"


def _group_lines(group: ThreadGroup) -> Iterator[str]:
    if len(group.tids) > 1 and any(function.variables for function in group.functions):
        yield f"  (values are those of thread {group.tids[0]})"
    for entry in group.shown():
        if isinstance(entry, int):
            yield f"  ... {counted(entry, 'function')} ..."
            continue
        yield f"  #{entry.number:<3} {plain(entry.name)}{location_text(entry)}"
        yield from (f"         {line}" for line in variable_texts(entry))
        if entry.source is not None and entry.function is not None:
            for number, text in enumerate(entry.source.lines, entry.source.first):
                mark = ">" if number == entry.function.line else " "
                yield f"       {mark}{number:6}  {plain(text.expandtabs(TAB))}".rstrip()
    yield f"  end: {ending(group.stack)}"


def location_text(entry: ReportFunction) -> str:
    """Return source line, module and vaddr of a function, and how it was found if that is a guess."""
    symbolized, function = entry.frame.place, entry.function
    text = ""
    if function is not None and function.file:
        text = f" at {plain(function.file)}" + (f":{function.line}" if function.line else "")
    if function is not None and function.inlined:
        text += " (inlined)"
    elif symbolized.mapping is not None:
        name = plain(symbolized.mapping.path.rpartition("/")[2]) or f"[{symbolized.mapping.kind.value}]"
        text += f" [{name} {symbolized.vaddr:#x}]" if symbolized.vaddr is not None else f" [{name}]"
    else:
        text += f" [{entry.frame.pc:#x}]"
    if symbolized.reason is not None:
        text += f": {symbolized.reason.sentence}"
    return text + (" (a guess)" if entry.frame.found_by is FoundBy.SCAN else "")


def variable_texts(entry: ReportFunction) -> list[str]:
    """Return arguments, then local variables, a text each."""
    variables = sorted(entry.variables or (), key=lambda variable: not variable.is_argument)
    return [f"{plain(each.name)}: {plain(each.type)} = {plain(each.value.text)}" for each in variables]


def code_title(code: FaultCode) -> str:
    what = "code of the caller" if code.is_caller else "code at the crash"
    where = f" in {plain(code.function)}" if code.function else ""
    return f"{what}{where}, vaddrs of {plain(code.path)}" if code.path else what


def code_lines(code: FaultCode) -> Iterator[str]:
    """Yield the instructions below their source lines; that of the crash is marked."""
    if not code.instructions:
        yield f"not listed: {plain(code.note)}"
    line = ""
    for instruction in code.instructions:
        frame = instruction.frames[0] if instruction.frames else None
        now = f"{plain(frame.file)}:{frame.line}" if frame is not None and frame.file else ""
        if now and now != line:
            yield f"   {now}"
        line = now
        mark = "=>" if instruction.vaddr <= code.vaddr < instruction.end else "  "
        yield f"{mark} {instruction.vaddr:#x}  {plain(instruction.text)}"


def module_lines(module: ReportModule) -> Iterator[str]:
    used = f", {counted(module.frames, 'frame')}" if module.frames else ""
    yield f"{module.start:#x}-{module.end:#x}  {module.build_id or '(no build-id)'}  {plain(module.path)}{used}"
    if module.missing:
        yield f"    missing: {module.missing}; {plain(module.remedy)}"


def hex_lines(content: bytes, address: int) -> Iterator[str]:
    """Yield bytes in hex and as ASCII, a line for each 16.

    >>> list(hex_lines(b"abc\\0", 0x10))
    ['0x10  61 62 63 00                                      abc.']
    """
    for offset in range(0, len(content), BYTES_A_LINE):
        row = content[offset : offset + BYTES_A_LINE]
        text = "".join(each if each.isascii() and each.isprintable() else "." for each in map(chr, row))
        yield f"{address + offset:#x}  {row.hex(' '):{HEX_WIDTH}}  {text}"
