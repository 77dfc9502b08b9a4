"""Rows of code without CFI match its CFI if it has some; rows of forged instructions."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from whence.objects.elf import ElfFile
from whence.unwind.cfi import CallFrames, Cfa, How, Rule
from whence.unwind.instructions import CodePath, decode

LIBRARIES = {64: "/lib/x86_64-linux-gnu/libc.so.6", 32: "/usr/lib32/libc.so.6"}
FUNCTIONS = {64: 250, 32: 120}  # of each: a way through those of i386 is longer
START = 0x1000


def path_of(code: str, bits: int = 64) -> CodePath:
    kept = bytes.fromhex(code)

    def read(at: int, size: int) -> bytes:
        if not START <= at <= at + size <= START + len(kept):
            raise LookupError
        return kept[at - START : at - START + size]

    return CodePath(bits, read)


@pytest.mark.parametrize("bits", LIBRARIES)
def test_rows_of_libc_code_match_its_cfi(bits: int) -> None:
    """Nearly all match where a path leads to a return. At run time a return address must also follow a call.

    Some functions of i386 pop their argument, which their callers do not show.
    """
    if not Path(LIBRARIES[bits]).is_file():
        pytest.skip(f"no {LIBRARIES[bits]} on this machine")
    with ElfFile.open(LIBRARIES[bits]) as elf:
        code = [
            (each.vaddr, each.file_offset, each.file_size)
            for each in elf.segments
            if each.is_loaded and each.executable
        ]

        def read(at: int, size: int) -> bytes:
            for vaddr, offset, kept in code:
                if vaddr <= at and at + size <= vaddr + kept:
                    return bytes(elf.data[offset + at - vaddr : offset + at - vaddr + size])
            raise LookupError

        path, right, wrong = CodePath(bits, read), 0, 0
        for fde in random.Random(4).sample(CallFrames.of_elf(elf).sections[0].fdes(), FUNCTIONS[bits]):
            for row in fde.rows:
                result = path.to_return(row.start)[:1]
                if row.cfa is None or row.cfa.expression or not result or result[0].cfa is None:
                    continue
                if result[0].cfa.register == row.cfa.register:
                    right += result[0].cfa == row.cfa
                    wrong += result[0].cfa != row.cfa
        assert right > 4 * FUNCTIONS[bits]
        assert wrong < right / (50 if bits == 64 else 10)


def test_lengths_match_objdump(tmp_path: Path) -> None:
    """Of every instruction of libc's functions with vector instructions, and of those before them."""
    if shutil.which("objdump") is None or not Path(LIBRARIES[64]).is_file():
        pytest.skip("compared with objdump, over a libc of x86-64")
    with ElfFile.open(LIBRARIES[64]) as elf:
        text = elf.section(".text")
        assert text is not None
        start, stop = text.vaddr + text.size * 3 // 4, text.vaddr + text.size
        words = ["objdump", "-d", "-w", f"--start-address={start}", f"--stop-address={stop}", LIBRARIES[64]]
        compared, different = 0, []
        for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
            fields = line.split("\t")
            if len(fields) < 3 or "(bad)" in line or fields[2].startswith((".byte", "rex", "data16")):
                continue
            code = bytes.fromhex(fields[1])
            result = decode(code + bytes(8), 64)
            compared += 1
            if result is None or result.size != len(code):
                different.append(line)
        assert compared > 10_000
        assert not different, different[:5]


RA = {16: Rule(How.OFFSET, -8)}


def test_the_pops_of_a_function_lead_to_its_caller() -> None:
    (row,) = path_of("4883c428 5b 5d c3").to_return(START)  # add $40, %rsp; pop %rbx; pop %rbp; ret
    assert row.cfa == Cfa(7, 64)
    assert row.rules == {**RA, 3: Rule(How.OFFSET, -24), 6: Rule(How.OFFSET, -16)}
    (row,) = path_of("e800010000 90 c9 c3").to_return(START)  # call; nop; leave; ret
    assert row.cfa == Cfa(6, 16)
    assert row.rules == {**RA, 6: Rule(How.OFFSET, -16)}
    (row,) = path_of("488d65f0 5b 415c 5d c20800").to_return(START)  # lea -16(%rbp), %rsp; ...; ret $8
    assert row.cfa == Cfa(6, 24)
    assert row.rules[16] == Rule(How.OFFSET, -16)
    (row,) = path_of("7502 58 c3 59 59 c3").to_return(START)[:1]  # jne; pop; ret; pop; pop; ret
    assert row.cfa == Cfa(7, 16)


def test_a_saved_stack_pointer_is_restored() -> None:
    """Code of gcc: main of i386, which aligns its stack."""
    (row,) = path_of("8b4dfc 5b c9 8d61fc c3", 32).to_return(
        START
    )  # mov -4(%ebp), %ecx; pop; leave; lea -4(%ecx), %esp
    assert row.cfa == Cfa(0, 0, bytes.fromhex("757c06110022"))  # *(ebp - 4) + 0
    assert row.rules[8] == Rule(How.OFFSET, -4)
    assert row.rules[5] == Rule(How.EXPRESSION, 0, bytes.fromhex("7500"))
    assert row.rules[3] == Rule(How.EXPRESSION, 0, bytes.fromhex("7400"))


def test_the_code_after_a_call_that_does_not_return_is_of_another_function() -> None:
    assert path_of("e800010000 55 4889e5 5d c3").to_return(START) == []
    assert path_of("e800010000 0f1f4000 4883ec18 4883c418 c3").to_return(START) == []
    assert path_of("0f0b c3").to_return(START) == []  # ud2
    assert path_of("ebfe").to_return(START) == []  # a loop for ever
    assert path_of("4829c4 c3").to_return(START) == []  # sub %rax, %rsp: unknown


def test_the_pushes_of_a_function_lead_to_its_caller() -> None:
    code = "55 53 4883ec18 e800010000 31c0 e800020000"  # push %rbp; push %rbx; sub $24, %rsp; call; xor; call
    row = path_of(code + "90").from_start(START, START + 11)
    assert row is not None
    assert row.cfa == Cfa(7, 48)
    assert row.rules == {**RA, 3: Rule(How.OFFSET, -24), 6: Rule(How.OFFSET, -16)}
    assert path_of(code).from_start(START, START + 12) is None  # inside an instruction


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_end_within_the_limit(seed: int) -> None:
    path = path_of(random.Random(seed).randbytes(4096).hex(), 64 if seed % 2 else 32)
    for offset in range(START, START + 256, 16):
        for row in path.to_return(offset):
            assert row.cfa is not None
        path.from_start(START, offset)
