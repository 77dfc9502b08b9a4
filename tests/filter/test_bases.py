"""Where a program was loaded, guessed from the addresses of a log that does not say it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.forge.elf import Section, Segment, forge
from tests.helpers.programs import compiled
from whence._base.errors import Unsupported
from whence.cli import main
from whence.filter.bases import PAGE, BaseUnknown, CallFinder, guess_bases, raw_addresses, tail
from whence.objects import machines
from whence.objects.opening import object_of_bytes, open_object

FUNCTIONS = 600
ENVOY = "[2026-10-01 08:15:30.123][7][critical][backtrace] [./source/server/backtrace.h:98]"
PRELUDE = r"""
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
static const char *form;
__attribute__((noinline)) static void dump(void) {
    void *found[64];
    int count = backtrace(found, 64);
    for (int index = 0; index < count; index++)
        printf(form, index, found[index]);
}
typedef int (*function)(int);
static function table[];
"""
MAIN = r"""
int main(int argc, char **argv) {
    char line[400] = "";
    form = argv[1];
    FILE *maps = fopen("/proc/self/maps", "r");
    if (fgets(line, sizeof line, maps)) fputs(line, stderr);
    for (int from = 3; from < argc + 20; from++) table[from * 13 % (sizeof table / sizeof *table)](5);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A position-independent program of many pages, whose stacks have functions of all of them."""
    compiled()  # skips without a compiler
    folder = tmp_path_factory.mktemp("bases")
    random = Random(3)
    parts = [PRELUDE]
    for number in range(FUNCTIONS):
        body = "".join(f"    x += x * {random.randrange(3, 99)} ^ {random.randrange(1000)};\n" for _ in range(12))
        call = f"table[{random.randrange(FUNCTIONS)}](left - 1)"
        parts.append(f"int f{number}(int left) {{\n    int x = left;\n{body}    if (!left) dump();\n")
        parts.append(f"    else x += {call};\n    return x + 1;\n}}\n")
    names = ", ".join(f"f{number}" for number in range(FUNCTIONS))
    (folder / "many.c").write_text("".join(parts) + f"static function table[] = {{ {names} }};\n" + MAIN)
    subprocess.run(["gcc", "-g1", "-O0", "-pie", "-fPIE", "many.c", "-o", "many"], cwd=folder, check=True)
    return folder / "many"


def ran(program: Path, form: str) -> tuple[str, int]:
    """Return the log of the program and the address at which it was loaded."""
    done = subprocess.run([program, form], capture_output=True, text=True, check=True)
    return done.stdout, int(done.stderr.partition("-")[0], 16)


@pytest.mark.parametrize("form", [f"{ENVOY} #%d: [%p]", "    @     %2$p  (unknown)", "#%d %p"])
def test_the_base_of_real_stacks_is_found(program: Path, form: str) -> None:
    log, base = ran(program, form + "\n")
    addresses = raw_addresses([log.encode()])
    assert len(addresses) > 20
    with open_object(program) as file:
        assert CallFinder(file).pages > 20
        (result,) = guess_bases(file, addresses)
    assert result.base == base
    assert result.calls > 0.9 * result.inside
    assert result.next_calls < result.calls / 2


def test_addresses_inside_of_calls_have_a_base(program: Path) -> None:
    """gfortran and Seastar print return addresses that are one less."""
    log, base = ran(program, "#%d  %p in ???\n")
    inside = re.sub("0x[0-9a-f]+", lambda match: f"{int(match[0], 16) - 1:#x}", log)
    with open_object(program) as file:
        (result,) = guess_bases(file, raw_addresses([inside.encode()]))
    assert result.base == base


def test_two_processes_in_one_log_have_their_own_bases(program: Path) -> None:
    runs = [ran(program, f"{ENVOY} #%d: [%p]\n") for _ in range(2)]
    with open_object(program) as file:
        result = guess_bases(file, raw_addresses([log.encode() for log, _ in runs]))
    assert {each.base for each in result} == {base for _, base in runs}


def test_a_log_of_envoy_is_named(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, base = ran(program, f"{ENVOY} #%d: [%p]\n")
    (tmp_path / "envoy.log").write_text(f"{ENVOY} Caught Segmentation fault, suspect faulting address 0x0\n{log}")
    assert main(["filter", str(tmp_path / "envoy.log"), "--guess-base", str(program), "--no-cache"]) == 0
    out, err = capfd.readouterr()
    assert f"was loaded at {base:#x}: " in err
    named = re.findall(r"#\d+: \[0x[0-9a-f]+\] in (\w+) at \S+/many\.c:\d+", out)
    assert len(named) > 100
    assert {"dump", "main"} <= set(named)
    assert "Caught Segmentation fault, suspect faulting address 0x0\n" in out


def test_an_address_after_a_symbol_is_named(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, _ = ran(program, f"{ENVOY} #%d: Envoy::Server::run() [%p]\n")
    (tmp_path / "envoy.log").write_text(log)
    assert main(["filter", str(tmp_path / "envoy.log"), "--guess-base", str(program), "--no-cache"]) == 0
    assert "Envoy::Server::run() [0x" in (out := capfd.readouterr().out)
    assert " in main at " in out


@pytest.mark.parametrize("seed", range(5))
def test_random_addresses_have_no_base(program: Path, seed: int) -> None:
    random = Random(seed)
    addresses = [0x7F0000000000 + random.randrange(1 << 28) for _ in range(200)]
    with open_object(program) as file, pytest.raises(BaseUnknown, match="too few agree"):
        guess_bases(file, addresses)


def test_few_addresses_are_not_enough(program: Path) -> None:
    log, base = ran(program, f"{ENVOY} #%d: [%p]\n")
    addresses = [address for address in raw_addresses([log.encode()]) if address - base < 1 << 20]
    with open_object(program) as file:
        with pytest.raises(BaseUnknown):
            guess_bases(file, addresses[:2])
        with pytest.raises(BaseUnknown, match="no raw addresses"):
            guess_bases(file, [])


def test_another_build_is_refused(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, _ = ran(program, f"{ENVOY} #%d: [%p]\n")
    (tmp_path / "log").write_text(log)
    assert main(["filter", str(tmp_path / "log"), "--guess-base", str(compiled()), "--no-cache"]) == 1
    out, err = capfd.readouterr()
    assert out == log
    assert "the base is not sure" in err


def test_stdin_and_processes_are_wrong_use(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "--guess-base", str(program)]) == 2
    assert "give regular files, not stdin" in capfd.readouterr().err
    (tmp_path / "log").write_text("")
    assert main(["filter", str(tmp_path / "log"), "--guess-base", str(program), "--pid", "1"]) == 2
    assert "--guess-base is for logs alone" in capfd.readouterr().err


def code_of(code: bytes, machine: int) -> CallFinder:
    section = Section(".text", code, flags=6, vaddr=0x1000)
    return CallFinder(object_of_bytes(forge([section], [Segment(of=".text")], machine=machine)))


@pytest.mark.parametrize(
    ("machine", "call"),
    [
        (machines.EM_X86_64, "e8 00 00 00 00"), (machines.EM_X86_64, "ff d0"),
        (machines.EM_X86_64, "ff 15 00 10 00 00"), (machines.EM_X86_64, "41 ff 54 24 08"),
        (machines.EM_X86_64, "ff 90 00 01 00 00"), (machines.EM_386, "ff 52 04"),
        (machines.EM_AARCH64, "00 00 00 94"), (machines.EM_AARCH64, "00 00 3f d6"),
        (machines.EM_AARCH64, "11 08 3f d7"), (machines.EM_RISCV, "ef 00 00 00"),
        (machines.EM_RISCV, "e7 80 07 00"), (machines.EM_RISCV, "82 97"),
    ],
)  # fmt: skip
def test_the_end_of_each_kind_of_call_is_found(machine: int, call: str) -> None:
    before, data = b"\0" * 32, bytes.fromhex(call)
    finder = code_of(before + data + b"\0" * 32, machine)
    end = 0x1000 + len(before) + len(data)
    assert list(finder.ends(end % PAGE)) == [end]
    assert not list(finder.ends((end + 16) % PAGE))


def test_a_call_to_outside_of_the_code_is_none() -> None:
    finder = code_of(b"\0" * 32 + bytes.fromhex("e8 00 00 00 7f") + b"\0" * 32, machines.EM_X86_64)
    assert not list(finder.ends(37))


def test_a_machine_with_unknown_calls_and_a_file_without_code_are_refused() -> None:
    with pytest.raises(Unsupported, match="calls of mips are unknown"):
        code_of(b"\0" * 64, machines.EM_MIPS)
    with pytest.raises(Unsupported, match="no code: give the executable"):
        CallFinder(object_of_bytes(forge([Section(".debug_info", b"x")])))


def test_the_tail_of_a_binomial_distribution_is_summed() -> None:
    assert tail(10, 0, 0.3) == pytest.approx(1)
    assert tail(3, 2, 0.5) == pytest.approx(0.5)
