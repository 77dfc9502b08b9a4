"""Linkage names to readable ones: C++ (Itanium), Rust (legacy and v0), Swift.

    >>> demangle("_ZN6whence4openEPKc")
    'whence::open(char const*)'
    >>> demangle("main")
    'main'

The text is LLVM's, but for legacy Rust names, which LLVM prints as if they were C++: here they lose their hash
(`core::fmt::Formatter::pad`). A suffix a tool put behind a name (`@plt`, `@@GLIBC_2.2.5`) stays behind it. What cannot
be demangled is given back as it is, and so is what would be unwise to demangle.

The demangler runs compiled code over names from untrusted files. Names longer than 4096 bytes can crash it, and names
that refer back to their own parts can make it write a gigabyte. So a name goes in only when its text is bounded first:
at once when it has few references, else after a closer look (expansion.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME = 4096
CACHED = 1 << 16
FEW = 24  # references: of 4096 bytes they make at most 4096 * 3^8 characters

MANGLED = ("_Z", "__Z", "___Z", "____Z", "_R", "__R", "$s", "$S", "_$s", "_$S", "_T0", "_Tt")


_text_of: Callable[[str], str] | None = None  # the demangler, once a name needed it


def _load() -> Callable[[str], str]:
    global _text_of
    from pydemumble import demangle

    found: Callable[[str], str] = demangle
    _text_of = found
    return found


def demangle(name: str) -> str:
    """The readable form of a linkage name; the name itself when there is none. Remembers the last 65,536 of them."""
    return _demangled(name) if name.startswith(MANGLED) and len(name) <= MAX_NAME else name


@lru_cache(CACHED)
def _demangled(name: str) -> str:
    base, at, version = name.partition("@")
    if not bounded(base):
        return name
    try:
        text: str = (_text_of or _load())(base)
    except TypeError:  # not UTF-8
        return name
    return text + at + version if text else name


def bounded(name: str) -> bool:
    """Whether the text of a mangled name is sure to be of a reasonable size."""
    if name.startswith(("_Z", "_R")) and name.count("_") + name.count("Dp") + name.count("sp") <= FEW:
        return True  # every other reference to a part ends in an underscore
    from whence.demangle import expansion

    return expansion.bounded(name)
