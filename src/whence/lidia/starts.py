"""Where functions start, in the strings of an archive: the rows of the extra section's STRT.

A row is told to frames of that very function in that very file, so a declaration is kept as far as the archive has
both names. A file may be spelled in two ways: link-time optimization writes the lines of code below another directory
than the declarations (`/build/x/src/a.c`, and `./src/a.c` after -ffile-prefix-map). A relative path that the archive
does not have is taken for the one absolute path that ends with it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from whence.errors import LidiaError
from whence.lidia.extra import START
from whence.lidia.kernels import starts as starts_kernel

if TYPE_CHECKING:
    from whence.lidia.extra import Found
    from whence.lidia.kernels.strings import Interner
    from whence.lidia.layout import Header
    from whence.ranges import Ranges

ABSENT = 0xFFFFFFFF  # the number of a name that the archive does not have


def rows_of(ranges: Ranges, names: Interner, string: array[int]) -> array[int]:
    """Three numbers a row: function, file (offsets of strings) and line, in that order, each row once.

    `names` has numbered the names of the ranges, `string` says where each begins. None where offsets have over 32 bits.
    """
    starts = ranges.starts
    if not len(starts) or string[-1] > 0xFFFFFFFF:
        return array("I")
    function, file = _blank(len(starts)), _blank(len(starts))
    names.find(starts.function, function)
    names.find(starts.file, file)
    if ABSENT in file:
        file = _respelled(ranges, names, file)
    out = _blank(3 * len(starts))
    del out[3 * starts_kernel.settle(function, file, starts.line, string, out) :]
    return out


def problems(data: memoryview, extra: Found | None, header: Header) -> list[str]:
    """What is wrong with the rows of an archive, a sentence for each rule that is broken."""
    at, size = extra.chunks.get(b"STRT", (0, 0)) if extra is not None else (0, 0)
    rows = list(START.iter_unpack(data[at : at + size // START.size * START.size]))
    out = []
    if size % START.size:
        out.append(LidiaError("STRT", at, f"it is a whole number of rows of {START.size} bytes", size))
    if wrong := next((row for row, (one, two) in enumerate(pairwise(rows), 1) if one >= two), 0):
        out.append(LidiaError("STRT", at + wrong * START.size, "rows are in order, each once", rows[wrong]))
    room = header.strings.size
    if wrong := next((row for row, (one, two, _) in enumerate(rows, 1) if one >= room or two >= room), 0):
        rule = f"names lie in the {room} bytes of the strings"
        out.append(LidiaError("STRT", at + (wrong - 1) * START.size, rule, rows[wrong - 1]))
    return list(map(str, out))


def _respelled(ranges: Ranges, names: Interner, file: array[int]) -> array[int]:
    """The numbers of the files, with the absolute paths that absent relative ones mean."""
    refs = ranges.starts.file
    backwards = sorted((path[::-1], number) for number, path in names.absolute_paths())  # equal endings side by side
    meant: dict[int, int] = {}
    for ref in {ref for ref, number in zip(refs, file) if number == ABSENT}:
        ending = (b"/" + ranges.strings.raw(ref).removeprefix(b"./"))[::-1]
        at = bisect_left(backwards, (ending, 0))
        alike = [number for path, number in backwards[at : at + 2] if path.startswith(ending)]
        if len(alike) == 1:
            meant[ref] = alike[0]
    return array("I", [meant.get(ref, number) for ref, number in zip(refs, file)])


def _blank(count: int) -> array[int]:
    return array("I", bytes(4 * count))
