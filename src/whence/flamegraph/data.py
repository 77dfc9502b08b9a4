"""A tree as JSON for the page: texts as lists, and numbers as base64 of zigzag LEB128.

    types, type         [type, unit] of each type, and the index of the default type
    compared            in a difference the number of types; type k of the base is types[compared + k]. Else 0
    names, files        texts, each once
    binaries, reasons
    groups              names with a hue, the largest first: binaries, and packages of a binary with most values
    name, file, binary, reason, group
                        of each frame: an index into these lists (reason and group: plus 1, 0 if unknown)
    smaller             the frame that replaces omitted nodes, or -1
    frame, up           of each node, as in tree.Tree; the root's frame is -1
    count, line         number of lines of each node, and the lines of all nodes
    lines               largest number of lines of a node
    at, thread, step    of each entry (entries.py): the nodes from the previous entry's, an index into threads, and the
                        step of its time; thread and step are "" if all are 0
    self                for each type, the value of each entry
    threads, processes  names; thread t is of the process processes[process[t]]
    steps, step_ns      number of steps of time, and the length of one in nanoseconds; 0 without times
    depth, pruned       omitted nodes, as in tree.Tree

All texts together have at most TEXT characters: the longest are shortened if necessary.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from collections.abc import Iterable, Mapping

from whence.flamegraph.entries import Entries
from whence.flamegraph.kernels import tree as tree_kernel
from whence.flamegraph.packages import is_python, package
from whence.flamegraph.tree import LINES, SMALLER, Tree
from whence.samples.stacks import DisplayFrame, shortened

TEXT = 4_000_000
LONGEST = 20_000  # of one text
SAFE = str.maketrans({code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421"})  # control pictures
GROUPS = 200  # with a hue; they are listed in a legend


def encoded(tree: Tree, entries: Entries, compared: int = 0) -> bytes:
    """Encode a tree and its entries as JSON in UTF-8 for a <script> of HTML; surrogates become "?".

    In a difference, `compared` is the number of types; the types of the base follow them.
    """
    texts = StringNumbers()
    frames = tree.frames
    names = [texts.number(frame.name) for frame in frames]
    files = [texts.number(frame.file) for frame in frames]
    binaries = [texts.number(frame.binary) for frame in frames]
    reasons = [texts.number(frame.reason) if frame.reason else -1 for frame in frames]
    groups, group = grouped(tree)
    labels = [texts.number(name) for name in groups]
    types = [[texts.number(part) for part in kind] for kind in tree.types]
    processes = [texts.number(process) for process, _ in entries.threads]
    threads = [texts.number(thread) for _, thread in entries.threads]
    shown = texts.cut()
    smaller = next((index for index, frame in enumerate(frames) if frame == DisplayFrame(SMALLER)), -1)
    data = {
        "types": [[shown[part] for part in kind] for kind in types],
        "type": tree.default_type,
        "compared": compared,
        **listed("name", "names", names, shown),
        **listed("file", "files", files, shown),
        **listed("binary", "binaries", binaries, shown),
        **listed("reason", "reasons", reasons, shown),
        "groups": [shown[number] for number in labels],
        "group": packed(number + 1 for number in group),
        "smaller": smaller,
        "frame": packed(tree.frame),
        "up": packed(tree.up),
        "count": packed(tree.count),
        "line": packed(tree.line),
        "at": packed(map(int.__sub__, entries.node, [0, *entries.node])),
        "thread": packed(entries.thread) if any(entries.thread) else "",
        "step": packed(entries.step) if any(entries.step) else "",
        "self": [packed(column) for column in entries.values],
        **listed("process", "processes", processes, shown),
        "threads": [shown[number] for number in threads],
        "steps": entries.steps,
        "step_ns": entries.step_ns,
        "lines": LINES,
        "depth": tree.depth,
        "pruned": tree.pruned,
    }
    return json_object(data)


def json_object(data: Mapping[str, object] | Mapping[int, object]) -> bytes:
    """Encode an object as JSON in UTF-8 for a <script> of HTML; surrogates become "?"."""
    return b"{" + b",".join(json_text(str(name)) + b":" + json_text(value) for name, value in data.items()) + b"}"


def json_text(value: object) -> bytes:
    """Encode a value as JSON. Columns, which are bytes of base64, need no escapes."""
    if isinstance(value, dict):
        return json_object(value)
    if isinstance(value, list) and any(isinstance(item, bytes | dict) for item in value):
        return b"[" + b",".join(map(json_text, value)) + b"]"
    if isinstance(value, bytes):
        return b'"' + value + b'"'
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("</", "<\\/").replace("<!--", "<\\u0021--").encode("utf-8", "replace")


def listed(column: str, table: str, numbers: list[int], shown: list[str]) -> dict[str, object]:
    """Return a table of the texts in a column, and the column of indices into it (of reasons plus 1)."""
    indices: dict[int, int] = {}
    rows = [indices.setdefault(number, len(indices)) if number >= 0 else -1 for number in numbers]
    first = 1 if column == "reason" else 0
    return {table: [shown[number] for number in indices], column: packed(row + first for row in rows)}


def packed(numbers: Iterable[int]) -> bytes:
    """Encode a column of numbers as base64 of zigzag LEB128."""
    values = numbers if isinstance(numbers, array) and numbers.typecode == "q" else array("q", numbers)
    out = bytearray(10 * len(values))
    size = tree_kernel.packed(values, out)
    return b64encode(memoryview(out)[:size])


class StringNumbers:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, which may be new."""
        return self._numbers.setdefault(text, len(self._numbers))

    def cut(self) -> list[str]:
        """Return all texts without control characters, and long texts shortened if they exceed TEXT together."""
        sizes = array("I", [min(len(text), 0xFFFFFFFF) for text in self._numbers])
        limit = tree_kernel.level(sizes, TEXT, LONGEST)
        cut = (shortened(text, limit) for text in self._numbers)
        return [text if text.isprintable() else text.translate(SAFE) for text in cut]


def grouped(tree: Tree) -> tuple[list[str], list[int]]:
    """Return the names of groups with a hue, the largest first, and the group of each frame (-1: none).

    A group is a binary, or in a binary with more than half of the values and for Python's frames, a package.
    """
    values = tree.values[tree.default_type] if tree.values else array("q")
    sums = array("d", bytes(8 * len(tree.frames)))
    tree_kernel.by_frame(tree.frame, values, sums)
    smaller = DisplayFrame(SMALLER)
    share: dict[str, float] = {}
    for frame, value in zip(tree.frames, sums):
        if frame != smaller:
            share[frame.binary] = share.get(frame.binary, 0) + value
    main = max(share, key=share.__getitem__, default="")
    has_most = 2 * share.get(main, 0) > sum(share.values())
    packages = [package(frame.name, frame.file) if has_most and frame.binary == main else "" for frame in tree.frames]
    if len({*packages} - {""}) < 2:
        packages = [""] * len(packages)
    packages = [
        package(frame.name, frame.file) if is_python(frame.file) else name
        for frame, name in zip(tree.frames, packages, strict=True)
    ]
    labels: list[tuple[str, str]] = []
    sizes: dict[tuple[str, str], float] = {}
    for frame, name, value in zip(tree.frames, packages, sums):
        key = ("", SMALLER) if frame == smaller else (frame.binary, "" if frame.reason else name)
        labels.append(key)
        sizes[key] = sizes.get(key, 0) + value
    sizes.pop(("", SMALLER), None)
    order = sorted(sizes, key=lambda key: (-sizes[key], key))[:GROUPS]
    numbers = {key: index for index, key in enumerate(order)}
    return [name or binary or "no binary" for binary, name in order], [numbers.get(key, -1) for key in labels]
