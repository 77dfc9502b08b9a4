"""Stacks of Go programs match Go's own tracebacks, with and without symbols, across switches of stacks."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import CORE_PATTERN
from tests.helpers.golang import build
from tests.helpers.live import running
from whence.gopclntab import Pclntab
from whence.gopclntab.frames import SPWRITE, GoFunction
from whence.objects.elf import ElfFile
from whence.unwind import End, FoundBy, StackFrame
from whence.unwind.cfi import CallFrames
from whence.unwind.gostack import GoStacks
from whence.unwind.memory import Unreadable
from whence.unwind.registers import AARCH64, X86_64, Machine
from whence.unwind.steps import Ended, FrameStep

FRAME = re.compile(r" fp=0x[0-9a-f]+ sp=0x([0-9a-f]+) pc=0x([0-9a-f]+)")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("go")
    return {
        "plain": build("stacks", folder / "plain"),
        "stripped": build("stacks", folder / "stripped", ldflags="-s -w"),
    }


def crashed(program: Path, mode: str, folder: Path) -> tuple[Path, list[tuple[int, int]]]:
    """Return a program's core, and (sp, pc) of the frames that it prints for the goroutine that crashed."""
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    env = {**os.environ, "GOTRACEBACK": "crash"}
    done = subprocess.run([program, mode], cwd=folder, env=env, preexec_fn=allow, capture_output=True, text=True)
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("no core was left")
    text = done.stderr[done.stderr.index("goroutine 1 ") :].partition("\n\n")[0]
    return cores[0], [(int(sp, 16), int(pc, 16)) for sp, pc in FRAME.findall(text)]


@pytest.mark.parametrize("kind", ["plain", "stripped"])
@pytest.mark.parametrize("mode", ["nil", "grow", "panic"])
def test_the_frames_of_a_crash_are_gos(programs: dict[str, Path], kind: str, mode: str, tmp_path: Path) -> None:
    core, expected = crashed(programs[kind], mode, tmp_path)
    first, *others = whence.Core(core).stacks()
    assert (first.end, first.detail) == (End.COMPLETE, "")
    assert {stack.end for stack in others} <= {End.COMPLETE}
    result = [(frame.sp, frame.pc) for frame in first.frames]
    assert len(expected) > 8
    if mode == "grow":  # Go prints the inner and the outer fifty
        assert len(result) > 200
        assert {*expected} <= {*result}
    else:
        assert result[-len(expected) :] == expected
    assert {frame.found_by for frame in first.frames} == {FoundBy.REGISTERS, FoundBy.GO, FoundBy.SIGNAL}
    functions = [each.function for frame in first.frames for each in frame.place.frames]
    assert functions[-2:] == ["runtime.main", "runtime.goexit"]
    assert functions.count("main.grow" if mode == "grow" else "main.deep") in (6, 11, 201)


@pytest.mark.parametrize("kind", ["plain", "stripped"])
def test_threads_of_a_live_program_are_complete(programs: dict[str, Path], kind: str) -> None:
    with running([programs[kind], "wait"]) as (pid, _):
        stacks = whence.Process(pid).stacks()
        assert {stack.end for stack in stacks} == {End.COMPLETE}
        waiting = [stack for stack in stacks if any(names(stack, "main.deep"))]
        assert len(waiting) == 3
        assert {len(names(stack, "main.deep")) for stack in waiting} == {5}


def names(stack: whence.Stack, function: str) -> list[str]:
    return [each.function for frame in stack.frames for each in frame.place.frames if each.function == function]


def test_c_called_by_go_called_by_c_leads_to_both(tmp_path: Path) -> None:
    program = build("stacks", tmp_path / "cgo", cgo=True)
    with running([program, "wait"]) as (pid, _):
        stacks = whence.Process(pid).stacks()
    waiting = [stack for stack in stacks if names(stack, "main.deep")]
    assert len(waiting) == 3
    for stack in waiting:
        assert stack.end is End.COMPLETE
        result = [each.function for frame in stack.frames for each in frame.place.frames]
        order = ["inner", "outer", "runtime.asmcgocall", "main.again", "runtime.cgocallback", "main.wait", "main.deep"]
        places = [result.index(each) for each in order]
        assert places == sorted(places)
        assert result[-1] == "runtime.goexit"


# The instructions of runtime.asmcgocall after its calls of C: from a goroutine, and from g0
AFTER_C = {
    "x86-64 of Go 1.17 to 1.21": (
        X86_64, "488b7c2430 488b7708 482b742428 6448893c25f8ffffff 4889f4 89442418 c3", (0x30, 0x28),
        "488b742428 4889f4 89442418 c3", 0x28,
    ),
    "x86-64 since Go 1.22": (
        X86_64, "488b7c2408 488b7708 482b3424 6448893c25f8ffffff 4889f4 89442420 5d c3", (8, 0),
        "488b3424 4889f4 89442420 5d c3", 0,
    ),
    "aarch64": (
        AARCH64, "e90300aa fc0340f9 13060094 850740f9 e60740f9 a50006cb e00309aa bf000091", (0, 8),
        "e20740f9 5f000091 e01b00b9 c0035fd6", 8,
    ),
}  # fmt: skip
CODE, G0_STACK, GOROUTINE, GO_STACK = 0x401000, 0x7FFF00001000, 0xC000006000, 0xC000040000
CALLER = 0x402050


def after_c(machine: Machine, code: str, words: dict[int, int]) -> FrameStep | None:
    """Return the caller of asmcgocall, whose call of C returns to `code`, with these words in memory."""
    text = bytes.fromhex(code).ljust(64, b"\x90")
    memory = {GOROUTINE: GO_STACK, GOROUTINE + 8: GO_STACK + 0x1000, **words}

    def word(address: int) -> int:
        if CODE <= address < CODE + len(text) - 7:
            return int.from_bytes(text[address - CODE : address - CODE + 8], "little")
        if address not in memory:
            raise Unreadable(address)
        return memory[address]

    depth = 0 if machine.link is None else 16
    function = GoFunction(CODE - 0x80, CODE + 64, "runtime.asmcgocall", SPWRITE, depth)
    stacks = GoStacks(machine, word, lambda address: 0x400000 <= address < 0x500000)
    registers = {machine.sp: G0_STACK, machine.fp: 0}
    return stacks.step(function, StackFrame(CODE, G0_STACK, FoundBy.CFI), registers, 0)


@pytest.mark.parametrize("kind", AFTER_C)
def test_asmcgocall_leads_to_the_goroutine_by_its_own_instructions(kind: str) -> None:
    machine, code, (goroutine_at, depth_at), _, _ = AFTER_C[kind]
    sp = GO_STACK + 0x1000 - 0x240
    step = after_c(
        machine, code, {G0_STACK + goroutine_at: GOROUTINE, G0_STACK + depth_at: 0x240, sp: CALLER, sp - 8: 1}
    )
    assert step is not None
    assert (step.pc, step.cfa) == (CALLER, sp + (8 if machine.link is None else 16))


@pytest.mark.parametrize("kind", AFTER_C)
def test_asmcgocall_on_g0_leads_to_the_stack_pointer_that_it_saved(kind: str) -> None:
    machine, _, _, code, saved_at = AFTER_C[kind]
    step = after_c(machine, code, {G0_STACK + saved_at: G0_STACK + 0x80, G0_STACK + 0x80: CALLER, G0_STACK + 0x78: 1})
    assert step is not None
    assert step.pc == CALLER


@pytest.mark.parametrize("kind", AFTER_C)
def test_a_pair_that_is_no_goroutine_and_its_depth_never_completes_a_stack(kind: str) -> None:
    machine, code, (goroutine_at, depth_at), _, _ = AFTER_C[kind]
    for depth in (0, 0x1001, 1 << 60):  # at the stack's end, and outside of it
        with pytest.raises(Ended) as caught:
            after_c(machine, code, {G0_STACK + goroutine_at: GOROUTINE, G0_STACK + depth_at: depth})
        assert caught.value.end is End.UNREADABLE
    with pytest.raises(Unreadable):
        after_c(machine, code, {G0_STACK + goroutine_at: 0xDEAD, G0_STACK + depth_at: 8})
    with pytest.raises(Ended) as caught:
        after_c(machine, "90" * 32, {})
    assert caught.value.end is End.NO_CFI


def test_pcsp_says_what_debug_frame_does(programs: dict[str, Path]) -> None:
    """Of every row of .debug_frame, which Go writes from the same numbers."""
    with ElfFile.open(programs["plain"]) as elf:
        table, cfi = Pclntab.find(elf), CallFrames.of_elf(elf)
        assert table is not None
        frames, rows = table.frames(), 0
        for function in table.functions():
            fde = cfi.find(function.entry)
            for row in fde.rows if fde is not None else ():
                result = frames.find(row.start, row.start)
                assert result is not None
                assert row.cfa is not None
                if result.name == "syscall.rawVforkSyscall":  # takes its return address off the stack
                    continue
                assert result.depth == row.cfa.offset - 8, (result, row)
                rows += 1
        assert rows > 10_000
        last = list(table.functions())[-1]
        assert frames.find(last.end, last.end) is None
        assert frames.find(0, 0) is None
