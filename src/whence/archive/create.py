"""Create an archive of a binary: gather every source of names, merge, write.

`create` takes paths, `create_from_elf` an open object file. With `compat="go"` the archive has the bytes that the Go
package
writes: functions of the symbol table and of .gopclntab, including duplicates. The only other options that apply then
are `symtab` and `gopclntab`.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike, fspath

from whence._base.errors import ObjectError, WhenceError
from whence._base.files import atomic_write
from whence._base.options import ReadOptions
from whence._base.records import Record, replaced
from whence._base.source import Source
from whence._version import __version__
from whence.demangle import demangle as readable
from whence.dwarf.ahead import decompress_ahead
from whence.lidia.compressed import ZSTD, codec_named, compressed, zstd_module
from whence.lidia.layout import Extra
from whence.lidia.unwind import FRAME_DATA, NAMES, UnwindTable, pack_unwind
from whence.lidia.writer import Written, names_budget, write
from whence.locate.debug_files import DebugFiles
from whence.objects.elf.kernels.constants import STT_FUNC, STT_MASK
from whence.objects.interface import ObjectFile
from whence.objects.machines import machine_name
from whence.objects.opening import open_object
from whence.producers import Producers
from whence.ranges import Ranges, StringSpace
from whence.ranges.caller_files import caller_files
from whence.ranges.strings import Arena

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import BinaryIO, Literal, Unpack

    from whence._base.options import ReadFields

    class CreateFields(ReadFields, total=False):
        """The fields of CreateOptions as keyword arguments."""

        lines: bool
        files: bool
        crc: bool
        strings: Literal["length", "nul"]
        unwind: bool
        compat: Literal["go"] | None


PRODUCER = f"whence {__version__}"


class CreateOptions(ReadOptions, frozen=True):
    """The contents of an archive, in addition to what is read (ReadOptions).

    demangle: store readable names in place of linkage names.
    lines, files: store line tables, and the paths of source files.
    crc: store checksums.
    strings: how names are delimited, "length" or "nul".
    unwind: store unwind tables.
    compat: "go" writes the bytes of Pyroscope's Go package; the only other options that apply then are `symtab` and
        `gopclntab`.
    """

    lines: bool = True
    files: bool = True
    crc: bool = True
    strings: Literal["length", "nul"] = "length"
    unwind: bool = False
    compat: Literal["go"] | None = None


CREATE_DEFAULTS = CreateOptions()


class Created(Record, frozen=True):
    """The result of creating an archive.

    written: counts and sizes.
    sources: the number of ranges of each source, by its word.
    seconds: the time from the open ELF file to the written archive.
    debug_file: the path of the separate debug file; "" if the names are from the file itself.
    problems: the parts of the debug info that were skipped, and why.
    """

    written: Written
    sources: dict[str, int]
    seconds: float
    debug_file: str = ""
    problems: tuple[str, ...] = ()


def create(
    executable: str | PathLike[str],
    output: str | PathLike[str],
    *,
    debug_files: DebugFiles | None = None,
    options: CreateOptions = CREATE_DEFAULTS,
    **changes: Unpack[CreateFields],
) -> Created:
    """Write the archive of the ELF file `executable` to `output`.

    The archive is written to a temporary file next to `output`, which is then renamed.

    Args:
        output: a path; the archive is compressed if the path ends in .gz or .zst.
        debug_files: finds the separate debug file (`Locator.debug_files`); by default, /usr/lib/debug and the folder of
            the file are searched.
        options: what to read and what to store.
        changes: fields of CreateOptions by name, which replace those of `options`: lines, files, crc, strings, unwind,
            compat, dwarf, symtab, gopclntab, names, paths, columns, skip_line_zero, demangle, jobs.

    Raises:
        ElfError: the file is not an ELF file, or is damaged so that nothing in it names an address.
        OSError: a file can't be opened.

    Nothing is written if an error is raised.
    """
    with open_object(executable) as elf:
        return create_from_elf(elf, fspath(output), debug_files=debug_files, options=options, **changes)


def create_from_elf(
    elf: ObjectFile,
    output: str | PathLike[str] | BinaryIO,
    *,
    debug_files: DebugFiles | None = None,
    options: CreateOptions = CREATE_DEFAULTS,
    **changes: Unpack[CreateFields],
) -> Created:
    """Write the archive of an open ELF file to a path or a binary file object; see `create`.

    A file object is written from its current position and need not be seekable.
    """
    options = replaced(options, **changes)
    began = time.perf_counter()
    output = fspath(output) if isinstance(output, PathLike) else output
    if isinstance(output, str) and codec_named(output) == ZSTD:
        zstd_module()  # raises without zstd, before any work
    if options.dwarf and options.compat is None and options.jobs != 1:
        decompress_ahead(elf)
    if options.compat == "go":
        table = go_table(elf, symtab=options.symtab, gopclntab=options.gopclntab)
        _raise_if_empty(table, elf.problems)
        plain = CreateOptions(lines=False, files=False, compat="go")
        written = _write(table, output, elf.reading, plain)
        return Created(written, _sources(table), time.perf_counter() - began, "", _unnamed(table, written))
    with Producers(elf, complete=(debug_files or DebugFiles()).complete, options=options) as producers:
        return archive_producers(producers, output, options, began=began)


def archive_producers(
    producers: Producers,
    output: str | BinaryIO,
    options: CreateOptions = CREATE_DEFAULTS,
    *,
    began: float | None = None,
) -> Created:
    """Write the archive of all ranges of `producers` to a path or a binary file object."""
    began = time.perf_counter() if began is None else began
    table = producers.ranges(lines=options.lines, files=options.files)
    _raise_if_empty(table, producers.errors())
    if options.files:
        table = caller_files(table)
    if options.demangle:
        demangle_names(table)
    extra = extra_of(producers.elf)
    if options.unwind:
        extra = extra.replaced(unwind=unwind_of(producers.elf, producers.debug_elf))
    written = _write(table, output, producers.reading, options, extra)
    debug_file = "" if producers.debug_elf is producers.elf else str(producers.debug_elf.path)
    problems = (*producers.all_problems(), *_unnamed(table, written))
    return Created(written, _sources(table), time.perf_counter() - began, debug_file, problems)


def _raise_if_empty(table: Ranges, errors: Iterable[WhenceError]) -> None:
    """Raise the first error of a file that is so damaged that no range is left."""
    if not len(table):
        for error in errors:
            raise error


def _unnamed(table: Ranges, written: Written) -> tuple[str, ...]:
    """Return the problem of names that were left out, if any."""
    return (f"{written.unnamed} names left out: {names_budget(table).reached()}",) if written.unnamed else ()


def _write(
    table: Ranges,
    output: str | BinaryIO,
    reading: Callable[[], AbstractContextManager[None]],
    options: CreateOptions,
    extra: Extra | None = None,
) -> Written:
    """Write an archive whose names are read from the files; raise without renaming if a file has changed."""

    def write_to(out: BinaryIO) -> Written:
        with reading():
            return write(
                table, out, crc=options.crc, lines=options.lines, files=options.files, strings=options.strings,
                compat=options.compat, extra=extra,
            )  # fmt: skip

    if not isinstance(output, str):
        return write_to(output)
    with atomic_write(output) as target, compressed(target, codec_named(output)) as out:
        return write_to(out)


def extra_of(elf: ObjectFile) -> Extra:
    """Return the origin of an archive of this file."""
    segments = tuple((segment.file_offset, segment.vaddr, segment.file_size) for segment in elf.code_segments())
    return Extra(elf.build_id, machine_name(elf.machine), PRODUCER, segments=segments)


def unwind_of(elf: ObjectFile, debug_elf: ObjectFile) -> bytes:
    """Return the unwind tables of a file, with .debug_frame possibly of its debug file; b"" without any.

    The function table of a PE file and compact unwind information are stored as .eh_frame.
    """
    from whence.unwind.encoding import converted  # most archives have no unwind tables
    from whence.unwind.frame_data import FrameTable

    tables = []
    for name in NAMES.values():
        holder = next((file for file in (elf, debug_elf) if _has_content(file, name)), None)
        section = None if holder is None else holder.section(name)
        if holder is not None and section is not None and (holder is elf or name == ".debug_frame"):
            with suppress(ObjectError):
                tables.append(UnwindTable(name, section.vaddr, holder.content(section)))
    rows = converted(elf)
    if rows:
        tables.append(UnwindTable(".eh_frame", 0, rows))
    frame_data = FrameTable.of_file(elf) or FrameTable.of_file(debug_elf)
    if frame_data is not None:
        tables.append(UnwindTable(FRAME_DATA, elf.image_base, frame_data.packed()))
    text = elf.section(".text")
    text_vaddr = text.vaddr if text is not None else 0
    return pack_unwind(elf.machine, elf.bits, elf.order == "big", text_vaddr, tables) if tables else b""


def _has_content(elf: ObjectFile, name: str) -> bool:
    section = elf.section(name)
    return section is not None and section.in_file and section.size > 0


def _sources(table: Ranges) -> dict[str, int]:
    """Count the ranges of each source, by its word."""
    counts: dict[str, int] = {}
    stored = bytes(table.source)
    for source in Source:
        if source.number in stored:  # faster than counting
            counts[source or "unknown"] = stored.count(source.number)
    return counts


def demangle_names(table: Ranges) -> None:
    """Replace each linkage name by its readable form."""
    arena = Arena(table.strings)
    names = {
        ref: arena.add(readable(table.strings.text(ref)).encode("utf-8", "surrogateescape"))
        for ref in set(table.function)
    }
    arena.seal()
    table.function = array("Q", map(names.__getitem__, table.function))


def go_table(elf: ObjectFile, *, symtab: bool = True, gopclntab: bool = True) -> Ranges:
    """Return the ranges that the Go package writes, in the order in which it numbers their names, before sorting.

    These are the functions of `.symtab` (STT_FUNC with a name, even undefined), or of `.dynsym` without `.symtab`, with
    sizes cut to 32 bits; then every function of .gopclntab again.
    """
    strings = StringSpace()
    rows: list[tuple[int, int, int, Source]] = []
    if symtab:
        for name, source in ((".symtab", Source.SYMTAB), (".dynsym", Source.DYNSYM)):
            if elf.section(name) is not None:
                rows += _go_symbols(elf, name, source, strings)
                break
    if gopclntab:
        rows += _go_functions(elf, strings)
    table = Ranges(strings)
    count = len(rows)
    table.vaddr = array("Q", [row[0] for row in rows])
    table.length = array("Q", [row[1] & 0xFFFFFFFF for row in rows])
    table.function = array("Q", [row[2] for row in rows])
    table.source = array("B", [row[3].number for row in rows])
    for name in ("depth", "line_index", "line_count", "call_line"):
        setattr(table, name, array("I", bytes(4 * count)))
    for name in ("file", "call_file"):
        setattr(table, name, array("Q", bytes(8 * count)))
    return table


def _go_symbols(elf: ObjectFile, name: str, source: Source, strings: StringSpace) -> list[tuple[int, int, int, Source]]:
    symbols = elf.symbols(name)
    base, size = strings.add(symbols.names), len(symbols.names)
    return [
        (value, length, strings.ref(base, offset), source)
        for value, length, info, offset in zip(symbols.value, symbols.size, symbols.info, symbols.name_offset)
        if info & STT_MASK == STT_FUNC and offset < size and symbols.names[offset]
    ]


def _go_functions(elf: ObjectFile, strings: StringSpace) -> list[tuple[int, int, int, Source]]:
    # The Go package reads no other section. If the header has no text base (Go 1.26 and later), it uses the address of
    # .text, which shifts every function of a program with C code; only in this the result differs.
    if elf.section(".gopclntab") is None:
        return []
    from whence.gopclntab import Pclntab

    table = Pclntab.find(elf)
    if table is None:
        return []
    columns = table.function_columns(strings)
    return [
        (start, end - start, name, Source.GOPCLNTAB)
        for start, end, name in zip(columns.entry, columns.end, columns.name)
    ]
