"""Inline trees: the layout of their nodes, and where they are.

A function's PCDATA_InlTreeIndex table has, per pc, the node of its FUNCDATA_InlTree that is inlined there. A node has
the inlined function and the position of the call in the enclosing function:

    shape     node                                             written by    pcdata, funcdata
    position  parent i32 · file · line · name                  1.9 - 1.11    1, 2
    both      parent i16 · id u8 · file · line · name · pc     1.12          1, 2
                                                               1.13 - 1.15   2, 4
                                                               1.16 - 1.19   2, 3
    pc        id u8 · name · pc · start line                   1.20 -        2, 3

Since 1.20 the position of a call is looked up in the function's own tables at the node's pc, and so is its parent.
Several shapes share a magic, and the file names neither the shape nor the base of funcdata: each guess is tried on the
trees of many functions, and if none fits there are no inlined calls, rather than wrong ones.
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
    from whence.gopclntab.functions import PclntabFunctions

SAMPLES = 128
ENOUGH = 0.9


class Shape(Record, frozen=True):
    """The layout of a node, and the indexes of the two tables."""

    pcdata: int
    funcdata: int
    size: int
    name_at: int
    parent_width: int  # of the parent's index at the node's start; 0: the parent is found by the pc
    pc_at: int = 0
    start_at: int = -1  # of the line the inlined function starts on; -1: not recorded


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
    """The bytes of all trees; a function's tree starts at its funcdata value minus `base`."""

    shape: Shape
    data: memoryview
    base: int
    found_by: str


def _bases(elf: ObjectFile, since: str, module: ModuleData | None) -> Iterator[tuple[int, str]]:
    """Yield candidates for the base of 32-bit funcdata offsets."""
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
    columns: PclntabFunctions,
) -> Trees | None:
    """Return the trees, if this shape fits those of the sampled functions, otherwise None.

    Without trees in this shape's tables the result has no data. The column `tree` has offsets since 1.18, addresses
    before.
    """
    tree, entry, end = columns.tree, columns.entry, columns.end
    having = [index for index, value in enumerate(tree) if value != NO_TREE]
    if not having:
        return Trees(shape, memoryview(b""), 0, "no inlined calls")
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
    """Return True if a tree's first node is valid: it names a function and has no parent."""
    shape = trees.shape
    if offset < 0 or offset + shape.size > len(trees.data):
        return False
    node = bytes(trees.data[offset : offset + shape.size])
    name = int.from_bytes(node[shape.name_at : shape.name_at + 4], order)
    if name >= len(names) or (name and names[name - 1]):
        return False
    if shape.parent_width:
        parent = int.from_bytes(node[: shape.parent_width], order, signed=True)
        if shape.parent_width == 2 and node[3]:  # padding; a 32-bit -1 has 0xff here
            return False
        return parent == -1 and int.from_bytes(node[NODE_file : NODE_file + 4], order, signed=True) >= 0
    return int.from_bytes(node[shape.pc_at : shape.pc_at + 4], order) < span
