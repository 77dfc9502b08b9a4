"""Call frame information: forged, against readelf over whole files, and damaged."""

from __future__ import annotations

import random
import shutil
import struct
import sysconfig
from pathlib import Path

import pytest

from tests.forge.cfi import CODE, ENTRY_ROW, VADDR, record, section, table
from tests.helpers.frames import compared
from tests.helpers.live import compiled
from tests.helpers.survive import survives
from whence._base.errors import DwarfError
from whence.objects.elf import ElfFile
from whence.unwind.cfi import Cfa, Fde, FrameSection, How, Rule

RA = 16
SKIP_NEXT = b"\x0f\x11"  # DW_CFA_def_cfa_expression with an expression of 17 bytes: the head of an FDE


def fde_of(program: bytes, **options: bytes) -> Fde:
    result = FrameSection(section(program, **options), VADDR).find(CODE)
    assert result is not None
    return result


def test_rows_of_a_function_with_a_frame_pointer() -> None:
    # advance 1; CFA offset 16; rbp at CFA-16; advance 3; CFA register rbp; advance 0x20; CFA rsp+8; restore rbp
    fde = fde_of(bytes.fromhex("41 0e10 8602 43 0d06 60 0c0708 c6"))
    offset = [(row.start - CODE, row.cfa, row.rules.get(6)) for row in fde.rows]
    saved = Rule(How.OFFSET, -16)
    assert offset == [
        (0, Cfa(7, 8), None),
        (1, Cfa(7, 16), saved),
        (4, Cfa(6, 16), saved),
        (0x24, Cfa(7, 8), None),
    ]
    assert all(row.rules[RA] == Rule(How.OFFSET, -8) for row in fde.rows)
    assert [fde.row(CODE + n).start - CODE for n in (0, 3, 4, 0x23, 0xFF)] == [0, 1, 4, 4, 0x24]


def test_restoring_a_state_restores_its_cfa() -> None:
    fde = fde_of(bytes.fromhex("41 0e20 8302 0a 41 0e08 c3 41 0b"))
    assert [(row.start - CODE, row.cfa, 3 in row.rules) for row in fde.rows] == [
        (0, Cfa(7, 8), False),
        (1, Cfa(7, 32), True),
        (2, Cfa(7, 8), False),
        (3, Cfa(7, 32), True),
    ]


@pytest.mark.parametrize(
    ("program", "register", "rule"),
    [
        ("0703", 3, Rule(How.UNDEFINED)),
        ("0803", 3, Rule(How.SAME)),
        ("090305", 3, Rule(How.REGISTER, 5)),
        ("050302", 3, Rule(How.OFFSET, -16)),
        ("11037e", 3, Rule(How.OFFSET, 16)),
        ("140302", 3, Rule(How.VAL_OFFSET, -16)),
        ("15037e", 3, Rule(How.VAL_OFFSET, 16)),
        ("2f0302", 3, Rule(How.OFFSET, 16)),
        ("1003027708", 3, Rule(How.EXPRESSION, 0, b"\x77\x08")),
        ("1603027708", 3, Rule(How.VAL_EXPRESSION, 0, b"\x77\x08")),
        ("0703 0603", 3, None),
        ("0710 0610", RA, Rule(How.OFFSET, -8)),  # restored to what the CIE says
        ("0710 d0", RA, Rule(How.OFFSET, -8)),
        ("2e08 2d 2c 00 0803", 3, Rule(How.SAME)),
    ],
)
def test_each_instruction_sets_its_rule(program: str, register: int, rule: Rule | None) -> None:
    assert fde_of(bytes.fromhex(program)).rows[0].rules.get(register) == rule


@pytest.mark.parametrize(
    ("program", "cfa"),
    [
        ("0c0610", Cfa(6, 16)),
        ("0d06", Cfa(6, 8)),
        ("0e20", Cfa(7, 32)),
        ("12067e", Cfa(6, 16)),
        ("137e", Cfa(7, 16)),
        ("0f027708", Cfa(0, 0, b"\x77\x08")),
    ],
)
def test_each_instruction_of_the_cfa(program: str, cfa: Cfa) -> None:
    assert fde_of(bytes.fromhex(program)).rows[0].cfa == cfa


def test_a_cfa_may_start_without_an_offset() -> None:
    """CIEs that gcc writes for riscv64 do."""
    assert fde_of(b"", cie=b"\x0d\x02").rows[0].cfa == Cfa(2, 0)
    with pytest.raises(DwarfError, match="not a register plus an offset"):
        fde_of(b"\x0e\x10", cie=b"\x07\x10")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("3f", "unknown instruction 0x3f"),
        ("0b", "DW_CFA_restore_state without a remembered state"),
        ("0a" * 65, "nested deeper than 64"),
        ("0f01000e08", "not a register plus an offset"),
        ("0f05", "truncated"),
        ("04ffff", "truncated"),
        ("01 00000000", "the location moves backwards"),
        ("05" + "ff" * 12, "a LEB128 number has more than 10 bytes"),
    ],
)
def test_a_malformed_program_is_reported(program: str, message: str) -> None:
    with pytest.raises(DwarfError, match=message):
        fde_of(bytes.fromhex(program))


def test_the_cost_of_rows_is_bounded_by_the_section_size() -> None:
    rules = b"".join(b"\x07" + bytes([0x80 | n & 0x7F, n >> 7]) for n in range(250))
    same = fde_of(rules + b"\x41\x07\x03" * 20000)  # undefining a register again makes no new row
    assert len(same.rows) == 1
    others = b"".join(b"\x41\x0e" + bytes([0x80 | n & 0x7F, 0x80 | n >> 7 & 0x7F, n >> 14]) for n in range(20000))
    with pytest.raises(DwarfError, match="the rows' states need more than 16 words per byte"):
        fde_of(rules + others)


def test_a_long_cie_is_run_once_for_many_fdes() -> None:
    first = section(b"", cie=ENTRY_ROW + bytes(1 << 15))
    length = struct.unpack_from("<I", first)[0] + 4
    data = first[:length]
    for n in range(1000):
        data += record(struct.pack("<IIIB", len(data) + 4, CODE + n * 16, 16, 0))
    assert len(FrameSection(data, VADDR).fdes()) == 1000


def test_a_search_table_with_overlapping_records_has_a_bounded_cost() -> None:
    """Each entry of the table leads to an FDE of its own, whose instructions are most of the section's."""
    first = section(b"")
    data = bytearray(first[: struct.unpack_from("<I", first)[0] + 4])
    offsets = []
    for n in range(1000):
        offsets.append(len(data))
        data += struct.pack("<IIIIB", 0, len(data) + 4, CODE + n * 16, 16, 0) + bytes(997) + SKIP_NEXT
    data += bytes(17)
    for index in offsets:  # each extends to the end
        struct.pack_into("<I", data, index, len(data) - index - 4)
    vaddr = 0x20000
    entries = b"".join(
        struct.pack("<ii", CODE + n * 16 - vaddr, VADDR + index - vaddr) for n, index in enumerate(offsets)
    )
    header = bytes((1, 0x1B, 3, 0x3B)) + struct.pack("<iI", VADDR - vaddr - 4, len(offsets)) + entries
    frames = FrameSection(bytes(data), VADDR, header=(vaddr, header))
    assert frames.find(CODE + 999 * 16) is not None
    refused = [n for n in range(999) if frames.table.compile(frames.table.find(CODE + n * 16)) is not None]
    assert len(refused) > 900
    with pytest.raises(DwarfError, match="the FDEs run more than 4 times the section's bytes"):
        frames.find(CODE + refused[0] * 16)


def test_augmentation_letters_mark_signal_frames_and_unknown_ones_are_skipped() -> None:
    assert fde_of(b"", augmentation=b"zRS\0").cie.signal
    assert fde_of(b"", augmentation=b"zPLR\0", data=b"\x03" + bytes(4) + b"\x1b\x03").cie.lsda_encoding == 0x1B
    assert fde_of(b"", augmentation=b"zRB?\0", data=b"\x03\1\2\3").rows
    data = section(b"", augmentation=b"eh\0")
    assert FrameSection(data, VADDR).fdes() == []
    problems = FrameSection(data, VADDR)
    problems.fdes()
    assert "augmentation" in str(problems.problems[0])


def test_the_search_table_is_used_but_not_trusted() -> None:
    data = section(b"\x0e\x20")
    fde_at = 4 + struct.unpack_from("<I", data)[0]
    for starts, offset in (([CODE], fde_at), ([CODE, CODE - 1], fde_at), ([CODE - 8], 0), ([CODE], 1 << 20), ([], 0)):
        result = FrameSection(data, VADDR, header=table(data, starts, offset)).find(CODE + 5)
        assert result is not None
        assert result.rows[0].cfa == Cfa(7, 32)
    lying = FrameSection(data, VADDR, header=table(data, [CODE + 0x200], fde_at))
    assert lying.find(CODE + 0x210) is None


def test_debug_frame_of_each_version_and_of_64_bit_dwarf() -> None:
    for version, wide in ((1, False), (3, False), (4, False), (4, True)):
        head = bytes((version, 0)) + (b"\x08\0" if version == 4 else b"") + b"\1\x78\x10" + ENTRY_ROW
        mark = b"\xff" * (8 if wide else 4)
        location = struct.pack("<Q" if wide else "<I", 0)
        body = [mark + head, location + struct.pack("<QQ", CODE, 0x10), location + struct.pack("<QQ", 1, 0x10)]
        data = b"".join(
            (b"\xff" * 4 + struct.pack("<Q", len(b)) if wide else struct.pack("<I", len(b))) + b for b in body
        )
        frames = FrameSection(data, 0, name=".debug_frame", code=[(CODE, CODE + 0x100)])
        result = frames.find(CODE + 0xF)
        assert result is not None, version
        assert result.rows[0].cfa == Cfa(7, 8)
        assert frames.find(2) is None  # what the linker dropped
        assert frames.find(CODE + 0x10) is None


def test_damaged_bytes_give_errors_or_rows() -> None:
    full = section(bytes.fromhex("41 0e10 8602 43 0d06 0a 60 0c0708 c6 41 0b 1003027708 0f027708"))
    generator = random.Random(5)
    for _ in range(3000):
        data = bytearray(full)
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        cut = bytes(data[: generator.randint(1, len(data))] if generator.random() < 0.3 else data)
        frames = FrameSection(cut, VADDR)
        survives(frames.find, CODE, refused=DwarfError)
        for fde in frames.fdes():
            assert fde.rows


@pytest.fixture
def readelf() -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not on this machine")
    if sysconfig.get_platform() != "linux-x86_64":
        pytest.skip("the names of registers here are x86-64's")


@pytest.mark.usefixtures("readelf")
def test_every_row_of_the_c_library_matches_readelf() -> None:
    places = [Path(f"/lib/x86_64-linux-gnu/{name}") for name in ("libc.so.6", "ld-linux-x86-64.so.2")]
    result = [path for path in places if path.exists()]
    if not result:
        pytest.skip("no C library where Debian has it")
    assert all(compared(path) > 1000 for path in result)


@pytest.mark.usefixtures("readelf")
def test_every_row_of_debug_frame_matches_readelf(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-fno-asynchronous-unwind-tables", "-nostartfiles", "-Wl,-e,main")
    with ElfFile.open(program) as elf:
        assert elf.section(".debug_frame") is not None
    assert compared(program) >= 3
