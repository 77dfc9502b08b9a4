"""How each frame was found, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cores import core_of
from tests.helpers.live import compiled, running
from whence.cli.main import main
from whence.unwind.cfi import Cfa, How, Rule
from whence.unwind.explaining import cfa_text, expression_text, rule_text
from whence.unwind.registers import X86_64

PROGRAM = """#include <signal.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static void stop(int s) { for (;;) pause(); }
__attribute__((noinline)) static int outer(volatile int *p) { int found = *p; return found + 1; }
int main(int argc, char **argv) {
    signal(SIGUSR1, stop);
    puts("ready");
    fflush(stdout);
    if (argc > 1) return outer(0);
    raise(SIGUSR1);
    return 0;
}
"""


def told(capsys: pytest.CaptureFixture[str]) -> tuple[bool, list[tuple[str, str]]]:
    result = json.loads(capsys.readouterr().out)
    return result["answered"], [(step["what"], step["outcome"]) for step in result["steps"]]


def test_each_frame_of_a_live_thread_has_its_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, source=PROGRAM)
    with running([program], rests=True) as (pid, _):
        assert main(["explain", str(pid), "--stack", str(pid), "--json"]) == 0
        answered, steps = told(capsys)
        assert main(["explain", str(pid), "--stack", "1"]) == 2
        assert f"has no thread 1 (threads: {pid})" in capsys.readouterr().err
    assert answered
    frames = [outcome for what, outcome in steps if what.startswith("#")]
    rules = [outcome for what, outcome in steps if what == "caller by"]
    assert len(frames) == len(rules)
    offset = next(
        index for index, (what, each) in enumerate(steps) if what == "function" and each.startswith("stop at")
    )
    assert steps[offset + 1][0] == "caller by"
    assert steps[offset + 1][1].startswith(".eh_frame+0x")
    assert "CFA = rsp+" in steps[offset + 1][1]
    assert any("returns from a signal handler: the registers that the kernel saved" in rule for rule in rules)
    assert rules[-1].endswith("return address is undefined")
    assert steps[-1] == ("answer", "complete: the outermost frame is reached")


def test_each_frame_of_a_thread_of_a_core_has_its_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, source=PROGRAM)
    core = core_of(program, "crash")
    assert main(["core", str(core), "--json"]) == 0
    stack = json.loads(capsys.readouterr().out)
    assert main(["explain", str(core), "--stack", str(stack["tid"]), "--json"]) == 0
    _, steps = told(capsys)
    assert [each for what, each in steps if what == "found by"][:2] == ["registers", "cfi"]
    functions = [each.split(" at ")[0] for what, each in steps if what == "function"]
    assert functions == [frame["function"] for frame in stack["frames"]]


def test_an_address_and_a_stack_exclude_each_other() -> None:
    assert main(["explain", "/bin/true", "0x1000", "--stack", "1"]) == 2


def test_rules_are_written_with_names() -> None:
    assert cfa_text(X86_64, Cfa(7, 16)) == "rsp+16"
    assert cfa_text(X86_64, Cfa(0, 0, bytes.fromhex("77088000"))) == "(breg7+8, breg16+0)"
    assert cfa_text(X86_64, None) == "unknown"
    assert rule_text(X86_64, Rule(How.OFFSET, -16)) == "= [CFA-16]"
    assert rule_text(X86_64, Rule(How.VAL_OFFSET, -16)) == "= CFA-16"
    assert rule_text(X86_64, Rule(How.REGISTER, 5)) == "in rdi"
    assert rule_text(X86_64, Rule(How.SAME)) == "is kept"
    assert rule_text(X86_64, Rule(How.EXPRESSION, 0, bytes.fromhex("7600"))) == "= [(breg6+0)]"


def test_expressions_are_lists_of_operations_and_damaged_bytes_are_hex() -> None:
    plt = bytes.fromhex("77088000 3f1a 3b 2a 33 24 22".replace(" ", ""))
    assert expression_text(plt) == "breg7+8, breg16+0, lit15, and, lit11, ge, lit3, shl, plus"
    operands = bytes.fromhex("0a0102 0bffff 2ffeff 10e807 92e80705".replace(" ", ""))
    assert expression_text(operands) == "const2u 513, const2s -1, skip -2, constu 1000, bregx 1000+5"
    assert expression_text(bytes.fromhex("0a01")) == "damaged: 0a01"
    assert expression_text(bytes.fromhex("ff")) == "damaged: ff"
