"""Find the frames of what a log has: a module and an address, a runtime address, or a symbol and an offset."""

from __future__ import annotations

import functools
import glob
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence._base.closing import Closing
from whence._base.errors import ObjectError
from whence._base.lru import Lru
from whence._base.model import Frames
from whence._base.reasons import Reason
from whence.demangle import demangle
from whence.filter.apple import Image
from whence.filter.forms import Holds
from whence.filter.functions import FunctionStarts
from whence.locate.identity import comparable, is_same
from whence.locate.search import FileQuery
from whence.locator.coerce import locator_from
from whence.objects.elf.file import ElfFile
from whence.objects.elf.kernels.constants import EM_X86_64, ET_EXEC
from whence.objects.elf.segments import Segment, Translation, image_base
from whence.objects.machines import APPLE_ADDRESS_MASK, EM_WASM, machine_name
from whence.objects.zipped import name_in_zip
from whence.procmap import maps
from whence.procmap.mapping import Mapping
from whence.procmap.reader import covering
from whence.symbolize.naming import name_all
from whence.symbolize.opening import open_wanted
from whence.symbolize.pool import OpenError, PooledBinary
from whence.symbolize.symbolized import Symbolized

FILE_URL = "file://"
UNNAMED_MODULES = ("wasm://", "<unknown>", "blob:")  # of WebAssembly modules without a URL or a name
MAX_ANSWERS = 1 << 16  # cached
MAX_FILES = 64  # open files that the log names
MAX_MODULES = 1 << 14  # modules, ranges and reasons that are stored
MAX_CANDIDATES = 16  # functions with the same name that are compared
PAGE = 4096
LIBRARIES_OF_VALGRIND = 0x4000000  # where the first of them is loaded
LONGEST_CALL = 7  # bytes of an x86-64 call, without prefixes
CALL = re.compile(rb"\xe8.{4}\Z|\xff(?:[\x10-\x1f\x50-\x5f\x90-\x9f\xd0-\xdf].{0,5})\Z", re.DOTALL)
LIBRARY_FOLDERS = ("/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
LIBRARY = re.compile(r"\A[^/]+\.so(?:\.[\w.]+)?\Z")

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.locator import coerce
    from whence.objects.interface import ObjectFile
    from whence.stack_token import StackToken, TokenFrame

Runtime = Callable[[int], Symbolized]


class FunctionQuery(NamedTuple):
    """An address given by a function: the name, the offset from its start, and its size if the log has it.

    `back` is 1 for a return address; `runtime` is the runtime address, if known.
    """

    symbol: str
    offset: int
    size: int | None = None
    module: str = ""
    build_id: str = ""
    back: int = 0
    runtime: int | None = None


class Places(Closing):
    """Finds frames for addresses of modules, of a process and of functions. A context manager: it holds binaries open.

    Args:
        locator: finds the files that a log names. The files given to it are preferred for their build-ids and file
            names to the paths of the log.
        runtime: returns the frames of a runtime address (of a process, a core file, a snapshot). Without it, the
            mappings in the log are used, and a single given file for addresses in its own address space.
        demangle: make names readable.

    Attributes:
        reasons: number of addresses without frames, by reason and module.

    Raises:
        OSError, WhenceError: a given file can't be opened.
    """

    def __init__(
        self, locator: coerce.Places | None = None, *, runtime: Runtime | None = None, demangle: bool = True
    ) -> None:
        self.reasons: Counter[tuple[Reason, str]] = Counter()
        self._locator = locator_from(locator)
        self._runtime = runtime
        self._readable = demangle
        self._given: list[tuple[str, Binary]] = []
        self._opened: dict[tuple[str, str], PooledBinary | OpenError] = {}
        self._answers: dict[tuple[object, ...], Frames] = {}
        self._placed: list[tuple[int, int, int, str]] = []  # start, end, base and path of files
        self._of_prefix: Lru[str, list[str]] = Lru(MAX_MODULES)  # build-ids
        self._functions: dict[int, FunctionStarts] = {}  # by id() of the binary
        self._mappings: list[Mapping] = []
        self._modules: dict[int, tuple[str, str]] = {}
        self._programs: dict[str, tuple[str, str]] = {}  # path and build-id ("" if unknown) by file name
        self._range_starts: list[int] = []
        # start, end, module, vaddr of the start and what that is; disjoint
        self._ranges: list[tuple[int, int, int, int, Holds]] = []
        self._has_images = False  # of macOS, where pointers may have bits that authenticate them
        try:
            for path in self._locator.files:
                self._given.append((path, self._locator.open(path)))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<whence.filter.Places: {len(self._given)} given files, {len(self._opened)} of the log's open>"

    def close(self) -> None:
        """Close all binaries."""
        for _, binary in self._given:
            binary.close()
        self._close_opened()

    def _close_opened(self) -> None:
        for result in self._opened.values():
            if not isinstance(result, OpenError):
                result.release()
        self._opened.clear()

    def learn(self, text: bytes) -> None:
        """Set the mappings to the lines of a maps file."""
        self._mappings = sorted(maps.parse(text).mappings, key=lambda mapping: mapping.start)
        self._answers.clear()

    def add_program(self, path: str, build_id: str = "") -> bool:
        """Add the path or the build-id of a file that frames of the log name without a folder.

        Return True if it was unknown.
        """
        name = os.path.basename(path)
        if len(self._programs) < MAX_MODULES:
            old_path, old_id = self._programs.get(name, ("", ""))
            self._programs[name] = path if "/" in path else old_path, build_id or old_id
            return self._programs[name] != (old_path, old_id)
        return False

    @property
    def knows_addresses(self) -> bool:
        """True if it is known what is loaded at which address."""
        return self.knows_mappings or len(self._given) == 1 or bool(self._placed)

    @property
    def knows_mappings(self) -> bool:
        """True if a process or the log lists mappings."""
        return self._runtime is not None or bool(self._ranges or self._mappings)

    @property
    def knows_files(self) -> bool:
        """True if files are known without a path in the log."""
        return bool(self._given or self._mappings or self._has_images)

    def missing(self, module: str, build_id: str) -> Reason | None:
        """Return why the file of a module can't be opened, None if it can."""
        try:
            self._binary(module, build_id)
        except OpenError as failure:
            return failure.reason
        return None

    def program_of(self, title: str, word: str) -> str:
        """Return the program of a process whose title (`redis-server *:6379`) is where its path is expected.

        That is the first word of the title, unless its last word is a known file.
        """
        return word if self._is_known(word) and not self._is_known(title) else title

    def _is_known(self, name: str) -> bool:
        given = any(_stem(path) == _stem(name) for path, _ in self._given)
        return given or self._path(name) != name

    def forget(self) -> None:
        """Forget modules and mappings, because another process starts in the log."""
        self._modules.clear()
        self._range_starts.clear()
        self._ranges.clear()
        self._mappings = []
        self._has_images = False
        self._answers.clear()

    def learn_images(self, images: Iterable[Image]) -> None:
        """Set what is loaded where to the images of a report of macOS."""
        self.forget()
        self._has_images = True
        for number, image in enumerate(images):
            self.add_module(number, image.path, image.uuid)
            self.add_range(image.start, image.size, number, 0, Holds.FROM_START)
            self.add_program(image.path, image.uuid)

    def place(self, path: str, base: int) -> None:
        """Use a file for addresses that no mapping of the log has: its vaddrs plus `base` are runtime addresses.

        Raises OSError, WhenceError for a file that can't be opened.
        """
        opened = self._open(path, "")
        segments = [segment for segment in segments_of(opened.binary) if segment.memory_size]
        start = min((segment.vaddr for segment in segments), default=0)
        end = max((segment.vaddr + segment.memory_size for segment in segments), default=0)
        self._placed.append((base + start, base + end, base, path))
        self._answers.clear()

    def add_module(self, number: int, path: str, build_id: str) -> None:
        """Add the path and the build-id of a module, which ranges refer to by number."""
        if len(self._modules) < MAX_MODULES:
            self._modules[number] = path, build_id

    def add_range(self, start: int, size: int, number: int, vaddr: int, holds: Holds = Holds.VADDR) -> None:
        """Map [start, start + size) to a module, starting at `vaddr`; replaces what was mapped there.

        `holds` is what `vaddr` is.
        """
        if len(self._ranges) >= MAX_MODULES or size <= 0:
            return
        end = start + size
        first = bisect_left(self._range_starts, start)
        if first and self._ranges[first - 1][1] > start:
            first -= 1
        last = bisect_left(self._range_starts, end)
        put = [(start, end, number, vaddr, holds)]
        if first < last:
            before, after = self._ranges[first], self._ranges[last - 1]
            if before[0] < start:
                put.insert(0, (before[0], start, *before[2:]))
            if after[1] > end:
                put.append((end, after[1], after[2], after[3] + end - after[0], after[4]))
        self._ranges[first:last] = put
        self._range_starts[first:last] = [piece[0] for piece in put]
        self._answers.clear()

    def in_module(self, module: str, build_id: str, number: int, holds: Holds = Holds.VADDR, back: int = 0) -> Frames:
        """Return the frames of an address of a module; () with the reason counted.

        Args:
            module: the path or file name.
            build_id: the build-id in lowercase hex, "" if unknown.
            number: the address.
            holds: what `number` is.
            back: 1 if it may be a return address: then the byte before it is looked up, if a call ends there.
        """
        key = (module, build_id, number, holds, back)
        return self._cached(key, lambda: self._in_module(module, build_id, number, holds, back))

    def library_in_zip(self, module: str, file_offset: int) -> tuple[str, str]:
        """Return path and build-id of the library that is mapped from an offset of a zip file, or the module itself."""
        path, _, build_id = self._locator.library_in_zip(module, file_offset)
        return path or module, build_id

    def of_token(self, token: StackToken, frame: TokenFrame, back: int = 0) -> Frames:
        """Return the frames of an address in a stack token; () with the reason counted."""
        prefix = "" if frame.module is None else token.modules[frame.module]
        if not prefix:
            return self._unnamed(Reason.NO_FILE, "a module without a build-id")
        if prefix not in self._of_prefix:
            self._of_prefix[prefix] = self._locator.build_ids_with(prefix)
        build_ids = self._of_prefix[prefix]
        if len(build_ids) != 1:
            count = f", which {len(build_ids)} files have" if build_ids else ""
            return self._unnamed(Reason.NO_FILE, f"build-id {prefix}...{count}")
        return self.in_module("", build_ids[0], frame.address, Holds.VADDR, back)

    def at_runtime(self, address: int, module: str = "", back: int = 0, programs: range | None = None) -> Frames:
        """Return the frames of a runtime address, whose module a log may name; () with the reason counted.

        `programs` is where programs that are position-independent are loaded, at its start, and no libraries.
        """
        return self._cached(
            (address, module, back, programs), lambda: self._at_runtime(address, module, back, programs)
        )

    def in_function(self, query: FunctionQuery) -> Frames:
        """Return the frames of an address in a function; () with the reason counted.

        Of several functions with the name, the size or the runtime address in the query selects one.
        """
        return self._cached(query, lambda: self._in_function(query))

    def _cached(self, key: tuple[object, ...], look_up: Callable[[], Frames]) -> Frames:
        """Return the cached answer to a query, or that of `look_up`, with readable names."""
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

    def _in_module(self, module: str, build_id: str, number: int, holds: Holds = Holds.VADDR, back: int = 0) -> Frames:
        try:
            binary = self._binary(module, build_id)
        except OpenError as failure:
            return self._unnamed(failure.reason, module)
        vaddr = vaddr_in(binary, number - back, holds)
        if vaddr is None:
            return self._unnamed(Reason.OUTSIDE_SEGMENTS, module)
        return self._frames(binary, vaddr + back, module, back)

    def _frames(self, binary: Binary, vaddr: int, module: str, back: int = 0) -> Frames:
        frames, reason = self._looked_up(binary, vaddr, back)
        return frames or self._unnamed(reason or Reason.NOT_IN_ARCHIVE, module)

    @staticmethod
    def _looked_up(binary: Binary, vaddr: int, back: int) -> tuple[Frames, Reason | None]:
        """Return the frames of a vaddr, or why it has none; with `back` it may be a return address."""
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

    def _at_runtime(self, address: int, module: str, back: int, programs: range | None) -> Frames:
        before = address - back
        if self._runtime is not None:
            answer = self._runtime(before)
            path = answer.mapping.path if answer.mapping is not None else ""
            return answer.frames or self._unnamed(answer.reason or Reason.UNMAPPED, path)
        if self._has_images:
            address, before = address & APPLE_ADDRESS_MASK, before & APPLE_ADDRESS_MASK
        index = bisect_right(self._range_starts, before) - 1
        if index >= 0:
            start, end, number, vaddr, holds = self._ranges[index]
            if before < end and number in self._modules:
                return self._in_module(*self._modules[number], address - start + vaddr, holds, back)
        mapping = covering(self._mappings, before)
        if mapping is not None:
            return self._in_mapping(mapping, address, back)
        for start, end, base, path in self._placed:
            if start <= before < end:
                return self._in_module(path, "", address - base, back=back)
        if module:
            try:
                binary = self._binary(module, "")
            except OpenError as failure:
                return self._unnamed(failure.reason, module)
            if fixed(binary):
                return self._frames(binary, address, module, back)
            if programs and before in programs and self._covers(binary, before - programs.start):
                return self._frames(binary, address - programs.start, module, back)
            return self._unnamed(Reason.NOT_PLACED, module)
        if len(self._given) == 1:
            path, binary = self._given[0]
            frames = self._frames(binary, address, path, back) if self._covers(binary, before) else ()
            return frames or self._unnamed(Reason.NOT_PLACED, path)
        return self._unnamed(Reason.NOT_PLACED, "")

    @staticmethod
    def _covers(binary: Binary, address: int) -> bool:
        """Return True if an address is in a segment of the file."""
        segments = segments_of(binary)
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

    def _in_function(self, query: FunctionQuery) -> Frames:
        symbol, offset, size, module, build_id, back, runtime = query
        try:
            binaries = [self._binary(module, build_id)] if module else [binary for _, binary in self._given]
        except OpenError as failure:
            return self._unnamed(failure.reason, module)
        if not binaries:
            return self._unnamed(Reason.NO_FILE, module or "the kernel or program")
        several = False
        for binary in binaries:
            starts = self._functions_of(binary).starts(symbol, size)
            if runtime is not None and len(starts) > 1:  # the function at this offset in its page
                starts = [vaddr for vaddr in starts if (vaddr + offset - runtime) % PAGE == 0]
            if back and len(starts) > 1:  # the function with a call before the address
                starts = [vaddr for vaddr in starts if may_be_return_address(binary, vaddr + offset)] or starts
            if len(starts) == 1:
                frames = self._frames(binary, starts[0] + offset, symbol, back)
                if frames and not frames[-1].function:  # a line after the end of the symbol
                    frames = (*frames[:-1], frames[-1]._replace(function=symbol))
                return frames
            candidates = {self._looked_up(binary, vaddr + offset, back)[0] for vaddr in starts[:MAX_CANDIDATES]}
            if len(candidates) == 1 and len(starts) <= MAX_CANDIDATES:  # copies of a function of a header
                return candidates.pop() or self._unnamed(Reason.NOT_IN_ARCHIVE, symbol)
            several = several or bool(starts)
        return self._unnamed(Reason.AMBIGUOUS if several else Reason.UNKNOWN_FUNCTION, symbol)

    def _functions_of(self, binary: Binary) -> FunctionStarts:
        functions = self._functions.get(id(binary))
        if functions is None:
            functions = self._functions[id(binary)] = FunctionStarts(binary)
        return functions

    def _path(self, module: str) -> str:
        """Return the path of a file that the log names without a folder; the name itself if it is unknown.

        It is known from other lines of the log, or is a shared library in the folders of the system.
        """
        if "/" in module:
            return module
        mapped = next((m.path for m in self._mappings if os.path.basename(m.path) == module), "")
        return mapped or self._programs.get(module, ("", ""))[0] or system_library(module) or module

    def _binary(self, module: str, build_id: str) -> Binary:
        """Return the binary of a module. Raises OpenError."""
        name = name_in_zip(module)
        build_id = comparable(build_id) or self._programs.get(name, ("", ""))[1]
        module = module.removeprefix(FILE_URL)
        mismatch: OpenError | None = None
        for path, binary in self._given:
            if build_id and binary.build_id and is_same(build_id, binary.build_id):
                return binary
            if _stem(path) == _stem(name) or (name == "vmlinux" and _stem(path).startswith(name)):
                if not build_id or not binary.build_id:
                    return binary
                mismatch = OpenError(
                    Reason.BUILD_ID_MISMATCH, f"{path} has build-id {binary.build_id}, the log has {build_id}"
                )
        if module.startswith(UNNAMED_MODULES):
            modules = [binary for _, binary in self._given if is_wasm(binary)]
            if len(modules) == 1:
                return modules[0]
        try:
            return self._open(self._path(module), build_id).binary
        except OpenError as error:
            raise mismatch or error from None

    def _open(self, path: str, build_id: str) -> PooledBinary:
        """Return the file for a path or a build-id, which is opened once. Raises OpenError each time."""
        key = path, build_id
        result = self._opened.get(key)
        if result is None:
            if len(self._opened) >= MAX_FILES:
                self._close_opened()
                self._functions = {id(binary): self._functions[id(binary)] for _, binary in self._given
                                   if id(binary) in self._functions}  # fmt: skip
            try:
                if "/" not in path and not build_id:
                    raise OpenError(Reason.NO_FILE, f"the log has no path for {path}")
                query = FileQuery(build_id, os.path.abspath(path) if "/" in path else path)
                result = open_wanted(query, self._locator, 1)
            except OpenError as failure:
                result = failure
            self._opened[key] = result
        if isinstance(result, OpenError):
            raise result
        return result


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Return the folders that the dynamic loader searches by default."""
    return tuple(folder for pattern in LIBRARY_FOLDERS for folder in sorted(glob.glob(pattern)))


@functools.lru_cache(maxsize=1024)
def system_library(name: str) -> str:
    """Return the path of a shared library of the system, "" if it does not exist."""
    if not LIBRARY.search(name):
        return ""
    return next((path for folder in library_folders() if os.path.isfile(path := f"{folder}/{name}")), "")


def file_of(binary: Binary) -> ObjectFile | None:
    """Return the object file that names are from, None for an archive."""
    return binary.producers.elf if binary.producers is not None else None


def is_wasm(binary: Binary) -> bool:
    """Return True for a WebAssembly module, and for an archive of one."""
    file = file_of(binary)
    return file.machine == EM_WASM if file is not None else binary.about.machine == machine_name(EM_WASM)


def segments_of(binary: Binary) -> Sequence[Segment]:
    """Return the segments of a binary; of an archive, those of code."""
    file = file_of(binary)
    if file is not None:
        return file.segments
    return [Segment.of_code(*segment) for segment in binary.about.segments]


def may_be_return_address(binary: Binary, vaddr: int) -> bool:
    """Return False if the x86-64 code before an address is known and is not a call.

    Then a signal interrupted the function there, and the address may be its first instruction.
    """
    elf = file_of(binary)
    if elf is None or elf.machine != EM_X86_64:
        return True
    before = vaddr - LONGEST_CALL
    for section in elf.sections:  # without contents in a debug file
        if section.executable and section.in_file and 0 <= before - section.vaddr <= section.size - LONGEST_CALL:
            try:
                return bool(CALL.search(elf.read_vaddr(before, LONGEST_CALL)))
            except ObjectError:
                return True
    return True


def fixed(binary: Binary) -> bool:
    """Return True for a program that can only be loaded where it was linked."""
    file = file_of(binary)
    return isinstance(file, ElfFile) and file.type == ET_EXEC


def vaddr_in(binary: Binary, number: int, holds: Holds) -> int | None:
    """Return the vaddr of a number in a log; None if the file has no such address."""
    if holds is Holds.FILE_OFFSET:
        return Translation.of_code(segments_of(binary)).mapped_vaddr_of(number)
    if holds is not Holds.FROM_START:
        return number
    file = file_of(binary)
    return number + (file.image_base if file is not None else image_base(segments_of(binary), only_code=True))


def _stem(name: str) -> str:
    """Return a file name as logs write it: kernel modules with "_", without suffixes of debug files and archives."""
    name = name_in_zip(name)
    for ending in (".lidia", ".debug", ".ko"):
        name = name.removesuffix(ending)
    return name.replace("-", "_")
