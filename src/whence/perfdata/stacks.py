"""Stacks of users' code from registers and stack bytes (`perf record --call-graph dwarf`), by whence.unwind.

What a sample holds behind its call chain: u64 ABI (0: no registers, 1: of a 32-bit program, 2: of a 64-bit one), a u64
for each register of the event's mask, u64 size of the stack's bytes, the bytes from the stack pointer on, and how many
of them are valid. Unwinding needs the files that were mapped, so it waits until a Locator is there: until then such
samples have their innermost frame.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from whence._base.cores import available, share
from whence._base.errors import ProfileError, WhenceError, without_file
from whence._base.lru import Lru
from whence._base.records import Record, field
from whence.kernels.columns import Column
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import EM_386, EM_AARCH64, EM_X86_64
from whence.perfdata.kernels import constants
from whence.perfdata.kernels.copies import Copies, abi_of, keep
from whence.perfdata.kernels.replay import grouped
from whence.procmap.mapping import Kind, kind_of
from whence.procmap.mapping import Mapping as MappedRange
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.procmap.vdso import own_vdso
from whence.samples import bounds
from whence.unwind.cfi import FrameSection
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
    from whence.perfdata.jitdump import JitCode
    from whence.perfdata.kernels.records import Records
    from whence.perfdata.kernels.replay import Replay
    from whence.perfdata.source import ByteSource
    from whence.samples.model import ProfileData
    from whence.unwind.cfi import Fde
    from whence.unwind.kernels.cfi import CfiTable
    from whence.unwind.memory import Memory

    class Recording(Protocol):
        """What is needed of a recording that was read."""

        records: Records
        events: list[Attribute]
        features: Any
        order: str
        sources: list[ByteSource]

        def new_replay(self) -> Replay: ...

        def fill(self, profile: ProfileData, replay: Replay) -> None: ...

        def map_facts(self, number: int) -> Any: ...

        jit_code: dict[int, JitCode]
        jit_times: dict[int, list[tuple[int, int]]]


PC = -1
# perf's numbers of registers (arch/*/include/uapi/asm/perf_regs.h of Linux), by machine: DWARF's
X86_64_REGISTERS = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, 8: PC, **{16 + at: 8 + at for at in range(8)}}
I386_REGISTERS = {0: 0, 1: 3, 2: 1, 3: 2, 4: 6, 5: 7, 6: 5, 7: 4, 8: PC}
AARCH64_REGISTERS = {**{at: at for at in range(32)}, 32: PC}
MACHINE_KEYS = {"x86_64": (EM_X86_64, 64), "aarch64": (EM_AARCH64, 64), "i686": (EM_386, 32), "i386": (EM_386, 32)}
REGISTERS = {EM_X86_64: X86_64_REGISTERS, EM_386: I386_REGISTERS, EM_AARCH64: AARCH64_REGISTERS}
WITH_32_BITS = {(EM_X86_64, 64): (EM_386, 32)}  # what else a kernel runs
MACHINE_OF = {MACHINES[key].name: key[0] for key in MACHINE_KEYS.values()}
SAMPLES_TOGETHER = 1 << 12  # that are unwound at a time: their bytes are in memory
SETTINGS_KEPT = 64  # whose code was looked at last
TIME = itemgetter(0)


class SharedModules(Modules):
    """The files of a process, those that others have mapped too opened once."""

    def __init__(self, snapshot: SnapshotMappings, locator: Locator, opened: dict[tuple[str, str], Module]) -> None:
        super().__init__(snapshot, locator)
        self._find, self._all = locator.find, opened

    def of_file(self, file: SnapshotFile, mapping: MappedRange | None = None) -> Module:
        key = file.path, file.build_id
        found = self._all.get(key)
        if found is None:
            own = "" if file.build_id else self._find(path=file.path, kinds=(EXECUTABLE,)).path
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
    """The code of a process at a time: mapped files, and generated code by what its compiler recorded.

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


class Setting(Record):
    """What a process has mapped, from a time on. What generated code there is only grows."""

    pid: int
    since: int  # when the first of its samples was taken
    maps: list[Placed]
    generated: list[Placed]  # code that was there then


class Batch(Record):
    """Samples that are unwound at a time, and what each process has mapped then, by number. `taken` has those of one
    kind together: their setting, copies, the bytes that these lie in, their event and the ABI of their registers."""

    samples: Column
    settings: dict[int, Setting]
    taken: list[tuple[Setting, Copies, memoryview, Attribute, int]] = field(default_factory=list)


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


def picked_registers(event: Attribute, machine: Machine | None) -> tuple[list[int], list[int]]:
    """Which of the registers that samples of an event have are wanted: the pc, the stack pointer, then others, by their
    place in the sample; and what DWARF calls those behind the pc. None where not both of the two are there."""
    if machine is None:
        return [], []
    numbers = REGISTERS[MACHINE_OF[machine.name]]
    bits = [bit for bit in range(64) if event.user_registers >> bit & 1]
    places = {numbers[bit]: place for place, bit in enumerate(bits) if bit in numbers}
    if PC not in places or machine.sp not in places:
        return [], []
    others = [number for number in places if number not in (PC, machine.sp)]
    wanted = [PC, machine.sp, *others]
    return [places[number] for number in wanted], wanted[1:]


class UserStacks:
    """The samples of a recording that wait to be unwound."""

    def __init__(self, reader: Recording) -> None:
        self._reader = reader
        self._cores = min(2, available())
        self._forget()
        self._times = {pid: sorted(times) for pid, times in reader.jit_times.items()}
        self._opened: dict[tuple[str, str], Module] = {}
        self._generated: dict[int, FrameSection] = {}  # of generated code, by map
        self._budget = bounds.writing(0, "")
        self._unwinders: Lru[tuple[int, str], tuple[Setting, int, SampleUnwinder]] = Lru(SETTINGS_KEPT)
        self._same: dict[tuple[Placed, ...], Setting] = {}  # of processes without generated code, by their maps

    def unwind(self, profile: ProfileData, locator: Locator) -> None:
        """Give every sample its whole stack, by the files that `locator` finds. Never raises for what a sample or a
        file is; `profile.notes` says how many stacks end before their outermost frame, and why most of them do."""
        reader = self._reader
        samples = len(reader.records.sample_time)
        self._first, self._count = array("Q", bytes(8 * samples)), array("I", bytes(4 * samples))
        self._budget = bounds.writing(profile.stored, "maps of processes, as they change,")
        try:
            self._unwind_all(locator)
        except ProfileError as error:
            why = f"stacks of registers and stack bytes are not unwound further: {without_file(error)}"
            profile.notes = [*profile.notes, why]
        finally:
            for module in self._opened.values():
                module.close()
            self._opened.clear()
            self._unwinders.clear()
            self._same.clear()
        replay = reader.new_replay()
        replay.set_unwound(self._addresses.numbers(), self._first, self._count)
        replay.run()
        reader.fill(profile, replay)
        whole, total = self._ends.pop("", 0), self._ends.total()
        if total:
            why, _ = self._ends.most_common(1)[0]
            ends = f"{total:,} of {whole + total:,} unwound stacks are not whole; most often: {why}"
            profile.notes = [*profile.notes, ends]
        if self._continued:
            seam = f"{self._continued:,} stacks continue, where the copy of the stack ends, by recorded frame pointers"
            profile.notes = [*profile.notes, seam]
        self._forget()

    def _forget(self) -> None:
        """What was found; it is found anew when it is asked for once more."""
        self._ends: Counter[str] = Counter()
        self._continued = 0  # stacks that end by a call chain
        self._addresses = Column("Q")  # of all stacks, one behind the other
        self._first, self._count = array("Q"), array("I")  # by sample: where its addresses begin, how many there are

    def _unwind_all(self, locator: Locator) -> None:
        """Go over all samples in order of time, and unwind those of one process with the same maps together. While a
        batch is unwound, the next one is taken on another core: what that costs is waiting for the file's pages."""
        reader = self._reader
        replay = reader.new_replay()
        settings: dict[int, Setting] = {}
        latest: dict[int, int] = {}  # of processes, by number
        samples, of = Column("I"), Column("Q")
        with reader.records.sample_thread.numbers() as threads, reader.records.sample_time.numbers() as times:
            batch = Batch(samples, {})
            while True:
                stop = replay.gather(samples, of, SAMPLES_TOGETHER)
                if stop not in (constants.FULL, constants.END):
                    pid = threads[stop] >> 32
                    latest[pid] = replay.settings_met
                    settings[replay.settings_met] = self._setting(replay, pid, times[stop])
                    continue
                before, batch = batch, Batch(samples, settings)
                both = [partial(self._take_batch, batch, of), partial(self._unwind_batch, before, locator)]
                share(range(self._cores), both, lambda _core, work: work())
                if stop == constants.END:
                    break
                samples, of = Column("I"), Column("Q")
                settings = {number: settings[number] for number in latest.values()}
            self._unwind_batch(batch, locator)

    def _setting(self, replay: Replay, pid: int, time: int) -> Setting:
        """What a process has mapped now; the same object where another one had the same, without generated code."""
        found, code = replay.maps_of(pid), list(map(Placed._make, replay.code_of(pid)))
        self._budget.charge(bounds.MAPPING * len(found) + bounds.ENTRY * len(code))
        if pid in self._times or code:
            return Setting(pid, time, list(map(Placed._make, found)), code)
        flags = self._reader.records.map_flags
        key = tuple(Placed(*one) for one in found if not flags[one[2]] & constants.MAP_DATA)
        if key not in self._same:
            self._same[key] = Setting(pid, time, list(key), code)
        return self._same[key]

    def _take_batch(self, batch: Batch, of: Column) -> None:
        """Take the registers and copies of samples that were gathered, those of one kind together."""
        ordered, keys, ends = grouped(batch.samples, of)
        first = 0
        with ordered.numbers() as all_samples, keys.numbers() as all_keys, ends.numbers() as all_ends:
            for key, end in zip(all_keys, all_ends):
                waiting, first = all_samples[first:end], end
                while len(waiting):
                    taken = self._taken(waiting)
                    batch.taken.append((batch.settings[key >> constants.SETTING_SHIFT], *taken))
                    waiting = taken[0].rest.numbers()

    def _unwind_batch(self, batch: Batch, locator: Locator) -> None:
        """Unwind the samples that were taken."""
        samples = batch.samples
        if not len(samples):
            return
        until = self._reader.records.sample_time[samples[len(samples) - 1]]
        for setting, copies, data, event, abi in batch.taken:
            machine = self._machine(abi)
            if abi == constants.ABI_NONE:
                self._ends["samples without registers"] += len(copies.sample)
            elif machine is None or not len(copies.pc):
                self._ends["no registers that are known of this machine"] += len(copies.sample)
            else:
                self._unwind_copies(copies, data, event, self._unwinder(setting, until, machine, locator))
        self._forget_bytes(samples)

    def _unwinder(self, setting: Setting, until: int, machine: Machine, locator: Locator) -> SampleUnwinder:
        """What unwinds samples of a setting; made anew when generated code came."""
        times = self._times.get(setting.pid, [])
        known = self._unwinders.pop((id(setting), machine.name), None)
        pieces = bisect_right(times, until, key=TIME)
        if known is None or known[0] is not setting or known[1] != pieces:
            new = times[bisect_right(times, setting.since, key=TIME) : pieces]
            code = self._code(setting, [number for _, number in new], machine, locator)
            known = setting, pieces, SampleUnwinder(code, machine, self._byte_order)
        self._unwinders[id(setting), machine.name] = known  # which keeps it
        return known[2]

    def _taken(self, samples: memoryview[int]) -> tuple[Copies, memoryview, Attribute, int]:
        """Registers and copies of the stack of those samples that are of the first one's event, stream and ABI; the
        bytes of the stream, the event and the ABI."""
        records = self._reader.records
        event = self._reader.events[records.sample_event[samples[0]]]
        data = self._reader.sources[records.sample_user[samples[0]] >> constants.SOURCE_SHIFT].view()
        count = event.user_registers.bit_count()
        abi = abi_of(records, samples[0], data, count)
        machine = self._machine(abi)
        copies = Copies()
        has_stack = bool(event.sample_type & constants.HAS_STACK_USER)
        picked, _ = picked_registers(event, machine)
        copies.take(records, samples, data, count, has_stack * event.user_stack, bytes(picked))
        return copies, data, event, abi

    def _unwind_copies(self, copies: Copies, data: memoryview, event: Attribute, unwinder: SampleUnwinder) -> None:
        """Unwind samples that were taken, and note what was found."""
        _, numbers = picked_registers(event, unwinder.machine)
        pc, values, start = copies.pc.numbers(), copies.values.numbers(), copies.start.numbers()
        found = unwinder.stacks(
            StackSamples(pc, values, array("I", numbers), start, copies.at.numbers(), copies.size.numbers(), data)
        )
        samples = copies.sample.numbers()
        pcs, ends = found.pc, found.end
        if event.sample_type & constants.HAS_CALLCHAIN and found.ends()[End.UNREADABLE]:
            pcs, ends = self._with_chains(found, samples)
        keep(pcs, ends, samples, self._addresses, self._first, self._count)
        for end, count in found.ends().items():
            self._ends["" if end is End.COMPLETE else end.sentence] += count

    def _with_chains(self, found: SampleStacks, samples: memoryview[int]) -> tuple[Column, array[int]]:
        """Stacks, and where each ends; those that end with their copy continue by the call chain of the same sample."""
        pcs, ends = Column("Q"), array("Q")
        for row, sample in enumerate(samples):
            frames = found.frames(row)
            if frames and found.why(row)[0] is End.UNREADABLE:
                chain = self._user_chain(sample)
                outermost = frames[-1] - (len(frames) > 1)  # chains have callers at the byte before the return address
                at = chain.index(outermost) + 1 if outermost in chain else len(chain)
                frames += [address + 1 for address in chain[at:]]
                self._continued += at < len(chain)
            pcs.extend(array("Q", frames))
            ends.append(len(pcs))
        return pcs, ends

    def _user_chain(self, sample: int) -> list[int]:
        """The user's part of a sample's call chain, innermost first."""
        records = self._reader.records
        stack = records.sample_stack[sample]
        items = [records.stack_item[at] for at in range(records.stack_first[stack], records.stack_first[stack + 1])]
        return [records.place_address[item] for item in items if records.place_mode[item] == constants.IN_USER]

    def _forget_bytes(self, samples: Column) -> None:
        """Samples were read: what lies before the last of them in its stream need not stay in memory. Raises
        ProfileError where bytes were not there any more: then no stack counts."""
        where = self._reader.records.sample_user[samples[len(samples) - 1]]
        source = self._reader.sources[where >> constants.SOURCE_SHIFT]
        source.forget(0, where & (1 << constants.SOURCE_SHIFT) - 1)
        try:
            for one in self._reader.sources:
                one.check()
        except ProfileError:
            self._count = array("I", bytes(4 * len(self._count)))
            self._ends.clear()
            raise

    def _machine(self, abi: int) -> Machine | None:
        """The machine of registers of an ABI; None where no registers of it are known here."""
        key = MACHINE_KEYS.get(self._reader.features.machine, (EM_X86_64, 64) if self._reader.order == "<" else (0, 0))
        if abi == constants.ABI_32:
            key = WITH_32_BITS.get(key, key)
        return MACHINES.get(key) if key[0] in REGISTERS else None

    @property
    def _byte_order(self) -> ByteOrder:
        return "little" if self._reader.order == "<" else "big"

    def _code(self, setting: Setting, new: list[int], machine: Machine, locator: Locator) -> RecordedCode:
        """The code of a process, with the generated code that came since its setting began."""
        reader = self._reader
        pieces = setting.generated + [self._whole(number) for number in new]
        self._budget.charge(bounds.MAPPING * len(pieces))
        mappings: list[MappedRange] = []
        files: list[SnapshotFile | None] = []
        known: dict[tuple[str, str], SnapshotFile] = {}
        generated: dict[int, FrameSection] = {}
        for start, end, number in overlaid(setting.maps, sorted(pieces), self._is_generated):
            if number in reader.jit_code:
                section = self._section(number, machine.bits)
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
        snapshot = SnapshotMappings(setting.pid, "", 0, 0.0, mappings, files)
        return RecordedCode(SharedModules(snapshot, locator, self._opened), VdsoMemory(snapshot), generated)

    def _is_generated(self, number: int) -> bool:
        """Whether generated code may lie in a map."""
        return bool(self._reader.records.map_flags[number] & constants.MAP_GENERATED)

    def _whole(self, number: int) -> Placed:
        code = self._reader.jit_code[number]
        return Placed(code.address, code.address + code.size, number)

    def _section(self, number: int, bits: int) -> FrameSection | None:
        """The call frame information of a map of generated code; None where its compiler wrote none."""
        code = self._reader.jit_code[number]
        if number not in self._generated and code.eh_frame:
            inside = [(code.address, code.address + code.size)]
            self._generated[number] = FrameSection(
                code.eh_frame, code.eh_frame_address, bits=bits, order=self._byte_order, code=inside
            )
        return self._generated.get(number)
