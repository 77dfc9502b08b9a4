"""Firefox Profiler's, speedscope's and V8's JSON: read, named, written again."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.perf_text import TWO_THREADS
from tests.helpers.profiles import made
from whence._base.model import Frame
from whence.profiles.formats import firefox, perf, plain_json, speedscope
from whence.profiles.formats import registry as formats

DATA = Path(__file__).parents[1] / "tests" / "data" / "profiles"


def seeds() -> list[bytes]:
    two = perf.read(TWO_THREADS)
    texts = (firefox.write(made()), firefox.write(two), speedscope.write(made()), speedscope.write(two))
    recorded = [(DATA / name).read_bytes() for name in ("node.cpuprofile", "py-spy.speedscope.json")]
    return [*(text.encode() for text in texts), *recorded]


def target(data: bytes) -> None:
    profile = formats.from_bytes(data)
    samples = len(profile.samples)
    assert all(len(column) == samples for column in profile.samples.values)
    for location in range(len(profile.address)):
        profile.name(location, (Frame("f", "f.c", location, True), Frame("g")))
    plain_json.write(profile)
    speedscope.write(profile)
    formats.to_bytes(profile, "firefox")
