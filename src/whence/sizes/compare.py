"""Growth between two builds, name by name."""

from __future__ import annotations

import re
from enum import StrEnum

from whence._base.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.sizes.model import Kind, Sizes

# LLVM's ThinLTO and Rust give local functions a hash of the module, which differs from build to build.
HASHES = re.compile(r"\.llvm\.\d+|(?<=::)h[0-9a-f]{16}$")


class Change(StrEnum):
    """The fate of a name in the new build."""

    NEW = "new"
    GONE = "gone"
    GROWN = "grown"
    SHRUNK = "shrunk"
    SAME = "same"


class Growth(Record, frozen=True):
    """Bytes of a name in the new and the old build."""

    name: str
    bytes: int
    old: int
    kind: Kind

    @property
    def growth(self) -> int:
        """The number of bytes more than in the old build."""
        return self.bytes - self.old

    @property
    def change(self) -> Change:
        """The fate of the name."""
        if not self.old:
            return Change.NEW if self.bytes else Change.SAME
        if not self.bytes:
            return Change.GONE
        return Change.SAME if self.bytes == self.old else Change.GROWN if self.bytes > self.old else Change.SHRUNK


def compare(new: Sizes, old: Sizes) -> list[Growth]:
    """Return the growth of every name, the largest changes first.

    Names are compared without the hashes that compilers append to local functions. The growths add up to that of the
    totals.
    """
    sums: dict[tuple[str, Kind], list[int]] = {}
    for index, sizes in enumerate((new, old)):
        for row in sizes.rows:
            sums.setdefault((HASHES.sub("", row.name), row.kind), [0, 0])[index] += row.bytes
    rows = [Growth(name, now, before, kind) for (name, kind), (now, before) in sums.items()]
    return sorted(rows, key=lambda row: (-abs(row.growth), -row.bytes, row.name))
