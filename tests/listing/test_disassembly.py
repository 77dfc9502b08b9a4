"""Instructions of forged code on every machine, and references between them."""

from __future__ import annotations

import sys

import pytest

from whence._base.errors import Unsupported
from whence.listing.disassembly import DATA, THUMB, Disassembler, imported_capstone
from whence.listing.targets import arm64_reference, rip_relative, riscv_reference
from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_MIPS, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64

pytest.importorskip("capstone")

CALLS = [  # machine, bits, order, code of a call at 0x1000, mnemonic, target
    (EM_X86_64, 64, "little", "e80b000000", "call", 0x1010),
    (EM_386, 32, "little", "e80b000000", "call", 0x1010),
    (EM_AARCH64, 64, "little", "04000094", "bl", 0x1010),
    (EM_ARM, 32, "little", "080000eb", "bl", 0x1028),
    (EM_RISCV, 64, "little", "ef00c000", "jal", 0x100C),
    (EM_PPC64, 64, "little", "11000048", "bl", 0x1010),
    (EM_PPC64, 64, "big", "48000011", "bl", 0x1010),
    (EM_S390, 64, "big", "c0e500000010", "brasl", 0x1020),
    (EM_MIPS, 32, "big", "0c000400", "jal", 0x1000),
    (EM_MIPS, 64, "little", "0004000c", "jal", 0x1000),
]
JUMPS = [
    (EM_X86_64, 64, "little", "7402", "je", 0x1004),
    (EM_AARCH64, 64, "little", "40000054", "b.eq", 0x1008),
    (EM_AARCH64, 64, "little", "600000b4", "cbz", 0x100C),
    (EM_ARM, 32, "little", "0800000a", "beq", 0x1028),
    (EM_RISCV, 64, "little", "01a0", "c.j", 0x1000),
    (EM_RISCV, 64, "little", "6306b500", "beq", 0x100C),
    (EM_PPC64, 64, "little", "08008241", "beq", 0x1008),
    (EM_S390, 64, "big", "a7f40004", "j", 0x1008),
    (EM_MIPS, 32, "little", "0c000410", "beq", 0x1034),
]


@pytest.mark.parametrize(("machine", "bits", "order", "code", "mnemonic", "target"), CALLS)
def test_a_call_has_its_target(machine: int, bits: int, order: str, code: str, mnemonic: str, target: int) -> None:
    (call,) = Disassembler(machine, bits, order).decode(bytes.fromhex(code), 0x1000)  # type: ignore[arg-type]
    assert (call.mnemonic, call.target, call.is_call, call.size) == (mnemonic, target, True, len(code) // 2)


@pytest.mark.parametrize(("machine", "bits", "order", "code", "mnemonic", "target"), JUMPS)
def test_a_jump_has_its_target(machine: int, bits: int, order: str, code: str, mnemonic: str, target: int) -> None:
    (jump,) = Disassembler(machine, bits, order).decode(bytes.fromhex(code), 0x1000)  # type: ignore[arg-type]
    assert (jump.mnemonic, jump.target, jump.is_call) == (mnemonic, target, False)


def test_thumb_code_and_data_are_decoded_by_their_marks() -> None:
    disassembler = Disassembler(EM_ARM, 32)
    assert [each.mnemonic for each in disassembler.decode(bytes.fromhex("02d008b1"), 0x1000, THUMB)] == ["beq", "cbz"]
    data = list(disassembler.decode(bytes.fromhex("0102030405"), 0x1000, DATA))
    assert [(each.mnemonic, each.operands) for each in data] == [(".word", "0x4030201"), (".byte", "0x5")]


def test_bytes_that_are_no_instruction_do_not_end_the_listing() -> None:
    decoded = list(Disassembler(EM_X86_64).decode(b"\x06\x90\xc3", 0x10))
    assert [(each.vaddr, each.mnemonic) for each in decoded] == [(0x10, ".byte"), (0x11, "nop"), (0x12, "ret")]
    assert sum(each.size for each in Disassembler(EM_AARCH64).decode(bytes(10), 0)) == 10


def test_both_syntaxes_of_x86_have_the_same_references() -> None:
    code = bytes.fromhex("488d05100000004889050000000048899d00ffffffe9fbffffff")
    references = []
    for syntax in ("intel", "att"):
        decoded = list(Disassembler(EM_X86_64, syntax=syntax).decode(code, 0x1000))
        references.append([each.target or rip_relative(each) for each in decoded])
    assert references[0] == references[1] == [0x1017, 0x100E, 0, 0x1015]


def test_an_address_in_two_instructions_of_arm64_is_put_together() -> None:
    code = bytes.fromhex("8000009001400091420040f902080091".replace("42", "02"))
    pages: dict[str, int] = {}
    decoded = list(Disassembler(EM_AARCH64).decode(code, 0x1000))
    assert [each.mnemonic for each in decoded] == ["adrp", "add", "ldr", "add"]
    assert [arm64_reference(each, pages) for each in decoded] == [0, 0x11010, 0x11000, 0x11002]


def test_an_address_in_two_instructions_of_riscv_is_put_together() -> None:
    code = bytes.fromhex("1705000013050520")
    pages: dict[str, int] = {}
    assert [riscv_reference(each, pages) for each in Disassembler(EM_RISCV).decode(code, 0x1000)] == [0, 0x1200]


def test_other_machines_and_syntaxes_are_refused() -> None:
    with pytest.raises(Unsupported, match="no disassembler for bpf"):
        Disassembler(247)
    with pytest.raises(ValueError, match="unknown syntax 'masm': give intel or att"):
        Disassembler(EM_X86_64, syntax="masm")


def test_without_capstone_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'whence\[asm\]'"):
        imported_capstone()
