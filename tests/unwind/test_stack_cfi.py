"""STACK CFI records of Breakpad symbol files: rules of each form, damage, and minidumps without their modules."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from tests.forge.minidump import MAPS, Dump, Module, Thread, context, elf_id, rsds
from tests.forge.mutations import mutated
from tests.helpers.live import compiled
from whence._base.errors import DwarfError, WhenceError
from whence.dumps import minidump_layout as layout
from whence.exchange.stack_cfi import stack_records
from whence.objects.breakpad import BreakpadFile
from whence.objects.elf import ElfFile
from whence.objects.machines import EM_AARCH64
from whence.symbolize import Core, Symbolizer
from whence.unwind import End
from whence.unwind.cfi import CallFrames, Cfa, How, Rule
from whence.unwind.stack_cfi import StackCfi

ID = "0123456789abcdef" * 2
MODULE = f"MODULE Linux x86_64 67452301AB89EFCD0123456789ABCDEF0 app\nINFO CODE_ID {ID.upper()} app\n"
RSP, RBP, RIP, RBX = 7, 6, 16, 3


def table_of(records: str, module: str = MODULE) -> StackCfi:
    table = StackCfi.of_file(BreakpadFile.from_bytes((module + records).encode()))
    assert table is not None
    return table


RECORDS = """STACK CFI INIT 1000 30 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 1001 .cfa: $rsp 16 + $rbp: .cfa -16 + ^
STACK CFI 1004 .cfa: $rbp 16 +
STACK CFI INIT 1040 10 .cfa: $rsp 8 + .ra: .cfa 8 - ^
"""


def test_records_after_the_first_change_single_rules() -> None:
    table = table_of(RECORDS)
    fde = table.find(0x102F)
    assert fde is not None
    saved, returned = Rule(How.OFFSET, -16), Rule(How.OFFSET, -8)
    assert [(row.start, row.cfa, row.rules) for row in fde.rows] == [
        (0x1000, Cfa(RSP, 8), {RIP: returned}),
        (0x1001, Cfa(RSP, 16), {RIP: returned, RBP: saved}),
        (0x1004, Cfa(RBP, 16), {RIP: returned, RBP: saved}),
    ]
    assert (table.find(0xFFF), table.find(0x1030)) == (None, None)
    other = table.find(0x1040)
    assert other is not None
    assert other.rows[0].rules == {RIP: returned}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("$rbx: $rbx", Rule(How.SAME)),
        ("$rbx: $rbp", Rule(How.REGISTER, RBP)),
        ("$rbx: .cfa 24 -", Rule(How.VAL_OFFSET, -24)),
        ("$rbx: 0", Rule(How.UNDEFINED)),
        ("$rbx: $rsp 40 + ^", Rule(How.VAL_EXPRESSION, 0, bytes.fromhex("920700 1128 22 06"))),
        ("$rbx: .cfa 16 @ ^", Rule(How.VAL_EXPRESSION, 0, bytes.fromhex("1110 1f1a 06"))),
        ("$rbx: $unknown 8 +", Rule(How.UNDEFINED)),
    ],
)
def test_rules_of_each_form_are_read(text: str, rule: Rule) -> None:
    fde = table_of(f"STACK CFI INIT 10 8 .cfa: $rsp 8 + .ra: 0 {text}\n").find(0x10)
    assert fde is not None
    assert fde.rows[0].rules == {RIP: Rule(How.UNDEFINED), RBX: rule}


def test_registers_of_other_machines_are_known_by_their_names() -> None:
    records = "STACK CFI INIT 10 8 .cfa: sp 0 + .ra: x30 x29: .cfa -16 + ^\n"
    fde = table_of(records, MODULE.replace("x86_64", "arm64")).find(0x10)
    assert fde is not None
    assert (fde.rows[0].cfa, fde.rows[0].rules) == (Cfa(31, 0), {30: Rule(How.SAME), 29: Rule(How.OFFSET, -16)})
    assert StackCfi.of_file(BreakpadFile.from_bytes(MODULE.replace("x86_64", "mips").encode())) is None


def test_rows_of_a_program_survive_both_ways(tmp_path: Path) -> None:
    with ElfFile.open(compiled(tmp_path, "-O2")) as elf:
        records, _ = stack_records(elf, elf, 0)
        table = table_of(b"".join(records).decode())
        compared = 0
        for fde in CallFrames.of_elf(elf).sections[0].fdes():
            other = table.find(fde.start)
            if other is not None and all(row.cfa is not None and row.cfa.expression is None for row in fde.rows):
                assert [(row.start, row.cfa) for row in other.rows] == [(row.start, row.cfa) for row in fde.rows]
                compared += 1
    assert compared > 3


def test_signatures_of_return_addresses_of_arm64e_are_removed(tmp_path: Path) -> None:
    module = MODULE.replace("Linux x86_64", "mac arm64e")
    records = "STACK CFI INIT 1000 80 .cfa: sp 16 + .ra: .cfa -8 + ^ x29: .cfa -16 + ^\n"
    (tmp_path / "app.sym").write_text(module + "FUNC 1000 30 0 inner\nFUNC 1040 10 0 outer\n" + records)
    signature = 0xAB2A_8000_0000_0000  # in bit 47, too, which is a bit of addresses on Linux
    stack = struct.pack("<QQQQ", 0x70030, signature | 0x11048, 0, 0)
    thread = Thread(5, context({"pc": 0x11010, "sp": 0x70000}, EM_AARCH64), 0x70000, stack)
    identity = "67452301AB89EFCD0123456789ABCDEF"
    modules = [Module(0x10000, 0x2000, "/opt/app", rsds("app", bytes.fromhex(identity), age=0))]
    path = tmp_path / "app.dmp"
    path.write_bytes(Dump(modules, [thread], cpu=12, platform=layout.MACOS).build())
    with Symbolizer(binaries=[str(tmp_path / "app.sym")]) as symbolizer:
        (result,) = Core(path).stacks(symbolizer)
    assert [hex(frame.pc) for frame in result.frames[:2]] == ["0x11010", "0x11048"]


def test_a_minidump_is_unwound_by_symbol_files_alone(tmp_path: Path) -> None:
    (tmp_path / "app.sym").write_text(MODULE + "FUNC 1000 30 0 inner\nFUNC 1040 10 0 outer\n" + RECORDS)
    stack = struct.pack("<QQQQ", 0x70030, 0x11048, 0, 0)
    registers = {"rip": 0x11010, "rsp": 0x70000, "rbp": 0x70000}
    dump = Dump(
        [Module(0x10000, 24, "/opt/app", elf_id(ID))], [Thread(5, context(registers), 0x70000, stack)],
        texts={0x47670009: MAPS},
    )  # fmt: skip
    path = tmp_path / "app.dmp"
    path.write_bytes(dump.build())
    with Symbolizer(binaries=[str(tmp_path / "app.sym")]) as symbolizer:
        (result,) = Core(path).stacks(symbolizer)
    assert [frame.place.frames[0].function for frame in result.frames] == ["inner", "outer"]
    assert result.end is End.COMPLETE


def test_damaged_records_never_raise_anything_but_dwarf_errors() -> None:
    dice, seed = random.Random(3), RECORDS.encode()
    for _ in range(800):
        try:
            table = StackCfi.of_file(BreakpadFile.from_bytes(MODULE.encode() + mutated(seed, dice)))
            assert table is not None
            for vaddr in range(0xFF0, 0x1060, 5):
                try:
                    fde = table.find(vaddr)
                    assert fde is None or fde.start <= vaddr < fde.end
                except DwarfError:
                    continue
        except WhenceError:
            continue
