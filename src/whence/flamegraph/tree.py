"""Stacks merged into a tree, as columns, limited to the size that a browser can draw.

Only the heaviest nodes are made (kernels/tree.py), so time and memory depend on the stacks and the visible nodes, not
on the size of the complete tree. Limits:

    nodes    NODES; fewer with more than two sample types, as each node has a value of each type
    depth    DEPTH frames; fewer if many deep stacks share locations with many inlined calls
    types    TYPES

Omitted children of a node are replaced by one node named SMALLER with the sum of their values.
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

NODES = 300_000  # a browser draws them without a pause
CELLS = 2 * NODES  # nodes times sample types
TYPES = 32
DEPTH = 10_000
LINES = 8  # of a node, the heaviest first
STEPS, STEPS_EACH = 20_000_000, 8  # limit of visited frames: constant, and for each location of a stack
SLICE = 20_000_000  # steps between checks for Ctrl-C
SMALLER = "(smaller)"
MAX_U32 = 0xFFFFFFFF
NAME, FILE, LINE = itemgetter(0), itemgetter(1), itemgetter(2)  # of a Frame
ALL_BUT_LINE = itemgetter(slice(3))
flattened = chain.from_iterable


class Tree(Record):
    """The nodes in depth-first order: node 0 is the root; a node precedes its children, and these its next sibling.

    Node i is frame[i], an index into `frames`; -1 for the root. Its parent is node parent[i], up[i] levels above node
    i - 1 (0: that node itself). values[t][i] of type t end in the node. Its lines are the next count[i] of `line`.
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
    end: array[int] = field(default_factory=lambda: array("I"))  # the node where each stack ends
    pruned: bool = False  # some nodes are replaced by SMALLER
    depth: int = 0  # frames below this depth were left out; 0: none


class LocationFrames(Record):
    """The frames of locations: location l is place[of[l]:of[l + 1]], innermost first; a place is a frame and a line."""

    frames: list[DisplayFrame]
    of: array[int]
    place: array[int]
    frame: array[int]
    line: array[int]


def places(profile: ProfileData) -> LocationFrames:
    """Return the frames of each location. Frames differ by name, file or binary; places also by line."""
    chains: list[Frames] = profile.frames
    reasons: dict[tuple[str, str, str], str] = {}  # of frames without a name
    binaries: dict[int, str] = {}  # of mappings
    for location, mapping in enumerate(profile.mapping):
        if mapping not in binaries:
            binaries[mapping] = binary_of(profile, location)
    if not all(chains):
        chains = [*chains]
        for location, frames_of in enumerate(chains):
            if not frames_of:
                (unnamed,) = shown(profile, location, grouped=True)
                chains[location] = (Frame(unnamed.name),)
                reasons.setdefault((unnamed.name, "", unnamed.binary), unnamed.reason)
    sizes = list(map(len, chains))
    of = array("I", accumulate(sizes, initial=0))
    all_frames = list(flattened(chains))
    binary = flattened(map(repeat, map(binaries.__getitem__, profile.mapping), sizes))
    numbers: defaultdict[tuple[str, str, str, int], int] = defaultdict(count().__next__)
    keys = zip(map(NAME, all_frames), map(FILE, all_frames), binary, map(LINE, all_frames))
    index = array("I", map(numbers.__getitem__, keys))
    frames: defaultdict[tuple[str, str, str], int] = defaultdict(count().__next__)
    frame = array("I", map(frames.__getitem__, map(ALL_BUT_LINE, numbers)))
    lines = [key[3] for key in numbers]
    if lines and (min(lines) < 0 or max(lines) > MAX_U32):
        lines = [min(max(line, 0), MAX_U32) for line in lines]
    return LocationFrames(
        [DisplayFrame(*key[:2], 0, key[2], reasons.get(key, "")) for key in frames], of, index, frame, array("I", lines)
    )


def tree(profile: ProfileData, nodes: int = NODES) -> Tree:
    """Return the tree of a profile's stacks, with the `nodes` heaviest nodes by their share of all types."""
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
    out.parent, frame, out.up, out.count, out.line, out.end, rest, cut = growth.lay_out(same, zeros)
    out.pruned, out.depth = rest > 0, depth if cut else 0
    used, out.frame = zeros("I", len(shape.frames) + 1), zeros("q", len(frame))
    different = tree_kernel.renumbered(frame, zeros("I", len(used)), used, out.frame)
    out.frames = [
        shape.frames[number] if number < len(shape.frames) else DisplayFrame(SMALLER) for number in used[:different]
    ]
    for kind in kinds:
        ends = zeros("q", len(frame))
        if kind < len(samples.values):
            checked(tree_kernel.sums(samples.of, samples.values[kind], out.end, ends))
        out.values.append(ends)
    return out


def drawn_types(profile: ProfileData) -> list[int]:
    """Return the sample types that are drawn: the first TYPES, the default type included."""
    kinds = list(range(len(profile.sample_types)))
    return kinds if len(kinds) <= TYPES else sorted({*kinds[: TYPES - 1], profile.default_type})


def weights(samples: Samples, values: list[array[int]]) -> tuple[array[float], array[int]]:
    """Return the weight of each stack, and the first stack equal to it, which has the weight of all of them."""
    stacks = len(samples.first) - 1
    weight, same = array("d", bytes(8 * stacks)), zeros("I", stacks)
    for column in values:
        checked(tree_kernel.shares(samples.of, column, weight))
    table = array("I", b"\xff" * (4 << (2 * stacks).bit_length()))
    checked(tree_kernel.equal_stacks(samples.first, samples.stack, table, same, weight))
    return weight, same


def deepest(samples: Samples, shape: LocationFrames, weight: array[float]) -> int:
    """Return the depth to which stacks are visited: a location may have thousands of inlined calls."""
    sizes = zeros("I", len(samples.first) - 1)
    checked(tree_kernel.depths(samples.first, samples.stack, shape.of, weight, DEPTH, sizes))
    depth: int = tree_kernel.level(sizes, STEPS + STEPS_EACH * len(samples.stack), DEPTH)
    return max(1, depth)


def checked(result: tuple[int, int, int]) -> None:
    """Raise ProfileError if a kernel's result has a fault."""
    if result[1]:
        raise damaged()


def damaged() -> ProfileError:
    """Return the error of a profile with invalid indices."""
    return ProfileError("samples", None, "a sample or a stack refers to a stack or location that does not exist")
