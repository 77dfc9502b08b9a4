"""The events: one line each, with the names of their arguments, as a table that one loop reads.

Events are numbered from 1 (experimental ones from 128) in the order of the table. What an event or argument is follows
from its name: a first argument `dt` (clock units since the event before it in its batch) makes an event *timed*; an
argument whose name ends in `stack` or `string` is the id of one. Two events carry bytes (`String`,
`ExperimentalBatch`), one carries frames (`Stack`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from whence.gotrace.version import Version, usable

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
MAX_ARGS = 5
HAS_DATA = frozenset({"String", "ExperimentalBatch"})
IS_STACK = "Stack"

# Limits that the runtime keeps and Go's full parser enforces; raw readers and writers do not.
MAX_BATCH_SIZE = 64 << 10
MAX_FRAMES = 128
MAX_STRING_SIZE = 1 << 10
NO_THREAD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class EventSpec:
    """One kind of event: its number on the wire, its name, its arguments in order."""

    type: int
    name: str
    args: tuple[str, ...]

    @property
    def timed(self) -> bool:
        return self.args[:1] == ("dt",)

    @property
    def has_data(self) -> bool:
        return self.name in HAS_DATA

    @property
    def is_stack(self) -> bool:
        return self.name == IS_STACK

    @property
    def experimental(self) -> bool:
        return self.type >= FIRST_EXPERIMENTAL


class SpecTable:
    """The events of one version, by number and by name."""

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
    """The events of a version. Raises Unsupported for those before Go 1.22."""
    ordinary = _rows(EVENTS, 1)
    last = next(spec.type for spec in ordinary if spec.name == LAST_EVENT[usable(version)])
    experimental = _rows(ALLOC_FREE, FIRST_EXPERIMENTAL) if version >= Version.GO1_23 else ()
    return SpecTable(version, ordinary[:last] + experimental)


def numbers() -> dict[str, int]:
    """Every event's number by its name, whatever the version."""
    return {name: spec.type for name, spec in spec_table(Version.GO1_26).by_name.items()}
