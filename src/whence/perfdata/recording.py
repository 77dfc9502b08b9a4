"""A recording that was read: its events, records and generated code, as the columns of a profile."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from whence._base.model import Frame, Frames
from whence._base.model import Source as NameSource
from whence.perfdata import attributes, features
from whence.perfdata.kernels import constants
from whence.perfdata.kernels.replay import Replay, of_kind
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples, SampleType, Timeline

if TYPE_CHECKING:
    from whence._base.budget import Budget
    from whence.perfdata.attributes import Attribute
    from whence.perfdata.features import Features
    from whence.perfdata.jitdump import JitCode
    from whence.perfdata.kernels.records import Records
    from whence.perfdata.source import ByteSource

ANONYMOUS = ("//anon", "/anon_hugepage")
MEMORY_FILE = "/memfd:"  # of memfd_create: a program may be in it
NO_CPU = 0xFFFFFFFF
IDLE = 0  # process and thread of an idle processor
OTHER_MODES = {
    constants.IN_HYPERVISOR: "[hypervisor]",
    constants.IN_GUEST_KERNEL: "[guest.kernel]",
    constants.IN_GUEST_USER: "[guest.user]",
}
FIRST_OTHER_MODE = 0xFFFFFFF0
ROW_BYTES = 64  # of a sample in columns
KERNEL_SYMBOL = re.compile(r"\]_\w+$")  # after [kernel.kallsyms]: the symbol at its start
CLOCKS = {(attributes.SOFTWARE, 0), (attributes.SOFTWARE, 1)}


class Recording:
    """The events, records and generated code of a recording."""

    def __init__(self, records: Records, order: str, features: Features, budget: Budget, seed: int) -> None:
        self.records = records
        self.order = order  # of bytes, as struct has it
        self.features = features
        self.budget = budget
        self.events: list[Attribute] = []
        self.sources: list[ByteSource] = []  # of streams, by number
        self.jit_code: dict[int, JitCode] = {}  # by map
        self.jit_times: dict[int, list[tuple[int, int]]] = {}  # by process: (time, map) of generated code
        self._seed = seed

    def new_replay(self) -> Replay:
        """Return a replay of the samples in order of time."""
        return Replay(self.records, self._seed ^ (1 << 63) - 1)

    def fill(self, profile: ProfileData, replay: Replay) -> None:
        """Put the locations and samples of a finished replay into a profile."""
        self._add_locations(profile, replay)
        self._add_samples(profile, replay)

    def map_facts(self, number: int) -> tuple[str, str, int, int]:
        """Return the name, build-id, file offset and flags of a map."""
        records = self.records
        flags = records.map_flags[number]
        name = features.decoded(records.text(records.map_name[number]))
        about = records.text(records.map_about[number])
        build_id = features.map_build_id(about) if flags & constants.MAP_BUILD_ID else self._build_id(name)
        return name, build_id, records.map_offset[number], flags

    def _build_id(self, name: str) -> str:
        build_ids = self.features.build_ids
        build_id = build_ids.get(name)
        if build_id is None and name.startswith("["):
            build_id = build_ids.get(KERNEL_SYMBOL.sub("]", name))
        return build_id or ""

    def _add_locations(self, profile: ProfileData, replay: Replay) -> None:
        maps, pids = (array("I", bytes(column)) for column in (replay.location_map, replay.location_pid))
        addresses = array("Q", bytes(replay.location_address))
        self.budget.charge(bounds.LOCATION * len(maps))
        indices: dict[tuple[int, int], int] = {}  # of mappings, by map and process
        mappings: dict[Mapping, int] = {}
        code: dict[int, Frames] = {}  # of mappings that are one function
        column = array("q")
        frames: list[Frames] = [()] * len(maps)
        for location, (number, pid) in enumerate(zip(maps, pids)):
            index = indices.get((number, pid))
            if index is None:
                index = NO_MAPPING
                mapping, own_frames = self._mapping(number, pid)
                if mapping is not None:
                    index = mappings.setdefault(mapping, len(mappings))
                    if own_frames:
                        code[index] = own_frames
                indices[number, pid] = index
            column.append(index)
            if number in self.jit_code:
                frames[location] = self.jit_code[number].frames(addresses[location])
            elif index in code:
                frames[location] = self._with_line(code[index], number, addresses[location])
        self.budget.charge(bounds.MAPPING * len(mappings))
        profile.mappings = list(mappings)
        profile.mapping = column
        profile.put_files_first()
        profile.address = addresses
        profile.frames = frames

    def _with_line(self, chain: Frames, number: int, address: int) -> Frames:
        """Return the frame of code in the kernel, with its line if it is a BPF program that has lines."""
        if not self.features.bpf:
            return chain
        (frame,) = chain
        line = self.features.bpf.line(self.records.map_start[number], frame.function, address)
        if line is None:
            return chain
        return (frame._replace(file=line.file, line=line.line, start_line=line.start_line, column=line.column),)

    def _mapping(self, number: int, pid: int) -> tuple[Mapping | None, Frames]:
        """Return a map as a mapping of the profile, with its frames if all of its code is one function."""
        if number == constants.NO_NUMBER:
            mode = pid - FIRST_OTHER_MODE
            return (Mapping(path=OTHER_MODES[mode]) if mode in OTHER_MODES else None), ()
        name, build_id, offset, flags = self.map_facts(number)
        start = self.records.map_start[number]
        end = min(start + self.records.map_size[number], (1 << 64) - 1)
        if flags & constants.MAP_CODE:
            own_frames = () if number in self.jit_code else (Frame(name, source=NameSource.KALLSYMS),)
            return Mapping(start, end, 0, name), own_frames
        if flags & constants.MAP_GENERATED and not name.startswith(MEMORY_FILE):
            return Mapping(start, end, 0, f"/tmp/perf-{pid}.map" if name.startswith(ANONYMOUS) else name), ()
        if name.startswith("[") and not name.startswith("[kernel"):
            offset = 0
        return Mapping(start, end, offset, name, build_id), ()

    def _add_samples(self, profile: ProfileData, replay: Replay) -> None:
        count, events = len(replay.sample_stack), len(replay.event_sample)
        kinds = array("I", bytes(replay.sample_event))
        used = sorted(set(kinds)) or [number for number, event in enumerate(self.events) if not event.is_dummy]
        self.budget.charge((ROW_BYTES + 8 * (1 + len(used))) * (count + events))
        sets = self._label_sets(replay)
        profile.samples = samples = Samples(
            array("Q", bytes(replay.stack_first)),
            array("I", bytes(replay.stack_item)),
            array("I", bytes(replay.sample_stack)),
            [array("q", bytes(replay.sample_count))],
            [sets[number] for number in replay.sample_set.numbers()],
        )
        timeline = Timeline(
            array("I", bytes(replay.event_sample)),
            array("q", bytes(replay.event_time)),
            [array("q", [1]) * events],
        )
        rows = array("I", range(count))
        profile.sample_types = [SampleType("samples", "count")]
        for number in used:
            name = self.events[number].shown
            profile.sample_types.append(SampleType(name.partition(":")[0], unit_of(self.events[number])))
            for columns, of, values in (
                (samples.values, rows, replay.sample_period),
                (timeline.values, timeline.sample, replay.event_period),
            ):
                columns.append(array("q", bytes(8 * len(of))))
                of_kind(kinds, of, values.numbers(), number, columns[-1])
        profile.default_type = 1 if len(used) == 1 else 0
        has_times = any(event.sample_type & constants.HAS_TIME for event in self.events)
        if events and timeline.time[-1] > 0 and has_times:
            samples.timeline = timeline
            first = next(time for time in timeline.time if time > 0)
            profile.duration_ns = timeline.time[-1] - first
            if self.features.clock_offset is not None:
                profile.time_ns = first + self.features.clock_offset

    def _label_sets(self, replay: Replay) -> list[tuple[Label, ...]]:
        self.budget.charge((bounds.LABELS + 4 * bounds.LABEL) * len(replay.set_thread))
        comms: dict[int, Label] = {}
        cpus: dict[int, Label] = {}
        sets = []
        for thread, comm, cpu in zip(replay.set_thread.numbers(), replay.set_comm.numbers(), replay.set_cpu.numbers()):
            labels = []
            if comm:
                if comm not in comms:
                    comms[comm] = Label("comm", features.decoded(self.records.text(comm)))
                labels.append(comms[comm])
            elif thread == IDLE:
                labels.append(Label("comm", "swapper"))  # the kernel's name, which is in no record
            labels += [Label("pid", number=signed(thread >> 32)), Label("tid", number=signed(thread & 0xFFFFFFFF))]
            if cpu != NO_CPU:
                labels.append(cpus.setdefault(cpu, Label("cpu", number=cpu)))
            sets.append(tuple(labels))
        return sets


def signed(number: int) -> int:
    """Return a process number as signed: the kernel's is -1."""
    return number - (1 << 32) if number >> 31 else number


def unit_of(event: Attribute) -> str:
    """Return the unit of an event's period."""
    return "nanoseconds" if (event.type, event.config) in CLOCKS else "count"
