"""PLT stubs are named after what they jump to, as the disassemblers name them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge.elf import Section, Symbol, forge
from whence._base.model import Source
from whence._base.window import ByteOrder
from whence.objects.elf import ElfFile, functions
from whence.objects.elf.kernels import constants
from whence.objects.elf.plt import stubs

SOURCE = """
extern int puts(const char *); extern int getpid(void); extern int rand(void);
int f(void) { return puts("x") + getpid(); }
int (*g(void))(void) { return rand; }
int h(void) { return rand(); }
"""
ZIG = [sys.executable, "-m", "ziglang", "cc", "-nostdlib"]
BUILDS = {
    "gcc": ["gcc"],
    "gcc-now": ["gcc", "-Wl,-z,now"],
    "gcc-cet": ["gcc", "-fcf-protection", "-Wl,-z,ibtplt"],
    "gcc-no-plt": ["gcc", "-fno-plt"],
    "lld-x86-64": [*ZIG, "-target", "x86_64-linux"],
    "lld-i386": [*ZIG, "-target", "x86-linux"],
    "lld-aarch64": [*ZIG, "-target", "aarch64-linux"],
}


@pytest.mark.parametrize("build", BUILDS)
def test_stubs_are_where_a_disassembler_sees_them(build: str, tmp_path: Path) -> None:
    command = BUILDS[build]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not on this machine")
    source, out = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text(SOURCE)
    made = subprocess.run(
        [*command, "-fPIC", "-shared", "-O1", str(source), "-o", str(out)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"this compiler does not make {build}: {made.stderr[:200]}")
    tool = "llvm-objdump" if "aarch64" in build else "objdump"
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not on this machine")
    listing = subprocess.run([tool, "-d", str(out)], capture_output=True, text=True).stdout
    theirs = {(int(m[1], 16), m[2]) for m in re.finditer(r"^([0-9a-f]+) <(\w+@plt)>:", listing, re.MULTILINE)}
    with ElfFile.open(out) as elf:
        ranges = functions(elf)
        ours = {
            (vaddr, ranges.strings.text(name))
            for vaddr, name, source_ in zip(ranges.vaddr, ranges.function, ranges.source)
            if source_ == Source.PLT.number
        }
    assert theirs
    assert theirs <= ours
    if build != "gcc-cet":  # there objdump names the second half of each stub only
        assert theirs == ours


def rela(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<QQq", slot, symbol << 32 | kind, 0) for slot, symbol, kind in rows)


def test_aarch64_stubs_with_landing_pads_and_pointer_authentication_are_longer() -> None:
    head = struct.pack(
        "<8I", 0xD503245F, 0xA9BF7BF0, 0x90000010, 0xF9400A11, 0x91004210, 0xD61F0220, 0xD503201F, 0xD503201F
    )
    bti = struct.pack("<6I", 0xD503245F, 0xB0000010, 0xF9400A11, 0x91004210, 0xD61F0220, 0xD503201F)
    pac = struct.pack("<6I", 0xB0000010, 0xF9400E11, 0x91006210, 0xD503219F, 0xD61F0220, 0xD503201F)
    data = forge(
        [
            Section(".plt", head + bti + pac, flags=6, vaddr=0x10000, align=16, entry_size=16),
            Section(".rela.plt", rela((0x11010, 1, 1026), (0x11018, 2, 1026)), constants.SHT_RELA),
        ],
        dynamic_symbols=[Symbol("puts", section=0), Symbol("exit", section=0)],
        machine=constants.EM_AARCH64,
    )
    assert stubs(ElfFile.from_bytes(data)) == [(0x10020, 24, b"puts"), (0x10038, 24, b"exit")]


def test_a_stub_whose_slot_no_relocation_fills_has_no_name() -> None:
    code = (
        b"\xff\x25"
        + struct.pack("<i", 0x1000)
        + b"\x66\x90"
        + b"\xff\x25"
        + struct.pack("<i", -0x80000000)
        + b"\x66\x90"
    )
    data = forge(
        [
            Section(".plt.got", code, flags=6, vaddr=0x1000, entry_size=8),
            Section(".rela.plt", rela((0x9999, 1, 7), (0x2006, 77, 7)), constants.SHT_RELA),
        ],
        dynamic_symbols=[Symbol("puts", section=0)],
    )
    assert stubs(ElfFile.from_bytes(data)) == []


MACHINE_STUBS = {  # machine: bits, vaddr of .plt, its bytes with a header, relocations, and the stubs
    "arm": (
        32, constants.EM_ARM, 0x85254,
        "0ce0bee5 01c68fe2 8aca8ce2 a8fdbce5 7847fde7 01c68fe2 8aca8ce2 a0fdbce5",
        (22, (0x210008, 0x210010)), [(0x85258, 12), (0x85264, 16)],
    ),
    "i386": (
        32, constants.EM_386, 0x1000,
        "ffb304000000 ffa308000000 00000000" "ffa30c000000 6800000000 e9e0ffffff" "ff2510400000 6808000000 e9d0ffffff",
        (7, (0x400C, 0x4010)), [(0x1010, 16), (0x1020, 16)],
    ),
    "riscv": (
        64, constants.EM_RISCV, 0xC1F20,
        "174e2400 033e0e0e 67030e00 13000000" "174e2400 033e8e0d 67030e00 13000000",
        (5, (0x306000, 0x306008)), [(0xC1F20, 16), (0xC1F30, 16)],
    ),
    "s390x": (
        64, constants.EM_S390, 0xB6EB0,
        "c010001788a8 e31010000004 07f1 0d10 e310100c0014 c0f4ffffffe5 00000000"
        "c0100017889c e31010000004 07f1 0d10 e310100c0014 c0f4ffffffe5 0000000c",
        (11, (0x3A8000, 0x3A8008)), [(0xB6EB0, 32), (0xB6ED0, 32)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINE_STUBS)
def test_stubs_of_other_machines_are_decoded(name: str) -> None:
    bits, machine, vaddr, code, (kind, slots), expected = MACHINE_STUBS[name]
    order: ByteOrder = "big" if name == "s390x" else "little"
    pack = struct.Struct((">" if order == "big" else "<") + ("QQq" if bits == 64 else "II")).pack
    rows = [
        pack(slot, symbol << 32 | kind, 0) if bits == 64 else pack(slot, symbol << 8 | kind)
        for symbol, slot in enumerate(slots, 1)
    ]
    data = forge(
        [
            Section(".plt", bytes.fromhex(code), flags=6, vaddr=vaddr, align=16, entry_size=16),
            Section(".got.plt", bytes(0x20), flags=3, vaddr=0x4000),
            Section(".rela.plt" if bits == 64 else ".rel.plt", b"".join(rows), constants.SHT_RELA),
        ],
        dynamic_symbols=[Symbol("puts", section=0), Symbol("exit", section=0)],
        machine=machine, bits=bits, order=order,
    )  # fmt: skip
    names = (b"puts", b"exit")
    assert stubs(ElfFile.from_bytes(data)) == [(*offset, name) for offset, name in zip(expected, names, strict=True)]
