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
    totals: dict[str, int] = {}
    lines: dict[tuple[int, str], str] = {}  # of a stack and the command that ran it
    for sample, value in enumerate(samples.values[kind] if samples.values else ()):
        key = samples.of[sample], ";".join(label.text for label in samples.labels[sample] if label.key == "comm")
        line = lines.get(key)
        if line is None:
            line = lines[key] = ";".join(escaped(frame.name) for frame in stacks[sample])
        totals[line] = totals.get(line, 0) + value
    return "".join(f"{line} {totals[line]}\n" for line in sorted(totals))


def escaped(name: str) -> str:
    """A name that can't be taken for two frames or two lines."""
    return name.replace(";", ":").replace("\n", " ").replace("\r", " ")
