"""Lookups in an ELF file with its debug files, or in an archive.

An archive answers by itself. Of an ELF file only the needed parts are read: the units of debug info that can contain
the addresses become a small table in memory, in the format of an archive. When a good part of the file was needed, the
whole table is built once.

Modules that read ELF files are imported on demand, so that archives open fast.
"""

from __future__ import annotations

import io
import os
from _operator import index
from array import array

from whence._base.closing import Closing
from whence._base.errors import WRONG_KIND, ElfError, Mismatch, Unsupported, naming
from whence._base.files import open_regular
from whence._base.forks import Lock
from whence._base.lru import Lru
from whence._base.options import DEFAULTS, ReadOptions
from whence.kernels.rows import ascending
from whence.lidia.compressed import codec_of
from whence.lidia.compressed import is_archive as is_archive_file
from whence.lidia.layout import MAGICS
from whence.lidia.table import Table, demangler, from_bytes, u64_column
from whence.lidia.table import open as open_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike
    from typing import NoReturn

    from whence._base.model import Frames
    from whence.explanation import Explanation
    from whence.lidia.layout import Extra
    from whence.lidia.results import FrameTable, Range
    from whence.listing import Listing, SourceFile, SourceOptions, Sources
    from whence.listing.build import CodeReader
    from whence.listing.model import ListingOptions
    from whence.locate.debug_files import Completion, DebugFiles
    from whence.objects.interface import ObjectFile
    from whence.planner import Plan, Planner
    from whence.producers import Producers
    from whence.reverse import LineSpan
    from whence.sizes import SizeOptions, Sizes


ADDRESS_END = 1 << 64
SHARDS_KEPT = 64
NAMESAKES = 10  # functions of the same name that a listing mentions


class Binary(Closing):
    """An ELF file with its debug files, or an archive, that names addresses. Made by `whence.open`.

    A context manager; closing releases all files and tables. Thread-safe: lookups that run while another thread closes
    the binary complete, later ones raise ValueError. Usable in a forked child.

    >>> import whence
    >>> with whence.open("app") as binary:  # doctest: +SKIP
    ...     for frame in binary.lookup(0x1040):
    ...         print(frame.function, frame.file, frame.line)
    """

    def __init__(
        self,
        *,
        producers: Producers | None = None,
        table: Table | None = None,
        completion: Completion | None = None,
        path: str = "",
        demangle: bool | Callable[[str], str] = False,
    ) -> None:
        self.path = path
        self._completion = completion
        self._demangle = demangler(demangle)
        self.producers = producers
        self._whole = table
        self._shards: Lru[tuple[int, ...], Table] = Lru(SHARDS_KEPT)
        self._planner: Planner | None = None
        self._lock = Lock()
        self._readers: dict[tuple[str | None, str], CodeReader] = {}  # by path of the code and syntax
        self._code_files: list[ObjectFile] = []  # opened for them
        self._sources: tuple[SourceOptions | None, Sources] | None = None
        self._code_lock = Lock()  # disassemblers are not for several threads
        self._closed = False

    @classmethod
    def from_elf(
        cls,
        elf: ObjectFile,
        *,
        debug_files: DebugFiles | None = None,
        options: ReadOptions = DEFAULTS,
        prepare: bool = True,
    ) -> Binary:
        """Return a Binary that owns an open ELF file.

        Args:
            elf: the file.
            debug_files: finds the files that complete it; by default, in /usr/lib/debug and next to the file.
            options: what to read and how to render it, as for `whence.open`.
            prepare: import now what only some lookups need, so that a child may be forked during a lookup. Without it,
                a forked child may wait forever for a module that another thread was importing.
        """
        from whence.locate.debug_files import Completion, DebugFiles
        from whence.producers import Producers

        completion = Completion(debug_files or DebugFiles())
        producers = Producers(elf, complete=completion, options=options)
        if elf.problems and producers.nameless:  # the file is cut off, or its tables are outside of the file
            problem = elf.problems[0]
            producers.close()
            raise problem
        if prepare:
            from whence.archive import create as build  # noqa: F401

            producers.prepare()
        return cls(producers=producers, completion=completion, path=str(elf.path), demangle=options.demangle)

    @property
    def is_archive(self) -> bool:
        return self.producers is None

    @property
    def build_id(self) -> str:
        """The build-id in lowercase hex; "" if unknown."""
        if self.producers is not None:
            return self.producers.elf.build_id
        assert self._whole is not None
        return self._whole.about.build_id

    @property
    def about(self) -> Extra:
        """The information about its file that an archive contains."""
        assert self._whole is not None
        return self._whole.about

    @property
    def memory(self) -> int:
        """Bytes of the tables in memory, an estimate: tables built, or the mapped archive."""
        tables = [*self._shards.values(), *([self._whole] if self._whole is not None else [])]
        return sum(table.header.end for table in tables)

    @property
    def problems(self) -> tuple[str, ...]:
        """Descriptions of damaged parts that were skipped so far."""
        return tuple(self.producers.all_problems()) if self.producers is not None else ()

    def check(self) -> None:
        """Raise FormatError if a file was truncated or written to since it was opened."""
        if self.producers is not None:
            self.producers.check()
        elif self._whole is not None:
            self._whole.check()

    @property
    def whole(self) -> Table | None:
        """The whole table; None until it is built."""
        return None if self._closed else self._whole

    def table(self) -> Table:
        """Return the whole table, built on first use."""
        self._recover()
        with self._lock:
            self._still_open()
            if self._whole is None:
                self._whole = self._build(None)
                self._shards.clear()
            return self._whole

    def table_for(
        self, vaddrs: Sequence[int], *, return_address: bool = False, last: bool = False, starts: bool = True
    ) -> Table:
        """Return a table that answers for some vaddrs; of an ELF file, only the needed part.

        Args:
            vaddrs: the addresses.
            return_address: the byte before each address will be looked up, which may be in another unit.
            last: there will be no other query: the table has only ranges with these addresses, and is not cached.
            starts: include the lines on which functions start.
        """
        self._still_open()
        if self._whole is not None:
            return self._whole
        self._recover()
        assert self.producers is not None
        if return_address:
            vaddrs = [vaddr - 1 for vaddr in vaddrs if vaddr]
        if last:
            vaddrs = in_order(vaddrs)
        plan = self._plan(vaddrs)
        if plan.read == "whole" and not last:
            return self.table()
        with self._lock:
            self._still_open()
            if self._whole is not None:
                return self._whole
            if last and plan.read != "near":
                return self._build(None if plan.read == "whole" else plan.units, vaddrs=vaddrs, starts=starts)
            shard = self._shards.get(plan.units)
            if shard is None:
                assert self._planner is not None
                self._planner.made += 1
                if plan.read == "near":
                    return self._build(plan.units, vaddrs, starts=starts)
                shard = self._shards[plan.units] = self._build(plan.units)
            return shard

    def plan(self, vaddrs: Sequence[int]) -> Plan:
        """Return what would be read for some vaddrs, and why."""
        from whence.planner import Plan, Read

        if self.producers is None:
            return Plan(Read.WHOLE, (), "the archive answers")
        if self._whole is not None:
            return Plan(Read.WHOLE, (), "the whole table was built before")
        return self._plan(vaddrs)

    def _plan(self, vaddrs: Sequence[int]) -> Plan:
        from whence.planner import Planner

        assert self.producers is not None
        if self._planner is None:
            self._planner = Planner()
        producers, debug_info = self.producers, self.producers.debug_info
        packed = debug_info is not None and debug_info.should_stream
        # units are counted after the look at them: that may be what reads their list
        return self._planner.plan(
            len(vaddrs), lambda: producers.units_at(vaddrs), lambda: unit_count(producers), packed
        )

    def _recover(self) -> None:
        """Start reading anew what was interrupted by a signal, or by the fork of this child."""
        if self._lock.abandoned:
            with self._lock:
                if self._lock.abandoned and self.producers is not None:
                    self.producers = self.producers.again()
                self._lock.abandoned = False

    def _build(
        self, units: tuple[int, ...] | None, near: Sequence[int] | None = None, vaddrs: Sequence[int] | None = None,
        starts: bool = True,
    ) -> Table:  # fmt: skip
        from whence.lidia.writer import write

        assert self.producers is not None
        extra = None
        if units is None and vaddrs is None:  # tables of some units have no such information
            from whence.archive.create import extra_of

            extra = extra_of(self.producers.elf)
        out = io.BytesIO()
        try:
            with naming(self.path), self.producers.reading():
                ranges = self.producers.ranges(units, near=near, vaddrs=vaddrs, starts=starts)
                write(ranges, out, crc=False, extra=extra)
        except BaseException as error:
            if not isinstance(error, Exception):  # interrupted: a thread may still be at work on them
                self._lock.abandoned = True
            raise
        return from_bytes(out.getvalue(), demangle=self._demangle or False)

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        """Return the frames of an address, innermost first; () if nothing covers it.

        Args:
            vaddr: an integer; 2**64 and more have no frames.
            return_address: the address follows a call, so the byte before it is looked up.

        Raises TypeError if `vaddr` is not an integer, ValueError if it is negative, and an error of the file's format
        if the file changed.
        """
        table = self._whole
        if table is not None and not self._closed and type(vaddr) is int and vaddr >= 0:
            return table.lookup(vaddr, return_address=return_address)
        vaddr = checked_vaddr(vaddr)
        if vaddr >= ADDRESS_END:
            return ()
        table = self.table_for((vaddr,), return_address=return_address)
        return table.lookup(vaddr, return_address=return_address)

    def lookup_many(self, vaddrs: Iterable[int], *, return_address: bool = False, last: bool = False) -> FrameTable:
        """Return the frames of many addresses as one table.

        Args:
            vaddrs: integers, in any order: a list, an array, a numpy array.
            return_address: the addresses follow calls, so the bytes before them are looked up.
            last: there will be no other query, so less of an ELF file is kept in memory.
        """
        column = u64_column(vaddrs)
        table = self.table_for(column, return_address=return_address, last=last)
        return table.lookup_many(column, return_address=return_address)

    def find(self, name: str) -> list[Range]:
        """Return the functions with a name, in order of vaddr: a range for each part of a split function.

        `name` is a linkage name or a readable one, with or without parameters. Builds the whole table.
        """
        from whence.reverse import functions_named

        aliases = self.producers.symbol_vaddrs(name) if self.producers is not None else []
        return functions_named(self.table(), name, aliases)

    def find_line(self, file: str, line: int) -> list[LineSpan]:
        """Return the code of a line of a source file as spans [vaddr, end), in order of vaddr.

        `file` is a path or its last parts ("f.c", "src/f.c"). Builds the whole table.
        """
        from whence.reverse import spans_of_line

        return spans_of_line(self.table(), file, line)

    def listing(
        self,
        function: str | int,
        end: int | None = None,
        *,
        sources: SourceOptions | None = None,
        code: str | PathLike[str] | None = None,
        syntax: str = "intel",
        lines: bool = False,
    ) -> Listing:
        """Return the instructions and source lines of a function, or of the code from a vaddr.

        An archive has no code, and a debug file neither: give the executable, or the listing has lines only.

        Args:
            function: a name as for `find`, or a vaddr: the function there.
            end: with a vaddr, the end of the listed code.
            sources: where source files are looked for (default: the debug info, and the paths in it).
            code: the executable or library, if that is another file.
            syntax: "intel" or "att", for x86.
            lines: only lines, which needs neither capstone nor code.

        Raises:
            LookupError: the function does not exist.
            ImportError: capstone is not installed.
            Unsupported: there is no disassembler for the machine.
            WhenceError, OSError: the code cannot be read.
        """
        from whence.listing.model import ListingOptions

        about = ListingOptions(sources, code, syntax, lines)
        if end is not None and isinstance(function, int):
            return self.listing_of(None, [(function, end)], about)
        ranges = self.parts(function)
        if not ranges:
            what = (
                f"vaddr {function:#x} is in no function" if isinstance(function, int) else f"no function {function!r}"
            )
            raise LookupError(f"{self.path}: {what}")
        first, *others = ranges
        listing = self.listing_of(first[0], [(part.vaddr, part.end) for part in first], about)
        if others:
            vaddrs = ", ".join(f"{parts[0].vaddr:#x}" for parts in others[:NAMESAKES])
            listing.notes.append(f"{len(others)} more functions have this name, at {vaddrs}")
        return listing

    def parts(self, function: str | int) -> list[list[Range]]:
        """Return the functions with a name, or at a vaddr, each with all its parts: split functions have several.

        Reads only the unit of debug info with the function if a symbol has the name.
        """
        from whence.reverse import parts_of

        if isinstance(function, int):
            vaddrs = [function]
        else:
            vaddrs = self.producers.symbol_vaddrs(function) if self.producers is not None else []
            vaddrs = vaddrs or [match.vaddr for match in self.find(function)]
        functions: dict[int, list[Range]] = {}
        for vaddr in vaddrs:
            parts = parts_of(self.table_for((vaddr,)), vaddr)
            if parts:
                functions.setdefault(parts[0].vaddr, parts)
        return list(functions.values())

    def listing_of(self, function: Range | None, spans: list[tuple[int, int]], options: ListingOptions) -> Listing:
        """Return the listing of some code, [start, end) in vaddrs, of a function if that is known."""
        from whence.listing.build import listing

        table = self.table_for([start for start, _ in spans])
        with self._code_lock:
            self._still_open()
            reader = None if options.lines else self._reader(options)
            sources = self._sources_of(options.sources)
            out = listing(spans, table, reader, function=function, options=options, sources=sources)
        if reader is None and not options.lines:
            out.notes.append("no instructions: the file has no code, give the executable")
        elif reader is not None and reader.origin:
            out.notes.append(f"the code is from {reader.origin}")
        return out

    def source_file(self, path: str, options: SourceOptions) -> SourceFile | None:
        """Return a source file by its path in the debug info, None if it is not found."""
        with self._code_lock:
            self._still_open()
            return self._sources_of(options).find(path)

    def _reader(self, options: ListingOptions) -> CodeReader | None:
        """Return what disassembles the code: of the executable, or in memory. None if there is no code."""
        from whence.listing.build import CodeReader, has_code

        key = None if options.code is None else os.fspath(options.code), options.syntax
        reader = self._readers.get(key)
        if reader is not None:
            return reader
        own = self.producers.elf if self.producers is not None else None
        debug = self.producers.debug_elf if self.producers is not None else None
        elf = own
        if options.code is not None:
            elf = open_elf(options.code)
            self._code_files.append(elf)
            if self.build_id and elf.build_id not in ("", self.build_id):
                raise Mismatch(f"the build-id is {elf.build_id}, expected {self.build_id}").in_file(elf.path)
        if elf is not None and has_code(elf):
            reader = CodeReader.of_file(elf, debug, demangle=self._demangle, syntax=options.syntax)
            self._readers[key] = reader
        elif options.memory is not None:  # differs from process to process
            reader = CodeReader.of_memory(options.memory, debug, demangle=self._demangle, syntax=options.syntax)
        return reader

    def _sources_of(self, options: SourceOptions | None) -> Sources:
        """Return the source files; those found are kept for the next listing with the same options."""
        from whence.listing.sources import Sources

        if self._sources is None or self._sources[0] is not options:
            debug = self.producers.debug_elf if self.producers is not None else None
            self._sources = options, Sources(options, self.build_id, debug)
        return self._sources[1]

    def explain(self, vaddr: int, *, mapped: str = "") -> Explanation:
        """Return each step from a vaddr to its frames, or what is missing and may help. Prints one step per line.

        `mapped` is the path by which a process knows the file, if that is another one. Costs a lookup with each source
        of names.
        """
        from whence.explanation import explain_archive, explain_elf

        vaddr = index(vaddr)
        plan = self.plan((vaddr,))
        table = self.table_for((vaddr,))
        if self.producers is None:
            return explain_archive(self.path, self.build_id, table, vaddr)
        self.producers.find_companions()
        searches = self._completion.searches if self._completion is not None else []
        return explain_elf(self.producers, searches, plan, table, vaddr, mapped)

    def sizes(self, options: SizeOptions | None = None) -> Sizes:
        """Return the bytes of functions, files, units or sections; their sum is the size of the measured sections.

        Raises Unsupported for an archive, WrongUse for a file without sections.
        """
        from whence.sizes.measure import measure

        with self._lock:
            self._still_open()
            if self.producers is None:
                raise Unsupported("an archive has no sections to measure: give the object file").in_file(self.path)
            with naming(self.path):
                return measure(self.producers, options, demangle=self._demangle)

    def ranges(self) -> Iterator[Range]:
        """Return every range of the whole table in order of (vaddr, depth)."""
        return iter(self.table())

    def functions(self) -> Iterator[Range]:
        """Return the ranges of depth 0: functions, one range for each part of a split function."""
        return (entry for entry in self.table() if entry.depth == 0)

    def _still_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.path or 'the binary'} is closed")

    def close(self) -> None:
        """Close every file and table."""
        with self._code_lock:
            self._readers.clear()
            self._sources = None
            for file in self._code_files:
                file.close()
            self._code_files.clear()
        with self._lock:
            self._closed = True
            for table in self._shards.values():
                table.close()
            self._shards.clear()
            if self._whole is not None:
                self._whole.close()
            if self.producers is not None:
                self._whole = None  # in memory
                self.producers.close()
                self.producers.elf.close()

    def __getitem__(self, vaddr: object) -> NoReturn:
        """Raise TypeError: a Binary is not a mapping, as an address may have several frames, or none."""
        raise TypeError("a Binary has no items: use binary.lookup(vaddr), which returns the frames of an address")

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: open files and tables are not pickled."""
        raise TypeError(f"a Binary can't be pickled: pickle its path ({self.path!r}) and open that with whence.open")

    def _repr_html_(self) -> str:
        """Return what the file is as a table in HTML, for notebooks."""
        from whence._base.html import html_table

        kind = "archive" if self.is_archive else "ELF file"
        rows: list[tuple[str, object]] = [("path", self.path or "in memory"), ("kind", kind)]
        if self._closed:
            rows.append(("state", "closed"))
        else:
            rows.append(("build-id", self.build_id or "none"))
            rows += [("problem", problem) for problem in self.problems]
        return html_table(("whence.Binary", ""), rows)

    def __repr__(self) -> str:
        kind = "archive" if self.is_archive else "ELF file"
        return f"<whence.Binary {self.path or 'in memory'}: {kind}{', closed' if self._closed else ''}>"


def checked_vaddr(vaddr: int) -> int:
    """Return a vaddr as an int. Raises TypeError for other types, ValueError for a negative number."""
    try:
        number = index(vaddr)
    except TypeError:
        advice = f": give lookup(int({vaddr!r}, 16))" if isinstance(vaddr, str) else ""
        raise TypeError(f"a vaddr is an integer, not {type(vaddr).__name__}{advice}") from None
    if number < 0:
        raise ValueError(f"vaddr {number} is negative: a signed 64-bit address is lookup({number} % 2**64)")
    return number


def in_order(vaddrs: Sequence[int]) -> Sequence[int]:
    """Return the distinct vaddrs, ascending."""

    ordered = array("Q")
    ordered.frombytes(ascending(array("Q", vaddrs))[0])
    return ordered


def unit_count(producers: Producers) -> int:
    """Return the number of units of debug info."""
    return producers.debug_info.unit_count if producers.debug_info is not None else 0


def is_archive(path: str | PathLike[str]) -> bool:
    """Return True if a file is an archive, compressed or not.

    Raises OSError, ElfError if it is not a regular file, and Unsupported for a zstd file without a zstd module.
    """
    if not os.path.isfile(path):  # an entry of a zip file, a slice or a bundle
        from whence.objects.opening import split_architecture
        from whence.objects.zipped import split_entry

        if split_entry(os.fspath(path))[1]:
            return False
        path, _ = split_architecture(path)
    with open_regular(path, ElfError) as (descriptor, _):
        head = os.read(descriptor, 4)
        if not codec_of(head):
            return head in MAGICS
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as file:
            return is_archive_file(file)


def open_archive(path: str | PathLike[str], *, demangle: bool | Callable[[str], str] = False) -> Binary:
    """Open an archive for lookups. Raises LidiaError, OSError."""
    name = os.fspath(path)
    return Binary(table=open_table(name, demangle=demangle), path=name)


def open_elf(path: str | PathLike[str]) -> ObjectFile:
    """Open an object file that may name addresses. Raises ObjectError, Unsupported for a core file, OSError."""
    from whence.objects.opening import open_object

    try:
        return not_a_core(open_object(path))
    except ElfError as error:
        raise as_opened(error) from None


def elf_of_bytes(data: bytes, path: str) -> ObjectFile:
    """Return an object file of its bytes. Raises ObjectError, Unsupported for a core file."""
    from whence.objects.opening import object_of_bytes

    try:
        return not_a_core(object_of_bytes(data, path))
    except ElfError as error:
        raise as_opened(error) from None


def as_opened(error: ElfError) -> ElfError:
    """Return an error; for a file of another kind, say which kinds are read."""
    if error.code != WRONG_KIND:
        return error
    fault = "neither an object file nor an archive"
    return ElfError("", None, fault, found=error.found, code=WRONG_KIND, path=error.path)


def not_a_core(elf: ObjectFile) -> ObjectFile:
    """Return the file; close it and raise Unsupported if it is a core file."""
    if elf.is_core:
        elf.close()
        core = Unsupported("a core file, not a program").in_file(elf.path)
        raise core.with_hint("whence core reads it")
    return elf
