"""Folded stacks: a line for each stack, `outer;inner;leaf 42`, as in flamegraph.pl and related tools.

When read, a frame that is a file with an offset (`/usr/lib/libc.so.6+0x2a1ca`) becomes an address, `[unknown]` has no
name, and everything else is a name. When written, the values are of one sample type.

>>> profile = read("main;work 3\\nmain;/lib/libz.so.1+0x1f20 1\\n")
>>> profile.address[2:].tolist(), profile.mappings[0].path
([7968], '/lib/libz.so.1')
>>> print(write(profile), end="")
main;libz.so.1+0x1f20 1
main;work 3
"""

from __future__ import annotations

import re

from whence._base.budget import Budget
from whence._base.model import Frame
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType
from whence.samples.stacks import ProfileStacks
from whence.samples.text import CONTROLS, lines_of

VALUE = re.compile(r"(?P<value>-?\d{1,18})(?:\.\d+)?")
MAX_VALUE = 64  # characters
OFFSET = re.compile(r"[0-9a-fA-F]{1,16}")
PYTHON = re.compile(r"\S.* \(([^()]*\.pyx?):(\d{1,9})\)$")
ESCAPES = {code: f"\\x{code:02x}" for code in CONTROLS}
ESCAPES |= {ord(";"): ":", ord("\n"): " ", ord("\r"): " ", ord("\t"): " "}
UNKNOWN = ("[unknown]", "[Unknown]", "??", "")


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """Read folded stacks. Other lines are counted. Raises ProfileError if most lines are not folded stacks."""
    budget = budget or bounds.reading(len(text))
    profile = ProfileData([SampleType("samples", "count")], stored=bounds.stored(budget))
    locations: dict[str, int] = {}
    mappings: dict[str, int] = {}
    for number, line in lines_of(text, budget):
        if not line.strip() or line.startswith("#"):
            continue
        name, value = value_of(line)
        if value is None:
            profile.skip(f"folded line {number}", "a stack and its value", line)
            continue
        budget.charge(bounds.STRING * (name.count(";") + 1))
        stack = []
        for frame in name.split(";"):
            if frame not in locations:
                budget.charge(bounds.LOCATION + len(frame))
                locations[frame] = location_of(profile, frame, mappings)
            stack.append(locations[frame])
        profile.samples.add(stack[::-1], [value])
    profile.check_skipped(len(profile.samples))
    return profile


def value_of(line: str) -> tuple[str, int | None]:
    """Return the stack and the value of a line; None for a line without a value."""
    stack, *rest = line.rsplit(None, 1)
    match = VALUE.fullmatch(rest[0]) if rest and len(rest[0]) <= MAX_VALUE else None
    return stack, int(match["value"]) if match else None


def location_of(profile: ProfileData, name: str, mappings: dict[str, int]) -> int:
    """Return a new location for the text of a frame: a name, or a file and an offset to be named.

    py-spy's `name (file.py:12)` also has a file and a line. The name is not changed, so that it is written as read.
    """
    python = PYTHON.match(name)
    if python is not None:
        return profile.location(NO_MAPPING, 0, (Frame(name, python[1], int(python[2])),))
    path, _, offset = name.removesuffix("]").rpartition("+0x")
    if OFFSET.fullmatch(offset) and ("/" in path or ".so" in path) and "]" not in path:
        path = path.removeprefix("[")
        if path not in mappings:
            mappings[path] = len(profile.mappings)
            profile.mappings.append(Mapping(path=path))
        return profile.location(mappings[path], int(offset, 16))
    if name in UNKNOWN:
        return profile.location(NO_MAPPING, 0)
    return profile.location(NO_MAPPING, 0, (Frame(name),))


def write(profile: ProfileData, kind: int | None = None) -> str:
    """Return the stacks, sorted, with their values of one sample type (an index; default: the profile's default type).

    If there are several types, stacks without a value of this one are left out.
    """
    kind = profile.default_type if kind is None else kind
    stacks = ProfileStacks(profile, "folded stacks")
    samples = profile.samples
    column = samples.values[kind] if samples.values else ()
    sparse = len(samples.values) > 1
    seen: dict[bytes, int] = {}
    equal = [seen.setdefault(samples.locations_of(row).tobytes(), row) for row in range(len(samples.first) - 1)]
    totals: dict[tuple[int, str], int] = {}  # by stack and command
    commands: dict[tuple[Label, ...], str] = {(): ""}
    for index, labels, value in zip(samples.of, samples.labels, column):
        if sparse and not value:
            continue
        command = commands.get(labels)
        if command is None:
            command = "".join(f"{escaped(label.text)};" for label in labels if label.key == "comm")
            commands[labels] = command
            stacks.budget.charge(bounds.STRING + len(command))
        key = equal[index], command
        totals[key] = totals.get(key, 0) + value
    names: dict[int, str] = {}
    lines: dict[str, int] = {}
    longest = 0
    for (stack, command), value in totals.items():
        locations = samples.locations_of(stack)
        for location in locations:
            if location not in names:
                names[location] = ";".join(escaped(frame.name) for frame in stacks.frames(location))
                longest = max(longest, len(names[location]))
        if stacks.budget.spent + longest * len(locations) > stacks.budget.most:
            stacks.budget.charge(sum(len(names[location]) for location in locations))  # before the line is made
        if locations:
            line = command + ";".join([names[location] for location in reversed(locations)])
        else:
            line = command[:-1] or UNKNOWN[0]
        stacks.budget.charge(bounds.STRING + len(line))
        lines[line] = lines.get(line, 0) + value
    return "".join([f"{line} {lines[line]}\n" for line in sorted(lines)])


def escaped(name: str) -> str:
    r"""Return a name without characters that would split frames or lines, or make the file look binary.

    >>> escaped("a;b\nc\0")
    'a:b c\\x00'
    """
    return name.translate(ESCAPES)
