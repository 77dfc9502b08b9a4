"""Cores of other machines: tests/data/cores has a small program and its core for each (make.sh there makes them)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import whence
from whence.cli.main import main
from whence.locate.locator import Locator
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import End, FoundBy

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
def test_a_core_of_each_machine_has_its_whole_stack(machine: str) -> None:
    found = stack(machine)
    assert (found.end, found.detail) == (End.COMPLETE, "")
    assert [frame.place.frames[0].function for frame in found.frames] == CALLS
    assert [frame.found_by for frame in found.frames] == [FoundBy.REGISTERS, *[MACHINES[machine]] * 6]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_frames_of_each_machine_are_gdbs(machine: str) -> None:
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("gdb-multiarch is not on this machine")
    if machine == "riscv64":
        pytest.skip("gdb 13 refuses cores of riscv64 whose NT_PRSTATUS is Linux's")
    command = ["gdb-multiarch", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "bt"]
    done = subprocess.run(
        [*command, CORES / machine, CORES / f"{machine}.core"], capture_output=True, text=True, timeout=60
    )
    _, *theirs = [int(one, 16) for one in re.findall(r"^#\d+ +0x([0-9a-f]+) in", done.stdout, re.M)]  # #0 comes twice
    assert [frame.pc for frame in stack(machine).frames][: len(theirs)] == theirs
    assert len(theirs) >= 6


def test_a_program_that_does_not_fit_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", str(CORES / "arm.core"), "--binary", str(CORES / "i386"), "--json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["end"] == "no-cfi"
