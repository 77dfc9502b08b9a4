"""Qualified names of C++ and Rust functions that have no linkage name: what stands around them, joined by `::`.

Static functions, functions in unnamed namespaces and `main` have only a DW_AT_name; namespaces and classes are the DIEs
around the one that says it. Functions around it (of lambdas and local classes) are not told.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.dwarf.kernels import constants
from whence.dwarf.kernels import paths as paths_kernel

if TYPE_CHECKING:
    from whence.dwarf.kernels.parts import Parts
    from whence.ranges.strings import Arena, StringSpace

ALT_BIT = 1 << 62
AROUND = 32  # as in paths_kernel
OFFSET_MASK = (1 << 48) - 1
SCOPE_TAGS = {
    constants.DW_TAG_class_type,
    constants.DW_TAG_enumeration_type,
    constants.DW_TAG_structure_type,
    constants.DW_TAG_union_type,
    constants.DW_TAG_module,
    constants.DW_TAG_interface_type,
    constants.DW_TAG_namespace,
}


def qualified_names(
    own: Parts, alt: Parts, strings: StringSpace, keys: array[int], arena: Arena
) -> tuple[array[int], bool]:
    """The name in the arena for each key (a DIE of `own`, or of the supplementary file, with a plain name), and whether
    parts of any lie in units that `own` does not know."""
    known: dict[int, int] = {}
    strangers = False
    for parts, alt_bit in ((own, 0), (alt, ALT_BIT)):
        chosen = array("Q", sorted({key ^ alt_bit for key in keys if key & ALT_BIT == alt_bit}))
        if not chosen:
            continue
        around = array("Q", bytes(paths_kernel.around(parts, chosen)))
        telling = sorted({place & OFFSET_MASK for place in around if place >> 48 in SCOPE_TAGS})
        asked = chosen + array("Q", telling)
        refs = array("Q", bytes(8 * len(asked)))
        strangers |= paths_kernel.names(parts, alt, asked, refs)
        plain = dict(zip(asked, refs))
        text = {place: strings.raw(plain[place]) for place in telling}
        for at, key in enumerate(chosen):
            words = []
            for place in around[at * AROUND : (at + 1) * AROUND]:
                if place >> 48 in SCOPE_TAGS:
                    unnamed = b"(anonymous namespace)" if place >> 48 == constants.DW_TAG_namespace else b"(anonymous)"
                    words.append(text[place & OFFSET_MASK] or unnamed)
            known[key | alt_bit] = arena.add(b"::".join((*reversed(words), strings.raw(plain[key]))))
    return array("Q", [known[key] for key in keys]), strangers
