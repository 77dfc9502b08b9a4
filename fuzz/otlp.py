"""OTLP profiles, binary and JSON: read, named, written, read again."""

from __future__ import annotations

from array import array

from whence._base.errors import WhenceError
from whence._base.model import Frame
from whence.profiles.formats import otlp
from whence.samples.model import Label, Mapping, ProfileData, SampleType


def made() -> ProfileData:
    profile = ProfileData([SampleType("cpu", "nanoseconds"), SampleType("samples", "count")])
    profile.mappings = [Mapping(0x400000, 0x500000, 0x1000, "/bin/app", "ab" * 20)]
    profile.mapping, profile.address = array("q", [0, 0, -1]), array("Q", [0x401000, 0x402000, 7])
    profile.frames = [(), (Frame("inner", "a.c", 3, True), Frame("outer")), ()]
    profile.samples.add([0, 1], [5, 1], (Label("thread", "main"),))
    profile.samples.add([2, 1], [-5, 1])
    return profile


def seeds() -> list[bytes]:
    return [otlp.write(made()), otlp.write(made(), json=True)]


def target(data: bytes) -> None:
    profile = otlp.read(data)
    for location in range(len(profile.address)):
        profile.name(location, (Frame("f", "f.c", location, True), Frame("g")))
    out = otlp.write(profile)
    try:
        again = otlp.read(out)
    except WhenceError as error:
        raise AssertionError(f"what was read can't be read again: {error}") from error
    assert again.samples == profile.samples
    assert all(len(frames) == 2 for frames in again.frames)
