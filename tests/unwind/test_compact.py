"""Compact unwind information of Mach-O files: forged, beside symbolic's answers, and damaged."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge.compact import TEXT, macho, unwind_info
from tests.forge.mutations import mutated
from whence import lidia
from whence._base.errors import DwarfError, WhenceError
from whence.objects.macho import MachoFile
from whence.unwind.cfi import Cfa, Fde, How
from whence.unwind.compact import CompactUnwind
from whence.unwind.modules import archived_frames

RSP, RBP, RIP, RBX = 7, 6, 16, 3
FP, LR, SP = 29, 30, 31


def table_of(data: bytes) -> CompactUnwind:
    table = CompactUnwind.of_file(MachoFile.from_bytes(data))
    assert table is not None
    return table


def found(table: CompactUnwind, offset: int) -> Fde:
    fde = table.find(TEXT + offset)
    assert fde is not None
    return fde


def row_at(table: CompactUnwind, offset: int) -> tuple[Cfa | None, dict[int, int]]:
    """The CFA at an offset in the code, and the offsets from it of saved registers."""
    row = found(table, offset).row(TEXT + offset)
    return row.cfa, {number: rule.number for number, rule in row.rules.items() if rule.how is How.OFFSET}


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("common", [(), (0x01000000, 0x02020000)])
def test_functions_are_found_in_both_kinds_of_pages(compressed: bool, common: tuple[int, ...]) -> None:
    functions = [(0, 0x01000000), (0x40, 0x02020000), (0x80, 0x02040000)]
    table = table_of(macho(unwind_info(functions, 0xC0, common=common, compressed=compressed)))
    rows = [row_at(table, offset)[0] for offset in (0, 0x3F, 0x40, 0x80, 0xBF)]
    assert rows == [Cfa(RBP, 16), Cfa(RBP, 16), Cfa(RSP, 16), Cfa(RSP, 32), Cfa(RSP, 32)]
    assert table.find(TEXT + 0xC0) is None
    assert table.find(TEXT - 1) is None
    assert [fde.start - TEXT for fde in table.fdes()] == [0, 0x40, 0x80]


@pytest.mark.parametrize(
    ("encoding", "cfa", "saved"),
    [
        (0x01000000, Cfa(RBP, 16), {}),
        (0x01020021, Cfa(RBP, 16), {RBX: -32, 14: -24}),
        (0x02020000, Cfa(RSP, 16), {}),
        (0x02221800, Cfa(RSP, 272), {RBX: -56, 12: -48, 13: -40, 14: -32, 15: -24, RBP: -16}),
        (0x02080C00 | 3 << 10, Cfa(RSP, 64), {RBX: -32, 12: -24, 13: -16}),
        (0x02080800 | 5, Cfa(RSP, 64), {12: -24, RBX: -16}),
        (0x02080400 | 5, Cfa(RSP, 64), {RBP: -16}),
        (0x03030000, Cfa(RSP, 0x11170), {}),
        (0x0303A000, Cfa(RSP, 0x11170 + 40), {}),
    ],
)
def test_encodings_of_x86_64_describe_frames(encoding: int, cfa: Cfa, saved: dict[int, int]) -> None:
    code = b"\x90\x90\x90" + struct.pack("<I", 0x11170)
    rules = {RIP: -8, **({RBP: -16} if cfa.register == RBP else {}), **saved}
    assert row_at(table_of(macho(unwind_info([(0, encoding)], 0x40), code)), 0x20) == (cfa, rules)


@pytest.mark.parametrize(
    ("encoding", "cfa", "saved"),
    [
        (0x02000000, Cfa(SP, 0), {}),
        (0x02005000, Cfa(SP, 80), {}),
        (0x02005001, Cfa(SP, 80), {19: -8, 20: -16}),
        (0x04000000, Cfa(FP, 16), {FP: -16, LR: -8}),
        (0x04000003, Cfa(FP, 16), {FP: -16, LR: -8, 19: -24, 20: -32, 21: -40, 22: -48}),
        (0x04000110, Cfa(FP, 16), {FP: -16, LR: -8, 27: -24, 28: -32}),
    ],
)
def test_encodings_of_arm64_describe_frames(encoding: int, cfa: Cfa, saved: dict[int, int]) -> None:
    table = table_of(macho(unwind_info([(0, encoding)], 0x40), is_arm64=True))
    assert row_at(table, 0x20) == (cfa, saved)


@pytest.mark.parametrize("encoding", [0, 0x04000018, 0x05000000])
def test_functions_of_other_forms_have_no_rows(encoding: int) -> None:
    assert table_of(macho(unwind_info([(0, encoding)], 0x40))).find(TEXT) is None


X64_CODE = bytes.fromhex("55 4889e5 4156 53 90 90 e800010000 5b 415e 5d c3")


def test_a_prologue_of_x86_64_makes_rows_and_its_epilogue_too() -> None:
    table = table_of(macho(unwind_info([(0, 0x01020021)], len(X64_CODE)), X64_CODE))
    body = (Cfa(RBP, 16), {RIP: -8, RBP: -16, RBX: -32, 14: -24})
    rows = {offset: row_at(table, offset) for offset in (0, 1, 4, 6, 7, 9, 13, 14, 15, 17, 18)}
    assert rows[0] == (Cfa(RSP, 8), {RIP: -8})
    assert rows[1] == (Cfa(RSP, 16), {RIP: -8, RBP: -16})
    assert rows[4] == (Cfa(RBP, 16), {RIP: -8, RBP: -16})
    assert rows[6] == (Cfa(RBP, 16), {RIP: -8, RBP: -16, 14: -24})
    assert rows[7] == rows[9] == rows[13] == body  # 13: the last byte of the call
    assert rows[14] == (Cfa(RSP, 32), {RIP: -8, RBP: -16, RBX: -32, 14: -24})
    assert rows[15] == (Cfa(RSP, 24), {RIP: -8, RBP: -16, 14: -24})
    assert rows[17] == (Cfa(RSP, 16), {RIP: -8, RBP: -16})
    assert rows[18] == (Cfa(RSP, 8), {RIP: -8})


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


ARM64_CODE = words(
    0xA9BE4FF4,  # stp x20, x19, [sp, #-32]!
    0xA9017BFD,  # stp x29, x30, [sp, #16]
    0x910043FD,  # add x29, sp, #16
    0x94000040,  # bl
    0xA9417BFD,  # ldp x29, x30, [sp, #16]
    0xA8C24FF4,  # ldp x20, x19, [sp], #32
    0xD65F03C0,  # ret
)
ARM64_SAVED = {FP: -16, LR: -8, 19: -24, 20: -32}
ARM64_ROWS = [  # one for each instruction
    (Cfa(SP, 0), {}),
    (Cfa(SP, 32), {19: -24, 20: -32}),
    (Cfa(SP, 32), ARM64_SAVED),
    (Cfa(FP, 16), ARM64_SAVED),
    (Cfa(SP, 32), ARM64_SAVED),
    (Cfa(SP, 32), {19: -24, 20: -32}),
    (Cfa(SP, 0), {}),
]


def test_a_prologue_of_arm64_makes_rows_and_its_epilogue_too() -> None:
    table = table_of(macho(unwind_info([(0, 0x04000001)], len(ARM64_CODE)), ARM64_CODE, is_arm64=True))
    assert [row_at(table, 4 * index) for index in range(7)] == ARM64_ROWS
    assert row_at(table, 15) == ARM64_ROWS[3]  # before a return address


WRAPPED_ARM64 = b"".join(
    [
        words(0xB4000100),  # cbz x0, 0x20
        ARM64_CODE[:-4],
        words(
            0x14000100,  # b, out of the function
            0x52800000,  # mov w0, #0
            0xD65F03C0,  # ret
        ),
    ]
)


def test_code_of_arm64_before_and_after_a_frame_has_none() -> None:
    """Compilers check arguments before they make a frame, and jump to the last call after it."""
    table = table_of(macho(unwind_info([(0, 0x04000001)], len(WRAPPED_ARM64)), WRAPPED_ARM64, is_arm64=True))
    rows = [ARM64_ROWS[0], *ARM64_ROWS, ARM64_ROWS[-1], ARM64_ROWS[-1]]
    assert [row_at(table, 4 * index) for index in range(10)] == rows


@pytest.mark.parametrize("word", [0x14000002, 0x9100001F, 0xAA0003FD], ids=["b, inside", "mov sp, x0", "mov x29, x0"])
def test_only_code_that_keeps_the_frame_leads_to_an_epilogue_of_arm64(word: int) -> None:
    code = words(*struct.unpack("<10I", WRAPPED_ARM64)[:8], word, 0xD65F03C0)
    table = table_of(macho(unwind_info([(0, 0x04000001)], len(code) + 8), code + bytes(8), is_arm64=True))
    assert row_at(table, 32)[0] == Cfa(FP, 16)


def test_code_of_x86_64_before_a_prologue_has_no_frame() -> None:
    code = bytes.fromhex("4885ff 7408 55 4889e5 90 90 5d c3")  # test %rdi, %rdi; je; push %rbp; mov %rsp, %rbp
    table = table_of(macho(unwind_info([(0, 0x01000000)], len(code)), code))
    depths = {offset: row_at(table, offset)[0] for offset in (0, 3, 5, 6, 9, 11, 12)}
    expected = [*[Cfa(RSP, 8)] * 3, Cfa(RSP, 16), Cfa(RBP, 16), Cfa(RSP, 16), Cfa(RSP, 8)]
    assert [*depths.values()] == expected
    called = bytes.fromhex("e800010000 55 4889e5 90 90 5d c3")  # a call: this is not a prologue
    table = table_of(macho(unwind_info([(0, 0x01000000)], len(called)), called))
    assert row_at(table, 0)[0] == Cfa(RBP, 16)


def test_functions_whose_entries_were_joined_are_told_apart() -> None:
    code = X64_CODE.ljust(0x20, b"\x90") + X64_CODE
    table = table_of(macho(unwind_info([(0, 0x01020021)], 0x40), code, functions=[0, 0x20]))
    assert [(fde.start - TEXT, fde.end - TEXT) for fde in table.fdes()] == [(0, 0x20), (0x20, 0x40)]
    assert row_at(table, 0x20)[0] == Cfa(RSP, 8)
    assert row_at(table, 0x28)[0] == Cfa(RBP, 16)


def test_an_archive_has_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(macho(unwind_info([(0, 0x04000001)], len(ARM64_CODE)), ARM64_CODE, is_arm64=True))
    lidia.create(path, tmp_path / "app.lidia", unwind=True)
    with MachoFile.open(path) as file, lidia.open(tmp_path / "app.lidia") as archive:
        table, tables = CompactUnwind.of_file(file), archive.unwind()
        assert table is not None
        assert tables is not None
        frames, _ = archived_frames(tables, archive.about.segments)
        for own in table.fdes():
            fde = frames.find(own.start)
            assert fde is not None
            assert (fde.start, fde.end, fde.rows) == (own.start, own.end, own.rows)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0x34, 9, "unknown kind 9 of a page"),
        (0x20, 0xFFFFFF, "a page is outside the section"),
        (0x38, 0xFFFF000C, "65535 entries extend past the end"),
        (0x40, 0x7F000000, "encoding 127 of 1"),
    ],
)
def test_damaged_pages_are_reported(offset: int, value: int, message: str) -> None:
    info = bytearray(unwind_info([(0, 0x01000000)], 0x40))
    struct.pack_into("<I", info, offset, value)
    table = table_of(macho(bytes(info)))
    with pytest.raises(DwarfError, match=message):
        table.find(TEXT)
    assert list(table.fdes()) == []


def test_damaged_files_never_raise_anything_but_dwarf_errors() -> None:
    dice = random.Random(9)
    functions = [(0, 0x01020021), (0x20, 0x02221800), (0x30, 0x03030000)]
    seed = macho(unwind_info(functions, 0x40), X64_CODE, functions=[0, 0x20, 0x30])
    position = seed.index(unwind_info(functions, 0x40))
    for _ in range(600):
        info = mutated(seed[position : position + 100], dice)
        data = seed[:position] + info[:100].ljust(100, b"\0") + seed[position + 100 :]
        try:
            table = CompactUnwind.of_file(MachoFile.from_bytes(data))
            for offset in range(0, 0x48, 3):
                try:
                    _ = table and table.find(TEXT + offset)
                except DwarfError:
                    continue
            assert table is None or all(fde.start < fde.end for fde in table.fdes())
        except WhenceError:
            continue


PROGRAM = """
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
int main(int argc, char **argv) { return dynamic(argc + 30); }
"""
INIT = re.compile(r"STACK CFI INIT (\w+) \w+ \.cfa: \$?(\w+) (\d+) \+")
NAMES = {"rsp": RSP, "rbp": RBP, "sp": SP, "x29": FP}


@pytest.mark.parametrize(("target", "name"), [("x86_64-macos", "x86_64"), ("aarch64-macos", "arm64")])
def test_rows_of_bodies_are_those_of_symbolic(target: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    symbolic = pytest.importorskip("symbolic")
    (tmp_path / "p.c").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        target,
        "-O1",
        "-fomit-frame-pointer",
        "p.c",
        "-o",
        "p",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"zig does not build for {target}: {done.stderr[-200:]}")
    text = (
        symbolic.Archive.open(str(tmp_path / "p")).get_object(arch=name).make_cficache().open_stream().read().decode()
    )
    compared = 0
    with MachoFile.open(tmp_path / "p") as file:
        table = CompactUnwind.of_file(file)
        assert table is not None
        for start, register, offset in INIT.findall(text):
            fde = table.find(file.image_base + int(start, 16))
            if fde is not None:
                assert fde.rows[-1].cfa == Cfa(NAMES[register], int(offset))
                compared += 1
    assert compared >= (2 if name == "x86_64" else 1)
