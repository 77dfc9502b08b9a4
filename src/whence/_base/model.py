"""Frames, and the conventions of all packages.

Conventions
    ranges        [start, end): the end is the first byte outside
    frames        innermost first; an inlined frame precedes its caller
    line          counted from 1; 0 is unknown
    text          an absent string is ""; text of a file that is not UTF-8 keeps its bytes (surrogateescape)
    build-id      lowercase hex in all interfaces, "" if unknown

Address spaces, part of every variable's name
    runtime       an address in a process
    file_offset   an offset in an ELF file
    vaddr         an address in the address space of the ELF file's headers
"""

from __future__ import annotations

from whence._base.records import NamedTuple
from whence._base.source import SOURCES as SOURCES
from whence._base.source import Source as Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    NameStyle = Literal["qualified", "linkage", "short"]
    """How debug info names functions: by the linkage name, or in C++ and Rust without one by the qualified name; by the
    linkage name, or else the unqualified name; by the unqualified name."""

    PathStyle = Literal["joined", "once", "relative", "listed"]
    """How the paths of files are joined: each relative path to the unit's compilation directory; only those in other
    directories, as version 5 lists that directory again; none; each path to its entry in the list of directories."""


class Frame(NamedTuple):
    """A function at an address, with file and line.

    A chain of frames is innermost first.

    Attributes:
        function: the linkage name, or a readable one if the reader demangles; "" if unknown.
        file: the path of the source file; "" if unknown.
        line: the line of the address in the innermost frame, of the call in the others; 0 if unknown.
        start_line: the line of the function's declaration in `file`; 0 if unknown or in another file.
        source: the table that named it.
        inlined: True if the function was inlined into the next frame.
        column: byte in the line, from 1; 0 if unknown or not read.
        discriminator: number of the block of code within the line; 0 if unknown or not read.

    >>> Frame("main", "/src/main.c", 12).line
    12
    """

    function: str
    file: str = ""
    line: int = 0
    inlined: bool = False
    source: Source = Source.UNKNOWN
    start_line: int = 0
    column: int = 0
    discriminator: int = 0


class FrameStart(NamedTuple):
    """The declaration of a function, and its first vaddr.

    For an inlined call, the first vaddr of the call. 0 if the DIE has a list of ranges.
    """

    file: str
    line: int
    vaddr: int


Frames = tuple[Frame, ...]
"""A chain, innermost first; () when nothing covers the address."""
