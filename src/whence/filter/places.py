"""From what a form holds (module and vaddr, runtime address, symbol and offset) to frames, or to a reason."""

from __future__ import annotations

import functools
import glob
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from whence._base.closing import Closing
from whence._base.errors import ElfError
from whence._base.model import Frames
from whence._base.reasons import Reason
from whence.demangle import demangle
from whence.filter.forms import Holds
from whence.filter.functions import Functions
from whence.locate.search import Wanted
from whence.locator.locator import Locator
from whence.objects.elf.kernels.constants import EM_X86_64, ET_EXEC
from whence.objects.elf.segments import Translation
from whence.procmap import maps
from whence.procmap.mapping import Mapping
from whence.procmap.reader import covering
from whence.symbolize.naming import name_all
from whence.symbolize.opening import FileLocator, open_wanted
from whence.symbolize.pool import Names, OpenError, PooledBinary
from whence.symbolize.symbolized import Symbolized

MAX_ANSWERS = 1 << 16  # kept, each the frames of a question
MAX_FILES = 64  # of the log's own that are open
MAX_MODULES = 1 << 14  # modules, ranges and reasons that are kept
MAX_CANDIDATES = 16  # functions of one name that are compared
PAGE = 4096
LONGEST_CALL = 7  # bytes of an x86-64 call, without prefixes
CALL = re.compile(rb"\xe8.{4}\Z|\xff(?:[\x10-\x1f\x50-\x5f\x90-\x9f\xd0-\xdf].{0,5})\Z", re.DOTALL)
LIBRARY_FOLDERS = ("/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
LIBRARY = re.compile(r"\A[^/]+\.so(?:\.[\w.]+)?\Z")
if TYPE_CHECKING:
    from whence.filter.functions import Functions
    from whence.objects.elf.file import ElfFile

Runtime = Callable[[int], Symbolized]


class LocatesFiles(FileLocator, Protocol):
    """What is needed of a Locator: its given files, too."""

    @property
    def files(self) -> Sequence[str]: ...

    def open(self, path: str) -> Names: ...


class Places(Closing):
    """Names for addresses of modules, of a process and of functions. A context manager: it holds binaries open.

    `locator` finds the files that a log names; the files given to it answer for their build-ids and file names before
    the log's own paths do. `runtime` answers for runtime addresses (of a process, a core file, a snapshot). Without it
    the mappings that the log itself lists do, and a single given file for addresses as its own headers count. Names are
    readable unless `demangle` is false. `reasons` counts why addresses have no frames, by reason and module.

    Raises OSError and WhenceError for a given file that can't be opened.
    """

    def __init__(
        self, locator: LocatesFiles | None = None, *, runtime: Runtime | None = None, demangle: bool = True
    ) -> None:
        self.reasons: Counter[tuple[Reason, str]] = Counter()
        self._locator: LocatesFiles = locator or Locator()
        self._runtime = runtime
        self._readable = demangle
        self._given: list[tuple[str, Names]] = []
        self._opened: dict[tuple[str, str], PooledBinary | OpenError] = {}
        self._answers: dict[tuple[object, ...], Frames] = {}
        self._functions: dict[int, Functions] = {}  # by the binary's identity
        self._mappings: list[Mapping] = []
        self._modules: dict[int, tuple[str, str]] = {}
        self._programs: dict[str, tuple[str, str]] = {}  # by file name: the path, the build-id; "" where not known
        self._range_starts: list[int] = []  # of the ranges
        self._ranges: list[tuple[int, int, int, int]] = []  # start, end, module, vaddr of the start; none overlap
        try:
            for path in self._locator.files:
                self._given.append((path, self._locator.open(path)))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<whence.filter.Places: {len(self._given)} given files, {len(self._opened)} of the log's open>"

    def close(self) -> None:
        """Close every binary."""
        for _, binary in self._given:
            binary.close()
        self._close_opened()

    def _close_opened(self) -> None:
        for found in self._opened.values():
            if not isinstance(found, OpenError):
                found.release()
        self._opened.clear()

    # what the log says about modules

    def learn(self, text: bytes) -> None:
        """Read from lines of a maps file where modules are, in place of what was read before."""
        self._mappings = sorted(maps.parse(text).mappings, key=lambda mapping: mapping.start)
        self._answers.clear()

    def add_program(self, path: str, build_id: str = "") -> None:
        """Keep the path or the build-id of a file that the log's frames have by its name alone."""
        name = os.path.basename(path)
        if len(self._programs) < MAX_MODULES:
            known_path, known_id = self._programs.get(name, ("", ""))
            self._programs[name] = path if "/" in path else known_path, build_id or known_id

    @property
    def knows_addresses(self) -> bool:
        """Whether anything is known of what is loaded where."""
        return self.knows_mappings or len(self._given) == 1

    @property
    def knows_mappings(self) -> bool:
        """Whether a process, or the log itself, says where in it files are mapped."""
        return self._runtime is not None or bool(self._ranges or self._mappings)

    @property
    def knows_files(self) -> bool:
        """Whether files are known without a path in the log."""
        return bool(self._given or self._mappings)

    def lost(self, module: str, build_id: str) -> tuple[Reason, str] | None:
        """Why no address of a module has frames, where its file can't be opened; None where it can."""
        try:
            self._binary(module, build_id)
        except OpenError as failure:
            return failure.reason, module
        return None

    def forget(self) -> None:
        """Another process begins: what was said about modules is no longer true."""
        self._modules.clear()
        self._range_starts.clear()
        self._ranges.clear()
        self._mappings = []
        self._answers.clear()

    def add_module(self, number: int, path: str, build_id: str) -> None:
        """Keep the path and the build-id of a module that the log's ranges have by its number."""
        if len(self._modules) < MAX_MODULES:
            self._modules[number] = path, build_id

    def add_range(self, start: int, size: int, number: int, vaddr: int) -> None:
        """Keep that [start, start + size) shows the module of a number from `vaddr` on, in place of what was there."""
        if len(self._ranges) >= MAX_MODULES or size <= 0:
            return
        end = start + size
        first = bisect_left(self._range_starts, start)
        if first and self._ranges[first - 1][1] > start:
            first -= 1
        last = bisect_left(self._range_starts, end)
        put = [(start, end, number, vaddr)]
        if first < last:
            before, after = self._ranges[first], self._ranges[last - 1]
            if before[0] < start:
                put.insert(0, (before[0], start, *before[2:]))
            if after[1] > end:
                put.append((end, after[1], after[2], after[3] + end - after[0]))
        self._ranges[first:last] = put
        self._range_starts[first:last] = [one[0] for one in put]
        self._answers.clear()

    # questions

    def in_module(self, module: str, build_id: str, number: int, holds: Holds = Holds.VADDR, back: int = 0) -> Frames:
        """The frames of a module's vaddr, or of what `holds` says the number is; () with the reason counted.

        With `back` it may be a return address, which is looked up that much before; not where no call ends there."""
        key = (module, build_id, number, holds, back)
        return self._remembered(key, lambda: self._in_module(module, build_id, number, holds, back))

    def at_runtime(self, address: int, module: str = "", back: int = 0) -> Frames:
        """The frames of a runtime address, whose module a log may name; () with the reason counted."""
        return self._remembered((address, module, back), lambda: self._at_runtime(address, module, back))

    def in_function(
        self,
        symbol: str,
        offset: int,
        size: int | None,
        module: str,
        build_id: str,
        back: int,
        runtime: int | None = None,
    ) -> Frames:
        """The frames at `offset` bytes from a function's start, less `back`; () with the reason counted. Of several
        functions of one name it is the one of this `size` in bytes, or the one that can be at the runtime address."""
        key = (symbol, offset, size, module, build_id, back, runtime)
        return self._remembered(key, lambda: self._in_function(symbol, offset, size, module, build_id, back, runtime))

    def _remembered(self, key: tuple[object, ...], look_up: Callable[[], Frames]) -> Frames:
        """The answer to a question that was asked before, else what `look_up` returns, with readable names."""
        frames = self._answers.get(key)
        if frames is not None:
            return frames
        frames = look_up()
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        if self._readable:
            frames = tuple(frame._replace(function=demangle(frame.function)) for frame in frames)
        self._answers[key] = frames
        return frames

    # answers

    def _in_module(self, module: str, build_id: str, number: int, holds: Holds = Holds.VADDR, back: int = 0) -> Frames:
        try:
            binary = self._binary(module, build_id)
        except OpenError as failure:
            return self._unnamed(failure.reason, module)
        vaddr = vaddr_in(binary, number - back, holds)
        if vaddr is None:
            return self._unnamed(Reason.OUTSIDE_SEGMENTS, module)
        return self._frames(binary, vaddr + back, module, back)

    def _frames(self, binary: Names, vaddr: int, module: str, back: int = 0) -> Frames:
        frames, reason = self._looked_up(binary, vaddr, back)
        return frames or self._unnamed(reason or Reason.NOT_IN_ARCHIVE, module)

    @staticmethod
    def _looked_up(binary: Names, vaddr: int, back: int) -> tuple[Frames, Reason | None]:
        """The frames of a vaddr, which with `back` may be a return address; or why it has none."""
        if back and (may_be_return_address(binary, vaddr) or not name_all(binary, [vaddr])[vaddr][0]):
            vaddr -= back
        if not 0 <= vaddr < 1 << 64:
            return (), Reason.OUTSIDE_SEGMENTS
        frames, reason, _ = name_all(binary, [vaddr])[vaddr]
        return frames, reason

    def _unnamed(self, reason: Reason, module: str) -> Frames:
        if len(self.reasons) < MAX_MODULES:
            self.reasons[reason, module] += 1
        return ()

    def _at_runtime(self, address: int, module: str, back: int) -> Frames:
        before = address - back
        if self._runtime is not None:
            answer = self._runtime(before)
            path = answer.mapping.path if answer.mapping is not None else ""
            return answer.frames or self._unnamed(answer.reason or Reason.UNMAPPED, path)
        at = bisect_right(self._range_starts, before) - 1
        if at >= 0:
            start, end, number, vaddr = self._ranges[at]
            if before < end and number in self._modules:
                return self._in_module(*self._modules[number], address - start + vaddr, back=back)
        mapping = covering(self._mappings, before)
        if mapping is not None:
            return self._in_mapping(mapping, address, back)
        if module:
            try:
                binary = self._binary(module, "")
            except OpenError as failure:
                return self._unnamed(failure.reason, module)
            if fixed(binary):
                return self._frames(binary, address, module, back)
            return self._unnamed(Reason.NOT_PLACED, module)
        if len(self._given) == 1:
            path, binary = self._given[0]
            frames = self._frames(binary, address, path, back) if self._covers(binary, before) else ()
            return frames or self._unnamed(Reason.NOT_PLACED, path)
        return self._unnamed(Reason.NOT_PLACED, "")

    @staticmethod
    def _covers(binary: Names, address: int) -> bool:
        """Whether an address is one that the file's own headers count."""
        elf = elf_of(binary)
        segments = elf.segments if elf is not None else ()
        return any(segment.vaddr <= address < segment.vaddr + segment.memory_size for segment in segments)

    def _in_mapping(self, mapping: Mapping, address: int, back: int) -> Frames:
        path = self._path(mapping.path)
        try:
            mapper = self._open(path, "").mapper
        except OpenError as error:
            return self._unnamed(error.reason, mapping.path)
        vaddr = mapper.vaddr(mapping, address - back) if mapper is not None else None
        if vaddr is None:
            return self._unnamed(Reason.OUTSIDE_SEGMENTS, path)
        return self._in_module(path, "", vaddr + back, back=back)

    def _in_function(
        self,
        symbol: str,
        offset: int,
        size: int | None,
        module: str,
        build_id: str,
        back: int,
        runtime: int | None = None,
    ) -> Frames:
        try:
            binaries = [self._binary(module, build_id)] if module else [binary for _, binary in self._given]
        except OpenError as failure:
            return self._unnamed(failure.reason, module)
        if not binaries:
            return self._unnamed(Reason.NO_FILE, module or "the kernel or program")
        several = False
        for binary in binaries:
            starts = self._functions_of(binary).starts(symbol, size)
            if runtime is not None and len(starts) > 1:  # of one name, the one that is so far into a page
                starts = [vaddr for vaddr in starts if (vaddr + offset - runtime) % PAGE == 0]
            if back and len(starts) > 1:  # the one with a call there
                starts = [vaddr for vaddr in starts if may_be_return_address(binary, vaddr + offset)] or starts
            if len(starts) == 1:
                frames = self._frames(binary, starts[0] + offset, symbol, back)
                if frames and not frames[-1].function:  # a line behind what the symbol's size says
                    frames = (*frames[:-1], frames[-1]._replace(function=symbol))
                return frames
            found = {self._looked_up(binary, vaddr + offset, back)[0] for vaddr in starts[:MAX_CANDIDATES]}
            if len(found) == 1 and len(starts) <= MAX_CANDIDATES:  # copies of one function of a header
                return found.pop() or self._unnamed(Reason.NOT_IN_ARCHIVE, symbol)
            several = several or bool(starts)
        return self._unnamed(Reason.AMBIGUOUS if several else Reason.NOT_IN_ARCHIVE, symbol)

    def _functions_of(self, binary: Names) -> Functions:
        known = self._functions.get(id(binary))
        if known is None:
            known = self._functions[id(binary)] = Functions(binary)
        return known

    # files

    def _path(self, module: str) -> str:
        """Where a file lies that the log names without its folder: as the log itself says elsewhere, or, of a shared
        library, in the folders of the system. The name itself if it is nowhere."""
        if "/" in module:
            return module
        mapped = next((m.path for m in self._mappings if os.path.basename(m.path) == module), "")
        return mapped or self._programs.get(module, ("", ""))[0] or system_library(module) or module

    def _binary(self, module: str, build_id: str) -> Names:
        """The binary of a module. Raises OpenError."""
        name = os.path.basename(module)
        build_id = build_id.lower() or self._programs.get(name, ("", ""))[1]
        mismatch: OpenError | None = None
        for path, binary in self._given:
            if build_id and binary.build_id == build_id:
                return binary
            if _stem(os.path.basename(path)) == _stem(name) or (name == "vmlinux" and _stem(path).startswith(name)):
                if not build_id or not binary.build_id:
                    return binary
                mismatch = OpenError(Reason.BUILD_ID_MISMATCH, f"{path} has {binary.build_id}, the log {build_id}")
        try:
            return self._open(self._path(module), build_id).binary
        except OpenError as error:
            raise mismatch or error from None

    def _open(self, path: str, build_id: str) -> PooledBinary:
        """The file that answers for a path or a build-id, opened once. Raises OpenError, also once more."""
        key = path, build_id
        found = self._opened.get(key)
        if found is None:
            if len(self._opened) >= MAX_FILES:
                self._close_opened()
                self._functions = {id(binary): self._functions[id(binary)] for _, binary in self._given
                                   if id(binary) in self._functions}  # fmt: skip
            try:
                if "/" not in path and not build_id:
                    raise OpenError(Reason.NO_FILE, f"the log has no path for {path}")
                wanted = Wanted(build_id, os.path.abspath(path) if "/" in path else path)
                found = open_wanted(wanted, self._locator, 1)
            except OpenError as failure:
                found = failure
            self._opened[key] = found
        if isinstance(found, OpenError):
            raise found
        return found


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Where the dynamic loader looks by default."""
    return tuple(folder for pattern in LIBRARY_FOLDERS for folder in sorted(glob.glob(pattern)))


@functools.lru_cache(maxsize=1024)
def system_library(name: str) -> str:
    """The path of a shared library of the system; "" if there is none of that name."""
    if not LIBRARY.search(name):
        return ""
    return next((path for folder in library_folders() if os.path.isfile(path := f"{folder}/{name}")), "")


def elf_of(binary: Names) -> ElfFile | None:
    """The ELF file that names are of; None for an archive."""
    producers = getattr(binary, "producers", None)
    return producers.elf if producers is not None else None


def may_be_return_address(binary: Names, vaddr: int) -> bool:
    """Whether a call may end at an address. False only where the file has the x86-64 code before it, and that is none:
    there a signal came, and its first instruction may be a function's first."""
    elf = elf_of(binary)
    if elf is None or elf.machine != EM_X86_64:
        return True
    before = vaddr - LONGEST_CALL
    for section in elf.sections:  # a debug file's have no contents
        if section.executable and section.in_file and 0 <= before - section.vaddr <= section.size - LONGEST_CALL:
            try:
                return bool(CALL.search(elf.read_vaddr(before, LONGEST_CALL)))
            except ElfError:
                return True
    return True


def fixed(binary: Names) -> bool:
    """Whether a program can only be loaded where it was linked."""
    elf = elf_of(binary)
    return elf is not None and elf.type == ET_EXEC


def vaddr_in(binary: Names, number: int, holds: Holds) -> int | None:
    """The vaddr that a number of a log stands for; None where the file has none for it. An archive has no segments: its
    numbers count from 0, and no file offset is known."""
    if holds not in (Holds.FROM_START, Holds.FILE_OFFSET):
        return number
    elf = elf_of(binary)
    segments = elf.segments if elf is not None else ()
    if holds is Holds.FILE_OFFSET:
        return Translation.of_code(segments).mapped_vaddr_of(number)
    translation = Translation(segments)
    return number + min((segment.vaddr - segment.vaddr % PAGE for segment in translation.segments), default=0)


def _stem(name: str) -> str:
    """A file name as logs write it: kernel modules with "_", and no ending of debug files and archives."""
    name = os.path.basename(name)
    for ending in (".lidia", ".debug", ".ko"):
        name = name.removesuffix(ending)
    return name.replace("-", "_")
