"""pprof profiles: read, named, written, read again."""

from __future__ import annotations

from tests.forge import pprof as forge
from whence._base.model import Frame
from whence.profiles.formats import gz, pprof


def seeds() -> list[bytes]:
    plain = forge.small()
    return [plain, gz.deflated(plain)]


def target(data: bytes) -> None:
    profile = pprof.read(data)
    assert len(profile.samples.labels) == len(profile.samples)
    for location in range(len(profile.address)):
        profile.name(location, (Frame("f", "f.c", location, True), Frame("g")))
    again = pprof.read(pprof.write(profile, compress=False))
    assert again.samples == profile.samples
    assert all(len(frames) == 2 for frames in again.frames)
