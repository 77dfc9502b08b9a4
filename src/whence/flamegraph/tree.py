"""Stacks merged into a tree, as columns: what the page draws, and no more than a browser can draw.

Only the heaviest nodes are made (tree_kernel.Growth), so time and memory depend on what is shown and on the stacks, not
on the size of the whole tree:

    nodes    NODES; with more than two sample types fewer, for each node has a value of each
    depth    DEPTH frames, and fewer where many deep stacks share locations of many inlined calls
    types    TYPES

What is left out stands in its place as one node named SMALLER with the sum of the values.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import accumulate, chain, count, repeat
from operator import itemgetter

from whence._base.errors import ProfileError
from whence._base.model import Frame, Frames
from whence._base.records import Record, field
from whence.flamegraph.kernels import tree as tree_kernel
from whence.samples.model import ProfileData, Samples, SampleType
from whence.samples.stacks import DisplayFrame, binary_of, shown
from whence.samples.wire import zeros

NODES = 300_000  # as many as a browser draws without a pause
CELLS = 2 * NODES  # nodes times sample types
TYPES = 32
DEPTH = 10_000
LINES = 8  # of a node: where its samples were, the heaviest first
STEPS, STEPS_EACH = 20_000_000, 8  # frames that are walked over: so many, and so many more for each location of a stack
SLICE = 20_000_000  # steps between two looks at Ctrl-C
SMALLER = "(smaller)"
MOST = 0xFFFFFFFF  # of a column's number
NAME, FILE, LINE = itemgetter(0), itemgetter(1), itemgetter(2)  # of a Frame
ALL_BUT_LINE = itemgetter(slice(3))
flattened = chain.from_iterable


class Tree(Record):
    """Node 0 is the root; a node comes before its children, and these before its next sibling.

    Node i is frame[i], an index into `frames`; -1 is the root's. Its parent is node parent[i], which lies up[i] levels
    above node i - 1 (0: it is that node). values[t][i] of type t end in it. Its lines are the next count[i] of `line`.
    Frames that differ only in their line are one node.
    """

    types: list[SampleType] = field(default_factory=list)
    default_type: int = 0
    frames: list[DisplayFrame] = field(default_factory=list)
    frame: array[int] = field(default_factory=lambda: array("q", [-1]))
    parent: array[int] = field(default_factory=lambda: array("I", [0]))
    up: array[int] = field(default_factory=lambda: array("q", [0]))
    values: list[array[int]] = field(default_factory=list)
    count: array[int] = field(default_factory=lambda: array("q", [0]))
    line: array[int] = field(default_factory=lambda: array("q"))
    pruned: bool = False  # some nodes stand for others
    depth: int = 0  # frames below this depth were left out; 0: none


class LocationFrames(Record):
    """Locations as what they show: location l is place[of[l]:of[l + 1]], innermost first; a place is a frame's line."""

    frames: list[DisplayFrame]
    of: array[int]
    place: array[int]
    frame: array[int]
    line: array[int]


def places(profile: ProfileData) -> LocationFrames:
    """What each location shows. Frames are distinguished by name, file and binary, places by their line, too."""
    chains: list[Frames] = profile.frames
    reasons: dict[tuple[str, str, str], str] = {}  # of those that have no name
    binaries: dict[int, str] = {}  # of mappings
    for location, mapping in enumerate(profile.mapping):
        if mapping not in binaries:
            binaries[mapping] = binary_of(profile, location)
    if not all(chains):
        chains = [*chains]
        for location, frames_of in enumerate(chains):
            if not frames_of:
                (unnamed,) = shown(profile, location)
                chains[location] = (Frame(unnamed.name),)
                reasons.setdefault((unnamed.name, "", unnamed.binary), unnamed.reason)
    sizes = list(map(len, chains))
    of = array("I", accumulate(sizes, initial=0))
    every = list(flattened(chains))
    binary = flattened(map(repeat, map(binaries.__getitem__, profile.mapping), sizes))
    known: defaultdict[tuple[str, str, str, int], int] = defaultdict(count().__next__)
    place = array("I", map(known.__getitem__, zip(map(NAME, every), map(FILE, every), binary, map(LINE, every))))
    frames: defaultdict[tuple[str, str, str], int] = defaultdict(count().__next__)
    frame = array("I", map(frames.__getitem__, map(ALL_BUT_LINE, known)))
    lines = [key[3] for key in known]
    if lines and (min(lines) < 0 or max(lines) > MOST):
        lines = [min(max(line, 0), MOST) for line in lines]
    return LocationFrames(
        [DisplayFrame(*key[:2], 0, key[2], reasons.get(key, "")) for key in frames], of, place, frame, array("I", lines)
    )


def tree(profile: ProfileData, nodes: int = NODES) -> Tree:
    """The tree of a profile's stacks, its heaviest `nodes` nodes by their shares of all types."""
    samples = profile.samples
    kinds = drawn_types(profile)
    out = Tree([profile.sample_types[kind] for kind in kinds])
    out.default_type = kinds.index(profile.default_type) if profile.default_type in kinds else 0
    values = [samples.values[kind] for kind in kinds if kind < len(samples.values)]
    if not len(samples) or not values:
        out.values = [array("q", [0]) for _ in kinds]
        return out
    shape = places(profile)
    weight, same = weights(samples, values)
    depth = deepest(samples, shape, weight)
    growth = tree_kernel.Growth(
        (samples.first, samples.stack, weight),
        (shape.of, shape.place, shape.frame, shape.line),
        len(shape.frames),
        min(nodes, CELLS // max(1, len(values))),
        depth,
        LINES,
        zeros,
    )
    if growth.fault:
        raise damaged()
    while growth.grow(SLICE):
        pass
    out.parent, frame, out.up, out.count, out.line, end, rest, cut = growth.lay_out(same, zeros)
    out.pruned, out.depth = rest > 0, depth if cut else 0
    used, out.frame = zeros("I", len(shape.frames) + 1), zeros("q", len(frame))
    different = tree_kernel.renumbered(frame, zeros("I", len(used)), used, out.frame)
    out.frames = [shape.frames[one] if one < len(shape.frames) else DisplayFrame(SMALLER) for one in used[:different]]
    for kind in kinds:
        ends = zeros("q", len(frame))
        if kind < len(samples.values):
            checked(tree_kernel.sums(samples.of, samples.values[kind], end, ends))
        out.values.append(ends)
    return out


def drawn_types(profile: ProfileData) -> list[int]:
    """Which sample types are drawn: the first TYPES, and the default one."""
    kinds = list(range(len(profile.sample_types)))
    return kinds if len(kinds) <= TYPES else sorted({*kinds[: TYPES - 1], profile.default_type})


def weights(samples: Samples, values: list[array[int]]) -> tuple[array[float], array[int]]:
    """What each stack weighs, and the first stack that is equal to it, which has the weight of all of them."""
    stacks = len(samples.first) - 1
    weight, same = array("d", bytes(8 * stacks)), zeros("I", stacks)
    for column in values:
        checked(tree_kernel.shares(samples.of, column, weight))
    table = array("I", b"\xff" * (4 << (2 * stacks).bit_length()))
    checked(tree_kernel.equal_stacks(samples.first, samples.stack, table, same, weight))
    return weight, same


def deepest(samples: Samples, shape: LocationFrames, weight: array[float]) -> int:
    """How many frames of each stack can be walked over in all: a location may stand for thousands of inlined calls."""
    sizes = zeros("I", len(samples.first) - 1)
    checked(tree_kernel.depths(samples.first, samples.stack, shape.of, weight, DEPTH, sizes))
    found: int = tree_kernel.level(sizes, STEPS + STEPS_EACH * len(samples.stack), DEPTH)
    return max(1, found)


def checked(result: tuple[int, int, int]) -> None:
    if result[1]:
        raise damaged()


def damaged() -> ProfileError:
    return ProfileError("samples", None, "each sample names a stack, and each stack locations, of the profile")
