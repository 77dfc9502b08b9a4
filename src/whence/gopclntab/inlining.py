"""Inline trees: which layout a table has, and where its trees lie.

A function's PCDATA_InlTreeIndex table says, per pc, which node of its FUNCDATA_InlTree is inlined there. A node says
what was inlined, and where in the function that encloses it the call stood:

    shape     node                                             written by    pcdata, funcdata
    position  parent i32 · file · line · name                  1.9 - 1.11    1, 2
    both      parent i16 · id u8 · file · line · name · pc     1.12          1, 2
                                                               1.13 - 1.15   2, 4
                                                               1.16 - 1.19   2, 3
    pc        id u8 · name · pc · start line                   1.20 -        2, 3

Since 1.20 the position of a call is looked up in the function's own tables at the node's pc, and so is its parent.
Several shapes share a magic, and nothing in the file names the shape, nor the place that funcdata count from: a
guess is tried on the trees of many functions, and without one that fits there are no inlined calls, rather than
wrong ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.records import Record
from whence._base.window import ByteOrder
from whence.gopclntab.find import symbol_value
from whence.gopclntab.kernels.constants import (
    FUNCDATA_InlTree,
    FUNCDATA_InlTree_go1_9,
    FUNCDATA_InlTree_go1_13,
    NODE_file,
    PCDATA_InlTreeIndex,
    PCDATA_InlTreeIndex_go1_9,
)
from whence.gopclntab.kernels.functions import NO_TREE
from whence.gopclntab.moduledata import GOFUNC, ModuleData
from whence.objects.interface import ObjectFile

if TYPE_CHECKING:
    from whence.gopclntab.functions import FunctionColumns

SAMPLES = 128
ENOUGH = 0.9


class Shape(Record, frozen=True):
    """The layout of a node, and the indexes of the two tables."""

    pcdata: int
    funcdata: int
    size: int
    name_at: int
    parent_width: int  # of the parent's index at the node's start; 0: found through the pc
    pc_at: int = 0
    start_at: int = -1  # of the line the inlined function starts on; -1: it is not recorded


# size, name_at, parent_width of a node
POSITION, BOTH, PC = (16, 12, 4), (20, 12, 2), (16, 4, 0)
SHAPES = {
    "1.2": (
        Shape(PCDATA_InlTreeIndex, FUNCDATA_InlTree_go1_13, *BOTH),
        Shape(PCDATA_InlTreeIndex_go1_9, FUNCDATA_InlTree_go1_9, *BOTH),
        Shape(PCDATA_InlTreeIndex_go1_9, FUNCDATA_InlTree_go1_9, *POSITION),
    ),
    "1.16": (Shape(PCDATA_InlTreeIndex, FUNCDATA_InlTree, *BOTH),),
    "1.18": (Shape(PCDATA_InlTreeIndex, FUNCDATA_InlTree, *BOTH),),
    "1.20": (Shape(PCDATA_InlTreeIndex, FUNCDATA_InlTree, *PC, 8, 12),),
}


class Trees(Record, frozen=True):
    """Bytes that hold every tree; a function's tree starts at its funcdata value minus `base`."""

    shape: Shape
    data: memoryview
    base: int
    found_by: str


def _bases(elf: ObjectFile, since: str, module: ModuleData | None) -> Iterator[tuple[int, str]]:
    """What 32-bit funcdata offsets may count from."""
    if module is not None:
        for index in GOFUNC[since]:
            if index < len(module.words) and module.words[index]:
                yield module.words[index], f"moduledata word {index}"
    for name in ("go:func.*", "go.func.*"):
        value = symbol_value(elf, name)
        if value:
            yield value, f"symbol {name}"


def find_trees(
    elf: ObjectFile,
    since: str,
    order: ByteOrder,
    module: ModuleData | None,
    shape: Shape,
    names: memoryview,
    columns: FunctionColumns,
) -> Trees | None:
    """Where the trees lie, if this shape fits those of the sampled functions; None when it does not. No data when no
    function has a tree in this shape's place.

    The column `tree` holds offsets since 1.18, addresses before.
    """
    tree, entry, end = columns.tree, columns.entry, columns.end
    having = [index for index, value in enumerate(tree) if value != NO_TREE]
    if not having:
        return Trees(shape, memoryview(b""), 0, "there are none")
    sample = having[:: max(1, len(having) // SAMPLES)]
    if since in GOFUNC:
        guesses = []
        for value, how in _bases(elf, since, module):
            start, data = elf.loaded_around(value)
            guesses.append(Trees(shape, data[value - start :], 0, how))
    else:
        start, data = elf.loaded_around(tree[sample[0]])
        guesses = [Trees(shape, data, start, "addresses in the records")]
    for guess in guesses:
        hits = sum(_fits(guess, order, names, tree[index] - guess.base, end[index] - entry[index]) for index in sample)
        if hits >= ENOUGH * len(sample):
            return guess
    return None


def _fits(trees: Trees, order: ByteOrder, names: memoryview, offset: int, span: int) -> bool:
    """Whether a tree's first node obeys the rules: it names a function, and lies in no other node."""
    shape = trees.shape
    if offset < 0 or offset + shape.size > len(trees.data):
        return False
    node = bytes(trees.data[offset : offset + shape.size])
    name = int.from_bytes(node[shape.name_at : shape.name_at + 4], order)
    if name >= len(names) or (name and names[name - 1]):
        return False
    if shape.parent_width:
        parent = int.from_bytes(node[: shape.parent_width], order, signed=True)
        if shape.parent_width == 2 and node[3]:  # padding; a 32-bit -1 has ones here
            return False
        return parent == -1 and int.from_bytes(node[NODE_file : NODE_file + 4], order, signed=True) >= 0
    return int.from_bytes(node[shape.pc_at : shape.pc_at + 4], order) < span
