"""The line programs of a batch of units, with the files that their scopes and starts name.

Nearly all programs keep every rule and are read by programs_kernel, all at once; the odd ones are read one by one by
lines.py, which is also what reads a single program.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.dwarf.kernels import programs as programs_kernel
from whence.dwarf.line_files import PLACE_BITS, STRING, Paths
from whence.ranges import Rows
from whence.ranges.table import NO_FILE

if TYPE_CHECKING:
    from whence.dwarf.lines import LineTable
    from whence.dwarf.units import Units
    from whence.ranges import Scopes, Starts, StringSpace

ODD = 2  # as in programs_kernel
NOTHING = (1 << 64) - 1  # the place of a directory that is not there


class Programs:
    """Reads line programs on one thread. `odd` reads the one of a unit that the kernel leaves to it."""

    def __init__(
        self, data: memoryview, big: bool, lowest: int, paths: Paths, strings: StringSpace,
        odd: Callable[[int], LineTable],
    ) -> None:  # fmt: skip
        self._kernel = programs_kernel.Programs(data, big, lowest)
        self._paths, self._strings, self._odd = paths, strings, odd

    def read(
        self, units: Units, chosen: array[int], scopes: Scopes, scope_ends: array[int], starts: Starts,
        start_ends: array[int],
    ) -> tuple[Rows, array[int]]:  # fmt: skip
        """The rows of the programs of these units, and where those of each end. `scope_ends` and `start_ends` say where
        the scopes and starts of each end: their files, numbers so far, become names (a number beyond the table: 0)."""
        status = bytearray(len(chosen))
        named = scopes.call_file, scope_ends, starts.file, start_ends
        room, keys, left = self._kernel.read(units.rows, chosen, *named, status, max(self._paths.left, 0))
        self._paths.left = min(self._paths.left, left)
        names = self._names(keys)
        places: dict[int, int] = {}
        numbers = array("I", [places.setdefault(ref, len(places)) if ref else NO_FILE for ref in names])
        rows = Rows(array("Q", bytes(8 * room)), array("I", bytes(4 * room)), array("I", bytes(4 * room)))
        rows.files.extend(places)
        ends = array("I", bytes(4 * len(chosen)))
        count = self._kernel.settle(numbers, names, *named, rows.va, rows.file, rows.line, ends)
        del rows.va[count:], rows.file[count:], rows.line[count:]
        if ODD in status:
            return self._with_odd(status, chosen, named, rows, ends)
        return rows, ends

    def _names(self, count: int) -> array[int]:
        """The path of each file that is named."""
        keys = array("Q", bytes(24 * count))
        self._kernel.keys(keys)
        paths, names = self._paths, array("Q")
        last, comp_dir, kept = NOTHING, b"", dict[tuple[int, int], int]()
        places = iter(keys)
        for where, directory, name in zip(places, places, places):
            if where != last:
                last, comp_dir = where, self._strings.raw(where)
                kept = paths.known(comp_dir)
            # A string in the program itself has a place that no other program names.
            known = {} if name >> PLACE_BITS == STRING else kept
            names.append(paths.ref(known, comp_dir, (-1 if directory == NOTHING else directory, name)))
        return names

    def _with_odd(
        self, status: bytearray, chosen: array[int], named: tuple[array[int], ...], rows: Rows, ends: array[int]
    ) -> tuple[Rows, array[int]]:
        """The same rows, with those of the odd programs where they belong."""
        out, out_ends = Rows(files=rows.files), array("I")
        call_file, scope_ends, start_file, start_ends = named
        done = scope = start = 0
        for at, index in enumerate(chosen):
            if status[at] == ODD:
                table = self._odd(index)
                base = len(out.files)
                out.files += table.rows.files
                out.va += table.rows.va
                out.file.extend(file if file == NO_FILE else base + file for file in table.rows.file)
                out.line += table.rows.line
                call_file[scope : scope_ends[at]] = array("Q", map(table.file, call_file[scope : scope_ends[at]]))
                start_file[start : start_ends[at]] = array("Q", map(table.file, start_file[start : start_ends[at]]))
            else:
                out.va += rows.va[done : ends[at]]
                out.file += rows.file[done : ends[at]]
                out.line += rows.line[done : ends[at]]
            done, scope, start = ends[at], scope_ends[at], start_ends[at]
            out_ends.append(len(out))
        return out, out_ends
