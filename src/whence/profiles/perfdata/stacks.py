"""Stacks of users' code from registers and stack bytes (`perf record --call-graph dwarf`), by whence.unwind.

What a sample holds behind its call chain: u64 ABI (0: no registers, 1: of a 32-bit program, 2: of a 64-bit one), a u64
for each register of the event's mask, u64 size of the stack's bytes, the bytes from the stack pointer on, and how many
of them are valid. Unwinding needs the files that were mapped, so it waits until a Locator is there: until then such
samples have their innermost frame.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from whence.elf.kernels.constants import EM_386, EM_AARCH64, EM_X86_64
from whence.procmap.mapping import Kind, kind_of
from whence.procmap.mapping import Mapping as MappedRange
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.profiles.perfdata.kernels import constants
from whence.profiles.perfdata.kernels.replay import END
from whence.unwind import End
from whence.unwind.memory import Unreadable
from whence.unwind.modules import EXECUTABLE, CoreCode, Module, Modules
from whence.unwind.registers import MACHINES, Machine
from whence.unwind.unwinder import Unwinder

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
STACK_MOST = 1 << 16


class Code(CoreCode):
    """The executable memory of a process at a time."""

    def __init__(self, modules: SharedModules, memory: StackMemory) -> None:
        super().__init__(modules, memory)
        self._files = modules

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a mapped file. Raises Unreadable."""
        snapshot = self._files.snapshot
        at = self._at(address)
        file = None if at is None else snapshot.file_of[at]
        if at is not None and file is not None:
            mapping, elf = snapshot.mappings[at], self._files.of_file(file).elf
            begin = mapping.offset + address - mapping.start
            if elf is not None and begin + size <= elf.size:
                return bytes(elf.data[begin : begin + size])
        raise Unreadable(address, "in the sample")


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


class StackMemory:
    """What a sample keeps of its process's memory: the bytes of its stack; code comes from files."""

    def __init__(self) -> None:
        self.start, self.stack = 0, b""
        self.code: Code | None = None

    def read(self, address: int, size: int) -> bytes:
        at = address - self.start
        if at >= 0 and at + size <= len(self.stack):
            return self.stack[at : at + size]
        if self.code is None:
            raise Unreadable(address, "in the sample")
        return self.code.read(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        end = self.start + len(self.stack)
        return (self.start, end) if self.start <= address < end else None


class UserStacks:
    """The samples of a recording that wait to be unwound."""

    def __init__(self, reader: Recording) -> None:
        self._reader = reader
        self._memory = StackMemory()

    def unwind(self, profile: Profile, finds: Finds) -> None:
        """Give every sample its whole stack, by the files that a Locator finds. Never raises for what a sample or a
        file is; `profile.notes` tells how many stacks end before their outermost frame, and why most of them do."""
        reader = self._reader
        replay = reader.new_replay()
        ends: Counter[str] = Counter()
        opened: dict[tuple[str, str], Module] = {}
        try:
            for addresses in self._stacks(replay, finds, opened, ends):
                replay.finish(addresses)
        finally:
            for module in opened.values():
                module.close()
        reader.fill(profile, replay)
        whole, total = ends.pop("", 0), ends.total()
        if total:
            why, _ = ends.most_common(1)[0]
            profile.notes.append(f"{total:,} of {whole + total:,} unwound stacks are not whole; most often: {why}")

    def _stacks(
        self, replay: Replay, finds: Finds, opened: dict[tuple[str, str], Module], ends: Counter[str]
    ) -> Iterator[memoryview]:
        """The addresses in user code of each sample that the replay stops at."""
        from array import array

        records = self._reader.records
        unwinders: dict[int, tuple[int, int, Unwinder | None]] = {}
        with (
            records.sample_thread.numbers() as threads,
            records.sample_user.numbers() as where,
            records.sample_event.numbers() as events,
        ):
            while (sample := replay.run(True)) != END:
                pid = threads[sample] >> 32
                taken = self._taken(where[sample], self._reader.events[events[sample]])
                if taken is None:
                    ends["samples without registers"] += 1
                    yield memoryview(array("Q"))
                    continue
                bits, machine, registers, pc, stack = taken
                epoch = replay.epoch_of(pid)
                known = unwinders.get(pid)
                if known is None or known[:2] != (epoch, bits):
                    unwinder = self._unwinder(replay, pid, machine, finds, opened)
                    known = unwinders[pid] = epoch, bits, unwinder
                unwinder = known[2]
                if unwinder is None or machine is None:
                    ends["no registers of this machine are known"] += 1
                    yield memoryview(array("Q", [pc]))
                    continue
                self._memory.start, self._memory.stack = registers.get(machine.sp, 0), stack
                self._memory.code = unwinder.code  # type: ignore[assignment]
                unwinder.steps_left += STACK_MOST
                found = unwinder.unwind(pc, registers)
                reason = "" if found.end is End.COMPLETE else found.end.sentence
                ends[reason] += 1
                yield memoryview(array("Q", [frame.lookup for frame in found.frames]))

    def _taken(self, where: int, event: Attribute) -> tuple[int, Machine | None, dict[int, int], int, bytes] | None:
        """What a sample holds: the bits of its program, its machine, registers, pc, and the bytes of its stack."""
        reader = self._reader
        order = reader.order
        mask, count = event.user_registers, event.user_registers.bit_count()
        data = bytes(reader.bytes_at(where, 8 * (count + 3) + event.user_stack))
        if not event.sample_type & constants.HAS_REGS_USER or len(data) < 8 * (count + 1):
            return None
        abi, *values = struct.unpack_from(f"{order}{count + 1}Q", data)
        if abi == ABI_NONE:
            return None
        key = MACHINE_KEYS.get(reader.features.machine, (EM_X86_64, 64) if order == "<" else (0, 0))
        if abi == ABI_32 and key == (EM_X86_64, 64):
            key = EM_386, 32
        numbers = REGISTERS.get(key[0], {})
        bits = [bit for bit in range(64) if mask >> bit & 1]
        registers = {numbers[bit]: value for bit, value in zip(bits, values, strict=True) if bit in numbers}
        pc = registers.pop(PC, 0)
        stack = b""
        if event.sample_type & constants.HAS_STACK_USER:
            at = 8 * (count + 1)
            (size,) = struct.unpack_from(order + "Q", data, at)
            if size and at + 16 + size <= len(data):
                (valid,) = struct.unpack_from(order + "Q", data, at + 8 + size)
                stack = data[at + 8 : at + 8 + min(size, valid)]
        return key[1], MACHINES.get(key), registers, pc, stack

    def _unwinder(
        self, replay: Replay, pid: int, machine: Machine | None, finds: Finds, opened: dict[tuple[str, str], Module]
    ) -> Unwinder | None:
        """What unwinds the process with the maps that it has now."""
        if machine is None:
            return None
        mappings: list[MappedRange] = []
        files: list[SnapshotFile | None] = []
        known: dict[tuple[str, str], SnapshotFile] = {}
        for start, end, number in replay.maps_of(pid):
            path, build_id, offset, flags = self._reader.map_facts(number)
            if flags & constants.MAP_DATA:
                continue
            first = self._reader.records.map_start[number]
            kind, shown, deleted = kind_of(path if not path.startswith("//") else "")
            mapping = MappedRange(shown, start, end, offset + start - first, build_id, kind, deleted=deleted)
            mappings.append(mapping)
            file = None
            if kind.has_file and kind is not Kind.MEMFD:
                file = known.setdefault((shown, build_id), SnapshotFile(shown, build_id, None))
            files.append(file)
        snapshot = SnapshotMappings(pid, "", 0, 0.0, mappings, files)
        code = Code(SharedModules(snapshot, finds, opened), self._memory)
        order = "little" if self._reader.order == "<" else "big"
        return Unwinder(machine, code, self._memory, order)  # type: ignore[arg-type]
