"""Stacks merged into a tree, written flat: what the page draws."""

from __future__ import annotations

from whence.profiles.model import Profile
from whence.profiles.stacks import Shown, Stacks

NODES = 300_000  # as many as a browser draws without a pause; the smallest are put together beyond


def tree(profile: Profile, nodes: int = NODES) -> dict[str, object]:
    """Columns of the tree's nodes, in an order where parents come before their children; node 0 is the root.

    frame[i] is an index into `frames` (name, file, line, index into `binaries`, index into `reasons` or -1), parent[i]
    a node, self[t][i] the value of type t that ends in node i. Frames that differ only in their line are one node.
    Of more than `nodes` the smallest are put together, one beside their larger siblings, named "(smaller)".
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
    if len(frame) > nodes:
        frame, parent, own = largest(nodes, frame, parent, own, number(Shown("(smaller)")))
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


def largest(
    nodes: int, frame: list[int], parent: list[int], own: list[list[int]], smaller: int
) -> tuple[list[int], list[int], list[list[int]]]:
    """The largest nodes, by their greatest share of any type; in place of their siblings a node `smaller` each."""
    totals = [list(column) for column in own]
    for column in totals:
        for node in range(len(frame) - 1, 0, -1):
            column[parent[node]] += column[node]
    whole = [max(1, column[0]) for column in totals]
    weight = [max(column[node] / of for column, of in zip(totals, whole)) for node in range(len(frame))]
    least = sorted(weight, reverse=True)[nodes]
    out_frame, out_parent = [-1], [-1]
    out_own = [[column[0]] for column in own]
    place = {0: 0}
    rest: dict[int, int] = {}  # a kept node -> its child that stands for the smaller ones
    for node in range(1, len(frame)):
        above = place.get(parent[node])
        if above is None:
            continue  # under one that was put away
        kept = weight[node] > least
        at = rest.get(above) if not kept else None
        if at is None:
            at = len(out_frame)
            out_frame.append(frame[node] if kept else smaller)
            out_parent.append(above)
            for column in out_own:
                column.append(0)
            if not kept:
                rest[above] = at
        if kept:
            place[node] = at
        for column, values in zip(out_own, own if kept else totals):
            column[at] += values[node]
    return out_frame, out_parent, out_own
