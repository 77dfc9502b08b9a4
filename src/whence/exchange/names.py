"""The names of functions and files as writers number and store them."""

from __future__ import annotations

import os
from array import array

from whence._base.records import Record
from whence.exchange.paths import split_path
from whence.kernels.rows import numbered, taken
from whence.lidia.kernels.strings import Interner
from whence.lidia.writer import names_budget
from whence.ranges import Ranges, StringSpace
from whence.ranges.flatten import FlatTable
from whence.ranges.strings import Arena


class NamedRefs(Record, frozen=True):
    """References of names, as an Interner reads them."""

    function: array[int]
    file: array[int]
    call_file: array[int]


class PathTable:
    """The distinct paths of files, numbered from 1; number 0 is the unknown file.

    by_row: the number of each of the rows' files.
    by_scope: the number of the file that each scope is called in.
    paths: each path; the first one is empty.
    parts: folder and name of each path, as references.
    """

    def __init__(self, strings: StringSpace, flat: FlatTable) -> None:
        row_files = flat.rows.files
        numbers, distinct = numbered(row_files + flat.scopes.call_file, "Q")
        arena = Arena(strings)
        by_path: dict[bytes, int] = {b"": 0}
        by_ref = array("I", [by_path.setdefault(strings.raw(ref), len(by_path)) for ref in distinct.numbers()])
        by_use = taken(by_ref, "I", numbers.numbers()).numbers()
        self.by_row, self.by_scope = by_use[: len(row_files)], by_use[len(row_files) :]
        self.paths = tuple(by_path)
        self.parts = array("Q")
        for path in by_path:
            self.parts.extend(map(arena.add, split_path(path)))
        arena.seal()


def new_names(strings: StringSpace) -> Interner:
    """Return an empty table of NUL-terminated names of a space, whose hashes a file cannot predict."""
    seed = int.from_bytes(os.urandom(8), "little")
    return Interner(strings.sources, True, seed, names_budget(Ranges(strings)).most)


def offsets_in(names: Interner, refs: array[int]) -> memoryview:
    """Return the offset in the strings of each name, adding new names."""
    names.number(NamedRefs(refs, refs, refs), False)
    offsets: memoryview = taken(names.offset.numbers(), "Q", names.function.numbers()).numbers()
    return offsets


def first_scopes(flat: FlatTable) -> array[int]:
    """Return the index of each function's own scope."""
    return array("I", [0, *flat.scope_ends][:-1])
