"""The files that drop-in programs answer from, as llvm-symbolizer and binutils read them.

Both name an address by debug info, and its outermost function by a symbol: llvm-symbolizer always, binutils where
debug info has no linkage name for it and its language is not one of those whose names are linkage names (C). What
neither of them knows (a stub of the PLT, a function of .gopclntab or MiniDebugInfo, an archive's) is answered as
`whence addr` does.
"""

from __future__ import annotations

import os
import re
import sys
from array import array

from whence._base.errors import WhenceError, plain
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
from whence.objects.elf.kernels import constants
from whence.objects.elf.members import open_member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence._base.model import Frames
    from whence.dropin.nearest import Symbol, SymbolIndex
    from whence.dwarf.variables import Local, Variables
    from whence.lidia.kernels.render import Replies
    from whence.objects.elf import ElfFile

MODULES_KEPT = 64
BLOCK = 1 << 20
PAGE = 4096
DWARF = Source.DWARF
ARCHITECTURE = (  # behind the name of a file
    r":(?:x86_64h?|i[3-7]86|arm(?:v[0-9a-z]+|64e?|64_32)?|aarch64|ppc(?:64)?(?:le)?|s390x|riscv(?:32|64))\Z"
)


class ApproximateFrame(Frame):
    """A frame of code that the compiler assigns to line 0, with the last other line before it in its sequence."""

    __slots__ = ()


class OpenModule:
    """A file that answers questions: its debug info, its symbols, and what else names addresses.

    Addresses are vaddrs, frames are innermost first; () is the answer where nothing is known. A file that is found
    broken or changed only now makes any method raise WhenceError, OSError or MemoryError (`OpenModules.give_up`).
    """

    def __init__(self, path: str, locator: Locator, options: ReadOptions, descriptor: int = -1) -> None:
        """`descriptor` is that of a copy in memory which `path` names, closed with the module."""
        self._path, self._locator = path, locator
        self._options = replaced(options, symtab=False, gopclntab=False, columns=True)
        self._descriptor = descriptor
        self._identity = identity_of(path)
        self.binary = open_binary(path, locator=locator, options=self._options)
        self._others: Binary | None = None
        self._line_zero_skipped: Binary | None = None
        self.replies: Replies | None = None  # once the whole table is there (`reply_by`)

    @property
    def elf(self) -> ElfFile | None:
        """None for an archive."""
        return self.binary.producers.elf if self.binary.producers is not None else None

    def frames(self, vaddr: int) -> Frames:
        """What debug info says, or an archive."""
        return self.binary.lookup(vaddr)

    def other_frames(self, vaddr: int) -> Frames:
        """What everything but debug info says, unless another file has come into its place meanwhile. The first use
        costs a look at all symbols."""
        if self.elf is None:
            return ()
        if self._others is None:
            if identity_of(self._path) != self._identity:
                return ()
            self._others = open_binary(self._path, locator=self._locator, dwarf=False)
        return self._others.lookup(vaddr)

    def with_line(self, vaddr: int, frames: Frames) -> Frames:
        """Return the frames of a vaddr, the innermost one approximate if it has line 0 and there is another line before
        it in its sequence. The first use reads the debug info once more."""
        if not frames or frames[0].line or frames[0].source != DWARF:
            return frames
        if self._line_zero_skipped is None:
            if identity_of(self._path) != self._identity:
                return frames
            self._line_zero_skipped = open_binary(
                self._path, locator=self._locator, options=self._options, skip_line_zero=True
            )
        found = self._line_zero_skipped.lookup(vaddr)
        if not found or not found[0].line:
            return frames
        before = found[0]
        approximate = ApproximateFrame(*frames[0])._replace(
            file=before.file, line=before.line, column=before.column, discriminator=before.discriminator
        )
        return (approximate, *frames[1:])

    @cached_property
    def symbols(self) -> SymbolIndex | None:
        """The symbols that llvm-symbolizer goes by: those of the file itself."""
        return indexed(self.elf, ".symtab", ".dynsym")

    @cached_property
    def debug_symbols(self) -> SymbolIndex | None:
        """The symbols that binutils go by: those of the debug file, where it is another one."""
        producers = self.binary.producers
        if producers is not None and producers.debug_elf is not producers.elf:
            found = indexed(producers.debug_elf, ".symtab")
            if found is not None:
                return found
        return self.symbols

    def llvm_frames(self, vaddr: int, *, by_symbols: bool) -> Frames:
        """The frames as llvm-symbolizer finds them; with `by_symbols` a symbol names the outermost function."""
        frames = self.binary.lookup(vaddr)
        symbols = self.symbols if by_symbols else None
        symbol = symbols.llvm(vaddr) if symbols is not None else None
        if symbol is not None:
            if not frames:
                return (Frame(symbol.name, symbol.file),)
            last = frames[-1]
            if last.source == DWARF:
                if last.file:
                    named = Frame._make((symbol.name, *last[1:]))
                else:
                    named = last._replace(function=symbol.name, file=symbol.file)
                return (*frames[:-1], named) if len(frames) > 1 else (named,)
        return frames or (self.other_frames(vaddr) if by_symbols else ())

    def reply_by(
        self, called: bytes, shown: Callable[[bytes], bytes], gap: bytes, between: bytes, *, by_symbols: bool
    ) -> None:
        """Let the kernel reply by `replies` from now on, as `llvm_frames` answers; only when the whole table of an ELF
        file is built already.

        `called` is the name that questions have for the module (b"" when they have none), `shown` turns a function's
        name into the one that is printed, `gap` stands between that name and the place, `between` two frames.
        """
        table = self.binary.whole
        if table is None or self.elf is None:
            return
        symbols = self.symbols if by_symbols else None

        def symbol_at(place: int) -> tuple[int, bytes, bytes]:
            assert symbols is not None
            end, symbol = symbols.llvm_at(place)
            name, file = (text.encode("utf-8", "surrogateescape") for text in (symbol.name, symbol.file))
            return end, shown(name), file

        starts = symbols.starts if symbols is not None else array("Q")
        self.replies = table.replies(called, starts, symbol_at, shown, gap, between)

    def named_frames(self, name: str, offset: int) -> list[tuple[Symbol, Frame]]:
        """Each symbol of a name whose place debug info knows, with a frame so many bytes into it if it is that long:
        the innermost place, under the symbol's name."""
        found = []
        for symbol in self.symbols.named(name) if self.symbols is not None else ():
            frames = self.llvm_frames(symbol.start + (offset if offset < symbol.size else 0), by_symbols=True)
            if frames and frames[0].file:
                found.append((symbol, frames[0]._replace(function=frames[-1].function)))
        return found

    def named_start(self, symbol: Symbol) -> FrameStart:
        """Where the function of a symbol is declared; it starts where the symbol does."""
        starts = self.frame_starts(symbol.start)
        return starts[0]._replace(vaddr=symbol.start) if starts else FrameStart("", 0, symbol.start)

    def bfd_frames(self, vaddr: int) -> Frames:
        """The frames as binutils find them."""
        frames = self.frames(vaddr)
        if frames and frames[-1].source != DWARF:
            return frames
        symbols = self.debug_symbols
        symbol = symbols.bfd(vaddr) if symbols is not None else None
        if symbol is None:
            return frames or self.other_frames(vaddr)
        if not frames:
            return (Frame(symbol.name, symbol.file),)
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
        """Return a frame under the name of the symbol at its function's start, if there is one."""
        symbols = self.debug_symbols
        symbol = symbols.bfd(start) if symbols is not None and start is not None else None
        return frame._replace(function=symbol.name) if symbol is not None and symbol.start == start else frame

    def eu_frames(self, vaddr: int) -> Frames:
        """The frames as elfutils find them: of several functions in one place the first one of the debug info."""
        frames = self.binary.lookup(vaddr)
        if len(frames) == 1 and frames[0].source == DWARF and self._variables is not None:
            name = self._variables.first_function(vaddr)
            if name and name != frames[0].function:
                return (frames[0]._replace(function=name),)
        return frames

    def eu_symbol(self, vaddr: int) -> Symbol | None:
        """The symbol that elfutils name, of the first table that there is."""
        return self._eu_symbols.eu(vaddr) if self._eu_symbols is not None else None

    def eu_symbol_named(self, name: str) -> Symbol | None:
        """The first symbol of a name, as elfutils find it."""
        return self._eu_symbols.first(name) if self._eu_symbols is not None else None

    @cached_property
    def _eu_symbols(self) -> SymbolIndex | None:
        producers = self.binary.producers
        if producers is None:
            return None
        found = indexed(producers.elf, ".symtab")
        return found or indexed(producers.debug_elf, ".symtab") or indexed(producers.elf, ".dynsym")

    @cached_property
    def _variables(self) -> Variables | None:
        producers = self.binary.producers
        if producers is None or producers.dwarf is None:
            return None
        return Variables(producers.dwarf)

    def variable(self, vaddr: int) -> tuple[Symbol, tuple[str, int] | None] | None:
        """The symbol at a vaddr, and file and line of its declaration; without one the file of an STT_FILE entry."""
        symbol = self.symbols.llvm(vaddr) if self.symbols is not None else None
        if symbol is None:
            return None
        declared = self._variables.declaration(vaddr) if self._variables is not None else None
        return symbol, declared or ((symbol.file, 0) if symbol.file else None)

    def frame_starts(self, vaddr: int) -> list[FrameStart]:
        """Where the functions of an address's frames start, by debug info, innermost first."""
        return self._variables.frame_starts(vaddr) if self._variables is not None else []

    def locals_at(self, vaddr: int) -> list[Local]:
        """The locals of the function or inlined call at a vaddr."""
        return self._variables.locals_at(vaddr) if self._variables is not None else []

    def is_movable(self, vaddr: int) -> bool:
        """Whether the file can be loaded anywhere and, once it is, has its segments around a vaddr."""
        elf = self.elf
        if elf is None or elf.type != constants.ET_DYN:
            return False
        loaded = [segment for segment in elf.segments if segment.type == constants.PT_LOAD]
        first = min((segment.vaddr for segment in loaded), default=0)
        last = max((segment.vaddr + segment.memory_size for segment in loaded), default=0)
        return first // PAGE * PAGE <= vaddr < -(-last // PAGE) * PAGE

    def section_at(self, vaddr: int) -> str:
        """The name of the section that holds a vaddr; "" for none."""
        sections = self.elf.sections if self.elf is not None else ()
        held = (one.name for one in sections if one.allocated and one.vaddr <= vaddr < one.vaddr + one.size)
        return next(held, "")

    def section_range(self, name: str) -> range | None:
        """The vaddrs of a section; None when there is none of that name."""
        sections = self.elf.sections if self.elf is not None else ()
        return next((range(one.vaddr, one.vaddr + one.size) for one in sections if one.name == name), None)

    def close(self) -> None:
        self.binary.close()
        for other in (self._others, self._line_zero_skipped):
            if other is not None:
                other.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def address_digits(module: OpenModule | None) -> int:
    """Digits of an address as addr2line and eu-addr2line print it: those of the file's class, 64 bits without one."""
    return module.elf.bits // 4 if module is not None and module.elf is not None else 16


def fault_of(name: str, error: Exception) -> str:
    """What an error says, without the name of the file it is about."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return words.removeprefix(f"{name}: ") or type(error).__name__


def identity_of(path: str) -> tuple[int, ...]:
    """The stamp of the file of a path; () where there is none."""
    try:
        return stamp_of(path)
    except OSError:
        return ()


def indexed(elf: ElfFile | None, *tables: str) -> SymbolIndex | None:
    """The first of these symbol tables that a file has and that has symbols; None when there is none."""
    if elf is None:
        return None
    for table in tables:
        try:
            found = SymbolIndex(elf, table)
        except WhenceError:
            continue
        if len(found):
            return found
    return None


def close_module(module: OpenModule | None) -> None:
    if module is not None:
        module.close()


class OpenModules:
    """The files that were asked about, each opened once; the least recently asked ones are closed beyond a bound."""

    def __init__(self, program: str, dirs: Sequence[str], options: ReadOptions, package: str = "") -> None:
        """`dirs` are folders of debug files in place of the usual ones, `package` holds split units."""
        self._program, self._options = program, options
        try:
            self._locator = Locator(dirs=dirs or None, files=[package] if package else ())
        except (WhenceError, OSError) as error:
            self.complain(package, error)
            self._locator = Locator(dirs=dirs or None)
        self._open: Lru[str, OpenModule | None] = Lru(MODULES_KEPT, close_module)

    def __getitem__(self, name: str) -> OpenModule | None:
        """The module of that name; None when it can't be read, which is said on stderr once."""
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
        """Return the path of what a question calls a module (a path, a path with an architecture, the member of an
        archive as `archive.a(member.o)`, or BUILDID:hex), and the descriptor of a copy in memory (-1 for none)."""
        if name.startswith("BUILDID:"):
            return self._path_by_build_id(name.removeprefix("BUILDID:")), -1
        if name == STDIN:
            return self._path_of_stdin()
        if os.path.exists(name):
            return name, -1
        path = re.sub(ARCHITECTURE, "", name)
        if path.endswith(")") and "(" in path and not os.path.exists(path):
            archive, _, member = path[:-1].rpartition("(")
            return open_member(archive, member)
        return path, -1

    def _path_of_stdin(self) -> tuple[str, int]:
        """A path to what stdin holds, read to its end."""
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
        """Report and close a module that turned out to be broken or changed; the next question opens it anew."""
        self.complain(name, error)
        module = self._open.pop(name, None)
        if module is not None:
            module.close()

    def complain(self, name: str, error: Exception) -> None:
        """Print on stderr why a module, as a question names it, can't be read."""
        shown = plain(name.removeprefix("BUILDID:"))
        print(f"{self._program}: error: '{shown}': {plain(fault_of(name, error))}", file=sys.stderr)
