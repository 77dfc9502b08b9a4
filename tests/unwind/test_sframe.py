"""SFrame: what it says beside .eh_frame of the same program, forged sections of each version, and damage."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest

from tests.forge.sframe import CODE, VADDR, forged
from tests.helpers.live import compiled
from tests.helpers.survive import survives
from whence._base.errors import DwarfError
from whence.objects.elf import ElfFile
from whence.unwind.cfi import CallFrames, Cfa, How, Rule
from whence.unwind.registers import X86_64
from whence.unwind.sframe import SFrame

RA = 16


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version_has_the_rows_of_a_function(version: int) -> None:
    for flags in (0, 1, 5):
        frames = SFrame(forged(version, flags=flags), VADDR)
        fde = frames.find(CODE + 5)
        assert fde is not None
        assert (fde.start, fde.end) == (CODE, CODE + 64)
        assert [(row.start - CODE, row.cfa, row.rules.get(6)) for row in fde.rows] == [
            (0, Cfa(7, 8), None),
            (1, Cfa(7, 16), Rule(How.OFFSET, -16)),
            (4, Cfa(6, 16), Rule(How.OFFSET, -16)),
        ]
        assert all(row.rules[RA] == Rule(How.OFFSET, -8) for row in fde.rows)
        assert all(row.rules[3] == Rule(How.UNDEFINED) for row in fde.rows)
        assert frames.find(CODE + 64) is None
        assert frames.find(CODE - 1) is None


def test_repeated_blocks_and_the_outermost_function() -> None:
    frames = SFrame(forged(info=0x10, block=16), VADDR)
    fde = frames.find(CODE + 0x21)
    assert fde is not None
    assert fde.row(CODE + 0x21).cfa == Cfa(7, 16)
    outermost = SFrame(forged(fres=bytes((0, 1))), VADDR).find(CODE)
    assert outermost is not None
    assert outermost.rows[0].rules[RA] == Rule(How.UNDEFINED)


@pytest.mark.parametrize(
    ("offset", "byte", "message"),
    [
        (0, 0, "the magic is"),
        (2, 9, "unknown version 9"),
        (4, 9, "unknown ABI 9"),
        (8, 99, "the 99 FDEs extend past the end"),
    ],
)
def test_a_malformed_header_is_reported(offset: int, byte: int, message: str) -> None:
    data = bytearray(forged())
    data[offset] = byte
    with pytest.raises(DwarfError, match=message):
        SFrame(bytes(data), VADDR)


def test_damaged_bytes_give_errors_or_rows() -> None:
    generator = random.Random(7)
    for version in (1, 2, 3):
        for _ in range(1500):
            data = bytearray(forged(version))
            for _ in range(generator.randint(1, 3)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            cut = bytes(data[: generator.randint(1, len(data))] if generator.random() < 0.3 else data)
            survives(lambda cut=cut: SFrame(cut, VADDR).find(CODE + 9), refused=DwarfError)


def test_every_row_matches_eh_frame(tmp_path: Path) -> None:
    if sysconfig.get_platform() != "linux-x86_64":
        pytest.skip("SFrame is compared on x86-64")
    program = compiled(tmp_path, "-Wa,--gsframe", "-O2")
    compared = 0
    with ElfFile.open(program) as elf:
        frames = SFrame.of_elf(elf)
        if frames is None:
            pytest.skip("the linker keeps no .sframe")
        for fde in CallFrames.of_elf(elf).sections[0].fdes():
            for vaddr in range(fde.start, fde.end):
                theirs = frames.find(vaddr)
                if theirs is None:
                    continue
                row, ours = fde.row(vaddr), theirs.row(vaddr)
                if row.cfa is None or row.cfa.expression is not None:
                    continue
                assert ours.cfa == row.cfa, hex(vaddr)
                assert ours.rules[RA] == row.rules[RA]
                assert ours.rules.get(X86_64.fp) == row.rules.get(X86_64.fp)
                compared += 1
    assert compared > 30
