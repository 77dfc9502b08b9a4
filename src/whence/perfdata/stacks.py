"""Unwind user code from registers and stack copies (`perf record --call-graph dwarf`).

After its call chain such a sample has: u64 ABI (0: no registers, 1: 32-bit program, 2: 64-bit program), a u64 for each
register of the event's mask, u64 size of the stack copy, the bytes from the stack pointer up, and the number of valid
bytes. Unwinding needs the mapped files, so it is done when a Locator is known; until then such samples have their
innermost frame only.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from whence._base.cores import available, share
from whence._base.errors import ProfileError, WhenceError, without_file
from whence._base.lru import Lru
from whence._base.records import Record, field
from whence.kernels.columns import Column
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import EM_386, EM_AARCH64, EM_X86_64
from whence.perfdata.kernels import constants
from whence.perfdata.kernels.copies import Copies, abi_of, add_stacks
from whence.perfdata.kernels.replay import grouped
from whence.procmap.mapping import Kind, kind_of
from whence.procmap.mapping import Mapping as MappedRange
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.procmap.vdso import own_vdso
from whence.samples import bounds
from whence.unwind.cfi import FrameSection, Target
from whence.unwind.memory import Unreadable
from whence.unwind.modules import EXECUTABLE, CoreCode, Module, Modules
from whence.unwind.registers import MACHINES, Machine
from whence.unwind.samples import SampleStacks, SampleUnwinder, StackSamples
from whence.unwind.steps import End

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence._base.window import ByteOrder
    from whence.locator.locator import Locator
    from whence.perfdata.attributes import Attribute
    from whence.perfdata.kernels.replay import Replay
    from whence.perfdata.recording import Recording
    from whence.samples.model import ProfileData
    from whence.unwind.cfi import Fde
    from whence.unwind.kernels.cfi import CfiTable
    from whence.unwind.memory import Memory


PC = -1
# perf's register numbers (arch/*/include/uapi/asm/perf_regs.h of Linux) to DWARF's, by machine
X86_64_REGISTERS = {
    0: 0,
    1: 3,
    2: 2,
    3: 1,
    4: 4,
    5: 5,
    6: 6,
    7: 7,
    8: PC,
    **{16 + number: 8 + number for number in range(8)},
}
I386_REGISTERS = {0: 0, 1: 3, 2: 1, 3: 2, 4: 6, 5: 7, 6: 5, 7: 4, 8: PC}
AARCH64_REGISTERS = {**{number: number for number in range(32)}, 32: PC}
MACHINE_KEYS = {"x86_64": (EM_X86_64, 64), "aarch64": (EM_AARCH64, 64), "i686": (EM_386, 32), "i386": (EM_386, 32)}
REGISTERS = {EM_X86_64: X86_64_REGISTERS, EM_386: I386_REGISTERS, EM_AARCH64: AARCH64_REGISTERS}
WITH_32_BITS = {(EM_X86_64, 64): (EM_386, 32)}  # 32-bit programs of a 64-bit kernel
MACHINE_OF = {MACHINES[key].name: key[0] for key in MACHINE_KEYS.values()}
SAMPLES_TOGETHER = 1 << 12  # unwound at a time: their bytes are in memory
MOST_UNWINDERS = 64
TIME = itemgetter(0)


class SharedModules(Modules):
    """The files of a process; each file is opened once for all processes."""

    def __init__(self, snapshot: SnapshotMappings, locator: Locator, opened: dict[tuple[str, str], Module]) -> None:
        super().__init__(snapshot, locator)
        self._find, self._opened = locator.find, opened

    def of_file(self, file: SnapshotFile, mapping: MappedRange | None = None) -> Module:
        key = file.path, file.build_id
        module = self._opened.get(key)
        if module is None:
            path = "" if file.build_id else self._find(path=file.path, kinds=(EXECUTABLE,)).path
            module = self._opened[key] = Module(file, self._locator, path)
        return module


class VdsoMemory:
    """This machine's vDSO, for processes that had the same vDSO mapped."""

    def __init__(self, snapshot: SnapshotMappings) -> None:
        self._mapping = next((mapping for mapping in snapshot.mappings if mapping.kind is Kind.VDSO), None)
        self._data = b""
        with suppress(OSError, WhenceError):
            if self._mapping is not None:
                data = own_vdso()
                if ElfFile.from_bytes(data, "[vdso]").build_id == self._mapping.build_id:
                    self._data = data

    def read(self, address: int, size: int) -> bytes:
        offset = address - (self._mapping.start if self._mapping is not None else 0)
        if not self._data or not 0 <= offset <= len(self._data) - size:
            raise Unreadable(address, "in the sample")
        return self._data[offset : offset + size]

    def region(self, address: int) -> tuple[int, int] | None:
        return None


class RecordedCode(CoreCode):
    """The code of a process at one time: mapped files, and generated code.

    `generated` is the call frame information of generated code, by index of the mapping, for runtime addresses.
    """

    def __init__(self, modules: Modules, memory: Memory, generated: dict[int, FrameSection]) -> None:
        super().__init__(modules, memory)
        self._generated = generated

    def tables(self, index: int) -> tuple[int, list[CfiTable]]:
        section = self._generated.get(index)
        return super().tables(index) if section is None else (0, [section.table])

    def fde(self, address: int) -> tuple[Fde, int] | None:
        index = self._index(address)
        section = None if index is None else self._generated.get(index)
        if section is None:
            return super().fde(address)
        fde = section.find(address)
        return None if fde is None else (fde, 0)


class MapExtent(NamedTuple):
    """The addresses of a map, and its number."""

    start: int
    end: int
    number: int


class Setting(Record):
    """The maps of a process since a time. Generated code is only added to them."""

    pid: int
    since: int  # time of the first sample
    maps: list[MapExtent]
    generated: list[MapExtent]  # code at that time


class CopyGroup(Record):
    """Samples of one setting, event and ABI: their registers and stack copies, which are in `data`."""

    setting: Setting
    copies: Copies
    data: memoryview
    event: Attribute
    abi: int


class SampleBatch(Record):
    """Samples that are unwound at a time; `settings` by number."""

    samples: Column
    settings: dict[int, Setting]
    groups: list[CopyGroup] = field(default_factory=list)


def overlaid(
    maps: list[MapExtent], code: list[MapExtent], is_generated: Callable[[int], bool | None]
) -> list[MapExtent]:
    """Return maps with generated code in place of parts of generated maps. All are in order of address.

    >>> maps, code = [MapExtent(0, 9, 1), MapExtent(9, 20, 2)], [MapExtent(3, 5, 7), MapExtent(8, 12, 8)]
    >>> [tuple(extent) for extent in overlaid(maps, code, {1: True, 2: False}.get)]
    [(0, 3, 1), (3, 5, 7), (5, 8, 1), (8, 9, 8), (9, 20, 2)]
    """
    extents: list[MapExtent] = []
    first = 0
    for start, end, number in maps:
        if not is_generated(number):
            extents.append(MapExtent(start, end, number))
            continue
        while first < len(code) and code[first].end <= start:
            first += 1
        index = first
        while index < len(code) and code[index].start < end:
            piece = code[index]
            if piece.start > start:
                extents.append(MapExtent(start, piece.start, number))
            start, index = max(start, piece.start), index + 1
            extents.append(MapExtent(start, min(end, piece.end), piece.number))
            start = extents[-1].end
        if start < end:
            extents.append(MapExtent(start, end, number))
    return extents


def unwinding_registers(event: Attribute, machine: Machine | None) -> tuple[list[int], list[int]]:
    """Return the registers that unwinding needs: their indices in a sample, and the DWARF numbers of all but the pc.

    The pc is first, then the stack pointer, then the others. Both lists are empty if pc or stack pointer is missing.
    """
    if machine is None:
        return [], []
    numbers = REGISTERS[MACHINE_OF[machine.name]]
    bits = [bit for bit in range(64) if event.user_registers >> bit & 1]
    indices = {numbers[bit]: index for index, bit in enumerate(bits) if bit in numbers}
    if PC not in indices or machine.sp not in indices:
        return [], []
    others = [number for number in indices if number not in (PC, machine.sp)]
    registers = [PC, machine.sp, *others]
    return [indices[number] for number in registers], registers[1:]


class UserStacks:
    """The samples of a recording with registers and stack copies, to be unwound."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._cores = min(2, available())
        self._reset()
        self._times = {pid: sorted(times) for pid, times in recording.jit_times.items()}
        self._opened: dict[tuple[str, str], Module] = {}
        self._generated: dict[int, FrameSection] = {}  # of generated code, by map
        self._budget = bounds.writing(0, "")
        self._unwinders: Lru[tuple[int, str], tuple[Setting, int, SampleUnwinder]] = Lru(MOST_UNWINDERS)
        self._settings: dict[tuple[MapExtent, ...], Setting] = {}  # of processes without generated code, by their maps

    def unwind(self, profile: ProfileData, locator: Locator) -> None:
        """Give every sample its complete stack, with the files that `locator` finds.

        A bad sample or file never raises: `profile.notes` says how many stacks end early, and the most common reason.
        """
        recording = self._recording
        samples = len(recording.records.sample_time)
        self._first, self._count = array("Q", bytes(8 * samples)), array("I", bytes(4 * samples))
        self._budget = bounds.writing(profile.stored, "maps of processes, as they change,")
        try:
            self._unwind_all(locator)
        except ProfileError as error:
            profile.notes = [*profile.notes, f"unwinding of stack copies stopped: {without_file(error)}"]
        finally:
            for module in self._opened.values():
                module.close()
            self._opened.clear()
            self._unwinders.clear()
            self._settings.clear()
        replay = recording.new_replay()
        replay.set_unwound(self._addresses.numbers(), self._first, self._count)
        replay.run()
        recording.fill(profile, replay)
        complete, partial_stacks = self._ends.pop("", 0), self._ends.total()
        if partial_stacks:
            why, _ = self._ends.most_common(1)[0]
            note = (
                f"{partial_stacks:,} of {complete + partial_stacks:,} unwound stacks are incomplete; most often: {why}"
            )
            profile.notes = [*profile.notes, note]
        if self._continued:
            note = f"{self._continued:,} stacks continue past the end of their copy by recorded frame pointers"
            profile.notes = [*profile.notes, note]
        self._reset()

    def _reset(self) -> None:
        """Drop the results, which are computed again when they are needed again."""
        self._ends: Counter[str] = Counter()
        self._continued = 0  # stacks continued by a call chain
        self._addresses = Column("Q")  # of all stacks
        self._first, self._count = array("Q"), array("I")  # by sample: first address and number of addresses

    def _unwind_all(self, locator: Locator) -> None:
        """Visit all samples in order of time, and unwind samples of one process with the same maps together.

        While a batch is unwound, the next is read on another core: most of its cost is waiting for pages of the file.
        """
        recording = self._recording
        replay = recording.new_replay()
        settings: dict[int, Setting] = {}
        latest: dict[int, int] = {}  # setting of each process, by number
        samples, keys = Column("I"), Column("Q")
        with recording.records.sample_thread.numbers() as threads, recording.records.sample_time.numbers() as times:
            batch = SampleBatch(samples, {})
            while True:
                stop = replay.gather(samples, keys, SAMPLES_TOGETHER)
                if stop not in (constants.FULL, constants.END):
                    pid = threads[stop] >> 32
                    latest[pid] = replay.setting_count
                    settings[replay.setting_count] = self._setting(replay, pid, times[stop])
                    continue
                previous, batch = batch, SampleBatch(samples, settings)
                both = [partial(self._read_batch, batch, keys), partial(self._unwind_batch, previous, locator)]
                share(range(self._cores), both, lambda _core, work: work())
                if stop == constants.END:
                    break
                samples, keys = Column("I"), Column("Q")
                settings = {number: settings[number] for number in latest.values()}
            self._unwind_batch(batch, locator)

    def _setting(self, replay: Replay, pid: int, time: int) -> Setting:
        """Return the present maps of a process; processes with equal maps and no generated code share the object."""
        maps, code = replay.maps_of(pid), list(map(MapExtent._make, replay.code_of(pid)))
        self._budget.charge(bounds.MAPPING * len(maps) + bounds.ENTRY * len(code))
        if pid in self._times or code:
            return Setting(pid, time, list(map(MapExtent._make, maps)), code)
        flags = self._recording.records.map_flags
        key = tuple(MapExtent(*extent) for extent in maps if not flags[extent[2]] & constants.MAP_DATA)
        if key not in self._settings:
            self._settings[key] = Setting(pid, time, list(key), code)
        return self._settings[key]

    def _read_batch(self, batch: SampleBatch, keys: Column) -> None:
        """Read the registers and copies of gathered samples, grouped by kind."""
        ordered, group_keys, ends = grouped(batch.samples, keys)
        first = 0
        with ordered.numbers() as all_samples, group_keys.numbers() as all_keys, ends.numbers() as all_ends:
            for key, end in zip(all_keys, all_ends):
                remaining, first = all_samples[first:end], end
                while len(remaining):
                    group = self._read_group(remaining, batch.settings[key >> constants.SETTING_SHIFT])
                    batch.groups.append(group)
                    remaining = group.copies.rest.numbers()

    def _unwind_batch(self, batch: SampleBatch, locator: Locator) -> None:
        """Unwind the samples of a batch that was read."""
        samples = batch.samples
        if not len(samples):
            return
        until = self._recording.records.sample_time[samples[len(samples) - 1]]
        for group in batch.groups:
            machine = self._machine(group.abi)
            if group.abi == constants.ABI_NONE:
                self._ends["samples without registers"] += len(group.copies.sample)
            elif machine is None or not len(group.copies.pc):
                self._ends["registers of an unknown machine"] += len(group.copies.sample)
            else:
                self._unwind_copies(group, self._unwinder(group.setting, until, machine, locator))
        self._forget_bytes(samples)

    def _unwinder(self, setting: Setting, until: int, machine: Machine, locator: Locator) -> SampleUnwinder:
        """Return the unwinder of a setting; a new one if code was generated since it was made."""
        times = self._times.get(setting.pid, [])
        key = id(setting), machine.name
        pieces = bisect_right(times, until, key=TIME)
        cached = self._unwinders.get(key)
        if cached is None or cached[0] is not setting or cached[1] != pieces:
            new = times[bisect_right(times, setting.since, key=TIME) : pieces]
            code = self._code(setting, [number for _, number in new], machine, locator)
            cached = setting, pieces, SampleUnwinder(code, machine, self._byte_order)  # keeps the setting's id taken
            self._unwinders[key] = cached
        return cached[2]

    def _read_group(self, samples: memoryview[int], setting: Setting) -> CopyGroup:
        """Read the samples that have event, stream and ABI of the first sample."""
        records = self._recording.records
        event = self._recording.events[records.sample_event[samples[0]]]
        data = self._recording.sources[records.sample_user[samples[0]] >> constants.SOURCE_SHIFT].view()
        count = event.user_registers.bit_count()
        abi = abi_of(records, samples[0], data, count)
        copies = Copies()
        has_stack = bool(event.sample_type & constants.HAS_STACK_USER)
        indices, _ = unwinding_registers(event, self._machine(abi))
        copies.read(records, samples, data, count, has_stack * event.user_stack, bytes(indices))
        return CopyGroup(setting, copies, data, event, abi)

    def _unwind_copies(self, group: CopyGroup, unwinder: SampleUnwinder) -> None:
        """Unwind a group of samples, and store the stacks."""
        copies, event = group.copies, group.event
        _, registers = unwinding_registers(event, unwinder.machine)
        pc, values, start = copies.pc.numbers(), copies.values.numbers(), copies.start.numbers()
        offsets, sizes = copies.offset.numbers(), copies.size.numbers()
        stacks = unwinder.stacks(StackSamples(pc, values, array("I", registers), start, offsets, sizes, group.data))
        samples = copies.sample.numbers()
        pcs, ends = stacks.pc, stacks.end
        if event.sample_type & constants.HAS_CALLCHAIN and stacks.ends()[End.UNREADABLE]:
            pcs, ends = self._with_chains(stacks, samples)
        add_stacks(pcs, ends, samples, self._addresses, self._first, self._count)
        for end, count in stacks.ends().items():
            self._ends["" if end is End.COMPLETE else end.sentence] += count

    def _with_chains(self, stacks: SampleStacks, samples: memoryview[int]) -> tuple[Column, array[int]]:
        """Return the pcs and the end of each stack; stacks that leave their copy continue by the call chain."""
        pcs, ends = Column("Q"), array("Q")
        for row, sample in enumerate(samples):
            frames = stacks.frames(row)
            if frames and stacks.why(row)[0] is End.UNREADABLE:
                chain = self._user_chain(sample)
                outermost = frames[-1] - (len(frames) > 1)  # chains have the byte before a return address
                index = chain.index(outermost) + 1 if outermost in chain else len(chain)
                frames += [address + 1 for address in chain[index:]]
                self._continued += index < len(chain)
            pcs.extend(array("Q", frames))
            ends.append(len(pcs))
        return pcs, ends

    def _user_chain(self, sample: int) -> list[int]:
        """Return the user addresses of a sample's call chain, innermost first."""
        records = self._recording.records
        stack = records.sample_stack[sample]
        first, end = records.stack_first[stack], records.stack_first[stack + 1]
        items = [records.stack_item[row] for row in range(first, end)]
        return [records.place_address[item] for item in items if records.place_mode[item] == constants.IN_USER]

    def _forget_bytes(self, samples: Column) -> None:
        """Release the bytes before the last of some samples. Raise ProfileError if a file changed: no stack counts."""
        position = self._recording.records.sample_user[samples[len(samples) - 1]]
        source = self._recording.sources[position >> constants.SOURCE_SHIFT]
        source.forget(0, position & (1 << constants.SOURCE_SHIFT) - 1)
        try:
            for each in self._recording.sources:
                each.check()
        except ProfileError:
            self._count = array("I", bytes(4 * len(self._count)))
            self._ends.clear()
            raise

    def _machine(self, abi: int) -> Machine | None:
        """Return the machine of registers of an ABI; None if its registers are unknown."""
        name, order = self._recording.features.machine, self._recording.order
        key = MACHINE_KEYS.get(name, (EM_X86_64, 64) if order == "<" else (0, 0))
        if abi == constants.ABI_32:
            key = WITH_32_BITS.get(key, key)
        return MACHINES.get(key) if key[0] in REGISTERS else None

    @property
    def _byte_order(self) -> ByteOrder:
        return "little" if self._recording.order == "<" else "big"

    def _code(self, setting: Setting, new: list[int], machine: Machine, locator: Locator) -> RecordedCode:
        """Return the code of a process: its setting, and `new` maps of code that was generated since."""
        recording = self._recording
        pieces = setting.generated + [self._code_extent(number) for number in new]
        self._budget.charge(bounds.MAPPING * len(pieces))
        mappings: list[MappedRange] = []
        files: list[SnapshotFile | None] = []
        by_identity: dict[tuple[str, str], SnapshotFile] = {}
        generated: dict[int, FrameSection] = {}
        for start, end, number in overlaid(setting.maps, sorted(pieces), self._is_generated):
            if number in recording.jit_code:
                section = self._frame_section(number, machine.bits)
                if section is not None:
                    generated[len(mappings)] = section
                mappings.append(MappedRange("", start, end, 0, "", Kind.ANONYMOUS))
                files.append(None)
                continue
            path, build_id, offset, flags = recording.map_facts(number)
            if flags & constants.MAP_DATA:
                continue
            first = recording.records.map_start[number]
            kind, shown, deleted = kind_of("" if path.startswith("//") else path)
            if kind is Kind.VDSO:
                offset = first - start  # the mapping shows the file from its first byte
            mappings.append(MappedRange(shown, start, end, offset + start - first, build_id, kind, deleted=deleted))
            file = None
            if kind.has_file and kind is not Kind.MEMFD:
                file = by_identity.setdefault((shown, build_id), SnapshotFile(shown, build_id, None))
            files.append(file)
        snapshot = SnapshotMappings(setting.pid, "", 0, 0.0, mappings, files)
        return RecordedCode(SharedModules(snapshot, locator, self._opened), VdsoMemory(snapshot), generated)

    def _is_generated(self, number: int) -> bool:
        """Return True if a map may contain generated code."""
        return bool(self._recording.records.map_flags[number] & constants.MAP_GENERATED)

    def _code_extent(self, number: int) -> MapExtent:
        code = self._recording.jit_code[number]
        return MapExtent(code.address, code.address + code.size, number)

    def _frame_section(self, number: int, bits: int) -> FrameSection | None:
        """Return the call frame information of a map of generated code; None if its compiler wrote none."""
        code = self._recording.jit_code[number]
        if number not in self._generated and code.eh_frame:
            extent = [(code.address, code.address + code.size)]
            self._generated[number] = FrameSection(
                code.eh_frame, code.eh_frame_address, target=Target(bits, self._byte_order), code=extent
            )
        return self._generated.get(number)
