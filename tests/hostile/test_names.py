"""Linkage names that expand to far more text than they have letters, and names of a megabyte."""

from __future__ import annotations

from tests.hostile import bounded
from tests.hostile.inputs.names import numbered
from whence.demangle import demangle


def readable_after(count: int) -> tuple[bool, bool, str]:
    """Whether the first and the last of so many names that expand are readable, and one whose text is surely short."""
    texts = [len(demangle(name)) for name in numbered(11, count)]
    return texts[0] > 1 << 15, texts[-1] > 1 << 15, demangle("_ZNSt6vectorIiSaIiEE9push_backEOi")


def test_other_names_stay_readable_after_names_that_expand() -> None:
    done = bounded(readable_after, 800, seconds=2, megabytes=150)
    assert done.answer == (True, False, "std::vector<int, std::allocator<int>>::push_back(int&&)")
