"""`python -m benchmarks.picture PROFILE OUT.svg`: README's picture, a flame graph of a named profile.

make demo && .venv/bin/python -m benchmarks.picture demo/named.pb.gz docs/flamegraph.svg
"""

from __future__ import annotations

import html
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from whence import profiles

WIDTH, ROW, TITLE = 900, 18, 26
LETTER = 6.6  # px, of the 11 px type
NARROWEST = 1.0  # px; what is narrower is left out
HUES = (12, 28, 44, 160, 200, 220)


@dataclass
class Node:
    """A function as called from the nodes above it; `own` and what is below add up to `total`."""

    total: int = 0
    below: dict[str, Node] = field(default_factory=dict)


def tree(folded: str) -> Node:
    """Folded stacks (outermost first, then the count) as a tree."""
    root = Node()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        node = root
        node.total += int(count)
        for name in stack.split(";"):
            node = node.below.setdefault(name, Node())
            node.total += int(count)
    return root


def depth(node: Node) -> int:
    return 1 + max(map(depth, node.below.values()), default=0)


def boxes(node: Node, name: str, x: float, level: int, scale: float, height: int) -> Iterator[str]:
    width = node.total * scale
    if width < NARROWEST:
        return
    y = height - ROW * (level + 1)
    hue = HUES[zlib.crc32(name.encode()) % len(HUES)]
    room = int((width - 6) / LETTER)
    text = name if len(name) <= room else name[: room - 1] + "…" if room > 3 else ""
    size = f'width="{max(width - 0.6, 0.4):.1f}" height="{ROW - 1}"'
    yield f'<rect x="{x:.1f}" y="{y}" {size} fill="hsl({hue} 65% 72%)"/>'
    if text:
        yield f'<text x="{x + 4:.1f}" y="{y + 12}">{html.escape(text)}</text>'
    for below in sorted(node.below):
        yield from boxes(node.below[below], below, x, level + 1, scale, height)
        x += node.below[below].total * scale


def picture(folded: str) -> str:
    root = tree(folded)
    height = TITLE + ROW * depth(root)
    body = "\n".join(boxes(root, "all", 0.0, 0, WIDTH / root.total, height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="11" fill="#222">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        f'<text x="4" y="16" font-weight="bold">make demo: functions and inlined calls by time</text>\n{body}\n</svg>\n'
    )


def main(arguments: list[str]) -> int:
    source, out = arguments
    profile = profiles.read(source)
    Path(out).write_text(picture(profile.to_bytes("folded").decode()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
