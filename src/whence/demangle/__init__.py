"""Linkage names to readable ones: C++ (Itanium), Rust (legacy and v0), Swift.

    >>> demangle("_ZN6whence4openEPKc")
    'whence::open(char const*)'
    >>> demangle("main")
    'main'

The text is LLVM's, but for legacy Rust names, which LLVM prints as if they were C++: here they lose their hash
(`core::fmt::Formatter::pad`). A suffix a tool put behind a name (`@plt`, `@@GLIBC_2.2.5`) stays behind it. What cannot
be demangled is returned as it is, and so is what would be unwise to demangle.

The demangler runs compiled code over names from untrusted files. Names longer than 4096 bytes can crash it, and names
that refer back to their own parts can make it write a gigabyte. So a name goes in only when its text is bounded first:
at once when it has few references, else after a closer look (expansion.py). And as a file may hold any number of names
that are just short enough, all texts together are bounded by a budget: once it is used up, only names go in whose text
is short for certain.

expansion   how long a name can become when demangled
"""

from __future__ import annotations

from functools import lru_cache

from whence.demangle import expansion
from whence.demangle.kernels.expansion import references
from whence.demangle.kernels.names import Demangler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME = 4096  # bytes
CACHED = 1 << 16
FEW = 24  # references: of 4096 bytes they make at most 4096 * 3^8 characters
MAX_TEXT = 1 << 16  # characters of a readable name: what is longer helps nobody
TIMES, ALLOWANCE = 32, 1 << 25  # of the linkage names so far, what their texts may take together; real ones take 3 to 6


def bounded(name: str, most: int = 0) -> bool:
    """Whether the text of a mangled name is sure to be of a reasonable size (or of at most so many characters)."""
    if not most and name.startswith(("_Z", "_R")) and references(name.encode("utf-8", "surrogateescape")) <= FEW:
        return True
    return _bounded(name, most)


def _bounded(name: str, most: int) -> bool:
    return expansion.bounded(name, most or expansion.MAX_TEXT)


def _load() -> Callable[[str], str]:
    try:
        from pydemumble import demangle
    except ImportError:  # no wheel for a free-threaded Python, no package in Debian: names stay as they are stored
        return str
    found: Callable[[str], str] = demangle
    return found


_demangler = Demangler(
    _load, _bounded, longest=MAX_NAME, longest_text=MAX_TEXT, few=FEW, times=TIMES, allowance=ALLOWANCE
)
_remembered = lru_cache(CACHED)(_demangler.readable)
ready = _demangler.ready


def demangle(name: str) -> str:
    """The readable form of a linkage name; the name itself when there is none. Remembers the last 65,536 of them."""
    return _remembered(name) if name.startswith(("_", "$")) else name


def demangle_once(name: str) -> str:
    """The same, for those who remember it themselves."""
    text: str = _demangler.readable(name)
    return text
