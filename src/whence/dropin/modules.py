"""The files of questions, with frames by the rules of llvm-symbolizer, binutils and elfutils.

llvm-symbolizer and binutils name an address by debug info, and the outermost function by a symbol: llvm-symbolizer
always, binutils if the debug info has no linkage name, and names of the language differ from linkage names (not C).
Other addresses (stubs of the PLT, functions of .gopclntab or MiniDebugInfo, archives) have the frames of `whence addr`.
"""

from __future__ import annotations

import os
import re
import sys
from array import array

from whence._base.errors import MachoError, WhenceError, plain
from whence._base.files import stamp_of, write_all
from whence._base.forks import cached_property
from whence._base.lru import Lru
from whence._base.model import Frame, FrameStart, Source
from whence._base.options import ReadOptions
from whence._base.records import replaced
from whence._base.words import STDIN
from whence.binary import Binary
from whence.dropin.nearest import SymbolIndex
from whence.dwarf.variables import Variables
from whence.locator.locator import Locator
from whence.locator.opening import open_binary
from whence.objects.elf.file import ElfFile
from whence.objects.elf.kernels import constants
from whence.objects.elf.members import open_member
from whence.objects.opening import architectures, files_in_bundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence._base.model import Frames
    from whence.dropin.nearest import Symbol
    from whence.dwarf.variables import Local
    from whence.lidia.kernels.render import Replies
    from whence.objects.interface import ObjectFile

MAX_MODULES = 64
BLOCK = 1 << 20
PAGE = 4096
DWARF = Source.DWARF
ARCHITECTURE = (  # after the name of a file
    r":(?:x86_64h?|i[3-7]86|arm(?:v[0-9a-z]+|64e?|64_32)?|aarch64|ppc(?:64)?(?:le)?|s390x|riscv(?:32|64))\Z"
)


UNNAMED_SLICE = "Unknown architecture named: "


class ApproximateFrame(Frame):
    """A frame of code of line 0, with the last other line before it in its sequence."""

    __slots__ = ()


class FileEntryFrame(Frame):
    """A frame whose file is the name of an STT_FILE entry; llvm-symbolizer -s keeps folders, addr2line prints ""."""

    __slots__ = ()


class OpenModule:
    """An open file: its debug info, its symbols, and other sources of names.

    Addresses are vaddrs; frames are innermost first, () if unknown. All methods raise WhenceError, OSError or
    MemoryError for a file that turns out to be damaged or changed (see `OpenModules.give_up`).
    """

    def __init__(self, path: str, locator: Locator, options: ReadOptions, descriptor: int = -1) -> None:
        """Open a file; `descriptor` is that of its copy in memory (-1: none), closed with the module."""
        self._path, self._locator = path, locator
        self._options = replaced(options, symtab=False, gopclntab=False, columns=True)
        self._descriptor = descriptor
        self._identity = identity_of(path)
        self.binary = open_binary(path, locator=locator, options=self._options)
        self._others: Binary | None = None
        self._line_zero_skipped: Binary | None = None
        self.replies: Replies | None = None  # after `reply_by`, if the complete table is built

    @property
    def elf(self) -> ObjectFile | None:
        """The object file; None for an archive."""
        return self.binary.producers.elf if self.binary.producers is not None else None

    @property
    def preferred_base(self) -> int:
        """The address from which relative addresses count: the image base of a PE file, 0 in other files."""
        return self.elf.image_base if self.elf is not None and self.elf.format == "PE" else 0

    def frames(self, vaddr: int) -> Frames:
        """Return the frames by debug info, or of an archive."""
        return self.binary.lookup(vaddr)

    def other_frames(self, vaddr: int) -> Frames:
        """Return the frames by all sources except debug info; () if the file was replaced.

        The first use reads all symbols.
        """
        if self.elf is None:
            return ()
        if self._others is None:
            if identity_of(self._path) != self._identity:
                return ()
            self._others = open_binary(self._path, locator=self._locator, dwarf=False)
        return self._others.lookup(vaddr)

    def with_line(self, vaddr: int, frames: Frames) -> Frames:
        """Replace line 0 of the innermost frame by the last other line before it in its sequence, as approximate.

        The first use reads the debug info again.
        """
        if not frames or frames[0].line or frames[0].source != DWARF:
            return frames
        if self._line_zero_skipped is None:
            if identity_of(self._path) != self._identity:
                return frames
            self._line_zero_skipped = open_binary(
                self._path, locator=self._locator, options=self._options, skip_line_zero=True
            )
        other = self._line_zero_skipped.lookup(vaddr)
        if not other or not other[0].line:
            return frames
        before = other[0]
        approximate = ApproximateFrame(*frames[0])._replace(
            file=before.file, line=before.line, column=before.column, discriminator=before.discriminator
        )
        return (approximate, *frames[1:])

    @cached_property
    def symbols(self) -> SymbolIndex | None:
        """Return the symbols of the file, which llvm-symbolizer uses."""
        return indexed(self.elf, ".symtab", ".dynsym")

    @cached_property
    def debug_symbols(self) -> SymbolIndex | None:
        """Return the symbols of the debug file, or of the file without one, which binutils use."""
        producers = self.binary.producers
        if producers is not None and producers.debug_elf is not producers.elf:
            symbols = indexed(producers.debug_elf, ".symtab")
            if symbols is not None:
                return symbols
        return self.symbols

    def llvm_frames(self, vaddr: int, *, by_symbols: bool) -> Frames:
        """Return the frames of llvm-symbolizer; with `by_symbols` a symbol names the outermost function."""
        frames = self.binary.lookup(vaddr)
        symbols = self.symbols if by_symbols else None
        symbol = symbols.llvm(vaddr) if symbols is not None else None
        if symbol is not None:
            if not frames:
                return (FileEntryFrame(symbol.name, symbol.file),)
            last = frames[-1]
            if last.source == DWARF:
                if last.file:
                    named = Frame._make((symbol.name, *last[1:]))
                else:
                    named = FileEntryFrame(*last)._replace(function=symbol.name, file=symbol.file)
                return (*frames[:-1], named) if len(frames) > 1 else (named,)
        return frames or (self.other_frames(vaddr) if by_symbols else ())

    def reply_by(
        self, name: bytes, shown: Callable[[bytes], bytes], gap: bytes, separator: bytes, *, by_symbols: bool
    ) -> None:
        """Set `replies`, the fast path for `llvm_frames`, if the complete table of an ELF file is built.

        Args:
            name: the module's name in questions; b"" if questions have none.
            shown: returns the printed form of a function's name.
            gap: text between the function and the location.
            separator: text between two frames.
            by_symbols: a symbol names the outermost function.
        """
        table = self.binary.whole
        if table is None or self.elf is None:
            return
        symbols = self.symbols if by_symbols else None

        def symbol_at(index: int) -> tuple[int, bytes, bytes]:
            assert symbols is not None
            end, symbol = symbols.llvm_at(index)
            function, file = (text.encode("utf-8", "surrogateescape") for text in (symbol.name, symbol.file))
            return end, shown(function), file

        starts = symbols.starts if symbols is not None else array("Q")
        self.replies = table.replies(name, starts, symbol_at, shown, gap, separator)

    def named_frames(self, name: str, offset: int) -> list[tuple[Symbol, Frame]]:
        """Return each symbol of a name that has debug info, with its frame: the innermost location, with its name.

        The frame is `offset` bytes into the symbol, or at its start if it is shorter.
        """
        out = []
        for symbol in self.symbols.named(name) if self.symbols is not None else ():
            frames = self.llvm_frames(symbol.start + (offset if offset < symbol.size else 0), by_symbols=True)
            if frames and frames[0].file:
                out.append((symbol, frames[0]._replace(function=frames[-1].function)))
        return out

    def named_start(self, symbol: Symbol) -> FrameStart:
        """Return the declaration of a symbol's function, with the start of the symbol."""
        starts = self.frame_starts(symbol.start)
        return starts[0]._replace(vaddr=symbol.start) if starts else FrameStart("", 0, symbol.start)

    def bfd_frames(self, vaddr: int) -> Frames:
        """Return the frames by the rules of binutils."""
        frames = self.frames(vaddr)
        if frames and frames[-1].source != DWARF:
            return frames
        symbols = self.debug_symbols
        symbol = symbols.bfd(vaddr) if symbols is not None else None
        if symbol is None:
            return frames or self.other_frames(vaddr)
        if not frames:
            named = FileEntryFrame if symbol.file_entry else Frame
            return (named(symbol.name, symbol.file),)
        last = frames[-1]
        if not last.function:
            return (*frames[:-1], last._replace(function=symbol.name))
        inlined_at_start = len(frames) > 1 and len(self.frames(symbol.start)) > 1
        if self._variables is None or (symbol.name == last.function and not inlined_at_start):
            return frames
        starts = self._variables.starts_without_linkage_names(vaddr)
        if len(starts) != len(frames):
            return frames
        return tuple(map(self._named_at, frames, starts))

    def _named_at(self, frame: Frame, start: int | None) -> Frame:
        """Return a frame with the name of the symbol at its function's start, if any."""
        symbols = self.debug_symbols
        symbol = symbols.bfd(start) if symbols is not None and start is not None else None
        return frame._replace(function=symbol.name) if symbol is not None and symbol.start == start else frame

    def eu_frames(self, vaddr: int) -> Frames:
        """Return the frames of elfutils: of several functions at an address the first in the debug info."""
        frames = self.binary.lookup(vaddr)
        if len(frames) == 1 and frames[0].source == DWARF and self._variables is not None:
            name = self._variables.first_function(vaddr)
            if name and name != frames[0].function:
                return (frames[0]._replace(function=name),)
        return frames

    def eu_symbol(self, vaddr: int) -> Symbol | None:
        """Return the symbol of a vaddr by the rule of elfutils, from the first existing table."""
        return self._eu_symbols.eu(vaddr) if self._eu_symbols is not None else None

    def eu_symbol_named(self, name: str) -> Symbol | None:
        """Return the first symbol of a name, from the table that elfutils use."""
        return self._eu_symbols.first(name) if self._eu_symbols is not None else None

    @cached_property
    def _eu_symbols(self) -> SymbolIndex | None:
        producers = self.binary.producers
        if producers is None:
            return None
        symbols = indexed(producers.elf, ".symtab")
        return symbols or indexed(producers.debug_elf, ".symtab") or indexed(producers.elf, ".dynsym")

    @cached_property
    def _variables(self) -> Variables | None:
        producers = self.binary.producers
        if producers is None or producers.dwarf is None:
            return None
        return Variables(producers.dwarf)

    def variable(self, vaddr: int) -> tuple[Symbol, tuple[str, int] | None] | None:
        """Return the symbol at a vaddr, and its declaration's file and line, or the file of an STT_FILE entry."""
        symbol = self.symbols.llvm(vaddr) if self.symbols is not None else None
        if symbol is None:
            return None
        declared = self._variables.declaration(vaddr) if self._variables is not None else None
        return symbol, declared or ((symbol.file, 0) if symbol.file else None)

    def frame_starts(self, vaddr: int) -> list[FrameStart]:
        """Return the starts of the functions of a vaddr's frames by debug info, innermost first."""
        return self._variables.frame_starts(vaddr) if self._variables is not None else []

    def locals_at(self, vaddr: int) -> list[Local]:
        """Return the locals of the function or inlined call at a vaddr."""
        return self._variables.locals_at(vaddr) if self._variables is not None else []

    def is_movable(self, vaddr: int) -> bool:
        """Return True if a vaddr is within the segments of a file that can be loaded at any address."""
        elf = self.elf
        if not isinstance(elf, ElfFile) or elf.type != constants.ET_DYN:
            return False
        loaded = [segment for segment in elf.segments if segment.is_loaded]
        first = min((segment.vaddr for segment in loaded), default=0)
        last = max((segment.vaddr + segment.memory_size for segment in loaded), default=0)
        return first // PAGE * PAGE <= vaddr < -(-last // PAGE) * PAGE

    def section_at(self, vaddr: int) -> str:
        """Return the name of the section with a vaddr, or ""."""
        for section in self.elf.sections if self.elf is not None else ():
            if section.allocated and section.vaddr <= vaddr < section.vaddr + section.size:
                return section.name
        return ""

    def section_range(self, name: str) -> range | None:
        """Return the vaddrs of a section by its name, or None."""
        for section in self.elf.sections if self.elf is not None else ():
            if section.name == name:
                return range(section.vaddr, section.vaddr + section.size)
        return None

    def close(self) -> None:
        """Close the file."""
        self.binary.close()
        for other in (self._others, self._line_zero_skipped):
            if other is not None:
                other.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def address_digits(module: OpenModule | None) -> int:
    """Return the number of hex digits in addresses of addr2line and eu-addr2line: by the file's class, or 16."""
    return module.elf.bits // 4 if module is not None and module.elf is not None else 16


def fault_of(name: str, error: Exception) -> str:
    """Return the message of an error without the name of its file."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return message.removeprefix(f"{name}: ") or type(error).__name__


def identity_of(path: str) -> tuple[int, ...]:
    """Return the stamp of the file at a path; () if it does not exist."""
    try:
        return stamp_of(path)
    except OSError:
        return ()


def indexed(elf: ObjectFile | None, *tables: str) -> SymbolIndex | None:
    """Return the first of these symbol tables that is not empty, or None."""
    if elf is None:
        return None
    for table in tables:
        try:
            symbols = SymbolIndex(elf, table)
        except WhenceError:
            continue
        if len(symbols):
            return symbols
    return None


def close_module(module: OpenModule | None) -> None:
    if module is not None:
        module.close()


class OpenModules:
    """The files of questions, each opened once. The least recently used files are closed if there are many."""

    def __init__(
        self, program: str, dirs: Sequence[str], options: ReadOptions, package: str = "", *,
        bundles: Sequence[str] = (), architecture: str = "",
    ) -> None:  # fmt: skip
        """Search `dirs` for debug files instead of the usual folders.

        `package` has split units, `bundles` are dSYM bundles; of fat files without an architecture in their name, the
        slice of `architecture` is used.
        """
        self._program, self._options, self._architecture = program, options, architecture
        existing = [*filter(os.path.isdir, dirs)] if dirs else None  # the imitated programs accept missing folders
        given = [bundle for bundle in bundles if files_in_bundle(bundle)]
        try:
            self._locator = Locator(dirs=existing, files=[package, *given] if package else given)
        except (WhenceError, OSError) as error:
            self.complain(package, error)
            self._locator = Locator(dirs=existing)
        self._open: Lru[str, OpenModule | None] = Lru(MAX_MODULES, close_module)

    def __getitem__(self, name: str) -> OpenModule | None:
        """Return the module of a name; None if it can't be read, with an error on stderr the first time."""
        if name in self._open:
            return self._open[name]
        try:
            self._open[name] = self._opened(name)
        except (WhenceError, OSError, ValueError, MemoryError) as error:
            self.complain(name, error)
            self._open[name] = None
        return self._open[name]

    def _opened(self, name: str) -> OpenModule:
        path, descriptor = self.path_of(name)
        try:
            return OpenModule(path, self._locator, self._options, descriptor)
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            raise

    def path_of(self, name: str) -> tuple[str, int]:
        """Return the path of a module, and the descriptor of its copy in memory (-1: none).

        Names are paths, paths with an architecture, members of archives as `archive.a(member.o)`, or BUILDID:hex.
        """
        if name.startswith("BUILDID:"):
            return self._path_by_build_id(name.removeprefix("BUILDID:")), -1
        if name == STDIN:
            return self._path_of_stdin()
        if os.path.exists(name):
            return self._slice_of(name, self._architecture), -1
        path = re.sub(ARCHITECTURE, "", name)
        if path.endswith(")") and "(" in path and not os.path.exists(path):
            archive, _, member = path[:-1].rpartition("(")
            return open_member(archive, member)
        return self._slice_of(path, name[len(path) + 1 :]), -1

    def _slice_of(self, path: str, architecture: str) -> str:
        """Return the name of the slice of a fat file for an architecture; the path of other files.

        Raises WhenceError if the file has no such slice.
        """
        try:
            names = architectures(path)
        except OSError:  # opening the file reports that
            return path
        if not names:
            return path
        if architecture not in names:
            raise MachoError("", None, f"fat file does not contain {architecture}" if architecture else UNNAMED_SLICE)
        return f"{path}:{architecture}"

    def _path_of_stdin(self) -> tuple[str, int]:
        """Copy stdin into memory; return the copy's path and descriptor."""
        descriptor = os.memfd_create("stdin")
        while block := os.read(sys.stdin.fileno(), BLOCK):
            write_all(descriptor, block)
        return f"/proc/self/fd/{descriptor}", descriptor

    def _path_by_build_id(self, build_id: str) -> str:
        digits = build_id.lower() if len(build_id) % 2 == 0 else "0" + build_id.lower()
        search = self._locator.find(build_id=digits)
        if not search:
            raise FileNotFoundError(2, "could not find build ID")
        return search.path

    def give_up(self, name: str, error: Exception) -> None:
        """Report and close a module that turned out to be damaged or changed; the next question opens it again."""
        self.complain(name, error)
        module = self._open.pop(name, None)
        if module is not None:
            module.close()

    def complain(self, name: str, error: Exception) -> None:
        """Print on stderr why a module can't be read."""
        shown = plain(name.removeprefix("BUILDID:"))
        print(f"{self._program}: error: '{shown}': {plain(fault_of(name, error))}", file=sys.stderr)
