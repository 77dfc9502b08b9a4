"""The debug map: which object files have the debug info of a linked file.

Linkers of Mach-O copy no debug info. They list in the symbol table each object file (N_OSO: a path, or an archive and a
member as `lib.a(x.o)`, and the time when it was modified) with the functions that it gave (pairs of N_FUN: name and
address, then the size).
"""

from __future__ import annotations

import os
from array import array

from whence._base.budget import Budget
from whence._base.errors import MachoError
from whence._base.records import Record
from whence._base.window import cstring
from whence.objects.macho.kernels import symbols as symbols_kernel
from whence.objects.parts import LONGEST_NAME, LinkedObject

NAMES_TIMES, NAMES_ALLOWANCE = 16, 1 << 20  # paths may overlap in the names of symbols


class MapObjects(Record):
    """Columns of object files: offset of the name, time, and the index of the first function."""

    name: array[int]
    time: array[int]
    first: array[int]


class MapFunctions(Record):
    """Columns of functions: offset of the name, vaddr and size in the linked file."""

    name: array[int]
    value: array[int]
    length: array[int]


def read_debug_map(table: memoryview, names: memoryview, bits: int, order: str) -> tuple[LinkedObject, ...]:
    """Return the object files of a symbol table that gave functions, each once, in its order. Raises MachoError."""

    def columns(objects: int, functions: int) -> tuple[MapObjects, MapFunctions]:
        return (
            MapObjects(array("I", bytes(4 * objects)), array("Q", bytes(8 * objects)), array("I", bytes(4 * objects))),
            MapFunctions(
                array("I", bytes(4 * functions)), array("Q", bytes(8 * functions)), array("Q", bytes(8 * functions))
            ),
        )

    counts = symbols_kernel.debug_map(table, names, bits == 64, order == "big", *columns(0, 0), False)
    objects, functions = columns(*counts)
    symbols_kernel.debug_map(table, names, bits == 64, order == "big", objects, functions, True)
    budget = Budget("debug map", "paths", len(names), times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=MachoError)
    merged: dict[tuple[str, str, int], LinkedObject] = {}
    for index, offset in enumerate(objects.name):
        first = objects.first[index]
        end = objects.first[index + 1] if index + 1 < len(objects.first) else len(functions.name)
        path, member = split_member(os.fsdecode(cstring(names[: offset + LONGEST_NAME], offset)))
        budget.charge(len(path))
        if not path or first == end:
            continue
        key = os.path.normpath(path), member, objects.time[index]
        entry = merged.get(key)
        if entry is None:
            entry = merged[key] = LinkedObject(*key, names, array("I"), array("Q"), array("Q"))
        entry.name.extend(functions.name[first:end])
        entry.vaddr.extend(functions.value[first:end])
        entry.length.extend(functions.length[first:end])
    return tuple(merged.values())


def split_member(path: str) -> tuple[str, str]:
    """Return the path of a static library and the name of its member; "" if the path is that of a file.

    >>> split_member("/src/libyy.a(y.o)"), split_member("/src/x.o")
    (('/src/libyy.a', 'y.o'), ('/src/x.o', ''))
    """
    if path.endswith(")"):
        archive, _, member = path[:-1].rpartition("(")
        if archive and member:
            return archive, member
    return path, ""
