"""A folder of small archives, named by build-id."""

from __future__ import annotations

from pathlib import Path

from whence import lidia
from whence.lidia import Range

ONE, OTHER = "ab" * 20, "cd" * 20
INNER_VADDR, OUTER_VADDR = 0x1048, 0x1004  # of ONE: in an inlined call, and outside of it


def small_archives(folder: Path) -> Path:
    """Archives of ONE (a function with an inlined call) and OTHER (a function) in the folder, which is returned."""
    item = lidia.Builder(build_id=ONE)
    item.extend(
        [
            Range(0x1000, 0x100, "_ZN3app5outerEv", "/src/app.cpp", line_table=[(0, 10), (0x20, 12)]),
            Range(0x1040, 0x20, "inner", "/src/inner.h", "/src/app.cpp", 11, depth=1, line_table=[(0, 3)]),
        ]
    )
    other = lidia.Builder(build_id=OTHER)
    other.extend([Range(0x40, 8, "other", "o.c", line_table=[(0, 1)])])
    for build_id, builder in ((ONE, item), (OTHER, other)):
        (folder / f"{build_id}.lidia").write_bytes(builder.to_bytes())
    return folder
