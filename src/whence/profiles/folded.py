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

from whence.errors import ProfileError
from whence.model import Frame
from whence.profiles.model import NO_MAPPING, Mapping, Profile, SampleType
from whence.profiles.stacks import Stacks

LINE = re.compile(r"(?P<stack>.*\S)\s+(?P<value>-?\d{1,18})(?:\.\d+)?$")
PLACE = re.compile(r"\[?(?P<path>[^\]]*(?:/|\.so)[^\]]*)\+0x(?P<offset>[0-9a-fA-F]{1,16})\]?$")
UNKNOWN = ("[unknown]", "[Unknown]", "??", "")


def read(text: str) -> Profile:
    """A profile from folded stacks; a ProfileError names the line that is none."""
    profile = Profile([SampleType("samples", "count")])
    locations: dict[str, int] = {}
    mappings: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        found = LINE.match(line)
        if found is None:
            raise ProfileError(f"folded line {number}", None, "a stack is followed by its value", line)
        stack = []
        for name in found["stack"].split(";"):
            if name not in locations:
                locations[name] = _location(profile, name, mappings)
            stack.append(locations[name])
        profile.samples.add(stack[::-1], [int(found["value"])])
    return profile


def _location(profile: Profile, name: str, mappings: dict[str, int]) -> int:
    place = PLACE.match(name)
    if place is not None:
        path = place["path"]
        if path not in mappings:
            mappings[path] = len(profile.mappings)
            profile.mappings.append(Mapping(path=path))
        return profile.location(mappings[path], int(place["offset"], 16))
    if name in UNKNOWN:
        return profile.location(NO_MAPPING, 0)
    return profile.location(NO_MAPPING, 0, (Frame(name),))


def write(profile: Profile, kind: int | None = None) -> str:
    """The profile's stacks with their values of one sample type (an index; default: the profile's own), in order."""
    kind = profile.default_type if kind is None else kind
    stacks = Stacks(profile)
    samples = profile.samples
    seen: dict[bytes, int] = {}
    equal = [seen.setdefault(samples.locations_of(one).tobytes(), one) for one in range(len(samples.first) - 1)]
    totals: dict[tuple[int, str], int] = {}  # of a stack and the command that ran it
    for at, labels, value in zip(samples.of, samples.labels, samples.values[kind] if samples.values else ()):
        key = equal[at], "".join(f"{escaped(one.text)};" for one in labels if one.key == "comm") if labels else ""
        totals[key] = totals.get(key, 0) + value
    names: dict[int, str] = {}
    lines: dict[str, int] = {}
    for (stack, command), value in totals.items():
        locations = samples.locations_of(stack)
        for one in locations:
            if one not in names:
                names[one] = ";".join(escaped(frame.name) for frame in stacks.frames(one))
        line = command + ";".join([names[one] for one in reversed(locations)]) if locations else command[:-1]
        lines[line] = lines.get(line, 0) + value
    return "".join([f"{line} {lines[line]}\n" for line in sorted(lines)])


def escaped(name: str) -> str:
    """A name that can't be taken for two frames or two lines."""
    return name.replace(";", ":").replace("\n", " ").replace("\r", " ")
