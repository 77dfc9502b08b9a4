"""Cores of other machines: tests/data/cores has a small program and its core for each (make.sh there makes them)."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import whence
from tests.forge.threads import CODE, STACK, Process
from whence.cli.main import main
from whence.locator.locator import Locator
from whence.objects.elf.kernels.constants import EM_S390, PT_GNU_EH_FRAME
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import End, FoundBy
from whence.unwind.registers import MACHINES as MACHINES_BY_KEY
from whence.unwind.unwinder import Unwinder

CORES = Path(__file__).parent.parent / "data" / "cores"
CALLS = ["boom.constprop.0", *["deep"] * 4, "wide", "_start"]
MACHINES = {
    "aarch64": FoundBy.CFI, "arm": FoundBy.EXIDX, "i386": FoundBy.CFI, "ppc64le": FoundBy.CFI, "riscv64": FoundBy.CFI,
    "s390x": FoundBy.CFI,
}  # fmt: skip


def stack(machine: str) -> whence.Stack:
    program = CORES / machine
    core = whence.Core(CORES / f"{machine}.core", programs=[program])
    with Symbolizer(locator=Locator(files=[program])) as symbolizer:
        (only,) = core.stacks(symbolizer)
    return only


@pytest.mark.parametrize("machine", MACHINES)
def test_a_core_of_each_machine_has_its_complete_stack(machine: str) -> None:
    result = stack(machine)
    assert (result.end, result.detail) == (End.COMPLETE, "")
    assert [frame.place.frames[0].function for frame in result.frames] == CALLS
    assert [frame.found_by for frame in result.frames] == [FoundBy.REGISTERS, *[MACHINES[machine]] * 6]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_frames_of_each_machine_match_gdb(machine: str) -> None:
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("gdb-multiarch is not on this machine")
    if machine == "riscv64":
        pytest.skip("gdb 13 refuses cores of riscv64 whose NT_PRSTATUS is Linux's")
    command = ["gdb-multiarch", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "bt"]
    done = subprocess.run(
        [*command, CORES / machine, CORES / f"{machine}.core"], capture_output=True, text=True, timeout=60
    )
    _, *theirs = [
        int(each, 16) for each in re.findall(r"^#\d+ +0x([0-9a-f]+) in", done.stdout, re.M)
    ]  # #0 is printed twice
    assert [frame.pc for frame in stack(machine).frames][: len(theirs)] == theirs
    assert len(theirs) >= 6


def test_a_program_that_does_not_fit_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", str(CORES / "arm.core"), "--binary", str(CORES / "i386"), "--json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["end"] == "no-cfi"


def without_cfi(machine: str, folder: Path) -> Path:
    """Write the program of a machine with .eh_frame and .eh_frame_hdr hidden."""
    data = (CORES / machine).read_bytes().replace(b".eh_frame", b".no_frame")
    path = folder / machine
    path.write_bytes(data.replace(struct.pack("<I", PT_GNU_EH_FRAME), bytes(4)))
    return path


def test_ppc64le_without_cfi_is_unwound_by_its_back_chain(tmp_path: Path) -> None:
    program = without_cfi("ppc64le", tmp_path)
    core = whence.Core(CORES / "ppc64le.core", programs=[program])
    with Symbolizer(locator=Locator(files=[program])) as symbolizer:
        (result,) = core.stacks(symbolizer)
    expected = stack("ppc64le")
    assert [frame.pc for frame in result.frames] == [frame.pc for frame in expected.frames]
    assert {frame.found_by for frame in result.frames[1:]} == {FoundBy.BACK_CHAIN}
    assert result.end is End.COMPLETE


def test_a_back_chain_of_s390x_leads_to_return_addresses_in_the_callers_frames() -> None:
    """Of code that was built with -mbackchain; where the thread is, the link register may be the newer one."""
    process = Process(MACHINES_BY_KEY[EM_S390, 64])
    callers = [STACK + 0x100, STACK + 0x200, STACK + 0x300]
    for sp, chain in zip([STACK, *callers], [*callers, 0], strict=True):
        struct.pack_into(">Q", process.stack, sp - STACK, chain)
    for index, chain in enumerate(callers):
        struct.pack_into(">Q", process.stack, chain + 112 - STACK, CODE + 0x100 * (index + 1))
    machine = process.machine
    unwinder = Unwinder(machine, process, process, "big")
    result = unwinder.unwind(CODE + 0x10, {machine.sp: STACK, 14: CODE + 0x8})  # after its own call
    assert [frame.pc - CODE for frame in result.frames] == [0x10, 0x100, 0x200, 0x300]
    assert {frame.found_by for frame in result.frames[1:]} == {FoundBy.BACK_CHAIN}
    assert result.end is End.COMPLETE
    result = unwinder.unwind(
        CODE + 0x800, {machine.sp: STACK, 14: CODE + 0x900}
    )  # at its beginning: it has no frame yet
    assert [frame.pc - CODE for frame in result.frames] == [0x800, 0x900, 0x100, 0x200, 0x300]
    struct.pack_into(">Q", process.stack, 0x100, STACK + 0x80)  # the chain turns downwards
    assert unwinder.unwind(CODE + 0x10, {machine.sp: STACK, 14: CODE + 0x8}).end is End.NO_CFI
