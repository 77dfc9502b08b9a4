"""The function tables of PE files: forged, beside .debug_frame of MinGW programs, and damaged."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.forge import pdata as forge
from tests.forge.mutations import mutated
from tests.forge.pe import BASE
from whence import lidia
from whence._base.errors import DwarfError, WhenceError
from whence.objects.pe import PeFile
from whence.unwind.cfi import CallFrames, Cfa, Fde, How, Rule
from whence.unwind.modules import archived_frames
from whence.unwind.pdata import FunctionTable

RSP, RIP, RBX, RBP = 7, 16, 3, 6
START = BASE + forge.TEXT
PUSH_RBP, PUSH_RBX, ALLOC_32 = forge.code(1, 0, 5), forge.code(2, 0, 3), forge.code(6, 2, 3)


def table_of(data: bytes) -> FunctionTable:
    table = FunctionTable.of_file(PeFile.from_bytes(data))
    assert table is not None
    return table


def found(table: FunctionTable, vaddr: int) -> Fde:
    fde = table.find(vaddr)
    assert fde is not None
    return fde


def offsets(fde: Fde, vaddr: int) -> tuple[Cfa | None, dict[int, int]]:
    """The CFA at an address, and the offsets from it of saved registers."""
    row = fde.row(vaddr)
    return row.cfa, {number: rule.number for number, rule in row.rules.items() if rule.how is How.OFFSET}


def test_each_instruction_of_a_prologue_makes_a_row() -> None:
    table = table_of(forge.x64([(0, 0x40, 0)], forge.info([ALLOC_32, PUSH_RBX, PUSH_RBP])))
    fde = found(table, START + 0x20)
    assert (fde.start, fde.end, fde.section) == (START, START + 0x40, ".pdata")
    assert [(row.start - START, row.cfa) for row in fde.rows] == [
        (0, Cfa(RSP, 8)), (1, Cfa(RSP, 16)), (2, Cfa(RSP, 24)), (6, Cfa(RSP, 56)),
    ]  # fmt: skip
    assert offsets(fde, START + 0x20) == (Cfa(RSP, 56), {RIP: -8, RBP: -16, RBX: -24})
    assert table.find(START + 0x40) is None
    assert table.find(START - 1) is None


@pytest.mark.parametrize(
    ("codes", "cfa", "saved"),
    [
        ([forge.code(7, 1, 0, 0x40)], Cfa(RSP, 0x208), {}),
        ([forge.code(7, 1, 1, 0x10, 1)], Cfa(RSP, 0x10018), {}),
        ([forge.code(7, 4, 3, 6), forge.code(4, 2, 7)], Cfa(RSP, 72), {RBX: 48 - 72}),
        ([forge.code(9, 5, 3, 0x30, 0), forge.code(4, 2, 7)], Cfa(RSP, 72), {RBX: 48 - 72}),
        ([forge.code(9, 8, 6, 1), forge.code(4, 2, 7)], Cfa(RSP, 72), {}),
        ([forge.code(8, 9, 6, 1, 0), forge.code(4, 2, 7)], Cfa(RSP, 72), {}),
    ],
)
def test_allocations_and_stores_of_each_size_are_read(codes: list[bytes], cfa: Cfa, saved: dict[int, int]) -> None:
    fde = found(table_of(forge.x64([(0, 0x40, 0)], forge.info(codes))), START + 0x20)
    assert offsets(fde, START + 0x20) == (cfa, {RIP: -8, **saved})


def test_a_frame_register_leads_to_the_cfa_and_to_saved_registers() -> None:
    codes = [forge.code(0x14, 4, 3, 2), forge.code(0x10, 3), forge.code(8, 2, 7), PUSH_RBP]
    fde = found(table_of(forge.x64([(0, 0x40, 0)], forge.info(codes, frame=5, offset=2))), START + 0x20)
    assert offsets(fde, START + 0x20) == (Cfa(RBP, 80 - 32), {RIP: -8, RBP: -16, RBX: 16 - 80})
    assert fde.row(START + 8).cfa == Cfa(RSP, 80)


def test_a_chained_part_starts_with_the_frame_of_its_function() -> None:
    first = forge.info([ALLOC_32, PUSH_RBP])
    parent = (forge.TEXT, forge.TEXT + 0x20, forge.XDATA)
    second = forge.info([forge.code(5, 4, 3, 1)], chained=parent)
    fde = found(table_of(forge.x64([(0, 0x20, 0), (0x20, 0x40, len(first))], first + second)), START + 0x30)
    assert offsets(fde, START + 0x20) == (Cfa(RSP, 48), {RIP: -8, RBP: -16})
    assert offsets(fde, START + 0x30) == (Cfa(RSP, 48), {RIP: -8, RBP: -16, RBX: 8 - 48})


def test_a_machine_frame_is_that_of_an_interrupted_function() -> None:
    fde = found(table_of(forge.x64([(0, 0x40, 0)], forge.info([forge.code(0, 10, 1)]))), START + 8)
    assert fde.cie.signal
    assert offsets(fde, START + 8) == (Cfa(RSP, 8), {RIP: 0, RSP: 24})


EPILOGUE = bytes.fromhex("4883c4205b5dc3")  # add $32, %rsp; pop %rbx; pop %rbp; ret


@pytest.mark.parametrize(
    ("offset", "cfa", "saved"),
    [
        (0, Cfa(RSP, 56), {RIP: -8, RBP: -16, RBX: -24}),
        (4, Cfa(RSP, 24), {RIP: -8, RBP: -16, RBX: -24}),
        (5, Cfa(RSP, 16), {RIP: -8, RBP: -16}),
        (6, Cfa(RSP, 8), {RIP: -8}),
    ],
)
def test_epilogues_are_recognized_by_their_instructions(offset: int, cfa: Cfa, saved: dict[int, int]) -> None:
    text = bytes(0x20) + EPILOGUE + b"\x90" * 32
    table = table_of(forge.x64([(0, 0x40, 0)], forge.info([ALLOC_32, PUSH_RBX, PUSH_RBP]), text))
    vaddr = START + 0x20 + offset
    assert offsets(found(table, vaddr), vaddr) == (cfa, saved)
    assert offsets(found(table, START + 0x1F), START + 0x1F)[0] == Cfa(RSP, 56)


@pytest.mark.parametrize(
    ("text", "offset", "depth"),
    [
        ("488d65205b5dc3", 0, Cfa(RBP, 0x38)),  # lea 32(%rbp), %rsp, of a frame register
        ("5b5de9000100005b", 0, Cfa(RSP, 24)),  # pops, then a jump to another function
        ("5b5deb005b", 0, Cfa(RBP, 56)),  # a jump inside of the function
        ("5b5d48ff2500000000", 0, Cfa(RSP, 24)),  # a jump through memory
        ("5b5dffe0", 0, Cfa(RBP, 56)),  # of a switch statement
        ("ff505b5dc3", 2, Cfa(RBP, 56)),  # the last byte of a call, as it is looked up for a caller
        ("5bf3c3", 0, Cfa(RSP, 16)),
        ("415c415dc20800", 0, Cfa(RSP, 24)),
    ],
)
def test_only_instructions_of_an_epilogue_count(text: str, offset: int, depth: Cfa) -> None:
    content = bytes(0x20) + bytes.fromhex(text) + b"\x90" * 32
    codes = [forge.code(9, 3), ALLOC_32, PUSH_RBX, PUSH_RBP]
    table = table_of(forge.x64([(0, 0x40, 0)], forge.info(codes, frame=5), content))
    vaddr = START + 0x20 + offset
    assert found(table, vaddr).row(vaddr).cfa == depth


@pytest.mark.parametrize(
    ("xdata", "message"),
    [
        (forge.info([], version=3), "unknown version 3"),
        (bytes((1, 0, 200, 0)), "unwind information of 404 bytes"),
        (forge.info([forge.code(0, 11)]), "unknown operation 11"),
        (forge.info([bytes((0, 1))]), "operation 1 needs 2 slots, 1 left"),
        (forge.info([], chained=(0, 1, forge.XDATA)), "chained more than 32 times"),
        (b"", "is not in the file"),
    ],
)
def test_damaged_information_is_reported(xdata: bytes, message: str) -> None:
    table = table_of(forge.x64([(0, 0x40, 0)], xdata))
    with pytest.raises(DwarfError, match=message):
        table.find(START)
    assert list(table.fdes()) == []


SP, FP, LR = 31, 29, 30


def saved_of(fde: Fde, offset: int) -> tuple[Cfa | None, dict[int, int]]:
    return offsets(fde, fde.start + offset)


def test_a_packed_prologue_and_epilogue_have_a_row_for_each_instruction() -> None:
    """stp x19,x20,[sp,#-32]!; str x21,[sp,#16]; stp x29,x30,[sp,#-16]!; mov x29,sp; ...; ldp; ldr; ldp; ret."""
    fde = found(table_of(forge.arm64([(0, forge.packed(0x40, 48, integers=3, chain=3))])), START)
    saves = {19: -32, 20: -24, 21: -16}
    assert [saved_of(fde, 4 * index) for index in range(5)] == [
        (Cfa(SP, 0), {}),
        (Cfa(SP, 32), {19: -32, 20: -24}),
        (Cfa(SP, 32), saves),
        (Cfa(SP, 48), {**saves, FP: -48, LR: -40}),
        (Cfa(FP, 48), {**saves, FP: -48, LR: -40}),
    ]
    assert [saved_of(fde, 0x30 + 4 * index) for index in range(4)] == [
        (Cfa(SP, 48), {**saves, FP: -48, LR: -40}),
        (Cfa(SP, 32), saves),
        (Cfa(SP, 32), {19: -32, 20: -24}),
        (Cfa(SP, 0), {}),
    ]


def test_packed_entries_of_each_form_describe_their_frame() -> None:
    words = [
        forge.packed(0x40, 32, integers=1, chain=1),  # sub sp; stp x19, x30, [sp]; sub sp
        forge.packed(0x40, 5008, integers=2),
        forge.packed(0x40, 80, integers=1, floats=1, homes=0, chain=2),
        forge.packed(0x40, 96, homes=1, integers=2),
        forge.packed(0x40, 16, chain=3, kind=2),
    ]
    table = table_of(forge.arm64([(0x40 * n, word) for n, word in enumerate(words)]))
    fdes = list(table.fdes())
    assert [saved_of(fde, 0x20) for fde in fdes] == [
        (Cfa(SP, 32), {19: -16, LR: -8}),
        (Cfa(SP, 5008), {19: -16, 20: -8}),
        (Cfa(FP, 80), {19: -32, FP: -80, LR: -72}),
        (Cfa(SP, 96), {19: -80, 20: -72}),
        (Cfa(FP, 16), {FP: -16, LR: -8}),
    ]
    assert saved_of(fdes[4], 0) == saved_of(fdes[4], 0x3C)


def xdata(length: int, codes: bytes, epilogues: list[tuple[int, int]], *, is_packed: int | None = None) -> bytes:
    codes += b"\xe3" * (-len(codes) % 4)
    count = len(epilogues) if is_packed is None else is_packed
    head = length // 4 | (is_packed is not None) << 21 | count << 22 | len(codes) // 4 << 27
    scopes = b"".join(struct.pack("<I", start // 4 | index << 22) for start, index in epilogues)
    return struct.pack("<I", head) + scopes + codes


def test_codes_of_informationare_those_of_prologue_and_epilogues() -> None:
    codes = bytes.fromhex("02 e1 c906 c882 89 e4")  # sub sp,#32; mov x29,sp; stp x23; stp x21 (c882); stp x29,x30!; end
    data = forge.arm64([(0, 0)], xdata(0x60, codes, [(0x30, 1)]))
    fde = found(table_of(data), START)
    body = (Cfa(FP, 80), {FP: -80, LR: -72, 21: -64, 22: -56, 23: -32, 24: -24})
    assert [row.start - START for row in fde.rows] == [0, 4, 8, 12, 16, 20, 0x30, 0x34, 0x38, 0x3C, 0x40, 0x44]
    assert saved_of(fde, 0x20) == body
    assert saved_of(fde, 0x14) == body
    assert saved_of(fde, 0x34) == (Cfa(SP, 80), body[1])
    assert saved_of(fde, 0x40) == (Cfa(SP, 0), {})
    assert saved_of(fde, 0x44) == body


def test_a_packed_epilogue_ends_its_function() -> None:
    fde = found(table_of(forge.arm64([(0, 0)], xdata(0x40, b"\x81\xe4", [], is_packed=0))), START)
    assert [saved_of(fde, offset) for offset in (0, 0x20, 0x38, 0x3C)] == [
        (Cfa(SP, 0), {}), (Cfa(SP, 16), {FP: -16, LR: -8}), (Cfa(SP, 16), {FP: -16, LR: -8}), (Cfa(SP, 0), {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "cfa", "saved"),
    [
        ("c100e4", Cfa(SP, 0x1000), {}),  # alloc_m
        ("e0000100e4", Cfa(SP, 0x1000), {}),  # alloc_l
        ("24e4", Cfa(SP, 32), {19: -32, 20: -24}),
        ("e626e4", Cfa(SP, 48), {19: -48, 20: -40, 21: -32, 22: -24}),  # save_next
        ("4101e4", Cfa(SP, 16), {FP: -8, LR: 0}),
        ("d401e4", Cfa(SP, 16), {19: -16}),
        ("d04102e4", Cfa(SP, 32), {20: -24}),
        ("d68202e4", Cfa(SP, 32), {23: -16, LR: -8}),
        ("cc4301e4", Cfa(SP, 48), {20: -48, 21: -40}),
        ("d84102e4", Cfa(SP, 32), {}),  # save_fregp
        ("e2028101e4", Cfa(FP, 16), {FP: -32, LR: -24}),
        ("e7540202e4", Cfa(SP, 32), {20: 0, 21: 8}),
        ("fce4", Cfa(SP, 0), {}),
    ],
)
def test_each_code_of_arm64_is_read(codes: str, cfa: Cfa, saved: dict[int, int]) -> None:
    fde = found(table_of(forge.arm64([(0, 0)], xdata(0x100, bytes.fromhex(codes), []))), START)
    assert saved_of(fde, 0x80) == (cfa, saved)


def test_a_part_of_a_function_starts_with_the_codes_after_end_c() -> None:
    fde = found(table_of(forge.arm64([(0, 0)], xdata(0x40, bytes.fromhex("02e581e4"), []))), START)
    assert [(row.start - START, row.cfa) for row in fde.rows] == [(0, Cfa(SP, 16)), (4, Cfa(SP, 48))]


def test_damaged_tables_never_raise_anything_but_dwarf_errors() -> None:
    dice = random.Random(5)
    x64 = forge.x64([(0, 0x20, 0), (0x20, 0x40, 8)], forge.info([ALLOC_32, PUSH_RBX]) + forge.info([PUSH_RBP]))
    arm64 = forge.arm64(
        [(0, 0), (0x60, forge.packed(0x40, 48, integers=3))], xdata(0x60, b"\x02\xe1\x89\xe4", [(32, 1)])
    )

    def look_up(data: bytes) -> None:
        table = FunctionTable.of_file(PeFile.from_bytes(data))
        for vaddr in range(START, START + 0x80, 4) if table is not None else ():
            assert table is not None
            try:
                table.find(vaddr)
            except DwarfError:
                continue
        assert table is None or all(fde.start < fde.end for fde in table.fdes())

    for seed in (x64, arm64):
        for _ in range(400):
            try:
                look_up(mutated(seed, dice))
            except WhenceError:
                continue


def test_an_archive_has_the_same_rows(tmp_path: Path) -> None:
    codes = [forge.code(9, 3), ALLOC_32, PUSH_RBX, PUSH_RBP]
    information = forge.info(codes, frame=5, offset=3) + forge.info([forge.code(0, 10, 1)])
    path = tmp_path / "app.exe"
    path.write_bytes(forge.x64([(0, 0x40, 0), (0x40, 0x80, len(information) - 6)], information))
    lidia.create(path, tmp_path / "app.lidia", unwind=True)
    table = table_of(path.read_bytes())
    with lidia.open(tmp_path / "app.lidia") as archive:
        tables = archive.unwind()
        assert tables is not None
        frames, _ = archived_frames(tables, archive.about.segments)
        for own in table.fdes():
            fde = frames.find(own.start)
            assert fde is not None
            assert (fde.start, fde.end, fde.cie.signal, fde.rows) == (own.start, own.end, own.cie.signal, own.rows)


PROGRAM = """
#include <stdlib.h>
#include <string.h>
volatile int sink;
__attribute__((noinline)) int leaf(int n) { return n * 3 + sink; }
__attribute__((noinline)) int many(int a, int b, int c, int d) {
    char text[200]; memset(text, a, sizeof text);
    int x = leaf(a), y = leaf(b), z = leaf(c);
    return leaf(x + y) * z + leaf(d) + text[b & 127] + x;
}
__attribute__((noinline)) int dynamic(int n) {
    char *p = __builtin_alloca(n); memset(p, n, n);
    return leaf(p[n / 2]) + many(n, 1, 2, 3);
}
__attribute__((noinline)) int tail(int n) { sink = n; return dynamic(n); }
__attribute__((noinline)) double floats(double a, double b) { double x = leaf(a); return leaf(b) * x + a; }
__attribute__((noinline)) int large(int n) {
    char big[70000]; memset(big, n, sizeof big);
    return leaf(big[n]) + many(n, n, n, n);
}
int main(int argc, char **argv) { return tail(argc + 30) + large(argc) + (int)floats(argc, 2.0); }
"""


@pytest.mark.parametrize("level", ["-O0", "-O2", "-Os"])
def test_rows_are_those_of_debug_frame(level: str, tmp_path: Path) -> None:
    compiler = shutil.which("x86_64-w64-mingw32-gcc")
    if compiler is None:
        pytest.skip("x86_64-w64-mingw32-gcc is not installed")
    (tmp_path / "p.c").write_text(PROGRAM)
    program = tmp_path / "p.exe"
    subprocess.run([compiler, level, "-g", "-o", program, tmp_path / "p.c"], check=True, capture_output=True)
    preserved = {3, 4, 5, 6, 12, 13, 14, 15, 16}
    equal, different = 0, []
    with PeFile.open(program) as file:
        table = FunctionTable.of_file(file)
        assert table is not None
        for frame in CallFrames.of_elf(file).sections[0].fdes():
            for row in frame.rows:
                fde = table.find(row.start)
                if fde is None or row.cfa is None or row.cfa.offset < 0:  # gcc's tables are wrong after leave
                    continue
                own = fde.row(row.start)
                if own.cfa is not None and (own.cfa.register, row.cfa.register) == (RSP, RBP):
                    continue  # in an epilogue: both are right
                is_equal = own.cfa == row.cfa and rules(own.rules, preserved) == rules(row.rules, preserved)
                equal += is_equal
                if not is_equal and frame.start == fde.start:
                    different.append((hex(row.start), own.cfa, row.cfa))
    assert equal > 200
    assert len(different) < equal // 20, different


def rules(rules: dict[int, Rule], registers: set[int]) -> dict[int, Rule]:
    return {number: rule for number, rule in rules.items() if number in registers and rule.how is How.OFFSET}
