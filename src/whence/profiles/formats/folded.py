"""Folded stacks: a line for each stack, `outer;inner;leaf 42`, as flamegraph.pl and its family read them.

Read, a frame that is a file with an offset (`/usr/lib/libc.so.6+0x2a1ca`) becomes an address to name; `[unknown]` stays
without one; everything else is a name already. Written, values are those of one sample type.

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
LONGEST_VALUE = 64
OFFSET = re.compile(r"[0-9a-fA-F]{1,16}")
PYTHON = re.compile(r"\S.* \(([^()]*\.pyx?):(\d{1,9})\)$")
ESCAPES = {code: f"\\x{code:02x}" for code in CONTROLS}
ESCAPES |= {ord(";"): ":", ord("\n"): " ", ord("\r"): " ", ord("\t"): " "}
UNKNOWN = ("[unknown]", "[Unknown]", "??", "")


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """A profile from folded stacks. Lines that are none are counted, unless most of them are none: a ProfileError."""
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
        for one in name.split(";"):
            if one not in locations:
                budget.charge(bounds.LOCATION + len(one))
                locations[one] = location_of(profile, one, mappings)
            stack.append(locations[one])
        profile.samples.add(stack[::-1], [value])
    profile.check_skipped(len(profile.samples))
    return profile


def value_of(line: str) -> tuple[str, int | None]:
    """The stack of a line and its value; None for a line that has none."""
    stack, *rest = line.rsplit(None, 1)
    found = VALUE.fullmatch(rest[0]) if rest and len(rest[0]) <= LONGEST_VALUE else None
    return stack, int(found["value"]) if found else None


def location_of(profile: ProfileData, name: str, mappings: dict[str, int]) -> int:
    """A location for a frame that is given by a text: a name, or a file and an offset to be named.

    py-spy's `name (file.py:12)` has a file and a line, too. Names stay as they are: so they are written again.
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
    """The profile's stacks with their values of one sample type (an index; default: the profile's own), in order.

    Of several types, stacks that have nothing of this one are left out.
    """
    kind = profile.default_type if kind is None else kind
    stacks = ProfileStacks(profile, "folded stacks")
    samples = profile.samples
    column = samples.values[kind] if samples.values else ()
    sparse = len(samples.values) > 1
    seen: dict[bytes, int] = {}
    equal = [seen.setdefault(samples.locations_of(one).tobytes(), one) for one in range(len(samples.first) - 1)]
    totals: dict[tuple[int, str], int] = {}  # of a stack and the command that ran it
    commands: dict[tuple[Label, ...], str] = {(): ""}
    for index, labels, value in zip(samples.of, samples.labels, column):
        if sparse and not value:
            continue
        command = commands.get(labels)
        if command is None:
            command = commands[labels] = "".join(f"{escaped(one.text)};" for one in labels if one.key == "comm")
            stacks.budget.charge(bounds.STRING + len(command))
        key = equal[index], command
        totals[key] = totals.get(key, 0) + value
    names: dict[int, str] = {}
    lines: dict[str, int] = {}
    longest = 0
    for (stack, command), value in totals.items():
        locations = samples.locations_of(stack)
        for one in locations:
            if one not in names:
                names[one] = ";".join(escaped(frame.name) for frame in stacks.frames(one))
                longest = max(longest, len(names[one]))
        if stacks.budget.spent + longest * len(locations) > stacks.budget.most:
            stacks.budget.charge(sum(len(names[one]) for one in locations))  # before it is put together
        line = (
            command + ";".join([names[one] for one in reversed(locations)]) if locations else command[:-1] or UNKNOWN[0]
        )
        stacks.budget.charge(bounds.STRING + len(line))
        lines[line] = lines.get(line, 0) + value
    return "".join([f"{line} {lines[line]}\n" for line in sorted(lines)])


def escaped(name: str) -> str:
    r"""A name that can't be taken for two frames or two lines, nor its file for a binary one.

    >>> escaped("a;b\nc\0")
    'a:b c\\x00'
    """
    return name.translate(ESCAPES)
