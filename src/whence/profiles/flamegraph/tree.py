"""Stacks merged into a tree, written flat: what the page draws."""

from __future__ import annotations

from whence.profiles.model import Profile
from whence.profiles.stacks import Shown, Stacks


def tree(profile: Profile) -> dict[str, object]:
    """Columns of the tree's nodes, in an order where parents come before their children; node 0 is the root.

    frame[i] is an index into `frames` (name, file, line, index into `binaries`, index into `reasons` or -1), parent[i]
    a node, self[t][i] the value of type t that ends in node i. Frames that differ only in their line are one node.
    """
    stacks = Stacks(profile)
    frames: dict[tuple[str, str, str], int] = {}
    rows: list[list[object]] = []
    binaries: dict[str, int] = {}
    reasons: dict[str, int] = {}
    kinds = len(profile.sample_types)
    frame: list[int] = [-1]
    parent: list[int] = [-1]
    own: list[list[int]] = [[0] for _ in range(kinds)]
    children: list[dict[int, int]] = [{}]

    def number(shown: Shown) -> int:
        key = shown.name, shown.file, shown.binary
        found = frames.get(key)
        if found is None:
            found = frames[key] = len(rows)
            binary = binaries.setdefault(shown.binary, len(binaries))
            reason = reasons.setdefault(shown.reason, len(reasons)) if shown.reason else -1
            rows.append([shown.name, shown.file, shown.line, binary, reason])
        return found

    numbers: dict[int, list[int]] = {}
    for locations, values in stacks.merged().items():
        node = 0
        for location in reversed(locations):
            here = numbers.get(location)
            if here is None:
                here = numbers[location] = [number(one) for one in stacks.frames(location)]
            for one in here:
                child = children[node].get(one)
                if child is None:
                    child = children[node][one] = len(frame)
                    frame.append(one)
                    parent.append(node)
                    children.append({})
                    for column in own:
                        column.append(0)
                node = child
        for kind in range(kinds):
            own[kind][node] += values[kind]
    return {
        "types": [[one.type, one.unit] for one in profile.sample_types],
        "type": profile.default_type,
        "binaries": list(binaries),
        "reasons": list(reasons),
        "frames": rows,
        "frame": frame,
        "parent": parent,
        "self": own,
    }
