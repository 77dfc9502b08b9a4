"""perf script's text and folded stacks: read, written."""

from __future__ import annotations

from tests.helpers.perf_text import MAPPED, OFFSETS
from whence.profiles.formats import folded, perf, pprof, speedscope
from whence.profiles.formats import registry as formats


def seeds() -> list[bytes]:
    return [OFFSETS.encode(), MAPPED.encode(), b"main;work 3\nmain;/lib/libz.so.1+0x1f20 1\n"]


def target(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    profile = perf.read(text) if perf.looks_like(text) else folded.read(text)
    folded.write(profile)
    speedscope.write(profile)
    again = pprof.read(pprof.write(profile))
    if len(profile.samples):
        assert again.samples.values == profile.samples.values
    formats.recognized(data)
