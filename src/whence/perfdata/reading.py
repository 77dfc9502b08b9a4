"""Read the streams of records of a perf.data, and make a profile of them."""

from __future__ import annotations

import os
import re
import struct
from array import array
from collections.abc import Iterable
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from whence._base.errors import ProfileError, without_file
from whence._base.files import open_regular, read_at
from whence._base.records import replaced
from whence.perfdata import attributes, features, header, jitdump
from whence.perfdata.compressed import RecordStream
from whence.perfdata.kernels import constants
from whence.perfdata.kernels.records import Records
from whence.perfdata.recording import Recording, signed
from whence.perfdata.source import FileSpool, MemorySpool
from whence.perfdata.stacks import UserStacks
from whence.samples import bounds
from whence.samples.kinds import GENERATED
from whence.samples.model import LostSamples, ProfileData

if TYPE_CHECKING:
    from whence._base.budget import Budget
    from whence.perfdata.attributes import Attribute
    from whence.perfdata.source import ByteSource

SOURCE_SHIFT: int = constants.SOURCE_SHIFT
USER_FIELDS = constants.HAS_REGS_USER | constants.HAS_STACK_USER
PIECE = 4 << 20  # bytes read at a time
MOST_LOST = 100_000  # records of lost samples that are listed
LARGEST = (1 << 63) - 1
JIT_DUMP = re.compile(r"(?:.*/)?jit-(?P<pid>\d{1,10})\.dump")
MOST_DUMP = 1 << 30  # bytes of a jitdump that are read
MONOTONIC = 1  # CLOCK_MONOTONIC
EVENT_NAME = 2  # kind of EVENT_UPDATE with a name


class RecordingReader:
    """Reads one recording."""

    def __init__(self, source: ByteSource, budget: Budget, folder: str = "", *, local: bool = True) -> None:
        self.budget = budget
        self.local = local
        self.folder = folder
        self.header = header.read(source)
        self.order = ">" if self.header.big else "<"
        self.features = self.header.features
        seed = int.from_bytes(os.urandom(8), "little")
        self.records = Records(self.header.big, seed)
        self.recording = Recording(self.records, self.order, self.features, budget, seed)
        self.events, self.sources = self.recording.events, self.recording.sources
        self.ids: dict[int, int] = {}  # id -> event
        self.notes: list[str] = []
        self.damaged = 0  # malformed records of perf itself
        self.counter: tuple[int, int, int] | None = None  # shift, factor and zero to convert the processor's counter
        self.spool: FileSpool | MemorySpool | None = None
        self.spool_number = 0
        self._add_events(self.header.events)

    # events

    def _add_events(self, events: Iterable[tuple[Attribute, tuple[int, ...]]]) -> None:
        """Add new events and their ids."""
        for attribute, ids in events:
            number = len(self.events)
            self.events.append(attribute)
            self._add_ids(ids, number)
        if not self.events:
            return
        if len({(event.id_offset, event.id_from_end) for event in self.events}) > 1:
            self.note("events disagree about the position of the event id; the position of the first is used")
        rows = array("Q", [value for event in self.events for value in event.row])
        self.records.set_events(rows, self.events[0].id_offset, self.events[0].id_from_end)

    def _add_ids(self, ids: Iterable[int], event: int) -> None:
        new = {id: event for id in ids if id not in self.ids}
        self.ids.update(new)
        self.records.set_ids(array("Q", new), array("I", new.values()))

    def note(self, text: str) -> None:
        """Add a note to the profile, once."""
        if text not in self.notes:
            self.notes.append(text)

    # streams

    def read_stream(self, source: ByteSource, begin: int, end: int) -> None:
        """Read the records in source[begin:end]."""
        stream = RecordStream(source.size)
        base = len(self.sources) << SOURCE_SHIFT
        self.sources.append(source)
        offset = begin
        while offset < end:
            data = source.read(offset, min(PIECE, end - offset))
            if not data:
                break
            size, stop = self._feed(data, base + offset, stream)
            if stop == constants.BROKEN:
                self.note(f"the record at {offset + size:#x} is shorter than its header: the rest is not read")
                break
            if stop == constants.CUT and (size == 0 or offset + len(data) >= end):
                self.note(f"the recording ends inside the record at {offset + size:#x}")
                break
            source.forget(offset, offset + size)
            offset += size

    def _feed(self, data: bytes | memoryview, base: int, stream: RecordStream | None) -> tuple[int, int]:
        """Read the complete records in `data`, at offset `base` of the stream. Return where they end, and why."""
        offset: int = 0
        stop: int
        while True:
            offset, stop = self.records.feed(data, offset, len(data), base)
            if stop != constants.OWN:
                return offset, stop
            offset += self._read_own(data, offset, stream)
            if offset >= len(data):
                return offset, constants.FINE

    def _read_own(self, data: bytes | memoryview, offset: int, stream: RecordStream | None) -> int:
        """Read a record of perf itself. Return the distance to the next record."""
        kind, misc, size = map(int, struct.unpack_from(self.order + "IHH", data, offset))
        record = bytes(data[offset : offset + size])
        try:
            if kind in (constants.COMPRESSED, constants.COMPRESSED2) and stream is not None:
                self._decompress(stream, kind, record[constants.RECORD_HEADER :])
                return size
            return size + self._read_own_body(kind, misc, record, record[constants.RECORD_HEADER :])
        except (struct.error, ValueError, IndexError):
            self.damaged += 1
            return size

    def _decompress(self, stream: RecordStream, kind: int, body: bytes) -> None:
        """Read the records in a piece of a compressed stream. Raise ValueError if it is malformed."""
        if kind == constants.COMPRESSED2:
            (size,) = struct.unpack_from(self.order + "Q", body)
            body = body[8 : 8 + size]
        for data in stream.pieces(body):
            end, stop = self._feed(data, self._spooled(data), None)
            if stop == constants.BROKEN:
                raise ValueError("a record is shorter than its header")
            stream.rest = data[end:]

    def _spooled(self, data: bytes) -> int:
        """Store decompressed records if registers and stack copies in them are needed later. Return their offset."""
        if not any(event.sample_type & USER_FIELDS for event in self.events):
            return 0
        if self.spool is None:
            if self.local:
                self.spool = FileSpool(TemporaryFile())  # noqa: SIM115 - closed with the source
            else:
                self.spool = MemorySpool()
            self.spool_number = len(self.sources)
            self.sources.append(self.spool)
        return self.spool.append(data) + (self.spool_number << SOURCE_SHIFT)

    def _read_own_body(self, kind: int, misc: int, record: bytes, body: bytes) -> int:
        """Read the body of a record of perf itself. Return the size of the data after the record."""
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
            what, id = struct.unpack_from(order + "QQ", body)
            number = self.ids.get(id)
            if what == EVENT_NAME and number is not None:
                self.events[number] = replaced(self.events[number], name=features.decoded(body[16:]))
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
        """Make the profile of all records."""
        if not self.events:
            raise ProfileError("records", None, "no event: a HEADER_ATTR record is missing")
        records, recording = self.records, self.recording
        if records.join_deferred():
            self.note("deferred call chains are missing: those samples have only the kernel's frames")
        self._flag_maps()
        self._read_jitdumps()
        replay = recording.new_replay()
        replay.run()
        profile = ProfileData(stored=bounds.stored(self.budget))
        recording.fill(profile, replay)
        self._describe(profile)
        if len(records.sample_user):
            profile.unwinding = UserStacks(recording)
        return profile

    def _flag_maps(self) -> None:
        """Flag maps without a file: perf maps name their code, and each process has its own."""
        generated = bytearray(self.records.text_count)
        for number in set(self.records.map_name.numbers()):
            generated[number] = GENERATED.match(features.decoded(self.records.text(number))) is not None
        self.records.flag_maps(generated, constants.MAP_GENERATED)

    def _read_jitdumps(self) -> None:
        """Read the code that JIT compilers recorded in files of their own, as maps since its time."""
        records = self.records
        names = {
            number: match
            for number in range(records.text_count)
            if (match := JIT_DUMP.fullmatch(features.decoded(records.text(number))))
        }
        with records.map_name.numbers() as of:
            maps = {number: names[name] for number, name in enumerate(of) if name in names} if names else {}
        if not maps:
            return
        with records.step_kind.numbers() as kinds, records.step_a.numbers() as a, records.step_b.numbers() as b:
            marks = {
                (a[step] >> 32, b[step])
                for step, kind in enumerate(kinds)
                if kind == constants.STEP_MAP and b[step] in maps
            }
        for pid, number in sorted(marks):
            path = maps[number][0]
            if self.local:
                self._read_jitdump(pid, path, int(maps[number]["pid"]))
            else:
                self.note(f"{path} with the names of generated code is not read here")

    def _read_jitdump(self, pid: int, recorded: str, named: int) -> None:
        candidates = recorded, os.path.join(self.folder, os.path.basename(recorded))
        path = next(filter(os.path.isfile, candidates), "")
        if not path:
            self.note(f"{recorded} with the names of generated code is not found")
            return
        try:
            with open_regular(path, ProfileError) as (descriptor, size):
                data = read_at(descriptor, min(size, MOST_DUMP), 0)
            dump = jitdump.read(data, self.budget)
        except (OSError, ProfileError) as error:
            self.note(f"{path} with the names of generated code can't be read: {without_file(error)}")
            return
        if dump.pid != named:
            self.note(f"{path} is of another process ({dump.pid})")
            return
        timed = self.counter is not None if dump.counter else self.events[0].clock == MONOTONIC
        if not timed:
            self.note(f"{path} has times of another clock (record with -k mono): the latest names are used")
        name = self.records.add_text(os.fsencode(recorded))
        jit_code = self.recording.jit_code
        for code in dump.code:
            time = (self._nanoseconds(code.time) if dump.counter else code.time) if timed else 0
            number = self.records.add_map(pid, time, code.address, code.size, len(jit_code), name, constants.MAP_CODE)
            jit_code[number] = code
            self.recording.jit_times.setdefault(pid, []).append((time, number))

    def _nanoseconds(self, ticks: int) -> int:
        """Convert the processor's counter to nanoseconds (perf_event_mmap_page, time_shift)."""
        shift, factor, zero = self.counter or (0, 1, 0)
        quotient, remainder = ticks >> shift, ticks & (1 << shift) - 1
        return zero + quotient * factor + (remainder * factor >> shift) & (1 << 64) - 1

    def _describe(self, profile: ProfileData) -> None:
        records = self.records
        profile.comments = self.features.comments()
        for count, time, thread in zip(
            records.lost_count.numbers(), records.lost_time.numbers(), records.lost_thread.numbers()
        ):
            if len(profile.lost) < MOST_LOST and 0 < count <= LARGEST:
                pid, tid = signed(thread >> 32), signed(thread & 0xFFFFFFFF)
                profile.lost.append(LostSamples(count, min(time, LARGEST), pid, tid))
        if profile.lost:
            total = sum(lost.samples for lost in profile.lost)
            self.note(f"{total:,} samples were lost while recording: perf could not keep up")
        damaged = records.damaged + self.damaged + len(self.features.damaged)
        if damaged:
            self.note(f"{damaged:,} damaged records were left out")
        counts = records.record_counts
        if counts[constants.AUX] or counts[constants.AUXTRACE]:
            self.note("AUX data (hardware traces such as Intel PT) is not read")
        if self.header.was_killed:
            self.note("the recorder was killed before it wrote build-ids, hostname and times")
        if self.header.was_cut:
            self.note("the file is truncated: build-ids, hostname and times after the data are missing")
        profile.notes = self.notes


def read(
    source: ByteSource, budget: Budget, others: Iterable[ByteSource] = (), folder: str = "", *, local: bool = True
) -> ProfileData:
    """Read the profile in a perf.data. Raise ProfileError if it is not a recording, or is damaged.

    Args:
        source: the main file.
        budget: limits the memory of the result.
        others: further streams of bare records.
        folder: the recording's folder, also searched for jitdumps.
        local: False to open no file: jitdumps are not read, and decompressed records are kept in memory.
    """
    reader = RecordingReader(source, budget, folder, local=local)
    begin, end = reader.header.data
    reader.read_stream(source, begin, end)
    for other in others:
        reader.read_stream(other, 0, other.size)
    for each in reader.sources:
        each.check()
    return reader.profile()
