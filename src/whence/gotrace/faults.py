"""Make errors of the faults that kernels report."""

from __future__ import annotations

from whence._base.errors import CUT_OFF, TraceError, shown
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
    """A malformed line of a text trace.

    `line` and `column` (in characters) count from 1; `offset` is in bytes.
    """

    def __init__(self, offset: int | None, line: int, column: int, problem: str) -> None:
        super().__init__("text", offset, problem)
        self.args = offset, line, column, problem  # what pickling calls the class with
        self.line, self.column = line, column

    @property
    def message(self) -> str:
        return f"trace text, line {self.line}, column {self.column}: {self.fault}"


def wire_fault(fault: int, offset: int, version: Version, kind: int = 0) -> TraceError:
    """Return the error for a fault in binary form, at an offset of the file; `kind` is the event type it is about."""
    if fault == BAD_TYPE:
        return TraceError("wire", offset, f"event type {kind} does not exist in {version.label}")
    if fault == BAD_UVARINT:
        return TraceError("wire", offset, "a number is longer than 64 bits or ten bytes")
    if fault == NOT_TIMED:
        return TraceError("wire", offset, f"event type {kind} has no time and is not allowed in this batch")
    return TraceError("wire", offset, "an event extends past the end of its batch")  # OUT_OF_BATCH or CUT


def cut_short(offset: int, structure: str) -> TraceError:
    """Return the error for a binary trace that ends inside `structure`, at an offset of the file."""
    return TraceError("", offset, f"the last generation is cut off at byte {offset}, inside {structure}", code=CUT_OFF)


def _problem(fault: int, version: Version, kind: int, argument: int, text: str) -> str:
    names = spec_table(version).by_type[kind].args if kind else FRAME_ARGS
    name = names[argument] if argument < len(names) else ""
    return {
        CUT: "the trace ends inside an event; its frames or data follow on lines of their own",
        BAD_NAME: f'no event of {version.label} is named "{text}"',
        NO_ARGUMENT: f'the argument "{name}" is missing',
        NO_EQUALS: f'expected {name}=number, found "{text}"',
        WRONG_ARGUMENT: f'expected the argument "{name}", found "{text}"',
        BAD_NUMBER: f'"{name}" must be an unsigned decimal of at most 64 bits, found "{text}"',
        EXTRA: f'unexpected "{text}" after the last argument',
        NO_DATA: f'expected the event\'s bytes as data="...", found "{text}"',
        BAD_QUOTE: f"not a quoted Go string: {text or 'the line ends'}",
        BAD_PADDING: "a padded number is longer than ten bytes (leading zeros, or spaces before data)",
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
    """Return the error for a fault at text[position].

    `text` starts at byte `offset` of the source, on line `line`. `kind` and `argument` say which number of which event
    type was expected; type 0 is a stack frame.
    """
    raw = bytes(text[: position + 200])
    before = raw[:position]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", "replace")) + 1
    rest = raw[position:].split(b"\n", 1)[0].decode("utf-8", "backslashreplace").rstrip("\r")
    if fault != BAD_QUOTE:
        rest = next(iter(rest.split(maxsplit=1)), "")
    problem = _problem(fault, version, kind, argument, shown(rest))
    return TextError(offset + position, line + before.count(b"\n"), column, problem)
