"""List the versions of the trace format and the events of each: one line per event, with its argument names.

Events are numbered from 1 (experimental ones from 128) in the order of the table. Names define the meaning: a first
argument `dt` (clock units since the previous event of the batch) makes an event *timed*; an argument whose name ends in
`stack` or `string` is the id of a stack or string. Two events have data (`String`, `ExperimentalBatch`), and `Stack`
has frames.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from functools import cache

from whence._base.errors import WRONG_KIND, TraceError, Unsupported, cut_off, empty_file, shown
from whence._base.records import Record
from whence.gotrace.kernels.constants import HAS_DATA, IS_STACK, IS_TIMED
from whence.gotrace.kernels.layout import EventLayout

HEADER_SIZE = 16
_HEADER = re.compile(rb"go 1\.(\d+) trace\0\0\0")
_TEXT_HEADER = re.compile(rb"Trace[\s\x85\xa0]+Go1\.(\d+)")


class Version(enum.IntEnum):
    """A version of the format, named by the Go release that introduced it, as in ``go 1.22 trace``.

    >>> Version.GO1_26.header
    b'go 1.26 trace\\x00\\x00\\x00'
    >>> Version.GO1_22.specs.by_name["UserLog"].args
    ('dt', 'task', 'key_string', 'value_string', 'stack')
    """

    GO1_11 = 11
    GO1_19 = 19
    GO1_21 = 21
    GO1_22 = 22
    GO1_23 = 23
    GO1_25 = 25
    GO1_26 = 26

    @property
    def header(self) -> bytes:
        """The first 16 bytes of a binary trace of this version."""
        return b"go 1.%d trace\0\0\0" % self

    @property
    def text_header(self) -> bytes:
        """The first line of a text trace of this version."""
        return b"Trace Go1.%d\n" % self

    @property
    def label(self) -> str:
        """A name for messages, for instance ``Go 1.22``."""
        return f"Go 1.{int(self)}"

    @property
    def specs(self) -> SpecTable:
        """The events of this version. Raises Unsupported for Go 1.11 to 1.21, which have another format."""
        return spec_table(self)


CURRENT = Version.GO1_26


def version_of(minor: int, part: str, offset: int) -> Version:
    """Return the version with this minor number; TraceError if it does not exist."""
    try:
        return Version(minor)
    except ValueError:
        versions = ", ".join(f"1.{version}" for version in Version)
        raise TraceError(part, offset, f"unknown version 1.{minor}; known are {versions}") from None


def usable(version: Version) -> Version:
    """Return the version if its events can be read; raise Unsupported if not."""
    if version < Version.GO1_22:
        problem = f"traces of {version.label} are not supported, only the format of Go 1.22 and later"
        raise Unsupported(problem).with_hint("record it with Go 1.22 or later, or use go tool trace")
    return version


def read_header(head: bytes) -> Version:
    """Return the version that the first 16 bytes of a binary trace declare."""
    match = _HEADER.match(head)
    if not head:
        raise empty_file(TraceError)
    if match is None:
        head = head[:HEADER_SIZE]
        if len(head) < HEADER_SIZE and (looks_like_wire(head) or b"go 1.".startswith(head)):
            raise cut_off(TraceError, "header", 0, HEADER_SIZE, len(head))
        problem = f"not a Go execution trace in binary form: the file starts with {shown(head)}"
        hint = "convert a text trace with whence trace wire" if looks_like_text(head) else ""
        raise TraceError("", 0, problem, code=WRONG_KIND).with_hint(hint)
    return version_of(int(match[1]), "header", 5)


def looks_like_wire(head: bytes) -> bool:
    """Return True if bytes start like a binary trace."""
    return head.startswith(b"go 1.")


def looks_like_text(head: bytes) -> bool:
    """Return True if the first line with text, after comments, starts like the header of a text trace."""
    for line in head.split(b"\n"):
        line = line.strip()
        if line and not line.startswith(b"#"):
            return _TEXT_HEADER.match(line) is not None
    return False


EVENTS = """
EventBatch gen m time size
Stacks
Stack id nframes
Strings
String id
CPUSamples
CPUSample time m p g stack
Frequency freq
ProcsChange dt procs_value stack
ProcStart dt p p_seq
ProcStop dt
ProcSteal dt p p_seq m
ProcStatus dt p pstatus
GoCreate dt new_g new_stack stack
GoCreateSyscall dt new_g
GoStart dt g g_seq
GoDestroy dt
GoDestroySyscall dt
GoStop dt reason_string stack
GoBlock dt reason_string stack
GoUnblock dt g g_seq stack
GoSyscallBegin dt p_seq stack
GoSyscallEnd dt
GoSyscallEndBlocked dt
GoStatus dt g m gstatus
STWBegin dt kind_string stack
STWEnd dt
GCActive dt gc_seq
GCBegin dt gc_seq stack
GCEnd dt gc_seq
GCSweepActive dt p
GCSweepBegin dt stack
GCSweepEnd dt swept_value reclaimed_value
GCMarkAssistActive dt g
GCMarkAssistBegin dt stack
GCMarkAssistEnd dt
HeapAlloc dt heapalloc_value
HeapGoal dt heapgoal_value
GoLabel dt label_string
UserTaskBegin dt task parent_task name_string stack
UserTaskEnd dt task stack
UserRegionBegin dt task name_string stack
UserRegionEnd dt task name_string stack
UserLog dt task key_string value_string stack
GoSwitch dt g g_seq
GoSwitchDestroy dt g g_seq
GoCreateBlocked dt new_g new_stack stack
GoStatusStack dt g m gstatus stack
ExperimentalBatch exp gen m time
Sync
ClockSnapshot dt mono sec nsec
EndOfGeneration
"""

FIRST_EXPERIMENTAL = 128
ALLOC_FREE = """
Span dt id npages_value kindclass
SpanAlloc dt id npages_value kindclass
SpanFree dt id
HeapObject dt id type
HeapObjectAlloc dt id type
HeapObjectFree dt id
GoroutineStack dt id order
GoroutineStackAlloc dt id order
GoroutineStackFree dt id
"""

LAST_EVENT = {
    Version.GO1_22: "UserLog",
    Version.GO1_23: "ExperimentalBatch",
    Version.GO1_25: "ClockSnapshot",
    Version.GO1_26: "EndOfGeneration",
}
"""The last ordinary event of each version; AllocFree events are read in all but the first."""

FRAME_ARGS = ("pc", "func", "file", "line")
WITH_DATA = frozenset({"String", "ExperimentalBatch"})
STACK = "Stack"

# Limits that Go's full parser enforces; raw readers and writers do not.
MAX_BATCH_SIZE = 64 << 10
MAX_FRAMES = 128
MAX_STRING_SIZE = 1 << 10
NO_THREAD = (1 << 64) - 1


class EventSpec(Record, frozen=True):
    """A kind of event: its number, its name, and the names of its arguments in order."""

    type: int
    name: str
    args: tuple[str, ...]

    @property
    def timed(self) -> bool:
        return self.args[:1] == ("dt",)

    @property
    def has_data(self) -> bool:
        return self.name in WITH_DATA

    @property
    def is_stack(self) -> bool:
        return self.name == STACK

    @property
    def experimental(self) -> bool:
        return self.type >= FIRST_EXPERIMENTAL


class SpecTable:
    """The events of a version, by number and by name."""

    __slots__ = ("by_name", "by_type", "version")

    def __init__(self, version: Version, specs: tuple[EventSpec, ...]) -> None:
        self.version = version
        self.by_type = {spec.type: spec for spec in specs}
        self.by_name = {spec.name: spec for spec in specs}

    def __iter__(self) -> Iterator[EventSpec]:
        return iter(self.by_type.values())

    def __len__(self) -> int:
        return len(self.by_type)

    def __getitem__(self, key: int | str) -> EventSpec:
        return self.by_name[key] if isinstance(key, str) else self.by_type[key]

    def __contains__(self, key: object) -> bool:
        return key in self.by_name or key in self.by_type


def _rows(table: str, first: int) -> tuple[EventSpec, ...]:
    rows = [line.split() for line in table.split("\n") if line]
    return tuple(EventSpec(number, name, tuple(args)) for number, (name, *args) in enumerate(rows, first))


@cache
def spec_table(version: Version) -> SpecTable:
    """Return the events of a version. Raises Unsupported before Go 1.22."""
    ordinary = _rows(EVENTS, 1)
    last = next(spec.type for spec in ordinary if spec.name == LAST_EVENT[usable(version)])
    experimental = _rows(ALLOC_FREE, FIRST_EXPERIMENTAL) if version >= Version.GO1_23 else ()
    return SpecTable(version, ordinary[:last] + experimental)


def _pieces(spec: EventSpec) -> list[bytes]:
    """Return the text before each number of an event's line; the whole line if it has no numbers."""
    if not spec.args:
        return [spec.name.encode()]
    return [f"{spec.name} {spec.args[0]}=".encode(), *(f" {name}=".encode() for name in spec.args[1:])]


FRAME_WORDS = [f"\n\t{FRAME_ARGS[0]}=".encode(), *(f" {name}=".encode() for name in FRAME_ARGS[1:]), b"\n\tdata="]


@cache
def layout(version: Version) -> EventLayout:
    """Return the kernels' view of a version's events, in binary and text. Raises Unsupported before Go 1.22."""
    event_layout = EventLayout()
    event_layout.put(0, FRAME_WORDS)
    for spec in spec_table(version):
        flags = IS_STACK * spec.is_stack | HAS_DATA * spec.has_data | IS_TIMED * spec.timed
        event_layout.add(spec.type, spec.name.encode(), len(spec.args), flags, _pieces(spec))
    return event_layout
