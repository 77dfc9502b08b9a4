"""A forged recording with all kinds of records, and its samples."""

from __future__ import annotations

from tests.forge.perfdata import KERNEL, KERNEL_PID, USER, Forge
from whence.profiles import Profile

APP, LIB = "/opt/app", "/opt/lib.so"
APP_ID, LIB_ID = "aa" * 20, "bb" * 8


def stacks(profile: Profile) -> list[tuple[int, list[tuple[str, int]]]]:
    """Return time and stack of each sample: file and address, innermost first."""
    samples = profile.samples
    assert samples.timeline is not None
    out = []
    for index, time in zip(samples.timeline.sample, samples.timeline.time, strict=True):
        result = []
        for each in samples.locations(index):
            mapping = profile.mapping_of(each)
            result.append((mapping.path if mapping is not None else "", profile.address[each]))
        out.append((time, result))
    return out


def recording(forge: Forge) -> list[bytes]:
    return [
        forge.mmap(KERNEL_PID, 0xFFFFFFFF81000000, 0x1000000, 0xFFFFFFFF81000000, "[kernel.kallsyms]_text", misc=1),
        forge.comm(7, 7, "perf-exec", 5),
        forge.comm(7, 7, "app", 10, exec=True),
        forge.mmap2(7, 0x400000, 0x2000, 0x1000, APP, 11, build_id=APP_ID),
        forge.mmap2(7, 0x7F0000000000, 0x10000, 0, LIB, 12, build_id=LIB_ID),
        forge.fork(7, 7, 8, 7, 13),
        forge.comm(7, 8, "worker", 14),
        forge.sample(7, 7, 20, [USER, 0x400100, 0x7F0000000200, 0], period=3),
        forge.sample(
            7, 8, 21, [KERNEL, 0xFFFFFFFF81000100, 0xFFFFFFFF81000200, USER, 0x400300, 0x400400], misc=1, cpu=3
        ),
        forge.exit(7, 30),
    ]


EXPECTED = [
    (20, [(APP, 0x400100), (LIB, 0x7F00000001FF), ("", 0)]),
    (
        21,
        [
            ("[kernel.kallsyms]_text", 0xFFFFFFFF81000100),
            ("[kernel.kallsyms]_text", 0xFFFFFFFF810001FF),
            (APP, 0x400300),
            (APP, 0x4003FF),
        ],
    ),
]
