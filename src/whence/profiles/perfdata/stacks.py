"""Stacks of users' code from registers and stack bytes (`perf record --call-graph dwarf`), by whence.unwind.

What a sample holds behind its call chain: u64 ABI (0: no registers, 1: of a 32-bit program, 2: of a 64-bit one), a u64
for each register of the event's mask, u64 size of the stack's bytes, the bytes from the stack pointer on, and how many
of them are valid. Unwinding needs the files that were mapped, so it waits until a Locator is there: until then such
samples have their innermost frame.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from whence.elf import ElfFile
from whence.elf.kernels.constants import EM_386, EM_AARCH64, EM_X86_64
from whence.errors import ProfileError, WhenceError, without_file
from whence.procmap.mapping import Kind, kind_of
from whence.procmap.mapping import Mapping as MappedRange
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.procmap.vdso import own_vdso
from whence.profiles import bounds
from whence.profiles.perfdata.kernels import constants
from whence.profiles.perfdata.kernels.replay import END
from whence.unwind import End, StackSamples, stacks
from whence.unwind.cfi import FrameSection
from whence.unwind.memory import Unreadable
from whence.unwind.modules import EXECUTABLE, CoreCode, Module, Modules
from whence.unwind.registers import MACHINES, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.profiles.model import Profile
    from whence.profiles.perfdata.attributes import Attribute
    from whence.profiles.perfdata.jitdump import JitCode
    from whence.profiles.perfdata.kernels.records import Records
    from whence.profiles.perfdata.kernels.replay import Replay
    from whence.unwind.cfi import Fde
    from whence.unwind.kernels.cfi import CfiTable
    from whence.unwind.memory import Memory
    from whence.unwind.modules import Finds
    from whence.window import ByteOrder

    class Recording(Protocol):
        """What is needed of a recording that was read."""

        records: Records
        events: list[Attribute]
        features: Any
        order: str

        def new_replay(self) -> Replay: ...

        def fill(self, profile: Profile, replay: Replay) -> None: ...

        def bytes_at(self, offset: int, size: int) -> Any: ...

        def map_facts(self, number: int) -> Any: ...

        jit_code: dict[int, JitCode]
        jit_times: dict[int, list[tuple[int, int]]]


PC, NOT_USED = -1, -2
# perf's numbers of registers (arch/*/include/uapi/asm/perf_regs.h of Linux), by machine: DWARF's
X86_64_REGISTERS = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, 8: PC, **{16 + at: 8 + at for at in range(8)}}
I386_REGISTERS = {0: 0, 1: 3, 2: 1, 3: 2, 4: 6, 5: 7, 6: 5, 7: 4, 8: PC}
AARCH64_REGISTERS = {**{at: at for at in range(32)}, 32: PC}
ABI_NONE, ABI_32 = 0, 1
MACHINE_KEYS = {"x86_64": (EM_X86_64, 64), "aarch64": (EM_AARCH64, 64), "i686": (EM_386, 32), "i386": (EM_386, 32)}
REGISTERS = {EM_X86_64: X86_64_REGISTERS, EM_386: I386_REGISTERS, EM_AARCH64: AARCH64_REGISTERS}
WITH_32_BITS = {(EM_X86_64, 64): (EM_386, 32)}  # what else a kernel runs
MACHINE_OF = {MACHINES[key].name: key[0] for key in MACHINE_KEYS.values()}
STACKS_TOGETHER, SAMPLES_TOGETHER = 16 << 20, 1 << 15  # bytes and samples that are unwound at a time


class SharedModules(Modules):
    """The files of a process, those that others have mapped too opened once."""

    def __init__(self, snapshot: SnapshotMappings, finds: Finds, opened: dict[tuple[str, str], Module]) -> None:
        super().__init__(snapshot, finds)
        self._locator, self._all = finds, opened

    def of_file(self, file: SnapshotFile, mapping: MappedRange | None = None) -> Module:
        key = file.path, file.build_id
        found = self._all.get(key)
        if found is None:
            own = "" if file.build_id else self._locator.find(path=file.path, kinds=(EXECUTABLE,)).path
            found = self._all[key] = Module(file, self._locator, own)
        return found


class VdsoMemory:
    """The bytes of this machine's vDSO, where a process had the same one mapped."""

    def __init__(self, snapshot: SnapshotMappings) -> None:
        self._mapping = next((one for one in snapshot.mappings if one.kind is Kind.VDSO), None)
        self._data = b""
        with suppress(OSError, WhenceError):
            if self._mapping is not None:
                data = own_vdso()
                if ElfFile.from_bytes(data, "[vdso]").build_id == self._mapping.build_id:
                    self._data = data

    def read(self, address: int, size: int) -> bytes:
        at = address - (self._mapping.start if self._mapping is not None else 0)
        if not self._data or not 0 <= at <= len(self._data) - size:
            raise Unreadable(address, "in the sample")
        return self._data[at : at + size]

    def region(self, address: int) -> tuple[int, int] | None:
        return None


class RecordedCode(CoreCode):
    """The code of a process at a time: mapped files, and generated code by what its compiler told of it.

    `generated` has the call frame information of mappings by their index, for runtime addresses.
    """

    def __init__(self, modules: Modules, memory: Memory, generated: dict[int, FrameSection]) -> None:
        super().__init__(modules, memory)
        self._generated = generated

    def tables(self, index: int) -> tuple[int, list[CfiTable]]:
        section = self._generated.get(index)
        return super().tables(index) if section is None else (0, [section.table])

    def fde(self, address: int) -> tuple[Fde, int] | None:
        index = self._at(address)
        section = None if index is None else self._generated.get(index)
        if section is None:
            return super().fde(address)
        found = section.find(address)
        return None if found is None else (found, 0)


class Placed(NamedTuple):
    """Where a map lies, and its number."""

    start: int
    end: int
    number: int


@dataclass(slots=True)
class Waiting:
    """Samples of a process with the same maps, to be unwound together. What generated code there is only grows."""

    pid: int
    since: int  # when the first of them was taken
    machine: Machine
    numbers: array[int]  # DWARF's, of the registers that each has
    maps: list[Placed]
    generated: list[Placed]  # code that was there then
    time: int = 0  # of the last sample
    samples: array[int] = field(default_factory=lambda: array("I"))
    pc: array[int] = field(default_factory=lambda: array("Q"))
    values: array[int] = field(default_factory=lambda: array("Q"))
    start: array[int] = field(default_factory=lambda: array("Q"))
    at: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    stack: bytearray = field(default_factory=bytearray)

    @property
    def is_full(self) -> bool:
        return len(self.stack) > STACKS_TOGETHER or len(self.samples) >= SAMPLES_TOGETHER


def overlaid(maps: list[Placed], code: list[Placed], takes: Callable[[int], bool]) -> list[Placed]:
    """Maps with pieces of code in those that take any, in order of address; both are in order.

    >>> overlaid([Placed(0, 9, 1), Placed(9, 20, 2)], [Placed(3, 5, 7), Placed(8, 12, 8)], {1: True, 2: False}.get)
    [Placed(start=0, end=3, number=1), Placed(start=3, end=5, number=7), Placed(start=5, end=8, number=1), \
Placed(start=8, end=9, number=8), Placed(start=9, end=20, number=2)]
    """
    out: list[Placed] = []
    next_one = 0
    for start, end, number in maps:
        if not takes(number):
            out.append(Placed(start, end, number))
            continue
        while next_one < len(code) and code[next_one].end <= start:
            next_one += 1
        inside = next_one
        while inside < len(code) and code[inside].start < end:
            piece = code[inside]
            if piece.start > start:
                out.append(Placed(start, piece.start, number))
            start, inside = max(start, piece.start), inside + 1
            out.append(Placed(start, min(end, piece.end), piece.number))
            start = out[-1].end
        if start < end:
            out.append(Placed(start, end, number))
    return out


class UserStacks:
    """The samples of a recording that wait to be unwound."""

    def __init__(self, reader: Recording) -> None:
        self._reader = reader
        self._ends: Counter[str] = Counter()
        self._addresses = array("Q")  # of all stacks, one behind the other
        self._first = array("Q")  # by sample: where its addresses begin, and how many there are
        self._count = array("I")
        self._opened: dict[tuple[str, str], Module] = {}
        self._generated: dict[int, FrameSection] = {}  # of generated code, by map
        self._times = {pid: sorted(times) for pid, times in reader.jit_times.items()}
        self._budget = bounds.writing(0, "")

    def unwind(self, profile: Profile, finds: Finds) -> None:
        """Give every sample its whole stack, by the files that a Locator finds. Never raises for what a sample or a
        file is; `profile.notes` tells how many stacks end before their outermost frame, and why most of them do."""
        reader = self._reader
        samples = len(reader.records.sample_time)
        self._first, self._count = array("Q", bytes(8 * samples)), array("I", bytes(4 * samples))
        try:
            self._unwind_all(profile, finds)
        except ProfileError as error:
            why = f"stacks of registers and stack bytes are not unwound further: {without_file(error)}"
            profile.notes = [*profile.notes, why]
        finally:
            for module in self._opened.values():
                module.close()
            self._opened.clear()
        replay = reader.new_replay()
        view = memoryview(self._addresses)
        while (sample := replay.run(True)) != END:
            first = self._first[sample]
            replay.finish(view[first : first + self._count[sample]])
        reader.fill(profile, replay)
        whole, total = self._ends.pop("", 0), self._ends.total()
        if total:
            why, _ = self._ends.most_common(1)[0]
            ends = f"{total:,} of {whole + total:,} unwound stacks are not whole; most often: {why}"
            profile.notes = [*profile.notes, ends]
        self._forget()

    def _forget(self) -> None:
        """What was found; it is found anew when it is asked for once more."""
        self._ends.clear()
        self._addresses, self._first, self._count = array("Q"), array("Q"), array("I")

    def _unwind_all(self, profile: Profile, finds: Finds) -> None:
        """Walk over all samples in order of time, and unwind those of one process with the same maps together."""
        records = self._reader.records
        replay = self._reader.new_replay()
        self._budget = bounds.writing(profile.stored, "maps of processes, as they change,")
        waiting: dict[tuple[int, bool], tuple[int, int, Waiting | None]] = {}
        nothing = memoryview(array("Q"))
        with (
            records.sample_thread.numbers() as threads,
            records.sample_time.numbers() as times,
            records.sample_user.numbers() as where,
            records.sample_event.numbers() as events,
        ):
            while (sample := replay.run(True)) != END:
                pid, number = threads[sample] >> 32, events[sample]
                event = self._reader.events[number]
                data = self._registers_and_stack(where[sample], event)
                (abi,) = struct.unpack_from(self._reader.order + "Q", data) if data else (ABI_NONE,)
                if abi == ABI_NONE:
                    self._ends["samples without registers"] += 1
                    replay.finish(nothing)
                    continue
                key, epoch = (pid, abi == ABI_32), replay.epoch_of(pid)
                found = waiting.get(key)
                if found is None or found[:2] != (epoch, number):
                    if found is not None:
                        self._flush(found[2], finds)
                    group = self._group(replay, pid, times[sample], event, abi == ABI_32)
                    found = waiting[key] = epoch, number, group
                if found[2] is None:
                    self._ends["no registers that are known of this machine"] += 1
                else:
                    self._take(sample, times[sample], data, event, found[2])
                    if found[2].is_full:
                        self._flush(found[2], finds)
                replay.finish(nothing)
            for _, _, left in waiting.values():
                self._flush(left, finds)

    def _registers_and_stack(self, where: int, event: Attribute) -> bytes:
        """What a sample holds behind its call chain; b"" where registers are cut."""
        count = event.user_registers.bit_count()
        data = bytes(self._reader.bytes_at(where, 8 * (count + 3) + event.user_stack))
        return data if len(data) >= 8 * (count + 1) else b""

    def _take(self, sample: int, time: int, data: bytes, event: Attribute, group: Waiting) -> None:
        """Put what a sample holds among those that wait."""
        order = self._reader.order
        count = event.user_registers.bit_count()
        values = struct.unpack_from(f"{order}{count}Q", data, 8)
        numbers = REGISTERS[MACHINE_OF[group.machine.name]]
        present = [bit for bit in range(64) if event.user_registers >> bit & 1]
        known = dict(zip((numbers.get(bit, NOT_USED) for bit in present), values, strict=True))
        group.samples.append(sample)
        group.time = time
        group.pc.append(known.get(PC, 0))
        group.values.extend([known.get(number, 0) for number in group.numbers])
        group.start.append(known.get(group.machine.sp, 0))
        group.at.append(len(group.stack))
        at = 8 * (count + 1)
        size = valid = 0
        if event.sample_type & constants.HAS_STACK_USER and at + 8 <= len(data):
            (size,) = struct.unpack_from(order + "Q", data, at)
            if size and at + 16 + size <= len(data):
                (valid,) = struct.unpack_from(order + "Q", data, at + 8 + size)
        group.stack += data[at + 8 : at + 8 + min(size, valid)]
        group.size.append(min(size, valid))

    def _flush(self, group: Waiting | None, finds: Finds) -> None:
        """Unwind the samples of a group that wait."""
        if group is None or not group.samples:
            return
        samples = StackSamples(
            group.pc, group.values, group.numbers, group.start, group.at, group.size, bytes(group.stack)
        )
        found = stacks(self._code(group, finds), group.machine, samples, self._byte_order)
        for row, sample in enumerate(group.samples):
            frames = found.frames(row)
            self._first[sample], self._count[sample] = len(self._addresses), len(frames)
            self._addresses.extend(frames[:1])
            self._addresses.extend([address - 1 for address in frames[1:]])
            end, _ = found.why(row)
            self._ends["" if end is End.COMPLETE else end.sentence] += 1
        for column in (group.samples, group.pc, group.values, group.start, group.at, group.size):
            del column[:]
        group.stack.clear()

    @property
    def _byte_order(self) -> ByteOrder:
        return "little" if self._reader.order == "<" else "big"

    def _group(self, replay: Replay, pid: int, time: int, event: Attribute, is_32: bool) -> Waiting | None:
        """What a process has mapped now; None where nothing is known of its machine's registers."""
        key = MACHINE_KEYS.get(self._reader.features.machine, (EM_X86_64, 64) if self._reader.order == "<" else (0, 0))
        if is_32:
            key = WITH_32_BITS.get(key, key)
        machine = MACHINES.get(key)
        if machine is None or key[0] not in REGISTERS:
            return None
        numbers = REGISTERS[key[0]]
        present = [numbers[bit] for bit in range(64) if event.user_registers >> bit & 1 and bit in numbers]
        maps, code = list(map(Placed._make, replay.maps_of(pid))), list(map(Placed._make, replay.code_of(pid)))
        self._budget.charge(bounds.MAPPING * len(maps) + bounds.ENTRY * len(code))
        return Waiting(pid, time, machine, array("I", [one for one in present if one != PC]), maps, code)

    def _code(self, group: Waiting, finds: Finds) -> RecordedCode:
        """The code of a process, as it was for the samples of a group."""
        reader = self._reader
        times = self._times.get(group.pid, [])
        new = times[
            bisect_right(times, group.since, key=itemgetter(0)) : bisect_right(times, group.time, key=itemgetter(0))
        ]
        pieces = group.generated + [self._whole(number) for _, number in new]
        self._budget.charge(bounds.MAPPING * len(pieces))
        mappings: list[MappedRange] = []
        files: list[SnapshotFile | None] = []
        known: dict[tuple[str, str], SnapshotFile] = {}
        generated: dict[int, FrameSection] = {}
        for start, end, number in overlaid(group.maps, sorted(pieces), self._is_generated):
            if number in reader.jit_code:
                section = self._section(number, group.machine.bits)
                if section is not None:
                    generated[len(mappings)] = section
                mappings.append(MappedRange("", start, end, 0, "", Kind.ANONYMOUS))
                files.append(None)
                continue
            path, build_id, offset, flags = reader.map_facts(number)
            if flags & constants.MAP_DATA:
                continue
            first = reader.records.map_start[number]
            kind, shown, deleted = kind_of("" if path.startswith("//") else path)
            if kind is Kind.VDSO:
                offset = first - start  # it is its own file, from its first byte on
            mapping = MappedRange(shown, start, end, offset + start - first, build_id, kind, deleted=deleted)
            mappings.append(mapping)
            file = None
            if kind.has_file and kind is not Kind.MEMFD:
                file = known.setdefault((shown, build_id), SnapshotFile(shown, build_id, None))
            files.append(file)
        snapshot = SnapshotMappings(group.pid, "", 0, 0.0, mappings, files)
        return RecordedCode(SharedModules(snapshot, finds, self._opened), VdsoMemory(snapshot), generated)

    def _is_generated(self, number: int) -> bool:
        """Whether generated code may lie in a map."""
        return bool(self._reader.records.map_flags[number] & constants.MAP_GENERATED)

    def _whole(self, number: int) -> Placed:
        code = self._reader.jit_code[number]
        return Placed(code.address, code.address + code.size, number)

    def _section(self, number: int, bits: int) -> FrameSection | None:
        """The call frame information of a map of generated code; None where its compiler told none."""
        code = self._reader.jit_code[number]
        if number not in self._generated and code.eh_frame:
            inside = [(code.address, code.address + code.size)]
            self._generated[number] = FrameSection(
                code.eh_frame, code.eh_frame_address, bits=bits, order=self._byte_order, code=inside
            )
        return self._generated.get(number)
