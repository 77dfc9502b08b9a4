"""perf.data in all forms: read, written as pprof and folded stacks."""

from __future__ import annotations

from pathlib import Path

from tests.forge.perfdata import Forge
from tests.helpers.perfdata import recording
from whence import perfdata
from whence.locator.locator import Locator
from whence.profiles.formats import folded, pprof

LOCATOR = Locator(dirs=[], local=False)
DATA = Path(__file__).parent.parent / "tests" / "data" / "perf"


def seeds() -> list[bytes]:
    forged = [Forge(big) for big in (False, True)]
    kept = [path.read_bytes() for path in sorted(DATA.glob("*.data")) if path.is_file()]
    return [one.file(recording(one)) for one in forged] + [one.pipe(recording(one)) for one in forged] + kept


def target(data: bytes) -> None:
    profile = perfdata.from_bytes(data)
    if profile.unwinding is not None:
        profile.unwinding.unwind(profile, LOCATOR)
    samples = profile.samples
    assert len(samples.labels) == len(samples.of) == len(samples.values[0])
    assert all(one < len(samples.first) - 1 for one in samples.of)
    folded.write(profile)
    pprof.read(pprof.write(profile, compress=False))
