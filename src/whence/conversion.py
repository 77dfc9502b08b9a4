"""Convert files that name code into another format: an archive, GSYM or a Breakpad symbol file.

The input is an object file, whose debug files complete it, an archive, or a file of one of these formats. All make one
table of ranges, and the writers take that table.
"""

from __future__ import annotations

import os
import time
from os import PathLike, fspath

from whence import lidia
from whence._base.errors import WrongUse
from whence._base.files import atomic_write
from whence._base.options import ReadOptions
from whence._base.records import Record, replaced
from whence.archive.create import CreateOptions, create_from_elf, demangle_names
from whence.binary import is_archive, open_elf
from whence.exchange.breakpad import BREAKPAD_LIMITS, copied_stack, write_breakpad
from whence.exchange.gsym import GSYM_LIMITS, write_gsym
from whence.exchange.reading import image_start
from whence.lidia.compressed import codec_named, compressed
from whence.lidia.ranges import ranges_of
from whence.locate.debug_files import DebugFiles
from whence.objects.breakpad import CPUS, LINUX, SYSTEMS, BreakpadFile, BreakpadModule
from whence.objects.elf.segments import Segment, image_base
from whence.objects.ids import DebugId
from whence.objects.interface import ObjectFile
from whence.objects.machines import machine_name
from whence.objects.opening import split_architecture
from whence.producers import Producers
from whence.ranges import Ranges
from whence.ranges.flatten import flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from whence.exchange.counts import SymbolCounts

LIDIA, GSYM, BREAKPAD = "lidia", "gsym", "sym"
ENDINGS = {".lidia": LIDIA, ".gsym": GSYM, ".sym": BREAKPAD}
FORMATS = tuple(ENDINGS.values())
READABLE = ReadOptions(demangle=True)
UNKNOWN_CPU = "unknown"
LIMITS = {LIDIA: (), GSYM: GSYM_LIMITS, BREAKPAD: BREAKPAD_LIMITS}


class Conversion(Record, frozen=True):
    """The result of a conversion.

    format: what was written, one of FORMATS.
    functions, inlined, lines: how many were written.
    size: bytes of the output.
    seconds: the time of the conversion.
    debug_file: the path of the separate debug file; "" if the names are from the file itself.
    problems: the damaged parts of the input that were skipped.
    notes: parts of the input that the format does not store, with their number.
    limits: what the format cannot store.
    """

    format: str
    functions: int
    inlined: int
    lines: int
    size: int
    seconds: float
    debug_file: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def format_of(output: str) -> str:
    """Return the format that a file's name asks for. Raises WrongUse for another ending.

    >>> format_of("app.gsym"), format_of("app.lidia.zst")
    ('gsym', 'lidia')
    """
    name = output.removesuffix(".gz").removesuffix(".zst")
    for ending, kind in ENDINGS.items():
        if name.endswith(ending) and (kind == LIDIA or name == output):
            return kind
    expected = ", ".join(ENDINGS)
    raise WrongUse(f"{output}: the name of the output says its format: it ends in {expected}")


def convert(
    path: str | PathLike[str],
    output: str | PathLike[str],
    *,
    to: str = "",
    debug_files: DebugFiles | None = None,
    options: ReadOptions = READABLE,
) -> Conversion:
    """Write the names of a file in another format.

    Args:
        path: an object file, an archive, a GSYM file or a Breakpad symbol file.
        output: the file to write, which is complete or not there.
        to: the format, one of FORMATS; by default, what the ending of `output` says.
        debug_files: finds separate debug files, as for `whence.archive.create.create`.
        options: what to read. `demangle` is used for Breakpad files, whose readers expect readable names.

    Raises:
        WhenceError: the input is malformed or names nothing, or the format cannot store it.
        OSError: a file cannot be opened.
    """
    output = fspath(output)
    to = to or format_of(output)
    if to not in FORMATS:
        raise WrongUse(f"unknown format {to!r}: use {', '.join(FORMATS)}")
    began = time.perf_counter()
    if is_archive(path):
        return of_archive(fspath(path), output, to, began, bool(options.demangle))
    with open_elf(path) as elf:
        return of_object(elf, output, to, began, debug_files, options)


def of_archive(path: str, output: str, to: str, began: float, demangle: bool) -> Conversion:
    """Convert an archive; into an archive means to copy it, compressed or not."""
    with lidia.open(path) as table:
        if to == LIDIA:
            with atomic_write(output) as target, compressed(target, codec_named(output)) as out:
                out.write(table.content())
                table.check()
            functions = sum(1 for entry in table if entry.depth == 0)
            return Conversion(
                LIDIA, functions, len(table) - functions, table.header.lines.entries, os.stat(output).st_size,
                time.perf_counter() - began,
            )  # fmt: skip
        about = table.about
        cpu = next((name for machine, name in CPUS.items() if machine_name(machine) == about.machine), UNKNOWN_CPU)
        name = os.path.basename(path).partition(".lidia")[0]
        debug_id = DebugId.of_build_id(about.build_id)
        segments = [Segment.of_code(offset, vaddr, size) for offset, vaddr, size in about.segments]
        base = image_base(segments, only_code=True)
        origin = Origin(about.build_id, BreakpadModule(LINUX, cpu, debug_id, name, about.build_id), base)
        with atomic_write(output) as out:
            counts = write_ranges(to, out, ranges_of(table), origin, table.reading, demangle=demangle)
        return conversion_of(to, counts, began)


def of_object(
    elf: ObjectFile, output: str, to: str, began: float, debug_files: DebugFiles | None, options: ReadOptions
) -> Conversion:
    """Convert an object file with its debug files."""
    if to == LIDIA:
        fields = {name: getattr(options, name) for name in ReadOptions._fields}
        wanted = CreateOptions(**fields | {"demangle": False})
        created = create_from_elf(elf, output, debug_files=debug_files, options=wanted)
        archived = created.written
        return Conversion(
            LIDIA, archived.functions, archived.inlined, archived.line_entries, os.stat(output).st_size,
            time.perf_counter() - began, created.debug_file, created.problems,
        )  # fmt: skip
    with Producers(elf, complete=(debug_files or DebugFiles()).complete, options=options) as producers:
        debug_file = "" if producers.debug_elf is elf else str(producers.debug_elf.path)
        with atomic_write(output) as out:
            counts = write_symbols(to, producers, out, demangle=bool(options.demangle))
        return conversion_of(to, counts, began, debug_file, tuple(producers.all_problems()))


def conversion_of(
    to: str, counts: SymbolCounts, began: float, debug_file: str = "", problems: tuple[str, ...] = ()
) -> Conversion:
    """Return the result of writing a symbol file."""
    seconds = time.perf_counter() - began
    return Conversion(
        to, counts.functions, counts.inlined, counts.lines, counts.size, seconds, debug_file, problems, counts.notes,
        LIMITS[to],
    )  # fmt: skip


def write_symbols(
    to: str, producers: Producers, out: BinaryIO, *, name: str = "", demangle: bool = True
) -> SymbolCounts:
    """Write the names of an open file as GSYM or Breakpad symbol file; `name` is what Breakpad calls the module.

    Raises WhenceError, in particular the file's own error if it is so damaged that nothing has a name.
    """
    ranges = producers.ranges(starts=False)
    if not len(ranges):
        for error in producers.errors():
            raise error
    origin = origin_of(producers, name, with_stack=to == BREAKPAD)
    return write_ranges(to, out, ranges, origin, producers.reading, demangle=demangle)


class Origin(Record, frozen=True):
    """The facts about the file with the code that a writer stores.

    base: what addresses of Breakpad are relative to.
    stack: STACK records.
    notes: what of the rules for unwinding is left out.
    """

    build_id: str
    module: BreakpadModule
    base: int = 0
    stack: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()


def origin_of(producers: Producers, name: str, *, with_stack: bool) -> Origin:
    """Return the origin of a file's names, with its rules for unwinding if these are written."""
    elf = producers.elf
    if isinstance(elf, BreakpadFile):
        return Origin(elf.build_id, elf.module, 0, tuple(copied_stack(elf)) if with_stack else ())
    base = image_start(elf)
    module = module_of(elf, name)
    if not with_stack:
        return Origin(elf.build_id, module, base)
    from whence.exchange.stack_cfi import stack_records  # takes as long to import as everything else

    records, formless = stack_records(elf, producers.debug_elf, base)
    notes = (f"{formless} functions without unwind rules: theirs have no form in Breakpad",) if formless else ()
    return Origin(elf.build_id, module, base, tuple(records), notes)


def module_of(elf: ObjectFile, name: str) -> BreakpadModule:
    """Return the first records of the Breakpad file of an object file.

    The name of a PE file is that of its PDB; `name` replaces that of the path.
    """
    path, _ = split_architecture(name or elf.path)
    if elf.format == "Mach-O":  # a store names slices of fat files FILE:ARCHITECTURE
        path = path.partition(":")[0]
    pdb = elf.details.get("PDB", "").replace("\\", "/")
    name = os.path.basename(pdb) or os.path.basename(path).removesuffix(".gsym")
    cpu = CPUS.get(elf.machine, UNKNOWN_CPU)
    return BreakpadModule(SYSTEMS.get(elf.format, LINUX), cpu, elf.debug_id, name, elf.code_id)


def write_ranges(
    to: str, out: BinaryIO, ranges: Ranges, origin: Origin, reading: Callable[[], AbstractContextManager[None]], *,
    demangle: bool,
) -> SymbolCounts:  # fmt: skip
    """Write a table of ranges. Its names are read in a `reading` block, which raises if a file has changed."""
    with reading():
        if to == BREAKPAD and demangle:
            demangle_names(ranges)
        flat = flatten(ranges)
        if to == GSYM:
            counts = write_gsym(flat, ranges.strings, out, build_id=origin.build_id)
        else:
            counts = write_breakpad(flat, ranges.strings, out, origin.module, base=origin.base, stack=origin.stack)
    notes = [*counts.notes, *(origin.notes if to == BREAKPAD else ())]
    if flat.nameless:
        notes.append(f"{flat.nameless} ranges of code without a function, of which only lines are known, are left out")
    if flat.skipped:
        notes.append(f"{flat.skipped} ranges outside of functions or nested too deeply are left out")
    return replaced(counts, notes=tuple(notes))
