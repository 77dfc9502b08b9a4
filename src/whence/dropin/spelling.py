"""Readable names as the programs spell them that drop-ins stand in for: those of `dialects`, which is only imported for
a name that needs it. C's need nothing.
"""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ONE_CLOSES = 15  # the version of LLVM from which on `>>` closes two lists of arguments
REMEMBERED = 1 << 16
LEADS = ("_Z", "_R", "__Z", "___Z", "____Z", "_D")


def spelling(version: int | str) -> Callable[[str], str]:
    """What turns linkage names into readable ones as that version of LLVM does, or "GNU"."""

    @lru_cache(REMEMBERED)
    def named(name: str) -> str:
        if not name.startswith(LEADS):
            return name
        from whence.dropin import dialects

        if version == "GNU":
            return dialects.gnu(name)
        return dialects.llvm(name) if int(version) >= ONE_CLOSES else dialects.llvm_14(name)

    return named
