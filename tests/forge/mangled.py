"""Linkage names made by hand."""

from __future__ import annotations


def reference(index: int) -> str:
    """The index-th substitution: S_, S0_, S1_, ... S10_."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if index == 0:
        return "S_"
    high, low = divmod(index - 1, 36)
    return f"S{digits[high] if high else ''}{digits[low]}_"


def bomb(levels: int) -> str:
    """A function whose arguments are pairs of pairs of pairs: each refers twice to the one before."""
    pairs = (f"S_I{reference(level)}{reference(level)}E" for level in range(1, levels + 1))
    return "_Z1f1aIiiE" + "".join(pairs)
