"""The mappings of a source map as ranges without names: symbols of the module name its functions.

A mapping applies up to the next one, the last one to the end of the map's module.
"""

from __future__ import annotations

import os
from array import array

from whence._base.errors import SourceMapError
from whence._base.source import Source
from whence.exchange.kernels import mappings as mappings_kernel
from whence.kernels.rows import ascending
from whence.objects.source_map import SourceMapFile
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.overlay import overlay_lines
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE, Locations, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.errors import WhenceError

END = (1 << 32) - 1


def source_map_ranges(
    file: SourceMapFile, strings: StringSpace, problems: list[WhenceError], start: int, *, columns: bool = False
) -> Ranges:
    """Return the lines of a module as ranges, with columns if these are wanted.

    `start` is the file offset of vaddr 0.
    """
    rows = Rows()
    arena = Arena(strings)
    offsets, files, lines, columns_of_lines = array("Q"), array("I"), array("I"), array("I")
    for number, part in enumerate(file.maps):
        count = len(rows.files)
        rows.files.extend(arena.add(os.fsencode(name)) for name in part.sources)
        *parts, fault_offset = mappings_kernel.rows(part.mappings, part.offset, len(part.sources))
        offsets.extend(parts[0].numbers())
        files.extend(each if each == NO_FILE else each + count for each in parts[1].numbers())
        lines.extend(parts[2].numbers())
        columns_of_lines.extend(parts[3].numbers())
        if fault_offset >= 0:
            fault = f"byte {fault_offset} of the mappings is not a valid number; the rest is left out"
            problems.append(SourceMapError(f"section {number}", None, fault).in_file(file.path))
    arena.seal()
    distinct, places = ascending(offsets)
    last = array("I", bytes(4 * len(distinct)))
    for row, position in enumerate(places.numbers()):
        last[position] = row  # of several rows at an offset the last one counts
    columns_of_rows = array("I", [0])
    for offset, row in zip(distinct.numbers(), last, strict=True):
        if offset >= start:
            rows.vaddr.append(offset - start)
            rows.file.append(files[row])
            rows.line.append(lines[row])
            columns_of_rows.append(columns_of_lines[row])
    rows.vaddr.append(END)
    rows.file.append(NO_FILE)
    rows.line.append(0)
    if columns:  # location 0 is unknown
        rows.locations = Locations(array("I", [0, *rows.line[:-1]]), columns_of_rows, zeros("I", len(rows)))
        rows.line = array("I", [*range(1, len(rows)), 0])
    out = Ranges(strings)
    overlay_lines(Scopes(), rows, out, Source.SOURCEMAP)
    return out
