"""All goroutines of a Go program, by runtime.allgs. Parked goroutines have their registers in struct g.

A g is read by the offsets in the program's debug info or, without it, of its release (LAYOUTS, from the debug info of
programs of each release). Why it waits is read from runtime.waitReasonStrings or, without it, by release
(WAIT_REASONS); runtime.allgs is found by its symbol or, without it, as the slice in writable data whose first pointer
is goroutine 1: each g has its own address in sched.g. See Go's runtime/runtime2.go and traceback.go.

A goroutine of a live process may run while it is read. It is read until two readings are equal; after READINGS it has
no frames, and a reason.

Bounds: as many pointers as fit between allgs and the end of its memory; BAD_LIMIT entries that are not goroutines;
SCANNED bytes of data; READINGS of each goroutine.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import WhenceError
from whence.dwarf import DebugInfo
from whence.dwarf.variables import Variables
from whence.gopclntab.buildinfo import go_release, go_version
from whence.gopclntab.find import symbol_extent, symbol_value
from whence.procmap.mapping import Kind
from whence.ranges.strings import StringSpace
from whence.unwind.memory import Memory, Unreadable
from whence.unwind.steps import End, Unwound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from whence.objects.interface import ObjectFile
    from whence.unwind.modules import Module, Modules
    from whence.unwind.unwinder import Unwinder

LONGEST_G = 4096  # bytes; larger offsets are rejected
SMALLEST_STACK = 2048  # bytes of a goroutine's stack
READINGS = 4  # per goroutine of a live process
STRING_BYTES, MOST_REASONS, LONGEST_REASON = 16, 256, 64
SCAN_BIT = 0x1000
IDLE, RUNNING, SYSCALL, WAITING, DEAD, LEAKED, DEAD_EXTRA = 0, 2, 3, 4, 6, 10, 11
STATUSES = {
    0: "idle", 1: "runnable", 2: "running", 3: "syscall", 4: "waiting", 6: "dead", 8: "copystack", 9: "preempted",
    10: "leaked", 11: "waiting for cgo callback",
}  # fmt: skip
BAD_LIMIT = 4096  # invalid entries of allgs
SCANNED = 64 << 20  # bytes of writable data searched for allgs
PIECE = 4096  # bytes read at once; memory starts at pages
LOWEST = 0x10000  # valid address
MOST = 1 << 40  # goroutines of a slice, before memory bounds it


class GLayout(NamedTuple):
    """Offsets in struct g of 64-bit machines. `parent` is -1 if g does not have its creator's number."""

    bp: int
    syscall_sp: int
    syscall_pc: int
    status: int
    goid: int
    wait_since: int
    wait_reason: int
    locked: int
    parent: int
    go_pc: int
    start_pc: int
    stack_low: int = 0
    stack_high: int = 8
    sp: int = 0x38
    pc: int = 0x40
    self: int = 0x48


PARENT = "parentGoid"
MEMBERS = (  # of runtime.g, in the order of Layout
    "sched.bp", "syscallsp", "syscallpc", "atomicstatus", "goid", "waitsince", "waitreason", "lockedm", PARENT, "gopc",
    "startpc", "stack.lo", "stack.hi", "sched.sp", "sched.pc", "sched.g",
)  # fmt: skip
_TO_20 = GLayout(104, 112, 120, 144, 152, 168, 176, 232, -1, 296, 312)
_TO_22 = GLayout(104, 112, 120, 144, 152, 168, 176, 208, 272, 280, 296)
_TO_24 = GLayout(104, 112, 120, 152, 160, 176, 184, 216, 280, 288, 304)
_25 = GLayout(96, 104, 112, 144, 152, 168, 176, 208, 272, 280, 296)
_SINCE_26 = GLayout(96, 104, 112, 144, 152, 168, 176, 208, 280, 288, 304)
LAYOUTS = {
    17: _TO_20, 18: _TO_20, 19: _TO_20, 20: _TO_20, 21: _TO_22, 22: _TO_22, 23: _TO_24, 24: _TO_24, 25: _25,
    26: _SINCE_26, 27: _SINCE_26,
}  # fmt: skip

_REASONS_17 = (
    "", "GC assist marking", "IO wait", "chan receive (nil chan)", "chan send (nil chan)", "dumping heap",
    "garbage collection", "garbage collection scan", "panicwait", "select", "select (no cases)", "GC assist wait",
    "GC sweep wait", "GC scavenge wait", "chan receive", "chan send", "finalizer wait", "force gc (idle)",
    "semacquire", "sleep", "sync.Cond.Wait", "timer goroutine (idle)", "trace reader (blocked)", "wait for GC cycle",
    "GC worker (idle)", "preempted", "debug call",
)  # fmt: skip
_REASONS_20 = (
    *_REASONS_17[:21], "sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock", *_REASONS_17[22:25],
    "GC worker (active)", "preempted", "debug call", "GC mark termination", "stopping the world",
)  # fmt: skip
_REASONS_22 = (
    *_REASONS_20, "flushing proc caches", "trace goroutine status", "trace proc status", "page trace flush",
    "coroutine",
)  # fmt: skip
_REASONS_23 = (*_REASONS_22, "GC weak to strong wait")
_REASONS_24 = (
    *_REASONS_23[:24], "sync.WaitGroup.Wait", *_REASONS_23[24:], "synctest.Run", "synctest.Wait",
    "chan receive (synctest)", "chan send (synctest)", "select (synctest)",
)  # fmt: skip
_REASONS_25 = (
    *_REASONS_24[:18], "GOMAXPROCS updater (idle)", *_REASONS_24[18:-3], "chan receive (durable)",
    "chan send (durable)", "select (durable)", "sync.WaitGroup.Wait (durable)", "cleanup wait",
)  # fmt: skip
_REASONS_26 = (
    "", "GC assist marking", "IO wait", "dumping heap", "garbage collection", "garbage collection scan", "panicwait",
    "GC assist wait", "GC sweep wait", "GC scavenge wait", "finalizer wait", "force gc (idle)",
    "GOMAXPROCS updater (idle)", "semacquire", "sleep", "chan receive (nil chan)", "chan send (nil chan)",
    "select (no cases)", "select", "chan receive", "chan send", "sync.Cond.Wait", "sync.Mutex.Lock",
    "sync.RWMutex.RLock", "sync.RWMutex.Lock", "sync.WaitGroup.Wait", "trace reader (blocked)", "wait for GC cycle",
    "GC worker (idle)", "GC worker (active)", "preempted", "debug call", "GC mark termination", "stopping the world",
    "flushing proc caches", "trace goroutine status", "trace proc status", "page trace flush", "coroutine",
    "GC weak to strong wait", "synctest.Run", "synctest.Wait", "chan receive (durable)", "chan send (durable)",
    "select (durable)", "sync.WaitGroup.Wait (durable)", "cleanup wait",
)  # fmt: skip
WAIT_REASONS = {
    17: _REASONS_17, 18: _REASONS_17, 19: _REASONS_17, 20: _REASONS_20, 21: _REASONS_20, 22: _REASONS_22,
    23: _REASONS_23, 24: _REASONS_24, 25: _REASONS_25, 26: _REASONS_26, 27: _REASONS_26,
}  # fmt: skip

WRAPPER_ID = {  # funcID_wrapper
    17: 21, 18: 21, 19: 21, 20: 21, 21: 21, 22: 22, 23: 22, 24: 22, 25: 23, 26: 23, 27: 23,
}  # fmt: skip
OLDEST, NEWEST = min(LAYOUTS), max(LAYOUTS)


class GoroutineStack(NamedTuple):
    """A goroutine and its stack. `state` is Go's text: why it waits, or its status.

    `created_pc` is after the go statement that created it, in goroutine `parent` (0: unknown); `start_pc` is its first
    function. `wait_since` is in nanoseconds of the system's monotonic clock (0: unknown).
    """

    goid: int
    address: int
    status: int
    state: str
    is_locked: bool
    wait_since: int
    parent: int
    created_pc: int
    start_pc: int
    unwound: Unwound


class Goroutines(NamedTuple):
    """The goroutines of a process in order of runtime.allgs. `version` is Go's; `problems` says what is missing."""

    version: str
    release: int
    stacks: list[GoroutineStack]
    problems: list[str]
    wrappers: frozenset[int] = frozenset()  # pcs in compiler-generated functions, which tracebacks hide


def read_goroutines(
    modules: Modules,
    memory: Memory,
    unwinder: Unwinder,
    threads: Iterable[Unwound],
    forget: Callable[[], None] | None = None,
) -> Goroutines:
    """Return all goroutines except dead ones.

    Args:
        threads: the stacks of the process's threads.
        forget: makes the memory of a live process be read again.
    """
    program = _go_module(modules)
    if program is None:
        return Goroutines("", 0, [], ["no Go program is mapped, or its file cannot be opened"])
    module, bias = program
    assert module.elf is not None
    version = go_version(module.elf)
    release = go_release(version) or 0
    if unwinder.machine.word != 8:
        return Goroutines(version, release, [], ["goroutines of 32-bit programs are not supported"])
    slice_at = symbol_value(module.elf, "runtime.allgs")
    layout = None if slice_at is None else layout_of_debug_info(module.elf, slice_at)
    if layout is None or release < OLDEST:
        layout = LAYOUTS.get(release)
    if layout is None:
        name = f"Go version {version!r}" if version else "an unknown version of Go"
        return Goroutines(version, release, [], [f"the layout of struct g is unknown for {name} (known: 1.17 to 1.27)"])
    if forget is not None:
        forget()
    reasons = reasons_of_symbol(module.elf, memory, bias) or WAIT_REASONS[min(release, NEWEST)]
    reader = _Reader(memory, unwinder, layout, reasons, [*threads], forget)
    allgs = reader.slice_at(slice_at + bias) if slice_at is not None else reader.scan(_writable(module, bias))
    if allgs is None:
        how = "cannot be read" if slice_at is not None else "was not found (the program is stripped)"
        return Goroutines(version, release, [], [f"runtime.allgs {how}"])
    stacks = reader.read_all(*allgs)
    frames = {frame.pc: frame.lookup for stack in stacks for frame in stack.unwound.frames}
    functions = {pc: unwinder.code.go(pc, lookup) for pc, lookup in frames.items()}
    wrapper = WRAPPER_ID[min(release, NEWEST)]
    wrappers = frozenset(pc for pc, function in functions.items() if function is not None and function.id == wrapper)
    return Goroutines(version, release, stacks, reader.problems, wrappers)


def _go_module(modules: Modules) -> tuple[Module, int] | None:
    """Return the Go program among the mapped files, and its bias (runtime address - vaddr)."""
    for mapping, file in zip(modules.snapshot.mappings, modules.snapshot.file_of, strict=True):
        if file is None or mapping.kind is Kind.VDSO:
            continue
        module = modules.of_file(file, mapping)
        if module.elf is None or module.go is None or module.mapper is None:
            continue
        vaddr = module.mapper.vaddr(mapping, mapping.start)
        if vaddr is not None:
            return module, mapping.start - vaddr
    return None


def layout_of_debug_info(elf: ObjectFile, allgs: int) -> GLayout | None:
    """Return the offsets of struct g by the debug info of runtime.allgs, None without debug info."""
    offsets: dict[str, int] = {}
    with suppress(WhenceError):
        offsets = Variables(DebugInfo(elf, strings=StringSpace())).member_offsets(allgs, "runtime.g", MEMBERS)
    offsets.setdefault(PARENT, -1)
    if len(offsets) < len(MEMBERS) or max(offsets.values()) > LONGEST_G - 8:
        return None
    return GLayout(*(offsets[member] for member in MEMBERS))


def reasons_of_symbol(elf: ObjectFile, memory: Memory, bias: int) -> tuple[str, ...]:
    """Return the texts of runtime.waitReasonStrings, an array of Go strings; () if they cannot be read."""
    extent = symbol_extent(elf, "runtime.waitReasonStrings")
    if extent is None:
        return ()
    start, size = extent
    reasons = []
    try:
        for address in range(start + bias, start + bias + min(size, MOST_REASONS * STRING_BYTES), STRING_BYTES):
            string = memory.read(address, STRING_BYTES)
            pointer, length = int.from_bytes(string[:8], elf.order), int.from_bytes(string[8:], elf.order)
            if length > LONGEST_REASON:
                return ()
            reasons.append(memory.read(pointer, length).decode() if length else "")
    except (Unreadable, UnicodeDecodeError):
        return ()
    return tuple(reasons)


def _writable(module: Module, bias: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of the program's writable data in memory."""
    assert module.elf is not None
    for segment in module.elf.segments:
        if segment.is_loaded and segment.writable:
            yield segment.vaddr + bias, segment.vaddr + bias + segment.memory_size


class _Reader:
    """Reads the goroutines of one process."""

    def __init__(
        self,
        memory: Memory,
        unwinder: Unwinder,
        layout: GLayout,
        reasons: tuple[str, ...],
        threads: list[Unwound],
        forget: Callable[[], None] | None = None,
    ) -> None:
        self._forget, self._g_bytes = forget, max(layout) + 8
        self._memory, self._unwinder, self._layout, self._reasons = memory, unwinder, layout, reasons
        self._threads = threads
        self.problems: list[str] = []

    def slice_at(self, address: int) -> tuple[int, int] | None:
        """Return pointer and length of the slice at an address, None if it cannot be read or is empty."""
        try:
            pointer, length = self._unwinder.word(address), self._unwinder.word(address + 8)
        except Unreadable:
            return None
        return (pointer, length) if pointer and length else None

    def scan(self, ranges: Iterator[tuple[int, int]]) -> tuple[int, int] | None:
        """Find allgs without symbols: the slice whose first pointer is goroutine 1."""
        left = SCANNED
        for start, end in ranges:
            before = array("Q")  # the last words of the previous page
            for piece in range(start & -PIECE, min(end, start + left), PIECE):
                left -= PIECE
                try:
                    words = array("Q", self._memory.read(piece, PIECE))
                except Unreadable:
                    before = array("Q")
                    continue
                if self._unwinder.order == "big":
                    words.byteswap()
                words, before = before + words, words[-2:]
                for pointer, length, capacity in zip(words, words[1:], words[2:]):
                    if (
                        0 < length <= capacity < MOST
                        and pointer >= LOWEST
                        and not pointer % 8
                        and self._begins(pointer)
                    ):
                        return pointer, length
        return None

    def _begins(self, pointer: int) -> bool:
        try:
            g = self._unwinder.word(pointer)
            layout = self._layout
            return g >= LOWEST and not g % 8 and self._field(g, layout.self) == g and self._field(g, layout.goid) == 1
        except Unreadable:
            return False

    def _field(self, g: int, offset: int, size: int = 8) -> int:
        return int.from_bytes(self._memory.read(g + offset, size), self._unwinder.order)

    def read_all(self, pointer: int, length: int) -> list[GoroutineStack]:
        """Return the goroutines of allgs, each once."""
        region = self._memory.region(pointer)
        present = 0 if region is None else (region[1] - pointer) // 8
        if length > present:
            self.problems.append(f"runtime.allgs has {length:,} entries, of which {present:,} can be in memory")
        goroutines: list[GoroutineStack] = []
        seen: set[int] = set()
        bad = 0
        for index in range(min(length, present)):
            try:
                g = self._unwinder.word(pointer + 8 * index)
                if g in seen:
                    bad += 1
                else:
                    seen.add(g)
                    goroutine = self._read_stable(g)
                    if goroutine is None:
                        bad += 1
                    elif goroutine.status not in (IDLE, DEAD):
                        goroutines.append(goroutine)
            except Unreadable:
                bad += 1
            if bad >= BAD_LIMIT:
                self.problems.append(f"runtime.allgs is damaged: entries after number {index:,} were not read")
                break
        if bad:
            self.problems.append(f"{bad:,} entries of runtime.allgs are not goroutines")
        return goroutines

    def _read_stable(self, g: int) -> GoroutineStack | None:
        """Read a goroutine until two readings are equal; None if it is not one. Raises Unreadable."""
        goroutine = self._read(g)
        if self._forget is None:
            return goroutine
        for _ in range(READINGS - 1):
            previous = goroutine
            self._forget()
            goroutine = self._read(g)
            if goroutine == previous:
                return goroutine
        if goroutine is None:
            return None
        return goroutine._replace(unwound=Unwound((), End.NO_REGISTERS, "the goroutine ran while it was read"))

    def _read(self, g: int) -> GoroutineStack | None:
        """Read a goroutine; None if `g` is not one. Raises Unreadable."""
        layout, order = self._layout, self._unwinder.order
        data = self._memory.read(g, self._g_bytes)

        def word(offset: int, size: int = 8) -> int:
            return int.from_bytes(data[offset : offset + size], order)

        if g % 8 or word(layout.self) != g:
            return None
        status = word(layout.status, 4)
        reason = word(layout.wait_reason, 1)
        number = status & ~SCAN_BIT
        state = STATUSES.get(number, "???")
        if number in (WAITING, LEAKED) and reason:
            state = self._reasons[reason] if reason < len(self._reasons) else "unknown wait reason"
        if number == LEAKED:
            state += " (leaked)"
        if status & SCAN_BIT:
            state += " (scan)"
        unwound = Unwound((), End.NO_REGISTERS)
        if number not in (IDLE, DEAD, DEAD_EXTRA):
            self._unwinder.allow(SMALLEST_STACK)
            unwound = self._stack(word(layout.stack_low), word(layout.stack_high), number, word)
        parent = 0 if layout.parent < 0 else word(layout.parent)
        since = word(layout.wait_since) if number in (WAITING, SYSCALL) else 0
        return GoroutineStack(
            word(layout.goid), g, number, state, bool(word(layout.locked)), since, parent, word(layout.go_pc),
            word(layout.start_pc), unwound,
        )  # fmt: skip

    def _stack(self, low: int, high: int, status: int, word: Callable[[int], int]) -> Unwound:
        """Return the frames on the goroutine's own stack: from its saved registers, or of the thread that runs it."""
        if status == RUNNING:
            for thread in self._threads:
                own = tuple(frame for frame in thread.frames if low <= frame.sp <= high)
                if own:
                    return thread._replace(frames=own)
            return Unwound((), End.NO_REGISTERS, "the goroutine was running, but no thread is on its stack")
        machine = self._unwinder.machine
        layout = self._layout
        sp, pc, bp = word(layout.sp), word(layout.pc), word(layout.bp)
        if status == SYSCALL and word(layout.syscall_sp):
            sp, pc = word(layout.syscall_sp), word(layout.syscall_pc)
        if not low <= sp < high:
            return Unwound((), End.UNREADABLE, f"the stack pointer {sp:#x} is not on the goroutine's stack")
        unwound = self._unwinder.unwind(pc, {machine.sp: sp, machine.fp: bp})
        frames = tuple(frame for frame in unwound.frames if low <= frame.sp <= high)
        function = self._unwinder.code.go(pc, pc)
        if frames and function is not None and pc > function.entry:
            frames = (frames[0]._replace(exact=False), *frames[1:])  # it continues after its call of the scheduler
        return unwound._replace(frames=frames)
