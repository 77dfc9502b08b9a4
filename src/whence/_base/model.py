"""What every room agrees on: the frame, the conventions, the three address spaces.

Conventions
    ranges        [start, end): the end is the first byte outside
    frames        innermost first; an inlined frame comes before the frame it was inlined into
    line          counted from 1; 0 is unknown
    text          an absent string is ""; text of a file that is not UTF-8 keeps its bytes (surrogateescape)
    build-id      lowercase hex at the edges, "" when there is none

Address spaces, never mixed, and named so in every variable
    runtime       an address in a process
    file_offset   a byte of an ELF file
    vaddr         an address as the ELF file's own headers count
"""

from __future__ import annotations

from whence._base.records import NamedTuple
from whence._base.source import SOURCES as SOURCES
from whence._base.source import Source as Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    NameStyle = Literal["qualified", "linkage", "short"]
    """How debug info calls functions: by the linkage name, and in C++ and Rust without one by the name after what
    stands around it; by the linkage name or else the name alone; by the name alone."""

    PathStyle = Literal["joined", "once", "relative", "listed"]
    """How the paths of files are put together: the unit's compilation directory before each relative one; not before
    one in that very directory, which version 5 names once more (so that a relative one comes once); without it; with
    the directory that is only in the list of directories."""


class Frame(NamedTuple):
    """One function of the chain an address belongs to (what lidia's Go package calls a SourceInfoFrame).

    A chain of frames is innermost first. `line` is the line of the address in the innermost frame and the line of the
    call in each frame outside it; 0 is unknown. `inlined` is true for a frame that has no call of its own. `start_line`
    is where the function is declared, in that very file; 0 where that is unknown or another file. `column` counts bytes
    of the line from 1, `discriminator` distinguishes blocks of code of one line; both are 0 where they are unknown, and
    unless columns were asked for.
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
    """Where a function is declared, and the first vaddr of the function, or of the inlined call, when its DIE has one
    (0: it has a list of ranges)."""

    file: str
    line: int
    vaddr: int


Frames = tuple[Frame, ...]
"""A chain, innermost first; () when nothing covers the address."""
