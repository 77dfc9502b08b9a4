"""Recordings with wrong sizes and counts, with many records in few bytes, or truncated."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.forge.mutations import mutated
from tests.forge.perfdata import KIND, USER, Forge
from tests.helpers.perfdata import EXPECTED, recording, stacks
from tests.helpers.survive import survives
from tests.hostile import bounded
from whence._base.errors import ProfileError
from whence.perfdata.kernels import constants
from whence.profiles import read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MEGABYTE = 1 << 20
BASE_MEGABYTES = 80
FORGE = Forge()


def cuts() -> list[bytes]:
    return [make(recording(FORGE), features={3: FORGE.text("host")}) for make in (FORGE.file, FORGE.pipe)]


@pytest.mark.parametrize("data", cuts(), ids=["file", "pipe"])
def test_a_recording_truncated_at_any_byte_is_an_error_or_gives_the_samples_before(data: bytes) -> None:
    for size in range(len(data)):
        try:
            result = read(data[:size])
        except ProfileError:
            continue
        have = stacks(result) if result.samples.timeline is not None else []
        assert have == EXPECTED[: len(have)]


@pytest.mark.parametrize("data", cuts(), ids=["file", "pipe"])
def test_a_recording_with_any_byte_changed_is_an_error_or_a_profile(data: bytes) -> None:
    dice = random.Random(1)
    assert survives(read, data, refused=ProfileError)
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1 << dice.randrange(8)
        survives(read, bytes(changed), refused=ProfileError)
    for _ in range(2000):
        survives(read, mutated(data, dice), refused=ProfileError)


HUGE = 1 << 60
FIXED = FORGE.pack("QIIQQIIQ", 0x1000, 7, 7, 5, 1, 0, 0, 1)


@pytest.mark.parametrize(
    ("kind", "tail"),
    [
        (KIND, FORGE.pack("QQ", HUGE, 1)),
        (KIND, FORGE.pack("QQ", 2, 1)),
        (KIND | constants.HAS_RAW, FORGE.pack("QII", 0, 0xFFFFFFFF, 1)),
        (KIND | constants.HAS_BRANCH_STACK, FORGE.pack("QQ", 0, HUGE)),
        (KIND | constants.HAS_BRANCH_STACK, FORGE.pack("QQ", 0, (1 << 64) - 1)),
        (KIND | constants.HAS_STACK_USER, FORGE.pack("QQ", 0, HUGE)),
        (KIND | constants.HAS_AUX, FORGE.pack("QQ", 0, (1 << 64) - 8)),
        (KIND | constants.HAS_REGS_INTR, FORGE.pack("Q", 0)),
    ],
    ids=["chain", "chain by one", "raw", "branches", "branches of all ones", "stack", "aux", "no registers"],
)
def test_a_count_that_points_outside_its_sample_loses_only_that_sample(kind: int, tail: bytes) -> None:
    forge = Forge(kind=kind)
    liar = forge.record(9, FIXED + tail, 2)
    records = [forge.comm(7, 7, "app", 1), liar, forge.comm(7, 7, "after", 9)]
    profile = read(forge.file(records))
    assert len(profile.samples) == 0
    assert any("1 damaged record" in note for note in profile.notes)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_nothing_is_read_after_a_record_without_a_size(size: int) -> None:
    sample = FORGE.sample(7, 7, 5, [USER, 0x1000])
    profile = read(FORGE.file([sample, FORGE.pack("IHH", 9, 2, size), sample]))
    assert len(profile.samples.timeline or ()) == 1
    assert any("shorter than its header" in note for note in profile.notes)


MARK = 0x5AFE_C0DE_5AFE_C0DE


def each(record: bytes, numbers: Iterable[int]) -> bytes:
    """Return copies of a forged record that differ in the number at MARK."""
    assert record.count(MARK.to_bytes(8, "little")) == 1
    head, _, tail = record.partition(MARK.to_bytes(8, "little"))
    return b"".join(head + number.to_bytes(8, "little") + tail for number in numbers)


def packed(records: bytes) -> bytes:
    """Return records compressed by zstd, one stream in several records."""
    full = zstd.ZstdCompressor(level=3)
    stream = b""
    for offset in range(0, len(records), MEGABYTE):
        stream += full.compress(records[offset : offset + MEGABYTE])
    stream += full.flush()
    pieces = [
        FORGE.record(constants.COMPRESSED, stream[offset : offset + 65000 & ~7], 0)
        for offset in range(0, len(stream), 65000 & ~7)
    ]
    return FORGE.file(pieces)


def zstd_bomb() -> bytes:
    return packed(FORGE.comm(7, 7, "a", 1) * (400 * MEGABYTE // 48))


def zeros() -> bytes:
    return packed(bytes(200 * MEGABYTE))


def names() -> bytes:
    return FORGE.file([FORGE.comm(7, 7, "app", 1) * 2_000_000])


def threads() -> bytes:
    return FORGE.file([FORGE.comm(index, index, f"t{index}", 1) for index in range(300_000)])


def time_backwards() -> bytes:
    return FORGE.file([each(FORGE.sample(7, 7, MARK, [USER, 0x1000]), range(1_000_000, 600_000, -1))])


def deep_chains() -> bytes:
    return FORGE.file(
        [
            FORGE.sample(7, 7, 1 + index, [USER, *range(index * 8000 + 4096, index * 8000 + 4096 + 8100)])
            for index in range(300)
        ]
    )


def maps_after_each_sample() -> bytes:
    out = []
    for index in range(40_000):
        out.append(FORGE.mmap2(7, 0x1000 * (1 + index), 0x2000, 0, f"/{index}", index))
        out.append(FORGE.sample(7, 7, index, [USER, 0x1000, 0x1000 * index, *range(0x1000, 0x9000, 0x1000)]))
    return FORGE.file(out)


def events_times_samples() -> bytes:
    events = [(FORGE.attribute(1, 1), [index]) for index in range(3000)]
    return FORGE.file(
        [FORGE.sample(7, 7, 1 + index, [USER, 0x1000 * index], id=index % 3000) for index in range(100_000)], events
    )


def own_records() -> bytes:
    return FORGE.pipe([FORGE.record(constants.HEADER_FEATURE, FORGE.pack("Q", 99), 0) * 500_000])


INPUTS: list[Callable[[], bytes]] = [
    zstd_bomb, zeros, names, threads, time_backwards, deep_chains, maps_after_each_sample, events_times_samples,
    own_records,
]  # fmt: skip


def samples_of(path: Path) -> int:
    return len(read(path).samples)


@pytest.mark.parametrize("make", INPUTS, ids=lambda make: make.__name__)
def test_reading_costs_what_the_stored_bytes_justify(make: Callable[[], bytes], tmp_path: Path) -> None:
    data = make()
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    limit = BASE_MEGABYTES + 256 + 16 * len(data) / MEGABYTE
    result = bounded(samples_of, path, seconds=4 + len(data) / MEGABYTE, megabytes=limit, name=make.__name__)
    assert not result.error or result.error.startswith("ProfileError"), result.error
