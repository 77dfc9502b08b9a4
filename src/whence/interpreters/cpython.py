"""CPython 3.7 to 3.15 in a process or a core: where its runtime is, and the frames of its threads.

`_PyRuntime` is found by the section `.PyRuntime`, by its symbol, or by the cookie of `_Py_DebugOffsets` in writable
data that is mapped from files. Its layout (cpython_layout.py) is that of its own table from 3.13 on; earlier versions
are identified by `Py_Version`, by the strings of the file, or by its name. An unknown version is reported, not guessed.

How frames belong to native frames:

    3.7 to 3.9    one frame per evaluation; no mark, so evaluations are recognized by the name of the function
    3.10          one frame per evaluation; its mark is the cframe on the C stack
    3.11          up to a frame with `is_entry`; its mark is the cframe
    from 3.12     up to an entry shim, a frame on the C stack that is its own mark (owner 3 and up)

From 3.15 on, each chain ends in a frame of the thread state (base_frame), which is not an evaluation. A chain that ends
otherwise than its version demands is reported: it may lack frames.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from whence._base.errors import ObjectError
from whence._base.words import counted
from whence.interpreters.cpython_code import CodeObject, CodeReader, InvalidObject
from whence.interpreters.cpython_layout import (
    COOKIE,
    FIRST_TABLE,
    HEAD_FIELDS,
    OLDEST,
    SUPPORTED,
    TABLE_BYTES,
    CpythonLayout,
    UnknownLayout,
    old_layout,
    read_debug_offsets,
    release_by_strings,
    release_of,
    version_by_name,
)
from whence.interpreters.cpython_objects import ObjectReader
from whence.interpreters.cpython_tasks import SECTION as ASYNCIO_SECTION
from whence.interpreters.cpython_tasks import AsyncioReader
from whence.interpreters.kernels import cpython as kernel
from whence.interpreters.model import Evaluation, InterpretedFrame, InterpretedStack, ThreadKey
from whence.objects.elf import ElfFile
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence._base.window import ByteOrder
    from whence.interpreters.cpython_code import Read
    from whence.unwind.kernels.stopped import StoppedReader
    from whence.unwind.modules import Modules

SECTION, SYMBOL, VERSION_SYMBOL = ".PyRuntime", "_PyRuntime", "Py_Version"
EVALUATION = "_PyEval_EvalFrameDefault"
OLD_EVALUATION = "PyEval_EvalFrameEx"  # defined by every version, also by those without _PyRuntime
COLD_EVALUATION = f"{EVALUATION}.cold"
ACTIVE_THREADS = "_active"  # of the module threading: threads by pthread_self()
KERNEL_HAS_NAMES = (3, 14)  # since then, the kernel's name of a thread is Python's
PIECE = 1 << 16  # bytes read at once in a scan
SCAN_LIMIT = 256 << 20
STRINGS_LIMIT = 64 << 20  # bytes of read-only data that are searched for a version
INNER_KEPT, OUTER_KEPT = 4096, 256  # frames of a thread, as in unwind
PROBLEMS = {
    kernel.CHAIN_UNREADABLE: "a frame of the interpreter is not readable",
    kernel.CHAIN_LOOP: "the interpreter's frames form a cycle",
    kernel.CHAIN_LIMIT: "the interpreter has more frames than are read",
    kernel.CHAIN_BROKEN: "the interpreter's frames do not end as they must: outer ones may be missing",
    kernel.CHAIN_NO_MEMORY: "out of memory for the interpreter's frames",
}
LIST_PROBLEMS = {
    kernel.CHAIN_UNREADABLE: "a list of interpreters or threads is not readable",
    kernel.CHAIN_LIMIT: "there are more interpreters or threads than are read",
    kernel.CHAIN_BROKEN: "the list of threads is damaged",
    kernel.CHAIN_NO_MEMORY: "out of memory for the list of threads",
}


class Cpython:
    """A CPython runtime at an address."""

    def __init__(
        self,
        layout: CpythonLayout,
        address: int,
        order: ByteOrder,
        *,
        path: str = "",
        evaluation: Sequence[tuple[int, int]] = (),
        pointer_offset: int = -1,
    ) -> None:
        """Prepare to walk.

        Args:
            path: the file that has it, "" if unknown.
            evaluation: [start, end) of the runtime addresses of the function that evaluates frames, if it has a name.
            pointer_offset: offset of the thread pointer among the registers of a stopped thread, -1 if unknown.
        """
        self.layout, self.address, self.path = layout, address, path
        self._order: ByteOrder = order
        self._evaluation = evaluation
        self.task_tables: list[int] = []  # runtime addresses of the sections `.AsyncioDebug`
        self.walker = kernel.FrameWalker(layout.numbers, address, order == "big", pointer_offset)
        self._codes = CodeReader(layout, order)

    def __repr__(self) -> str:
        return f"<{self.title} at {self.address:#x}>"

    @property
    def title(self) -> str:
        return self.layout.title + ("" if self.layout.is_verified else " (not a final release)")

    @property
    def reader(self) -> StoppedReader:
        reader: StoppedReader = self.walker
        return reader

    def recorded_reads(self) -> list[tuple[int, int]]:
        numbers = iter(self.walker.reads.numbers().tolist())
        return [(self.address, self.address + max(TABLE_BYTES.values())), *zip(numbers, numbers, strict=True)]

    def begin(self) -> None:
        self.walker.clear()

    def add_segment(self, start: int, data: memoryview | bytes) -> None:
        self.walker.add_segment(start, data)

    def walk(self, threads: Sequence[ThreadKey], *, record: bool = False) -> None:
        self.walker.records_reads = record
        pointers = array("Q", [thread.pointer for thread in threads])
        self.walker.walk(array("I", [thread.tid for thread in threads]), pointers)

    def is_evaluation(self, pc: int) -> bool:
        return any(start <= pc < end for start, end in self._evaluation)

    @property
    def problem(self) -> str:
        """The problem of the lists of the last walk; "" if they were valid."""
        return LIST_PROBLEMS.get(self.walker.problem, "")

    def interpreters(self) -> list[tuple[int, int, int, bool, int]]:
        """Return address, ID, address of the lock, whether it is locked, and its last holder, of each interpreter."""
        numbers = self.walker.interpreters.numbers()
        rows = zip(*(iter(numbers),) * kernel.INTERPRETER_FIELDS, strict=True)
        return [(address, number, gil, bool(locked), holder) for address, number, gil, locked, holder in rows]

    def locate_tasks(self, read: Read) -> AsyncioReader:
        reader = AsyncioReader(self.layout, self._order, self._codes, read, self.task_tables)
        reader.locate(self.address)
        return reader

    def _walked(self, threads: Sequence[ThreadKey]) -> dict[tuple[int, int], memoryview[int]]:
        """Return the row of each walked thread state that belongs to a thread, by its address and the tid.

        A thread that ends may leave its state to a new one.
        """
        states = self.walker.states.numbers()
        tids = {thread.tid for thread in threads}
        walked: dict[tuple[int, int], memoryview[int]] = {}
        for index in range(0, len(states), kernel.STATE_FIELDS):
            row = states[index : index + kernel.STATE_FIELDS]
            if row[2] in tids:
                walked.setdefault((row[0], row[2]), row)
        return walked

    def thread_names(self, threads: Sequence[ThreadKey], read: Read) -> dict[int, str]:
        if self.layout.version >= KERNEL_HAS_NAMES or self.layout.is_free_threaded:
            return {}
        objects = ObjectReader(self.layout, self._order, self._codes, read, {})
        names: dict[int, str] = {}
        walked = self._walked(threads)
        for interpreter in {row[1] for row in walked.values()}:
            with suppress(Unreadable, InvalidObject):
                active = objects.members(interpreter, "threading", [ACTIVE_THREADS]).get(ACTIVE_THREADS)
                for key, thread in objects.items(active) if active else ():
                    with suppress(Unreadable, InvalidObject):
                        names[objects.natural(key)] = objects.text(objects.attribute(thread, "_name"))
        name_of: dict[int, str] = {}
        for state, tid in walked:
            with suppress(Unreadable):
                name = names.get(objects.field(state, "thread_state.thread_id"))
                if name is not None:
                    name_of[tid] = name
        return name_of

    def thread_states(self) -> list[int]:
        addresses: list[int] = self.walker.states.numbers()[:: kernel.STATE_FIELDS].tolist()
        return addresses

    def tids(self, threads: Sequence[ThreadKey]) -> dict[int, int]:
        return dict(self._walked(threads).keys())

    def stacks(self, threads: Sequence[ThreadKey], read: Read, *, is_live: bool = False) -> dict[int, InterpretedStack]:
        walker = self.walker
        frames, marks = walker.frames.numbers(), walker.marks.numbers()
        headers = self._headers()

        @cache
        def code_of(address: int) -> CodeObject | str:
            return self._codes.code(address, headers.get(address), read, is_live=is_live)

        interpreters = {row[0]: row for row in self.interpreters()}
        joined: dict[int, InterpretedStack] = {}
        for (state, tid), row in self._walked(threads).items():
            _, owner, _, *bounds, how = row
            rows = frames[bounds[0] * kernel.FRAME_FIELDS : bounds[1] * kernel.FRAME_FIELDS]
            evaluations = self._evaluations(rows, marks[bounds[2] : bounds[3]], code_of)
            interpreter = interpreters.get(owner)
            has_lock = None
            if interpreter is not None and interpreter[2]:
                has_lock = interpreter[3] and interpreter[4] == state
            numbers = () if interpreter is None else (interpreter[1],)
            skipped = max(0, len(rows) // kernel.FRAME_FIELDS - INNER_KEPT - OUTER_KEPT)
            stack = InterpretedStack(evaluations, PROBLEMS.get(how, ""), has_lock, numbers, skipped)
            joined[tid] = joined[tid].joined(stack) if tid in joined else stack
        return joined

    def _headers(self) -> dict[int, bytes]:
        """Return the first bytes of code objects that were kept while the threads were stopped."""
        size = self.layout.header_bytes
        content = bytes(self.walker.headers)
        if self._order != "little":
            numbers = memoryview(content).cast("Q").tolist()
            content = b"".join(word.to_bytes(8, self._order) for word in numbers)
        return {
            address: content[index * size : (index + 1) * size]
            for index, address in enumerate(self.walker.codes.numbers())
        }

    def _evaluations(
        self, rows: memoryview[int], marks: memoryview[int], code_of: Callable[[int], CodeObject | str]
    ) -> tuple[Evaluation, ...]:
        """Group the frames of a thread into evaluations."""
        outer = len(rows) // kernel.FRAME_FIELDS - OUTER_KEPT
        groups: list[tuple[int, list[InterpretedFrame]]] = []
        current: list[InterpretedFrame] = []
        fields = iter(rows.tolist())
        for number, (address, code, position, kind) in enumerate(zip(fields, fields, fields, fields, strict=True)):
            if kind != kernel.FRAME_SHIM and (number < INNER_KEPT or number >= outer):
                current += self._frame(address, code_of(code), position)
            if kind != kernel.FRAME_INNER:
                groups.append((address if kind == kernel.FRAME_SHIM else 0, current))
                current = []
        if current:  # the chain is broken
            groups.append((0, current))
        if self.layout.version in ((3, 10), (3, 11)):
            extra = len(marks) - len(groups)
            if extra == 1:  # a call of the interpreter that has not entered its frame yet
                groups.insert(0, (0, []))
            if len(marks) == len(groups):
                groups = [(mark, frames) for mark, (_, frames) in zip(marks, groups, strict=True)]
        return tuple(Evaluation(mark, tuple(frames)) for mark, frames in groups)

    def _frame(self, address: int, code_object: CodeObject | str, position: int) -> list[InterpretedFrame]:
        """Return a frame; an empty list if the program does not have it, because the interpreter made its code."""
        if not isinstance(code_object, CodeObject):
            return [InterpretedFrame(address, None, code_object)]
        if code_object.is_shim:
            return []
        if position >> 63:  # signed
            position -= 1 << 64
        if self.layout.version == (3, 10):
            position *= 2  # it counts code units
        return [InterpretedFrame(address, code_object.frame(position))]


# finding


def find(
    modules: Modules, read: Read, writable: Iterable[tuple[int, int]], order: ByteOrder, pointer_offset: int = -1
) -> tuple[list[Cpython], list[str]]:
    """Return the CPython runtimes of a process, and why others cannot be read.

    Args:
        modules: the mapped files.
        read: returns memory; raises Unreadable.
        writable: [start, end) of writable memory that is mapped from files, searched if no file has the runtime.
        pointer_offset: offset of the thread pointer among the registers of a stopped thread, -1 if unknown.
    """
    runtimes: list[Cpython] = []
    problems: list[str] = []
    tables: list[int] = []
    for elf, path, bias in _mapped(modules):
        section = elf.section(ASYNCIO_SECTION)
        if section is not None:
            tables.append(section.vaddr + bias)
        vaddr = _runtime_vaddr(elf)
        if vaddr is None:
            if _symbol(elf, OLD_EVALUATION) is not None:
                problems.append(f"{path}: CPython before 3.7 is not supported ({SUPPORTED} are)")
            continue
        address = vaddr + bias
        try:
            layout = _layout(elf, path, address, read, order)
        except UnknownLayout as error:
            problems.append(f"{path}: {error}")
            continue
        if layout is not None:
            evaluation = _evaluation(elf, bias)
            runtimes.append(
                Cpython(layout, address, order, path=path, evaluation=evaluation, pointer_offset=pointer_offset)
            )
    if not runtimes and not problems:
        for address in _scan(read, writable):
            with suppress(Unreadable):
                try:
                    layout = read_debug_offsets(_table(read, address), order)
                except UnknownLayout as error:
                    problems.append(f"{address:#x}: {error}")
                else:
                    runtimes.append(Cpython(layout, address, order, pointer_offset=pointer_offset))
    for runtime in runtimes:
        runtime.task_tables = tables
    return runtimes, problems


def _mapped(modules: Modules) -> Iterator[tuple[ElfFile, str, int]]:
    """Yield each mapped 64-bit ELF file with its path and its bias (runtime address - vaddr)."""
    seen: set[int] = set()
    for mapping, file in zip(modules.snapshot.mappings, modules.snapshot.file_of, strict=True):
        if file is None or not mapping.kind.has_file:
            continue
        module = modules.of_file(file, mapping)
        if not isinstance(module.elf, ElfFile) or module.mapper is None or module.elf.bits != 64:
            continue
        vaddr = module.mapper.vaddr(mapping, mapping.start)
        if vaddr is not None and mapping.start - vaddr not in seen:
            seen.add(mapping.start - vaddr)
            yield module.elf, module.file.path, mapping.start - vaddr


def _runtime_vaddr(elf: ElfFile) -> int | None:
    """Return the vaddr of `_PyRuntime`, None if the file does not have it."""
    section = elf.section(SECTION)
    if section is not None and section.size:
        return section.vaddr
    extent = _symbol(elf, SYMBOL)
    return extent[0] if extent is not None else None


def _symbol(elf: ElfFile, name: str) -> tuple[int, int] | None:
    """Return value and size of a symbol, None if the file does not define it."""
    for table in (".dynsym", ".symtab"):
        with suppress(ObjectError):
            entries = elf.symbol_table(table)
            if entries is None or not entries.may_have(name):
                continue
            symbols = elf.symbols(table)
            index = symbols.find(name)
            if index is not None and symbols.section[index]:
                return symbols.value[index], symbols.size[index]
    return None


def _evaluation(elf: ElfFile, bias: int) -> list[tuple[int, int]]:
    """Return the runtime addresses of the function that evaluates frames, as far as it has names."""
    extents = (_symbol(elf, EVALUATION), _symbol(elf, COLD_EVALUATION))
    return [(extent[0] + bias, sum(extent) + bias) for extent in extents if extent is not None]


def _table(read: Read, address: int) -> bytes:
    """Return the bytes of a table of offsets, as far as its version is known. Raises Unreadable."""
    head = read(address, 8 * HEAD_FIELDS)
    for order in ("little", "big"):
        version = int.from_bytes(head[8:16], order)
        size = TABLE_BYTES.get((version >> 24, version >> 16 & 255))
        if size is not None:
            return read(address, size)
    return head


def _layout(elf: ElfFile, path: str, address: int, read: Read, order: ByteOrder) -> CpythonLayout | None:
    """Return the layout of a runtime; None if it was not initialized. Raises UnknownLayout."""
    try:
        head = read(address, 8)
    except Unreadable as error:
        raise UnknownLayout(f"its _PyRuntime is not readable: {error}") from None
    if head == COOKIE:
        try:
            return read_debug_offsets(_table(read, address), order)
        except Unreadable as error:
            raise UnknownLayout(f"_Py_DebugOffsets is not readable: {error}") from None
    release = _release(elf, order)
    version = _numbers(release) or version_by_name(path)
    if version is None:
        raise UnknownLayout("its version of CPython is unknown: neither the file nor its name has it")
    if version >= FIRST_TABLE:
        raise UnknownLayout(
            f"CPython {release or '.'.join(map(str, version))} without _Py_DebugOffsets is not supported"
        )
    if version < OLDEST:
        raise UnknownLayout(f"CPython {release or '.'.join(map(str, version))} is not supported ({SUPPORTED} are)")
    return old_layout(version, release or ".".join(map(str, version)))


def _release(elf: ElfFile, order: ByteOrder) -> str:
    """Return the version of a file, "" if it does not have it."""
    extent = _symbol(elf, VERSION_SYMBOL)
    if extent is not None:
        with suppress(ObjectError):
            start, data = elf.loaded_around(extent[0])
            word = bytes(data[extent[0] - start : extent[0] - start + 8])
            if len(word) == 8:
                return release_of(int.from_bytes(word, order))
    section = elf.section(".rodata")
    if section is None or section.size > STRINGS_LIMIT:
        return ""
    with suppress(ObjectError):
        return release_by_strings(elf.content(section))
    return ""


def _numbers(release: str) -> tuple[int, int] | None:
    parts = release.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[1].isdecimal() else None


def _scan(read: Read, ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the addresses of cookies in memory, which are aligned to 8 bytes."""
    left = SCAN_LIMIT
    for start, end in ranges:
        for piece in range(start & -8, min(end, start + left), PIECE):
            left -= PIECE
            try:
                data = read(piece, min(PIECE, end - piece))
            except Unreadable:
                continue
            offset = data.find(COOKIE)
            while offset >= 0:
                if not (piece + offset) % 8:
                    yield piece + offset
                offset = data.find(COOKIE, offset + 1)


def describe(runtimes: Sequence[Cpython]) -> str:
    """Return the runtimes as text: their versions, and how many there are."""
    return f"{counted(len(runtimes), 'runtime')}: {', '.join(runtime.title for runtime in runtimes)}"
