"""Readable forms of linkage names: C++ (Itanium and Microsoft), Rust (legacy and v0), Swift.

    >>> demangle("_ZN6whence4openEPKc")
    'whence::open(char const*)'
    >>> demangle("?f@ns@@YAHXZ")
    'int __cdecl ns::f(void)'
    >>> demangle("__main_argc_argv")  # of WebAssembly
    'main'

The text is LLVM's, except for legacy Rust names, which LLVM prints as if they were C++: here they lose their hash
(`core::fmt::Formatter::pad`). A suffix that a tool appended (`@plt`, `@@GLIBC_2.2.5`) is kept. A name that can't be
demangled, or not safely, is returned unchanged.

The demangler is compiled code that reads names from untrusted files. Names longer than 4096 bytes can crash it, and
names that refer back to their own parts can make it write a gigabyte. So the text of a name is bounded before the name
is demangled: names with few references have short texts, others are walked through first (expansion.py), or left as
they are if they are Microsoft's: 1 in 1,000 has more than MAX_REFERENCES digits, which references are. A file may
have any number of names just below that bound, so a budget bounds all texts together: once it is used up, only names
with certainly short texts are demangled.

expansion   bounds the length of a demangled name
"""

from __future__ import annotations

from functools import lru_cache

from whence.demangle.expansion import is_bounded
from whence.demangle.kernels.names import Demangler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME = 4096  # bytes
MAX_TEXT = 1 << 16  # characters
MAX_REFERENCES = 24  # of a name that is not walked through: 4096 bytes become at most 4096 * 3^8 characters
CACHE_SIZE = 1 << 16
FACTOR, ALLOWANCE = 32, 1 << 25  # all texts are at most FACTOR times their names, and ALLOWANCE; real ones are 3 to 6


def _load() -> Callable[[str], str]:
    try:
        from pydemumble import demangle
    except ImportError:  # no wheel for a free-threaded Python, no package in Debian: names are returned unchanged
        return str
    readable: Callable[[str], str] = demangle
    return readable


_demangler = Demangler(
    _load, is_bounded, max_name=MAX_NAME, max_text=MAX_TEXT, max_references=MAX_REFERENCES, factor=FACTOR,
    allowance=ALLOWANCE,
)  # fmt: skip
_cached = lru_cache(CACHE_SIZE)(_demangler.readable)
ready = _demangler.ready


def demangle(name: str) -> str:
    """Return the readable form of a linkage name, or the name itself. Caches the last 65,536 results."""
    return _cached(name) if name.startswith(("_", "$", "?")) else name


def demangle_once(name: str) -> str:
    """Return the readable form of a linkage name, or the name itself, without a cache."""
    text: str = _demangler.readable(name)
    return text
