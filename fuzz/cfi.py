"""Call frame information: .eh_frame with and without a header, .debug_frame; every FDE, and a walk by what they say."""

from __future__ import annotations

from array import array
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from tests.forge.cfi import CODE, VADDR, section, table
from whence._base.errors import DwarfError, WhenceError
from whence.kernels.columns import Column
from whence.objects.elf import ElfFile
from whence.unwind.cfi import CallFrames, FrameSection, Target
from whence.unwind.kernels.walk import Walker
from whence.unwind.registers import X86_64

STACK = 0x7000


def seeds() -> list[bytes]:
    programs = (
        "41 0e10 8602 43 0d06 0a 60 0c0708 c6 41 0b",
        "1003027708 0f027708 41 0c0708 1603027708 2e08 2d",
        "0703 0803 090305 050302 11037e 140302 15037e 2f0302 0e20 137e 12067e",
    )
    forged = [section(bytes.fromhex(each)) for each in programs]
    return [*forged, section(b"", augmentation=b"zPLR\0", data=b"\x03" + bytes(4) + b"\x1b\x03"), *real()]


def real() -> list[bytes]:
    """The .eh_frame of a small program of this machine."""
    path = Path("/bin/true")
    if not path.is_file():
        return []
    with ElfFile.open(path) as elf:
        return [bytes(each.data)[:4096] for each in CallFrames.of_elf(elf).sections]


def target(data: bytes) -> None:
    header = table(data, [CODE - 8, CODE, CODE + 0x40], 24)
    for frames in (
        FrameSection(data, VADDR),
        FrameSection(data, VADDR, header=header),
        FrameSection(data, 0, name=".debug_frame", target=Target(32, "big"), code=[(CODE, CODE + 0x1000)]),
        FrameSection(data, 0, name=".debug_frame"),
    ):
        for vaddr in (CODE, CODE + 5, VADDR, 0):
            with suppress(DwarfError):
                result = frames.find(vaddr)
                assert result is None or result.start <= vaddr < result.end
        for fde in frames.fdes():
            starts = [row.start for row in fde.rows]
            assert starts
            assert starts == sorted(set(starts))
        walk(frames, data)


def walk(frames: FrameSection, data: bytes) -> None:
    walker = Walker(X86_64, "little")
    walker.add_mapping(CODE, CODE + 0x1000)
    walker.set_module(0, 0, [frames.table])
    item = array("Q", [STACK])
    samples = SimpleNamespace(
        pc=array("Q", [CODE + 5]), values=array("Q", [STACK, STACK + 64]), numbers=array("I", [7, 6]), stack_start=item,
        stack_at=array("Q", [0]), stack_size=array("Q", [len(data)]), stack=data,
    )  # fmt: skip
    result = SimpleNamespace(pc=Column("Q"), end=array("Q", [0]), how=bytearray(1))
    assert walker.walk_samples(samples, result, 0, 64) in (0, 1)
    assert len(result.pc) <= 64
    with suppress(WhenceError):
        walker.set_stack(STACK, data)
        walker.begin(CODE + 5, True, True, STACK, {7: STACK, 6: STACK + 64})
        walker.resume(64)
        walker.frame()
