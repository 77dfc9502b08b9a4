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
    return [each.file(recording(each)) for each in forged] + [each.pipe(recording(each)) for each in forged] + kept


def target(data: bytes) -> None:
    profile = perfdata.from_bytes(data)
    if profile.unwinding is not None:
        profile.unwinding.unwind(profile, LOCATOR)
    samples = profile.samples
    assert len(samples.labels) == len(samples.of) == len(samples.values[0])
    assert all(each < len(samples.first) - 1 for each in samples.of)
    folded.write(profile)
    pprof.read(pprof.write(profile, compress=False))
