"""Hostile stacks: every word a return address, CFI without progress, cores truncated at any byte."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest

import whence
from tests.forge.core import Mapped, core, status
from tests.forge.elf import Segment, build_id_note, forge
from tests.forge.threads import CODE, OUTERMOST, PUSHED, RA_X86, SP_X86, STACK, Process
from tests.hostile import bounded
from whence.unwind.cfi import Cfa, How, Rule
from whence.unwind.registers import X86_64
from whence.unwind.unwinder import Unwinder


def ends_of_smashed_stacks(seed: int, many: int) -> dict[str, int]:
    """How stacks of random words in random CFI end, and with how many frames."""
    rng = random.Random(seed)
    result: dict[str, int] = {}
    for _ in range(many):
        process = Process()
        process.stack[:] = b"".join(
            rng.choice((CODE + rng.randrange(0x1000), STACK + 8 * rng.randrange(512), 0, rng.getrandbits(64))).to_bytes(
                8, "little"
            )
            for _ in range(512)
        )
        process.code[:] = rng.randbytes(0x1000)
        for offset in range(0, 0x1000, 0x200):
            cfa = Cfa(rng.choice((SP_X86, 6, 3)), rng.choice((-8, 0, 8, 16, 1 << 40)))
            if rng.random() < 0.3:
                cfa = Cfa(0, 0, rng.randbytes(rng.randrange(12)))
            rule = rng.choice((PUSHED, Rule(How.REGISTER, 6), Rule(How.VAL_OFFSET, -8), Rule(How.OFFSET, 8), OUTERMOST))
            process.describe(
                offset, offset + 0x180, cfa, rng.random() < 0.1, **{f"r{RA_X86}": rule, "r7": Rule(How.OFFSET, 0)}
            )
        unwinder = Unwinder(X86_64, process, process)
        unwinder.scan = rng.random() < 0.5
        registers = {number: STACK + 8 * rng.randrange(512) for number in X86_64.names}
        unwound = unwinder.unwind(CODE + rng.randrange(0x1000), registers)
        assert unwound.frames
        result[str(unwound.end)] = result.get(str(unwound.end), 0) + 1
    return result


def test_smashed_stacks_end_with_a_reason_in_little_time() -> None:
    outcome = bounded(ends_of_smashed_stacks, 7, 300, seconds=20, megabytes=120)
    assert outcome.error == ""
    assert {"complete", "not-code", "loop", "damaged", "unreadable"} <= outcome.answer.keys()


def test_signal_frames_that_interrupt_one_another_for_ever_end() -> None:
    """Each trampoline's saved registers lead to the next one, the last to the first."""
    process = Process()
    process.code[0x80:0x89] = bytes.fromhex("48c7c00f0000000f05")
    for offset in range(0, 0xE00, 0x100):
        process.words(STACK + offset + 0xA0, STACK + (offset + 0x100) % 0xE00, CODE + 0x80)
    unwound = process.unwind(CODE + 0x80)
    assert (str(unwound.end), len(unwound.frames)) == ("loop", 15)


def forged_core(stack: bytes) -> bytes:
    """A core that has a program's code, indirect calls everywhere, and a stack."""
    page = forge([build_id_note("0123456789abcdef")], [Segment(1, 5, vaddr=0, file_size=0x2000)], section_table=False)
    mapped = [
        Mapped(0x400000, 0x401000, "/opt/app", 0, 4, page),
        Mapped(0x401000, 0x402000, "/opt/app", 0x1000, 5, b"\xff\xd0" * 0x800),
        Mapped(0x7000, 0x7000 + len(stack), flags=6, memory=stack),
    ]
    return core(mapped, [status(78, 0x401010, 0x7000)])


@pytest.mark.parametrize("scan", [False, True])
def test_a_core_cut_at_any_byte_or_with_any_bit_flipped_has_stacks_that_end(tmp_path: Path, scan: bool) -> None:
    stack = array("Q", [0x401010 + 16 * (n % 8) for n in range(512)]).tobytes()
    data, path = forged_core(stack), tmp_path / "core"
    rng = random.Random(3)
    cut = [data[: rng.randrange(len(data))] for _ in range(25)]
    flipped = []
    for _ in range(25):
        changed = bytearray(data)
        changed[rng.randrange(0x800)] ^= 1 << rng.randrange(8)
        flipped.append(bytes(changed))
    told = 0
    for each in (*cut, *flipped):
        path.write_bytes(each)
        try:
            stacks = whence.Core(path).stacks(scan=scan)
        except whence.WhenceError:
            continue
        for result in stacks:
            assert result.frames or result.end.value == "no-registers"
            told += 1
    assert told > 8


def test_mappings_that_overlap_in_a_core_are_no_obstacle(tmp_path: Path) -> None:
    stack = array("Q", [0x401010, 0, 0]).tobytes()
    code = b"\xff\xd0" * 0x800
    mapped = [
        Mapped(0x400000, 0x402000, flags=5, memory=code * 2),
        Mapped(0x401000, 0x402000, flags=5, memory=code),
        Mapped(0x7000, 0x7018, flags=6, memory=stack),
    ]
    path = tmp_path / "core"
    path.write_bytes(core(mapped, [status(78, 0x401010, 0x7000)]))
    (result,) = whence.Core(path).stacks(scan=True)
    assert len(result.frames) == 2
