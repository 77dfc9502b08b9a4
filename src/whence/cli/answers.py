"""Print answers of the symbolizer as text and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.model import Frame
from whence._base.reasons import Missing, Reason, remedy_for
from whence._base.records import Record
from whence._base.words import STDIN, address, plain
from whence.cli import colour
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.procmap import Mapping
from whence.symbolize import Symbolized

if TYPE_CHECKING:
    from whence.symbolize import Process


def executable_mappings(process: Process) -> list[Mapping]:
    """Return a process's executable mappings.

    Raises ProcessLookupError; WhenceError with a remedy if the process may not be inspected.
    """
    try:
        return process.mappings()
    except PermissionError as error:
        raise WhenceError(error.strerror).with_hint(Reason.PERMISSION_DENIED.remedy) from None


def as_object(answer: Symbolized) -> dict[str, object]:
    """Return an answer as a JSON object. Addresses are hex text, because JSON readers round 64-bit numbers."""
    fields: dict[str, object] = {"address": hex(answer.address)}
    fields["frames"] = [
        {
            "function": f.function,
            "file": f.file,
            "line": f.line,
            "start_line": f.start_line,
            "inlined": f.inlined,
            "source": f.source,
            **({"column": f.column} if f.column else {}),
        }
        for f in answer.frames
    ]
    if answer.reason is not None:
        fields["reason"] = answer.reason.word
        if answer.detail:
            fields["detail"] = answer.detail
    if answer.mapping is not None:
        fields["path"] = answer.mapping.path
        fields["kind"] = answer.mapping.kind.value
        fields["build_id"] = answer.mapping.build_id
    if answer.file_offset is not None:
        fields["file_offset"] = hex(answer.file_offset)
    if answer.vaddr is not None:
        fields["vaddr"] = hex(answer.vaddr)
    return fields


def as_lines(answer: Symbolized) -> list[str]:
    """Return a line for the address and one for each frame, innermost first, or for the reason."""
    if answer.frames:
        return [where(answer), *(f"    {coloured_frame(frame)}" for frame in answer.frames)]
    if answer.reason is None:
        return [where(answer)]
    detail = f" ({plain(answer.detail)})" if answer.detail else ""
    word = colour.painted(f"?? {answer.reason.word}", colour.UNKNOWN)
    return [where(answer), f"    {word}: {answer.reason.sentence}{detail}"]


def where(answer: Symbolized) -> str:
    """Return the address, its file and vaddr, or the file offset if no segment contains it."""
    location = f"{answer.address:#x}"
    if answer.mapping is None:
        return location
    name = plain(answer.mapping.path) or f"[{answer.mapping.kind.value}]"
    if answer.vaddr is not None:
        return f"{location} {name} vaddr {answer.vaddr:#x}"
    if answer.file_offset is not None:
        return f"{location} {name} file offset {answer.file_offset:#x}"
    if answer.mapping.kind.has_file:
        return f"{location} {name}+{answer.mapping.file_offset_of(answer.address):#x}"
    return f"{location} {name}"


def frame_text(frame: Frame) -> str:
    """Return function, file and line of a frame as text."""
    location = f" at {place_text(frame)}" if frame.file else ""
    return f"{plain(frame.function) or '??'}{location}{' (inlined)' if frame.inlined else ''}"


def coloured_frame(frame: Frame) -> str:
    """Return function, file and line of a frame in colors and with a link, if stdout supports them."""
    location = ""
    if frame.file:
        location = f" at {colour.linked(colour.painted(place_text(frame), colour.FILE), frame.file)}"
    inlined = colour.painted(" (inlined)", colour.DIM) if frame.inlined else ""
    return f"{colour.painted(plain(frame.function), colour.FUNCTION) or '??'}{location}{inlined}"


def place_text(frame: Frame) -> str:
    """Return FILE:LINE with control characters escaped."""
    return plain(frame.file) + (f":{frame.line}" if frame.line else "")


class ThreadPlace(Record, frozen=True):
    """A thread and the answer for its program counter, or why it has none."""

    head: dict[str, object]
    title: str
    answer: Symbolized | None
    why: str = ""


def show_threads(threads: Sequence[ThreadPlace], as_json: bool) -> int:
    """Print the locations of threads, and remedies on stderr. Return the exit code."""
    if as_json:
        import json

    for thread in threads:
        if as_json:
            fields = {"frames": [], "reason": thread.why} if thread.answer is None else as_object(thread.answer)
            print(json.dumps({**thread.head, **fields}))
            continue
        print(thread.title)
        for line in [f"?? {plain(thread.why)}"] if thread.answer is None else as_lines(thread.answer):
            colour.print_line(f"  {line}")
    report_remedies([thread.answer for thread in threads if thread.answer is not None])
    return ANSWERED if all(thread.answer for thread in threads) else SOME_UNKNOWN


def show(answers: list[Symbolized], as_json: bool) -> int:
    """Print answers, and remedies on stderr. Return the exit code."""
    if as_json:
        import json

    for answer in answers:
        if as_json:
            print(json.dumps(as_object(answer)))
            continue
        for line in as_lines(answer):
            colour.print_line(line)
    report_remedies(answers)
    return ANSWERED if all(answer.frames for answer in answers) else SOME_UNKNOWN


def addresses_from(words: Sequence[str]) -> list[int]:
    """Return the addresses of a command line; a single "-" reads them from stdin. Raises ValueError."""
    return [address(word) for word in (sys.stdin.read().split() if list(words) == [STDIN] else words)]


def report_remedies(answers: Iterable[Symbolized]) -> None:
    """Print the remedies for each reason on stderr."""
    counts: Counter[tuple[Reason, str]] = Counter()
    for (reason, path), count in Counter(
        (answer.reason, answer.mapping.path if answer.mapping is not None else "")
        for answer in answers
        if answer.reason is not None
    ).items():
        counts[reason, remedy_for(Missing(reason), path, "")] += count
    for (reason, remedy), count in counts.items():
        print(f"whence: {count} x {reason.word}: {remedy}", file=sys.stderr)
