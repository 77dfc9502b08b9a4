"""Read a minidump: its directory of streams, and the lists in them.

    header      "MDMP", the number of streams and the offset of their directory
    directory   type, size and offset of each stream
    streams     lists of threads, modules and memory; the exception; facts about the system; texts of Linux

Structures refer to contexts, names and memory anywhere in the file by 32-bit offsets. A minidump has the byte order of
the machine that wrote it. A damaged stream, or a damaged entry of one, is left out and listed in `problems`; of several
streams of one type the first counts. References: minidumpapiset.h; minidump_format.h of Breakpad.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from whence._base.budget import Budget
from whence._base.closing import Closing
from whence._base.errors import MinidumpError, cut_off, empty_file, naming, wrong_magic
from whence._base.files import open_regular, read_at
from whence._base.forks import cached_property
from whence._base.mapped import MappedFile
from whence._base.window import Window
from whence.dumps import minidump_layout as layout
from whence.dumps.codeview import CodeView, read_codeview
from whence.dumps.contexts import machine_of_context, read_context, read_wide
from whence.dumps.crashpad import CrashpadInfo, read_crashpad
from whence.dumps.process import MemoryRange, without_overlaps

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from whence._base.window import ByteOrder

    T = TypeVar("T")

MAGICS = (b"MDMP", b"PMDM")
STREAMS_LIMIT = 4096
NAME_LIMIT = 1 << 16  # bytes of a name in UTF-16
NAMES_TIMES, NAMES_ALLOWANCE = 4, 1 << 20  # limit of all names: times the file's size, plus the allowance
VERSION_LIMIT = 1000
PADDING = 4  # bytes that some writers put after a count
TEXT_LIMIT = 1 << 24  # bytes of a text stream that are read


class Stream(NamedTuple):
    """An entry of the directory."""

    type: int
    size: int
    offset: int

    @property
    def name(self) -> str:
        return layout.STREAM_NAMES.get(self.type, f"{self.type:#x}")


class System(NamedTuple):
    """The system of the process: processor, number of CPUs, platform, version, and further words about it."""

    processor: layout.Processor
    cpus: int
    platform: int
    version: str
    service_pack: str

    @property
    def is_windows(self) -> bool:
        return self.platform in layout.WINDOWS

    @property
    def is_linux(self) -> bool:
        return self.platform in (layout.LINUX, layout.ANDROID)

    @property
    def is_apple(self) -> bool:
        return self.platform in (layout.MACOS, layout.IOS)

    def __str__(self) -> str:
        name = layout.PLATFORMS.get(self.platform, f"platform {self.platform:#x}")
        return " ".join(filter(None, (name, self.version, self.service_pack)))


class MinidumpThread(NamedTuple):
    """A thread: registers by name ({} if unknown), its name, and its thread-local storage (Windows: the TEB).

    `wide` has the floating-point and vector registers, as in NT_FPREGSET.
    """

    tid: int
    registers: dict[str, int]
    thread_pointer: int
    name: str
    context_size: int
    wide: bytes = b""


class Module(NamedTuple):
    """A loaded file. `size` may be wrong: LLDB records that of a section.

    `code_id` is the ID by which symbol servers find a PE file, "" for other files.
    """

    base: int
    size: int
    checksum: int
    time: int
    name: str
    version: str
    codeview: CodeView
    code_id: str

    @property
    def end(self) -> int:
        return self.base + self.size


class UnloadedModule(NamedTuple):
    """A file that was loaded before."""

    base: int
    size: int
    time: int
    name: str


class MemoryRegion(NamedTuple):
    """A range of the process's address space: its protection (PAGE_*), state and type (MEM_*)."""

    start: int
    size: int
    protection: int
    state: int
    type: int

    @property
    def is_executable(self) -> bool:
        return bool(self.state & layout.MEM_COMMIT and self.protection & layout.PAGE_EXECUTE)


class ExceptionInfo(NamedTuple):
    """Why the process ended: a code of the system, its flags, an address, and further numbers."""

    tid: int
    code: int
    flags: int
    address: int
    information: tuple[int, ...]
    registers: dict[str, int]
    wide: bytes = b""


class Minidump(Closing):
    """A minidump as lists. A malformed header raises MinidumpError at once."""

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None) -> None:
        view = memoryview(data)
        self.data = (view if view.format == "B" else view.cast("B")).toreadonly()
        self.path, self.size, self._mapped = path, len(self.data), mapped
        self.problems: list[MinidumpError] = []
        self._are_names_spent = False
        self._names = Budget(
            "names", "names of modules and threads", self.size, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE,
            error=MinidumpError,
        )  # fmt: skip
        with naming(path):
            self.order = self._read_order()
            self.streams = self._read_directory()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Minidump:
        """Map a minidump. Raises OSError, MinidumpError."""
        name = os.fspath(path)
        with open_regular(name, MinidumpError) as (descriptor, size), naming(name):
            if not size:
                raise empty_file(MinidumpError)
            mapped = MappedFile(descriptor, name, MinidumpError)
            return cls(mapped.view, name, mapped)

    @classmethod
    def from_bytes(cls, data: Buffer, name: str = "") -> Minidump:
        """Return a minidump in memory; the bytes are not copied and must not change."""
        return cls(data, name)

    def close(self) -> None:
        """Release the file. Views handed out before stay valid."""
        self._mapped, self.data = None, memoryview(b"")

    def check(self) -> None:
        """Raise MinidumpError if the file was cut or overwritten since it was opened."""
        if self._mapped is not None:
            self._mapped.check()

    def __repr__(self) -> str:
        return f"<Minidump {self.path or 'in memory'}: {len(self.streams)} streams>"

    # the file

    def _read_order(self) -> ByteOrder:
        magic = bytes(self.data[:4])
        if not magic:
            raise empty_file(MinidumpError)
        if magic not in MAGICS:
            raise wrong_magic(MinidumpError, "a minidump", magic, *MAGICS)
        return "little" if magic == MAGICS[0] else "big"

    def _read_directory(self) -> dict[int, Stream]:
        """Return the streams by type."""
        window = self._window(self.data, "header")
        _, version, count, directory, _, self.time, self.flags = window.unpack(layout.HEADER, 0)
        if version & 0xFFFF != layout.VERSION:
            fault = f"the version is {version & 0xFFFF:#x}, expected {layout.VERSION:#x}"
            self.problems.append(MinidumpError("header", 4, fault, path=self.path))
        stride = struct.calcsize(layout.DIRECTORY)
        most = min(STREAMS_LIMIT, max(0, self.size - directory) // stride)
        if count > most:
            fault = f"{count} streams, of which the file has {most}"
            self.problems.append(MinidumpError("header", 8, fault, path=self.path))
        streams: dict[int, Stream] = {}
        for index in range(min(count, most)):
            stream = Stream(*window.unpack(layout.DIRECTORY, directory + index * stride))
            if stream.type in streams:
                fault = f"a second stream of {stream.name}, which is ignored"
                self.problems.append(MinidumpError("directory", index * stride, fault, path=self.path))
            elif stream.type:
                streams[stream.type] = stream
        return streams

    def _window(self, data: memoryview, name: str) -> Window:
        return Window(data, name, self.order, MinidumpError)

    def stream(self, type_: int) -> Window | None:
        """Return the bytes of a stream, as far as the file has them; None without such a stream."""
        stream = self.streams.get(type_)
        if stream is None or not stream.size:
            return None
        data = self.data[stream.offset : stream.offset + stream.size]
        if len(data) < stream.size:
            self._report(cut_off(MinidumpError, stream.name, None, stream.size, len(data)))
        return self._window(data, stream.name)

    def _report(self, error: MinidumpError) -> None:
        if len(self.problems) < STREAMS_LIMIT:
            self.problems.append(error.in_file(self.path))

    def _reading(self, type_: int, read: Callable[[Window], T], default: T) -> T:
        """Return what `read` makes of a stream; the default without the stream or if it is damaged."""
        try:
            window = self.stream(type_)
            return default if window is None else read(window)
        except MinidumpError as error:
            self._report(error)
            return default
        finally:
            self.check()

    def located(self, size: int, offset: int) -> memoryview:
        """Return bytes of the file, as far as it has them."""
        return self.data[offset : offset + size]

    def name(self, offset: int) -> str:
        """Return a text in UTF-16 at an offset; "" if there is none, or if the names together are too long."""
        if not offset or offset + 4 > self.size:
            return ""
        size = int.from_bytes(self.data[offset : offset + 4], self.order)
        try:
            self._names.charge(min(size, NAME_LIMIT))
        except MinidumpError as error:
            if not self._are_names_spent:
                self._are_names_spent = True
                self._report(error)
            return ""
        raw = self.located(min(size, NAME_LIMIT) & ~1, offset + 4)
        return decoded(bytes(raw), self.order)

    def _rows(self, window: Window, form: str, size: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield offset and fields of each entry of a list that starts with a count, possibly with padding after it.

        `size` is the size of an entry, by default that of its fields.
        """
        size = size or struct.calcsize("<" + form)
        count, first = window.u32(0), 4
        if count * size + PADDING + 4 == len(window):
            first += PADDING
        yield from self._entries(window, form, count, first, size)

    def _entries(
        self, window: Window, form: str, count: int, first: int, size: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield offset and fields of `count` entries, as far as the stream has them."""
        if size < struct.calcsize("<" + form):
            fault = f"the size of an entry is {size}, expected {struct.calcsize('<' + form)} or more"
            raise MinidumpError(window.name, None, fault)
        stored = max(0, len(window) - first) // size
        if count > stored:
            self._report(MinidumpError(window.name, 0, f"{count} entries, of which the stream has {stored}"))
        for offset in range(first, first + min(count, stored) * size, size):
            yield offset, window.unpack(form, offset)

    def _headed(self, window: Window, form: str, head_form: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield offset and fields of each entry of a list whose head has its own size and that of an entry."""
        head, size, count = window.unpack(head_form, 0)
        if head < struct.calcsize("<" + head_form):
            raise MinidumpError(window.name, 0, f"the size of the head is {head}")
        yield from self._entries(window, form, count, head, size)

    # the system

    @cached_property
    def system(self) -> System:
        """Return what is known of the system."""
        return self._reading(layout.SYSTEM, self._system, System(self._processor(None), 0, -1, "", ""))

    def _system(self, window: Window) -> System:
        cpu, _, _, count, _, major, minor, build, platform, text, _, _ = window.unpack(layout.SYSTEM_INFO, 0)
        version = f"{major}.{minor}.{build}" if 0 < max(major, minor) < VERSION_LIMIT else ""  # LLDB leaves it unset
        pack = self.name(text) if text else ""
        return System(self._processor(cpu), count, platform, version, pack)

    def _processor(self, cpu: int | None) -> layout.Processor:
        """Return the processor by its number or, if that is unknown, by the first context."""
        by_number = layout.PROCESSORS.get(-1 if cpu is None else cpu)
        if by_number is not None:
            return by_number
        machine = next(filter(None, (machine_of_context(context, self.order) for context in self._contexts())), 0)
        by_machine = {processor.machine: processor for processor in layout.PROCESSORS.values()}
        return by_machine.get(machine, layout.UNKNOWN_PROCESSOR)

    def _contexts(self) -> Iterator[memoryview]:
        for row in self._thread_rows[:1]:
            yield self.located(row[8], row[9])

    @cached_property
    def pid(self) -> int:
        """Return the id of the process; 0 if unknown."""

        def read(window: Window) -> int:
            _, flags, pid, *_ = window.unpack(layout.MISC_INFO, 0)
            return pid if flags & layout.MISC_PID else 0

        stated = decimal_number(self.status.get("Pid", ""))
        return self._reading(layout.MISC, read, 0) or stated

    @cached_property
    def started(self) -> int:
        """Return when the process was started, in seconds since 1970; 0 if unknown."""

        def read(window: Window) -> int:
            _, flags, _, created, _, _ = window.unpack(layout.MISC_INFO, 0)
            return created if flags & layout.MISC_TIMES else 0

        return self._reading(layout.MISC, read, 0)

    def text(self, type_: int) -> bytes:
        """Return a text stream of Linux; b"" without it."""
        return self._reading(type_, lambda window: bytes(window.data[:TEXT_LIMIT]), b"")

    @cached_property
    def status(self) -> dict[str, str]:
        """Return the fields of /proc/PID/status, if Breakpad or LLDB stored them."""
        pairs = (line.partition(":") for line in self.text(layout.STATUS).decode("utf-8", "replace").splitlines())
        return {name: value.strip() for name, _, value in pairs if value}

    @cached_property
    def arguments(self) -> str:
        """Return the command line of a Linux process; "" if it is not stored."""
        return self.text(layout.COMMAND_LINE).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "surrogateescape")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the environment of a Linux process, if it is stored."""
        words = self.text(layout.ENVIRONMENT).decode("utf-8", "surrogateescape").split("\0")
        return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}

    @cached_property
    def auxiliary(self) -> dict[int, int]:
        """Return the auxiliary vector of a Linux process by tag (getauxval(3))."""
        raw = self.text(layout.AUXILIARY)
        form = ("<" if self.order == "little" else ">") + ("QQ" if self.system.processor.bits == 64 else "II")
        return dict(struct.iter_unpack(form, raw[: len(raw) - len(raw) % struct.calcsize(form)]))

    @cached_property
    def release(self) -> str:
        """Return the distribution of Linux, by lsb-release or os-release; "" if it is not stored."""
        text = self.text(layout.RELEASE).decode("utf-8", "replace")
        pairs = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
        names = (pairs.get(name, "").strip('"') for name in ("PRETTY_NAME", "DISTRIB_DESCRIPTION"))
        return next(filter(None, names), "")

    @cached_property
    def comment(self) -> str:
        """Return the comment of the program that wrote the dump."""
        wide = self.text(layout.COMMENT)
        text = decoded(wide, self.order) if wide else self.text(layout.COMMENT_ASCII).decode("utf-8", "replace")
        return text.rstrip("\0")

    @cached_property
    def assertion(self) -> str:
        """Return the failed assertion that Breakpad stored: expression, function, file and line."""

        def read(window: Window) -> str:
            parts = [decoded(window.raw(256 * index, 256), self.order).partition("\0")[0] for index in range(3)]
            line = window.u32(768)
            expression, function, file = parts
            where = f"{file}:{line}" if file and line else file
            return ", ".join(filter(None, (expression, function, where)))

        return self._reading(layout.ASSERTION, read, "")

    @cached_property
    def crashpad(self) -> CrashpadInfo:
        """Return annotations of Crashpad."""
        default = CrashpadInfo()
        return self._reading(layout.CRASHPAD, lambda window: read_crashpad(window, self.data, self._names), default)

    # threads

    @cached_property
    def _thread_rows(self) -> list[tuple[int, ...]]:
        def read(window: Window) -> list[tuple[int, ...]]:
            return [fields for _, fields in self._rows(window, layout.THREAD, size)]

        size = struct.calcsize("<" + layout.THREAD)
        none: list[tuple[int, ...]] = []
        rows = self._reading(layout.THREADS, read, none)
        if not rows:
            size = layout.THREAD_EX_SIZE
            return self._reading(layout.THREADS_EX, read, rows)
        return rows

    @cached_property
    def thread_names(self) -> dict[int, str]:
        """Return the names of threads that have one, by thread id."""

        def read(window: Window) -> dict[int, str]:
            rows = self._rows(window, layout.THREAD_NAME, 12)
            return {tid: self.name(offset) for _, (tid, offset) in rows if offset}

        return self._reading(layout.THREAD_NAMES, read, {})

    @cached_property
    def threads(self) -> list[MinidumpThread]:
        """Return the threads in the order of the file."""
        machine = self.system.processor.machine
        threads = []
        for tid, _, _, _, teb, _, _, _, size, offset in self._thread_rows:
            context = self.located(size, offset)
            registers = read_context(context, machine, self.order)
            name, wide = self.thread_names.get(tid, ""), read_wide(context, machine)
            threads.append(MinidumpThread(tid, registers, teb, name, len(context), wide))
        return threads

    @cached_property
    def exception(self) -> ExceptionInfo | None:
        """Return the exception that ended the process; None if there is none."""

        def read(window: Window) -> ExceptionInfo:
            tid, _ = window.unpack(layout.EXCEPTION_HEAD, 0)
            code, flags, _, address, count, _, *information = window.unpack(layout.EXCEPTION_RECORD, 8)
            size, offset = window.unpack(layout.LOCATION, 8 + struct.calcsize("<" + layout.EXCEPTION_RECORD))
            context, machine = self.located(size, offset), self.system.processor.machine
            registers, wide = read_context(context, machine, self.order), read_wide(context, machine)
            return ExceptionInfo(tid, code, flags, address, tuple(information[: min(count, 15)]), registers, wide)

        return self._reading(layout.EXCEPTION, read, None)

    @cached_property
    def requesting_thread(self) -> int | None:
        """Return the thread that had the dump written, as Breakpad records it."""

        def read(window: Window) -> int | None:
            validity, _, requesting = window.unpack(layout.BREAKPAD_INFO, 0)
            return requesting if validity & 2 else None

        return self._reading(layout.BREAKPAD, read, None)

    # modules

    @cached_property
    def modules(self) -> list[Module]:
        """Return the loaded files in the order of the file: first the program."""
        return self._reading(layout.MODULES, lambda window: list(self._modules(window)), [])

    def _modules(self, window: Window) -> Iterator[Module]:
        is_raw = self.system.is_linux and layout.CRASHPAD not in self.streams
        for offset, fields in self._rows(window, layout.MODULE):
            base, size, checksum, time, name, codeview_size, codeview, _, _, _, _ = fields
            form = layout.FIXED_FILE_INFO
            signature, _, *numbers = window.unpack(form, offset + layout.MODULE_VERSION_OFFSET)
            version = ""
            if signature == layout.FIXED_FILE_SIGNATURE:
                halves = [half for number in numbers[:2] for half in (number >> 16, number & 0xFFFF)]
                version = ".".join(map(str, halves)) if any(halves) else ""
            record = read_codeview(self.located(codeview_size, codeview), self.order, is_raw)
            code_id = f"{time:08X}{size:x}" if time and self.system.is_windows else ""
            yield Module(base, size, checksum, time, self.name(name), version, record, code_id)

    @cached_property
    def unloaded(self) -> list[UnloadedModule]:
        """Return files that were unloaded before the dump was written."""

        def read(window: Window) -> list[UnloadedModule]:
            rows = self._headed(window, layout.UNLOADED_MODULE, layout.LIST_HEAD)
            return [
                UnloadedModule(base, size, time, self.name(name)) for _, (base, size, _, time, name) in rows
            ]  # fmt: skip

        return self._reading(layout.UNLOADED, read, [])

    # memory

    @cached_property
    def memory(self) -> list[MemoryRange]:
        """Return the memory that the dump has, by address, without overlaps."""
        ranges = list(self._memory_ranges())
        return without_overlaps(MemoryRange(start, data) for start, data in ranges if len(data))

    def _memory_ranges(self) -> Iterator[tuple[int, memoryview]]:
        stacks = ((start, size, offset) for _, _, _, _, _, start, size, offset, _, _ in self._thread_rows)
        for start, size, offset in (*self._memory_rows, *self._memory_64_rows, *stacks):
            if offset and start + size <= 1 << 64:  # 0 is the header; interrupted writers leave such offsets
                yield start, self.located(size, offset)

    @cached_property
    def _memory_rows(self) -> list[tuple[int, int, int]]:
        def read(window: Window) -> list[tuple[int, int, int]]:
            return [(start, size, offset) for _, (start, size, offset) in self._rows(window, layout.MEMORY_RANGE)]

        return self._reading(layout.MEMORY, read, [])

    @cached_property
    def _memory_64_rows(self) -> list[tuple[int, int, int]]:
        def read(window: Window) -> list[tuple[int, int, int]]:
            count, offset = window.unpack(layout.MEMORY_64_HEAD, 0)
            rows = []
            for _, (start, size) in self._entries(window, layout.MEMORY_64_RANGE, count, 16, 16):
                rows.append((start, size, offset))
                offset += size
            return rows

        return self._reading(layout.MEMORY_64, read, [])

    @cached_property
    def missing(self) -> int:
        """Return the number of bytes of streams and memory that a truncated file lacks."""
        ends = [stream.offset + stream.size for stream in self.streams.values()]
        ends += [offset + size for _, size, offset in (*self._memory_rows, *self._memory_64_rows)]
        return max(0, max(ends, default=0) - self.size)

    @cached_property
    def regions(self) -> list[MemoryRegion]:
        """Return the ranges of the address space, if the dump lists them."""

        def read(window: Window) -> list[MemoryRegion]:
            rows = self._headed(window, layout.MEMORY_REGION, layout.MEMORY_INFO_HEAD)
            return [
                MemoryRegion(start, size, protection, state, type_)
                for _, (start, _, _, _, size, state, protection, type_) in rows
            ]

        return self._reading(layout.MEMORY_INFO, read, [])


def is_minidump(path: str | os.PathLike[str]) -> bool:
    """Return True if a file begins like a minidump. Raises OSError; MinidumpError if it is not a regular file."""
    with open_regular(path, MinidumpError) as (descriptor, _):
        return read_at(descriptor, 4, 0) in MAGICS


def decoded(raw: bytes, order: ByteOrder) -> str:
    """Return text in UTF-16; halves of pairs are replaced."""
    return raw.decode("utf-16-le" if order == "little" else "utf-16-be", "replace")


def decimal_number(text: str) -> int:
    """Return a decimal number, 0 for other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
