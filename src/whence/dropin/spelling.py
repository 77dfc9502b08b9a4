"""Readable names in the form of an emulated tool; `dialects` is imported with the first name that needs it."""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

JOINED_SINCE = 15  # version of LLVM that first writes `>>` after two argument lists
CACHE_SIZE = 1 << 16
LEADS = ("_Z", "_R", "__Z", "___Z", "____Z", "_D")


def spelling(version: int | str) -> Callable[[str], str]:
    """Return a function from linkage names to readable names in the form of a version of LLVM, or of "GNU"."""

    @lru_cache(CACHE_SIZE)
    def named(name: str) -> str:
        if not name.startswith(LEADS):
            return name
        from whence.dropin import dialects

        if version == "GNU":
            return dialects.gnu(name)
        return dialects.llvm(name) if int(version) >= JOINED_SINCE else dialects.llvm_14(name)

    return named
