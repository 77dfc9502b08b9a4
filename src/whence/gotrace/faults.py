"""What the kernels found wrong, in words."""

from __future__ import annotations

from whence._base.errors import CUT_OFF, TraceError, worded
from whence.gotrace.kernels.constants import (
    BAD_NAME,
    BAD_NUMBER,
    BAD_PADDING,
    BAD_QUOTE,
    BAD_TYPE,
    BAD_UVARINT,
    CUT,
    EXTRA,
    NO_ARGUMENT,
    NO_DATA,
    NO_EQUALS,
    NOT_TIMED,
    WRONG_ARGUMENT,
)
from whence.gotrace.specs import FRAME_ARGS, Version, spec_table


class TextError(TraceError):
    """A line that is not as the text form has it. `line` counts from 1, `column` characters from 1, `offset` bytes."""

    def __init__(self, offset: int | None, line: int, column: int, rule: str, found: object = None) -> None:
        super().__init__("text", offset, rule, found)
        self.args = offset, line, column, rule, found  # what pickling calls the class with
        self.line, self.column = line, column
        self.fault = f"trace text, line {line}, column {column}: {worded(rule, found)}"


def wire_fault(fault: int, offset: int, version: Version, kind: int = 0) -> TraceError:
    """The error for a fault in wire bytes at an offset of the file."""
    if fault == BAD_TYPE:
        return TraceError("wire", offset, f"an event's type is one of {version.label}", kind)
    if fault == BAD_UVARINT:
        return TraceError("wire", offset, "a number has at most 64 bits, in ten bytes")
    if fault == NOT_TIMED:
        return TraceError("wire", offset, "the events of a batch have a time", kind)
    return TraceError("wire", offset, "the last event of a batch ends with it")  # OUT_OF_BATCH, or CUT by its end


def cut_short(offset: int, inside: str) -> TraceError:
    """The error for a wire trace that ends, at an offset, inside of something."""
    fault = f"the last generation is cut off at byte {offset}, inside of {inside}"
    found = f"the end of the trace at {offset:#x}"
    return TraceError("wire", offset, f"{inside} is whole", found, fault=fault, code=CUT_OFF)


def _rule(fault: int, version: Version, kind: int, argument: int) -> str:
    names = spec_table(version).by_type[kind].args if kind else FRAME_ARGS
    turn = names[argument] if argument < len(names) else ""
    return {
        CUT: "an event is whole: its frames or data follow on lines of their own",
        BAD_NAME: f"an event's name is one of {version.label}",
        NO_ARGUMENT: f'the argument "{turn}" follows',
        NO_EQUALS: f"the argument is written {turn}=number",
        WRONG_ARGUMENT: f'the argument is "{turn}"',
        BAD_NUMBER: f'"{turn}" is an unsigned decimal of at most 64 bits',
        EXTRA: "nothing follows the last argument",
        NO_DATA: 'the line is data="...", the bytes of the event before it',
        BAD_QUOTE: "data is quoted as Go quotes a string",
        BAD_PADDING: "a padded number fits in ten bytes: at most nine zeros lead, or spaces come before data",
    }[fault]


def text_fault(
    fault: int,
    text: bytes | bytearray | memoryview,
    position: int,
    offset: int,
    line: int,
    version: Version,
    kind: int = 0,
    argument: int = 0,
) -> TextError:
    """The error for a fault at text[where]; `text` starts at byte `offset` of the source, on line `line`."""
    raw = bytes(text[: position + 200])
    before = raw[:position]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", "replace")) + 1
    found = raw[position:].split(b"\n", 1)[0].decode("utf-8", "backslashreplace").rstrip("\r")
    if fault != BAD_QUOTE:
        found = found.split(maxsplit=1)[0] if found.strip() else ""
    return TextError(
        offset + position,
        line + before.count(b"\n"),
        column,
        _rule(fault, version, kind, argument),
        found or "the end of the line",
    )
