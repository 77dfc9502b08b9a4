"""Records of a perf.data to a profile: the streams in, then the samples in order of time."""

from __future__ import annotations

import os
import re
import struct
from array import array
from collections.abc import Iterable
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from whence._base.budget import Budget
from whence._base.errors import ProfileError, without_file
from whence._base.files import open_regular, read_at
from whence._base.model import Frame, Frames
from whence._base.model import Source as NameSource
from whence.perfdata import attributes, features, header, jitdump
from whence.perfdata.attributes import Attribute
from whence.perfdata.compressed import Unpacker
from whence.perfdata.kernels import constants
from whence.perfdata.kernels.records import Records
from whence.perfdata.kernels.replay import Replay, of_kind
from whence.perfdata.source import MemorySpool, SpoolSource
from whence.perfdata.stacks import UserStacks
from whence.samples import bounds
from whence.samples.kinds import GENERATED
from whence.samples.model import NO_MAPPING, Label, LostSamples, Mapping, ProfileData, Samples, SampleType, Timeline

if TYPE_CHECKING:
    from whence.perfdata.jitdump import JitCode
    from whence.perfdata.source import ByteSource

SOURCE_SHIFT: int = constants.SOURCE_SHIFT
USER_FIELDS = constants.HAS_REGS_USER | constants.HAS_STACK_USER
PIECE = 4 << 20  # bytes that are read at a time
ANONYMOUS = ("//anon", "/anon_hugepage")
MEMORY_FILE = "/memfd:"  # of memfd_create: whatever was written there, programs too
NO_CPU = 0xFFFFFFFF
KERNEL_PID = 0xFFFFFFFF
IDLE = 0  # process and thread of a processor that has nothing to do
OTHER_MODES = {
    constants.IN_HYPERVISOR: "[hypervisor]",
    constants.IN_GUEST_KERNEL: "[guest.kernel]",
    constants.IN_GUEST_USER: "[guest.user]",
}
FIRST_OTHER_MODE = 0xFFFFFFF0
MOST_LOST = 100_000  # records of losses that are listed one by one
LARGEST = (1 << 63) - 1
ROW_BYTES = 64  # of a sample in columns


class RecordingReader:
    """One recording as it is read."""

    def __init__(self, source: ByteSource, budget: Budget, folder: str = "", *, local: bool = True) -> None:
        self.budget = budget
        self.local = local
        self.source = source
        self.header = header.read(source)
        self.order = ">" if self.header.big else "<"
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.records = Records(self.header.big, self.seed)
        self.features = self.header.features
        self.events: list[Attribute] = []
        self.ids: dict[int, int] = {}  # id -> event
        self.notes: list[str] = []
        self.damaged = 0  # records of perf's own that break their rules
        self.folder = folder
        self.jit_code: dict[int, JitCode] = {}  # by map
        self.jit_times: dict[int, list[tuple[int, int]]] = {}  # by process: when each map of generated code came
        self.counter: tuple[int, int, int] | None = None  # how the processor's counter becomes time
        self.sources: list[ByteSource] = []  # of streams, by number
        self.spool: SpoolSource | MemorySpool | None = None
        self.spool_number = 0
        self._add_events(self.header.events)

    # events

    def _add_events(self, events: Iterable[tuple[Attribute, tuple[int, ...]]]) -> None:
        """Events that were not known, with their ids."""
        for attribute, ids in events:
            number = len(self.events)
            self.events.append(attribute)
            self._add_ids(ids, [number] * len(ids))
        if not self.events:
            return
        places = {(one.id_at, one.id_from_end) for one in self.events}
        if len(places) > 1:
            self.note("events disagree about where the id of an event is; that of the first counts")
        rows = array("Q", [value for one in self.events for value in one.row])
        self.records.set_events(rows, self.events[0].id_at, self.events[0].id_from_end)

    def _add_ids(self, ids: Iterable[int], events: Iterable[int]) -> None:
        new = {one: event for one, event in zip(ids, events, strict=True) if one not in self.ids}
        self.ids.update(new)
        self.records.set_ids(array("Q", new), array("I", new.values()))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # streams

    def read_stream(self, source: ByteSource, begin: int, end: int) -> None:
        """The records of source[begin:end]."""
        unpacker = Unpacker(source.size)
        base = len(self.sources) << SOURCE_SHIFT
        self.sources.append(source)
        at = begin
        while at < end:
            data = source.read(at, min(PIECE, end - at))
            if not data:
                break
            inside, why = self._feed(data, base + at, unpacker)
            if why == constants.BROKEN:
                self.note(f"the record at {at + inside:#x} is shorter than a record's header: what follows is not read")
                break
            if why == constants.CUT and (inside == 0 or at + len(data) >= end):
                self.note(f"the recording ends inside the record at {at + inside:#x}")
                break
            source.forget(at, at + inside)
            at += inside

    def _feed(self, data: bytes | memoryview, base: int, unpacker: Unpacker | None) -> tuple[int, int]:
        """The records that are whole in some bytes; where they end, and why there."""
        at: int = 0
        why: int
        while True:
            at, why = self.records.feed(data, at, len(data), base)
            if why != constants.OWN:
                return at, why
            at += self._own(data, at, unpacker)
            if at >= len(data):
                return at, constants.FINE

    def _own(self, data: bytes | memoryview, at: int, unpacker: Unpacker | None) -> int:
        """Read a record of perf's own; returns how many bytes further the next one is."""
        kind, misc, size = map(int, struct.unpack_from(self.order + "IHH", data, at))
        record = bytes(data[at : at + size])
        try:
            if kind in (constants.COMPRESSED, constants.COMPRESSED2) and unpacker is not None:
                self._unpack(unpacker, kind, record[constants.RECORD_HEADER :])
                return size
            return size + self._own_record(kind, misc, record, record[constants.RECORD_HEADER :])
        except (struct.error, ValueError, IndexError):
            self.damaged += 1
            return size

    def _unpack(self, unpacker: Unpacker, kind: int, body: bytes) -> None:
        """The records in a piece of a packed stream. ValueError."""
        if kind == constants.COMPRESSED2:
            (size,) = struct.unpack_from(self.order + "Q", body)
            body = body[8 : 8 + size]
        for data in unpacker.pieces(body):
            at, why = self._feed(data, self._spooled(data), None)
            if why == constants.BROKEN:
                raise ValueError("a record is shorter than its header")
            unpacker.rest = data[at:]

    def _spooled(self, data: bytes) -> int:
        """Where unpacked records are found again: those with registers and stack bytes go into a temporary file."""
        if not any(one.sample_type & USER_FIELDS for one in self.events):
            return 0
        if self.spool is None:
            if self.local:
                self.spool = SpoolSource(TemporaryFile())  # noqa: SIM115 - closed with the source
            else:
                self.spool = MemorySpool()
            self.spool_number = len(self.sources)
            self.sources.append(self.spool)
        at: int = self.spool.append(data)
        return at + (self.spool_number << SOURCE_SHIFT)

    def _own_record(self, kind: int, misc: int, record: bytes, body: bytes) -> int:
        """What a record says; returns how many bytes behind it are no records."""
        order = self.order
        if kind == constants.HEADER_ATTR:
            attribute, size = attributes.parse(body, self.header.big)
            count = (len(body) - size) // 8
            self._add_events([(attribute, struct.unpack_from(f"{order}{count}Q", body, size))])
        elif kind == constants.HEADER_FEATURE:
            (number,) = struct.unpack_from(order + "Q", body)
            self.features.read(number, body[8:], self.header.big)
        elif kind == constants.BUILD_ID:
            name, build_id = features.build_id_record(record, misc)
            self.features.build_ids.setdefault(name, build_id)
        elif kind == constants.EVENT_UPDATE:
            what, event = struct.unpack_from(order + "QQ", body)
            number = self.ids.get(event)
            if what == EVENT_NAME and number is not None:
                self.events[number] = features.named(self.events[number], features.decoded(body[16:]))
        elif kind == constants.TIME_CONV:
            shift, factor, zero = struct.unpack_from(order + "QQQ", body)
            self.counter = shift & 63, factor, zero
        elif kind == constants.TRACING_DATA:
            (count,) = struct.unpack_from(order + "I", body)
            return int(count + -count % 8)
        elif kind == constants.AUXTRACE:
            (count,) = struct.unpack_from(order + "Q", body)
            return int(count)
        return 0

    # the profile

    def profile(self) -> ProfileData:
        """What the records say."""
        if not self.events:
            raise ProfileError("records", None, "there is an event (HEADER_ATTR) before samples", "none")
        records = self.records
        if records.join_deferred():
            self.note("call chains that were to come later did not: those samples have only the kernel's part")
        self._flag_maps()
        self._read_jitdumps()
        replay = self.new_replay()
        replay.run()
        profile = ProfileData(stored=bounds.stored(self.budget))
        self.fill(profile, replay)
        self._describe(profile)
        if len(records.sample_user):
            profile.unwinding = UserStacks(self)
        return profile

    def new_replay(self) -> Replay:
        """The samples, to be taken in order of time."""
        return Replay(self.records, self.seed ^ (1 << 63) - 1)

    def fill(self, profile: ProfileData, replay: Replay) -> None:
        """Put the locations and samples of a replay that is done into a profile."""
        self._locations(profile, replay)
        self._samples(profile, replay)

    def map_facts(self, number: int) -> tuple[str, str, int, int]:
        """Of a map: its name, build-id, file offset and flags."""
        records = self.records
        flags = records.map_flags[number]
        name = features.decoded(records.text(records.map_name[number]))
        about = records.text(records.map_about[number])
        build_id = features.map_build_id(about) if flags & constants.MAP_BUILD_ID else self._build_id(name)
        return name, build_id, records.map_offset[number], flags

    def _flag_maps(self) -> None:
        """Mark the maps of memory without a file: perf maps name what is there, and each process has its own."""
        generated = bytearray(self.records.text_count)
        for number in set(self.records.map_name.numbers()):
            generated[number] = GENERATED.match(features.decoded(self.records.text(number))) is not None
        self.records.flag_maps(generated, constants.MAP_GENERATED)

    def _read_jitdumps(self) -> None:
        """The code that JIT compilers recorded in files of their own, as maps from its time on."""
        records = self.records
        names = {
            number: found
            for number in range(records.text_count)
            if (found := JIT_DUMP.fullmatch(features.decoded(records.text(number))))
        }
        with records.map_name.numbers() as of:
            maps = {at: names[name] for at, name in enumerate(of) if name in names} if names else {}
        if not maps:
            return
        with records.step_kind.numbers() as kinds, records.step_a.numbers() as a, records.step_b.numbers() as b:
            marks = {
                (a[at] >> 32, b[at]) for at, kind in enumerate(kinds) if kind == constants.STEP_MAP and b[at] in maps
            }
        for pid, number in sorted(marks):
            if not self.local:
                self.note(f"{maps[number][0]}, which names generated code, is not read here")
                continue
            self._read_jitdump(pid, maps[number][0], int(maps[number]["pid"]))

    def _read_jitdump(self, pid: int, path: str, named: int) -> None:
        found = next(
            (one for one in (path, os.path.join(self.folder, os.path.basename(path))) if os.path.isfile(one)), ""
        )
        if not found:
            self.note(f"{path}, which names generated code, is not there")
            return
        try:
            with open_regular(found, ProfileError) as (descriptor, size):
                data = read_at(descriptor, min(size, MOST_DUMP), 0)
            dump = jitdump.read(data, self.budget)
        except (OSError, ProfileError) as error:
            self.note(f"{found}, which names generated code, can't be read: {without_file(error)}")
            return
        if dump.pid != named:
            self.note(f"{found} is of another process ({dump.pid})")
            return
        timed = self.events[0].clock == MONOTONIC or (dump.counter and self.counter is not None)
        if not timed or (dump.counter and self.counter is None):
            self.note(f"times of {found} are those of another clock (record with -k mono): its last names count")
        name = self.records.add_text(os.fsencode(path))
        for code in dump.code:
            time = (self._counted(code.time) if dump.counter else code.time) if timed else 0
            row = len(self.jit_code)
            number = self.records.add_map(pid, time, code.address, code.size, row, name, constants.MAP_CODE)
            self.jit_code[number] = code
            self.jit_times.setdefault(pid, []).append((time, number))

    def _counted(self, ticks: int) -> int:
        """Nanoseconds of so many ticks of the processor's counter (perf_event_mmap_page, time_shift)."""
        shift, factor, zero = self.counter or (0, 1, 0)
        whole, part = ticks >> shift, ticks & (1 << shift) - 1
        return zero + whole * factor + (part * factor >> shift) & (1 << 64) - 1

    def _locations(self, profile: ProfileData, replay: Replay) -> None:
        maps, pids, addresses = (
            array(code, bytes(column))
            for code, column in (
                ("I", replay.location_map),
                ("I", replay.location_pid),
                ("Q", replay.location_address),
            )
        )
        self.budget.charge(bounds.LOCATION * len(maps))
        known: dict[tuple[int, int], int] = {}
        rows: dict[Mapping, int] = {}
        code: dict[int, Frames] = {}
        where = array("q")
        own: dict[int, Frames] = {}  # of locations, the frames that their code has by itself
        for location, (number, pid) in enumerate(zip(maps, pids)):
            key = number, pid
            index = known.get(key)
            if index is None:
                index = NO_MAPPING
                mapping, frames = self._mapping(number, pid)
                if mapping is not None:
                    index = rows.setdefault(mapping, len(rows))
                    if frames:
                        code[index] = frames
                known[key] = index
            where.append(index)
            if number in self.jit_code:
                own[location] = self.jit_code[number].frames(addresses[location])
            elif index in code:
                own[location] = code[index]
        self.budget.charge(bounds.MAPPING * len(rows))
        profile.mappings = list(rows)
        profile.mapping = where
        profile.put_files_first()
        profile.address = addresses
        profile.frames = [own.get(at, ()) for at in range(len(where))] if own else [()] * len(where)

    def _mapping(self, number: int, pid: int) -> tuple[Mapping | None, Frames]:
        """A map as a profile has it; with frames where its code has a name by itself."""
        if number == constants.NO_NUMBER:
            mode = pid - FIRST_OTHER_MODE
            return (Mapping(path=OTHER_MODES[mode]) if mode in OTHER_MODES else None), ()
        records = self.records
        name, build_id, offset, flags = self.map_facts(number)
        start, size = records.map_start[number], records.map_size[number]
        limit = min(start + size, (1 << 64) - 1)
        if flags & constants.MAP_CODE and number in self.jit_code:
            return Mapping(start, limit, 0, name), ()
        if flags & constants.MAP_CODE:
            return Mapping(start, limit, 0, name), (Frame(name, source=NameSource.KALLSYMS),)
        if flags & constants.MAP_GENERATED and not name.startswith(MEMORY_FILE):
            return Mapping(start, limit, 0, f"/tmp/perf-{pid}.map" if name.startswith(ANONYMOUS) else name), ()
        if name.startswith("[") and not name.startswith("[kernel"):
            offset = 0
        return Mapping(start, limit, offset, name, build_id), ()

    def _build_id(self, name: str) -> str:
        known = self.features.build_ids
        found = known.get(name)
        if found is None and name.startswith("["):
            found = known.get(KERNEL_SYMBOL.sub("]", name))
        return found or ""

    def _samples(self, profile: ProfileData, replay: Replay) -> None:
        count, events = len(replay.sample_stack), len(replay.event_sample)
        kinds = array("I", bytes(replay.sample_event))
        seen = sorted(set(kinds)) or [at for at, one in enumerate(self.events) if not one.is_dummy]
        self.budget.charge((ROW_BYTES + 8 * (1 + len(seen))) * (count + events))
        sets = self._label_sets(replay)
        profile.samples = samples = Samples(
            array("Q", bytes(replay.stack_first)),
            array("I", bytes(replay.stack_item)),
            array("I", bytes(replay.sample_stack)),
            [array("q", bytes(replay.sample_count))],
            [sets[at] for at in replay.sample_set.numbers()],
        )
        timeline = Timeline(
            array("I", bytes(replay.event_sample)),
            array("q", bytes(replay.event_time)),
            [array("q", [1]) * events],
        )
        rows = array("I", range(count))
        profile.sample_types = [SampleType("samples", "count")]
        for number in seen:
            name = self.events[number].shown
            profile.sample_types.append(SampleType(name.partition(":")[0], unit_of(self.events[number])))
            for out, of, values in (
                (samples.values, rows, replay.sample_period),
                (timeline.values, timeline.sample, replay.event_period),
            ):
                out.append(array("q", bytes(8 * len(of))))
                of_kind(kinds, of, values.numbers(), number, out[-1])
        profile.default_type = 1 if len(seen) == 1 else 0
        if events and timeline.time[-1] > 0 and not self._timeless:
            samples.timeline = timeline
            first = next(one for one in timeline.time if one > 0)
            profile.duration_ns = timeline.time[-1] - first
            if self.features.clock_offset is not None:
                profile.time_ns = first + self.features.clock_offset

    @property
    def _timeless(self) -> bool:
        return not any(one.sample_type & constants.HAS_TIME for one in self.events)

    def _label_sets(self, replay: Replay) -> list[tuple[Label, ...]]:
        self.budget.charge((bounds.LABELS + 4 * bounds.LABEL) * len(replay.set_thread))
        comms: dict[int, Label] = {}
        cpus: dict[int, Label] = {}
        out = []
        for thread, comm, cpu in zip(replay.set_thread.numbers(), replay.set_comm.numbers(), replay.set_cpu.numbers()):
            labels = []
            if comm:
                if comm not in comms:
                    comms[comm] = Label("comm", features.decoded(self.records.text(comm)))
                labels.append(comms[comm])
            elif thread == IDLE:
                labels.append(Label("comm", "swapper"))  # the kernel's name of it, which no record has
            labels += [Label("pid", number=signed(thread >> 32)), Label("tid", number=signed(thread & 0xFFFFFFFF))]
            if cpu != NO_CPU:
                labels.append(cpus.setdefault(cpu, Label("cpu", number=cpu)))
            out.append(tuple(labels))
        return out

    def _describe(self, profile: ProfileData) -> None:
        records = self.records
        profile.comments = self.features.comments()
        counts = records.record_counts
        for lost, time, thread in zip(
            records.lost_count.numbers(), records.lost_time.numbers(), records.lost_thread.numbers()
        ):
            if len(profile.lost) < MOST_LOST and 0 < lost <= LARGEST:
                pid, tid = signed(thread >> 32), signed(thread & 0xFFFFFFFF)
                profile.lost.append(LostSamples(lost, min(time, LARGEST), pid, tid))
        if profile.lost:
            total = sum(one.samples for one in profile.lost)
            self.note(f"{total:,} samples were lost while recording: perf could not keep up")
        damaged = records.damaged + self.damaged + len(self.features.damaged)
        if damaged:
            self.note(f"{damaged:,} damaged records were left out")
        if counts[constants.AUX] or counts[constants.AUXTRACE]:
            self.note("AUX data (traces of hardware, such as Intel PT) are not read")
        if self.header.was_killed:
            self.note("the recorder was killed: no build-ids, hostname or times of its own were written")
        profile.notes = self.notes


def signed(number: int) -> int:
    """A pid: the kernel's is -1."""
    return number - (1 << 32) if number >> 31 else number


KERNEL_SYMBOL = re.compile(r"\]_\w+$")  # behind [kernel.kallsyms]: which symbol begins there
JIT_DUMP = re.compile(r"(?:.*/)?jit-(?P<pid>\d{1,10})\.dump")
MOST_DUMP = 1 << 30  # bytes of a jitdump that are read
MONOTONIC = 1  # CLOCK_MONOTONIC
EVENT_NAME = 2  # EVENT_UPDATE's kind that has a name
CLOCKS = {(attributes.SOFTWARE, 0), (attributes.SOFTWARE, 1)}


def unit_of(event: Attribute) -> str:
    """What an event's period counts."""
    return "nanoseconds" if (event.type, event.config) in CLOCKS else "count"


def read(
    source: ByteSource, budget: Budget, others: Iterable[ByteSource] = (), folder: str = "", *, local: bool = True
) -> ProfileData:
    """Return the profile in a perf.data; raise ProfileError for anything else.

    Args:
        others: further streams of bare records.
        folder: the recording's folder, where jitdumps are looked for, too.
        local: False to open no file: jitdumps are not read, and decompressed records are kept in memory.
    """
    reader = RecordingReader(source, budget, folder, local=local)
    begin, end = reader.header.data
    reader.read_stream(source, begin, end)
    for other in others:
        reader.read_stream(other, 0, other.size)
    for one in reader.sources:
        one.check()
    return reader.profile()
