"""A tree as the page reads it: JSON with texts as lists, and numbers as base64 of zigzag LEB128.

    types, type         [type, unit] of each, and which is shown first
    compared            of a difference: how many types; type k of the base is types[compared + k]. Else 0
    names, files        texts, each once
    binaries, reasons
    groups              what has a hue of its own, the largest first: a binary, or a package in the binary that has most
    name, file, binary, reason, group
                        of each frame: an index into the lists above (reason and group: 0 is none, 1 the first)
    smaller             the frame that stands for those left out, or -1
    frame, up           of each node, as in tree.Tree; the root's frame is -1
    count, line         how many lines each node has, and those of all nodes
    lines               how many a node has at most
    self                of each type, the value that ends in each node
    depth, pruned       what was left out, as in tree.Tree

All texts together have at most TEXT characters: where they would have more, the longest are cut.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from collections.abc import Iterable

from whence.flamegraph.kernels import tree as tree_kernel
from whence.flamegraph.packages import package
from whence.flamegraph.tree import LINES, SMALLER, Tree
from whence.samples.stacks import DisplayFrame, shortened

TEXT = 4_000_000
LONGEST = 20_000  # of one text
SAFE = str.maketrans({code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"})  # control pictures
GROUPS = 200  # hues of their own; a browser has a legend to show


def encoded(tree: Tree, compared: int = 0) -> bytes:
    """The JSON in UTF-8, which can stand in a <script> of HTML. Surrogates, which no UTF-8 has, show as ?.

    `compared` says that each of so many types stands again behind them all, as the base of a difference has it.
    """
    texts = StringNumbers()
    frames = tree.frames
    names = [texts.number(one.name) for one in frames]
    files = [texts.number(one.file) for one in frames]
    binaries = [texts.number(one.binary) for one in frames]
    reasons = [texts.number(one.reason) if one.reason else -1 for one in frames]
    groups, group = grouped(tree)
    labels = [texts.number(one) for one in groups]
    types = [[texts.number(part) for part in one] for one in tree.types]
    shown = texts.cut()
    smaller = next((index for index, one in enumerate(frames) if one == DisplayFrame(SMALLER)), -1)
    data = {
        "types": [[shown[part] for part in one] for one in types],
        "type": tree.default_type,
        "compared": compared,
        **listed("name", "names", names, shown),
        **listed("file", "files", files, shown),
        **listed("binary", "binaries", binaries, shown),
        **listed("reason", "reasons", reasons, shown),
        "groups": [shown[one] for one in labels],
        "group": packed(one + 1 for one in group),
        "smaller": smaller,
        "frame": packed(tree.frame),
        "up": packed(tree.up),
        "count": packed(tree.count),
        "line": packed(tree.line),
        "self": [packed(column) for column in tree.values],
        "lines": LINES,
        "depth": tree.depth,
        "pruned": tree.pruned,
    }
    return b"{" + b",".join(json_text(name) + b":" + json_text(value) for name, value in data.items()) + b"}"


def json_text(value: object) -> bytes:
    """A value as JSON. Columns are most of it: base64 is passed on as it is, for it needs no escapes."""
    if isinstance(value, list) and any(isinstance(one, bytes) for one in value):
        return b"[" + b",".join(map(json_text, value)) + b"]"
    if isinstance(value, bytes):
        return b'"' + value + b'"'
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("</", "<\\/").replace("<!--", "<\\u0021--").encode("utf-8", "replace")


def listed(column: str, table: str, numbers: list[int], shown: list[str]) -> dict[str, object]:
    """A table of just the texts a column needs, and the column of indices into it; of reasons one more."""
    places: dict[int, int] = {}
    rows = [places.setdefault(one, len(places)) if one >= 0 else -1 for one in numbers]
    more = 1 if column == "reason" else 0
    return {table: [shown[one] for one in places], column: packed(one + more for one in rows)}


def packed(numbers: Iterable[int]) -> bytes:
    """A column of numbers as the page unpacks it."""
    values = numbers if isinstance(numbers, array) and numbers.typecode == "q" else array("q", numbers)
    out = bytearray(10 * len(values))
    size = tree_kernel.packed(values, out)
    return b64encode(memoryview(out)[:size])


class StringNumbers:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def cut(self) -> list[str]:
        """All texts without control characters, long ones without their middle if they would be too much together."""
        sizes = array("I", [min(len(text), 0xFFFFFFFF) for text in self._numbers])
        most = tree_kernel.level(sizes, TEXT, LONGEST)
        cut = (shortened(text, most) for text in self._numbers)
        return [text if text.isprintable() else text.translate(SAFE) for text in cut]


def grouped(tree: Tree) -> tuple[list[str], list[int]]:
    """Labels of what has a hue of its own, the one with the largest share first, and which each frame is in (-1: none).

    That is its binary. Where one binary has more than half of the values, it is its package there.
    """
    values = tree.values[tree.default_type] if tree.values else array("q")
    each = array("d", bytes(8 * len(tree.frames)))
    tree_kernel.by_frame(tree.frame, values, each)
    smaller = DisplayFrame(SMALLER)
    share: dict[str, float] = {}
    for one, value in zip(tree.frames, each):
        if one != smaller:
            share[one.binary] = share.get(one.binary, 0) + value
    main = max(share, key=share.__getitem__, default="")
    most = 2 * share.get(main, 0) > sum(share.values())
    insides = [package(one.name, one.file) if most and one.binary == main else "" for one in tree.frames]
    if len({*insides} - {""}) < 2:
        insides = [""] * len(insides)
    labels: list[tuple[str, str]] = []
    sizes: dict[tuple[str, str], float] = {}
    for one, inside, value in zip(tree.frames, insides, each):
        key = ("", SMALLER) if one == smaller else (one.binary, "" if one.reason else inside)
        labels.append(key)
        sizes[key] = sizes.get(key, 0) + value
    sizes.pop(("", SMALLER), None)
    order = sorted(sizes, key=lambda key: (-sizes[key], key))[:GROUPS]
    numbers = {key: index for index, key in enumerate(order)}
    return [inside or binary or "no binary" for binary, inside in order], [numbers.get(key, -1) for key in labels]
