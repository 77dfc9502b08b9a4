"""Stacks of users' code from registers and stack bytes (`perf record --call-graph dwarf`), by whence.unwind.

What a sample holds behind its call chain: u64 ABI (0: no registers, 1: of a 32-bit program, 2: of a 64-bit one), a u64
for each register of the event's mask, u64 size of the stack's bytes, the bytes from the stack pointer on, and how many
of them are valid. Unwinding needs the files that were mapped, so it waits until a Locator is there: until then such
samples have their innermost frame.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from whence.elf import ElfFile
from whence.elf.kernels.constants import EM_386, EM_AARCH64, EM_X86_64
from whence.errors import WhenceError
from whence.procmap.mapping import Kind, kind_of
from whence.procmap.mapping import Mapping as MappedRange
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.procmap.vdso import own_vdso
from whence.profiles.perfdata.kernels import constants
from whence.profiles.perfdata.kernels.replay import END
from whence.unwind import End, StackSamples, stacks
from whence.unwind.memory import Unreadable
from whence.unwind.modules import EXECUTABLE, CoreCode, Module, Modules
from whence.unwind.registers import MACHINES, Machine

if TYPE_CHECKING:
    from whence.profiles.model import Profile
    from whence.profiles.perfdata.attributes import Attribute
    from whence.profiles.perfdata.kernels.records import Records
    from whence.profiles.perfdata.kernels.replay import Replay
    from whence.unwind.modules import Finds

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


PC = -1
# perf's numbers of registers (arch/*/include/uapi/asm/perf_regs.h of Linux), by machine: DWARF's
X86_64_REGISTERS = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, 8: PC, **{16 + at: 8 + at for at in range(8)}}
I386_REGISTERS = {0: 0, 1: 3, 2: 1, 3: 2, 4: 6, 5: 7, 6: 5, 7: 4, 8: PC}
AARCH64_REGISTERS = {**{at: at for at in range(32)}, 32: PC}
ABI_NONE, ABI_32 = 0, 1
MACHINE_KEYS = {"x86_64": (EM_X86_64, 64), "aarch64": (EM_AARCH64, 64), "i686": (EM_386, 32), "i386": (EM_386, 32)}
REGISTERS = {EM_X86_64: X86_64_REGISTERS, EM_386: I386_REGISTERS, EM_AARCH64: AARCH64_REGISTERS}
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


@dataclass(slots=True)
class Waiting:
    """Samples of a process with the same maps, to be unwound together."""

    code: CoreCode
    machine: Machine
    numbers: array[int]  # DWARF's, of the registers that each has
    places: list[int]  # where these are among those of the sample; so are the pc and the stack pointer, -1: not there
    pc_at: int
    sp_at: int
    samples: array[int] = field(default_factory=lambda: array("I"))
    pc: array[int] = field(default_factory=lambda: array("Q"))
    values: array[int] = field(default_factory=lambda: array("Q"))
    start: array[int] = field(default_factory=lambda: array("Q"))
    at: array[int] = field(default_factory=lambda: array("Q"))
    size: array[int] = field(default_factory=lambda: array("Q"))
    stack: bytearray = field(default_factory=bytearray)


class UserStacks:
    """The samples of a recording that wait to be unwound."""

    def __init__(self, reader: Recording) -> None:
        self._reader = reader
        self._ends: Counter[str] = Counter()
        self._addresses = array("Q")  # of all stacks, one behind the other
        self._first = array("Q")  # by sample: where its addresses begin, and how many there are
        self._count = array("I")
        self._opened: dict[tuple[str, str], Module] = {}
        self._forms: dict[int, tuple[struct.Struct, int]] = {}  # by the number of registers
        self._byte_order: Literal["little", "big"] = "little" if reader.order == "<" else "big"

    def unwind(self, profile: Profile, finds: Finds) -> None:
        """Give every sample its whole stack, by the files that a Locator finds. Never raises for what a sample or a
        file is; `profile.notes` tells how many stacks end before their outermost frame, and why most of them do."""
        reader = self._reader
        samples = len(reader.records.sample_time)
        self._first, self._count = array("Q", bytes(8 * samples)), array("I", bytes(4 * samples))
        try:
            self._unwind_all(finds)
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
            profile.notes.append(f"{total:,} of {whole + total:,} unwound stacks are not whole; most often: {why}")

    def _unwind_all(self, finds: Finds) -> None:
        """Walk over all samples in order of time, and unwind those of one process with the same maps together."""
        records = self._reader.records
        replay = self._reader.new_replay()
        waiting: dict[int, tuple[int, int, Waiting | None]] = {}
        nothing = memoryview(array("Q"))
        with (
            records.sample_thread.numbers() as threads,
            records.sample_user.numbers() as where,
            records.sample_event.numbers() as events,
        ):
            while (sample := replay.run(True)) != END:
                pid, number = threads[sample] >> 32, events[sample]
                epoch = replay.epoch_of(pid)
                group = waiting.get(pid)
                if group is None or group[:2] != (epoch, number):
                    if group is not None:
                        self._flush(group[2])
                    made = self._group(replay, pid, self._reader.events[number], finds)
                    group = waiting[pid] = epoch, number, made
                self._take(sample, where[sample], self._reader.events[number], group[2])
                replay.finish(nothing)
            for _, _, group_left in waiting.values():
                self._flush(group_left)

    def _take(self, sample: int, where: int, event: Attribute, group: Waiting | None) -> None:
        """Put what a sample holds among those that wait; without registers it has no frames of user code."""
        form, stack_at = self._form(event)
        data = memoryview(self._reader.bytes_at(where, stack_at + 16 + event.user_stack))
        abi, *values = form.unpack_from(data) if len(data) >= form.size else (ABI_NONE,)
        if abi == ABI_NONE or group is None:
            self._ends["no registers that are known of this machine" if abi else "samples without registers"] += 1
            return
        if (abi == ABI_32) != (group.machine.bits == 32):
            self._ends["of another kind of program than the others of its process"] += 1
            return
        group.samples.append(sample)
        group.pc.append(values[group.pc_at] if group.pc_at >= 0 else 0)
        group.values.extend([values[at] for at in group.places])
        group.start.append(values[group.sp_at] if group.sp_at >= 0 else 0)
        group.at.append(len(group.stack))
        size = 0
        if event.sample_type & constants.HAS_STACK_USER and stack_at + 8 <= len(data):
            given = int.from_bytes(data[stack_at : stack_at + 8], self._byte_order)
            valid_at = stack_at + 8 + given
            if given and valid_at + 8 <= len(data):
                size = min(given, int.from_bytes(data[valid_at : valid_at + 8], self._byte_order))
        group.stack += data[stack_at + 8 : stack_at + 8 + size]
        group.size.append(size)
        if len(group.stack) > STACKS_TOGETHER or len(group.samples) >= SAMPLES_TOGETHER:
            self._flush(group)

    def _form(self, event: Attribute) -> tuple[struct.Struct, int]:
        """The ABI and the registers that a sample of an event has, and where what is known of its stack begins."""
        count = event.user_registers.bit_count()
        if count not in self._forms:
            self._forms[count] = struct.Struct(f"{self._reader.order}{count + 1}Q"), 8 * (count + 1)
        return self._forms[count]

    def _flush(self, group: Waiting | None) -> None:
        """Unwind the samples of a group that wait."""
        if group is None or not group.samples:
            return
        samples = StackSamples(
            group.pc, group.values, group.numbers, group.start, group.at, group.size, bytes(group.stack)
        )
        found = stacks(group.code, group.machine, samples, self._byte_order)
        before, first = len(self._addresses), 0
        with found.pc.numbers() as frames:
            self._addresses.extend(array("Q", [address - 1 if address else 0 for address in frames]))
            for row, sample in enumerate(group.samples):
                end = found.end[row]
                if first < end:
                    self._addresses[before + first] = frames[first]
                self._first[sample], self._count[sample] = before + first, end - first
                first = end
        for how, count in Counter(found.why(row)[0] for row in range(len(group.samples))).items():
            self._ends["" if how is End.COMPLETE else how.sentence] += count
        for column in (group.samples, group.pc, group.values, group.start, group.at, group.size):
            del column[:]
        group.stack.clear()

    def _group(self, replay: Replay, pid: int, event: Attribute, finds: Finds) -> Waiting | None:
        """The maps that a process has now; None where nothing is known of its machine's registers."""
        reader = self._reader
        key = MACHINE_KEYS.get(reader.features.machine, (EM_X86_64, 64) if reader.order == "<" else (0, 0))
        machine = MACHINES.get(key)
        if machine is None or key[0] not in REGISTERS:
            return None
        mappings: list[MappedRange] = []
        files: list[SnapshotFile | None] = []
        known: dict[tuple[str, str], SnapshotFile] = {}
        for start, end, number in replay.maps_of(pid):
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
        snapshot = SnapshotMappings(pid, "", 0, 0.0, mappings, files)
        code = CoreCode(SharedModules(snapshot, finds, self._opened), VdsoMemory(snapshot))
        numbers = REGISTERS[key[0]]
        bits = [bit for bit in range(64) if event.user_registers >> bit & 1]
        place_of = {numbers[bit]: at for at, bit in enumerate(bits) if bit in numbers}
        pc_at = place_of.pop(PC, -1)
        sp_at = place_of.get(machine.sp, -1)
        return Waiting(code, machine, array("I", place_of), list(place_of.values()), pc_at, sp_at)
