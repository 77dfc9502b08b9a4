"""The ranges of a file that names the code of another one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from whence.exchange.breakpad import breakpad_ranges
from whence.exchange.gsym import gsym_ranges
from whence.exchange.names import first_scopes
from whence.exchange.source_map import source_map_ranges
from whence.kernels.rows import taken
from whence.objects.breakpad import BreakpadFile
from whence.objects.gsym import GsymFile
from whence.objects.source_map import SourceMapFile
from whence.ranges import Ranges, StringSpace
from whence.ranges.flatten import flatten
from whence.ranges.merge import merge
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.errors import WhenceError
    from whence.objects.interface import ObjectFile


def ranges_of_file(
    file: ObjectFile, strings: StringSpace, problems: list[WhenceError], *, near: Sequence[int] | None = None,
    base: int = 0, columns: bool = False,
) -> Ranges:  # fmt: skip
    """Return the functions of a file as ranges, with names in `strings`; see `gsym_ranges`.

    `columns`: also those of a source map; the other formats have none. `base` is added to addresses that are relative
    to the start of the image, as those of Breakpad and source maps are.
    """
    if isinstance(file, BreakpadFile):
        return breakpad_ranges(file, strings, problems, base)
    if isinstance(file, SourceMapFile):
        return source_map_ranges(file, strings, problems, -base, columns=columns)
    assert isinstance(file, GsymFile)
    return gsym_ranges(file, strings, problems, near=near)


def image_start(elf: ObjectFile) -> int:
    """Return what the addresses of a Breakpad file or source map are relative to.

    Those of WebAssembly are offsets in the file, as browsers print them, and those of a GSYM file are not relative.
    """
    if elf.format == "WebAssembly":
        from whence.objects.wasm import WasmFile

        assert isinstance(elf, WasmFile)
        return -elf.code_offset
    return 0 if elf.has_only_names else elf.image_base


def functions_of_file(file: ObjectFile, problems: list[WhenceError]) -> Ranges:
    """Return each function of a file as one range, without lines and inlined calls."""
    table = merge([ranges_of_file(file, StringSpace(), problems)])
    source = bytes(table.source[:1])
    flat = flatten(table)
    count, scopes, first = len(flat), flat.scopes, first_scopes(flat)
    vaddr, end, function = (
        array("Q", bytes(taken(column, "Q", first))) for column in (scopes.vaddr, scopes.end, scopes.function)
    )
    length = array("Q", [stop - start for start, stop in zip(vaddr, end, strict=True)])
    out = Ranges(table.strings, vaddr=vaddr, length=length, function=function, source=array("B", source * count))
    out.depth, out.line_index, out.line_count, out.call_line = (zeros("I", count) for _ in range(4))
    out.file, out.call_file = zeros("Q", count), zeros("Q", count)
    return out
