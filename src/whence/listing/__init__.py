"""Listings: instructions and source lines of functions, with costs.

In: an executable, a table that names its addresses, source files, and costs by vaddr. Out: plain objects.

    build          listings of spans of an executable
    disassembly    machine code to instructions, by capstone
    targets        names of the addresses in operands
    sources        where source files come from
    listing        the public class Listing
    model          instructions, lines, and what a listing has
    text           listings as text

    with whence.open("app", demangle=True) as binary:
        listing = binary.listing("main")
    print(listing)
    for instruction in listing.instructions:
        print(hex(instruction.vaddr), instruction.text, instruction.frames)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach

if TYPE_CHECKING:
    from whence.listing.listing import Listing
    from whence.listing.model import Instruction, ListedLine
    from whence.listing.sources import GitTree, SourceFile, SourceOptions, Sources

__all__ = ["GitTree", "Instruction", "ListedLine", "Listing", "SourceFile", "SourceOptions", "Sources"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Instruction": "whence.listing.model",
            "ListedLine": "whence.listing.model",
            "Listing": "whence.listing.listing",
            "GitTree": "whence.listing.sources",
            "SourceFile": "whence.listing.sources",
            "SourceOptions": "whence.listing.sources",
            "Sources": "whence.listing.sources",
        },
    )
