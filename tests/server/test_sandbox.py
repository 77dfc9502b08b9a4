"""The seccomp filter, run as the kernel runs it, over every number of a system call."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from whence.server.sandbox import (
    ABSENT,
    ABSENT_CALLS,
    ALLOW,
    ALLOWED_VALUES,
    CALLS,
    CLONE_THREAD,
    DENY,
    MAP_ANONYMOUS,
    MAP_SHARED,
    PROT_EXEC,
    filter_of,
)

ROOT = Path(__file__).parents[2]
LOAD_WORD, AND, JUMP_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # linux/bpf_common.h
ARGUMENTS = (16, 24, 32, 40, 48, 56)  # offsets in struct seccomp_data
HIGHEST = 600  # no machine has as many calls


def decision(program: bytes, machine: int, number: int, *arguments: int) -> int:
    """Return what a filter decides about a call, as seccomp(2) defines the program."""
    data = bytearray(64)
    struct.pack_into("<II", data, 0, number, machine)
    for offset, argument in zip(ARGUMENTS, arguments):
        struct.pack_into("<Q", data, offset, argument)
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator = index = 0
    while True:
        code, if_true, if_false, operand = instructions[index]
        index += 1
        if code == LOAD_WORD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == JUMP_EQUAL:
            index += if_true if accumulator == operand else if_false
        elif code == AND:
            accumulator &= operand
        else:
            assert code == RETURN
            return int(operand)


@pytest.mark.parametrize("machine", CALLS)
def test_only_listed_calls_are_allowed(machine: str) -> None:
    architecture, calls = CALLS[machine]
    program = filter_of(architecture, calls)
    numbers = {number: name for name, number in calls.items()}
    for number in [*range(HIGHEST), *(0x40000000 | number for number in range(HIGHEST)), 0xFFFFFFFF]:
        name = numbers.get(number, "")
        expected = ABSENT if name in ABSENT_CALLS else DENY if not name or name == "clone" else ALLOW
        assert decision(program, architecture, number) == expected, name or number  # fcntl: F_DUPFD


@pytest.mark.parametrize("machine", CALLS)
def test_memory_is_never_executable_and_clone_makes_threads_only(machine: str) -> None:
    architecture, calls = CALLS[machine]
    program = filter_of(architecture, calls)
    for name in ("mmap", "mprotect"):
        for protection in range(8):
            expected = DENY if protection & PROT_EXEC else ALLOW
            assert decision(program, architecture, calls[name], 0, 4096, protection) == expected
    for sharing in range(4):  # 3: MAP_SHARED_VALIDATE
        expected = DENY if sharing & MAP_SHARED else ALLOW
        assert decision(program, architecture, calls["mmap"], 0, 4096, 3, sharing | MAP_ANONYMOUS) == expected
        assert decision(program, architecture, calls["mmap"], 0, 4096, 3, sharing) == ALLOW  # a file
    assert decision(program, architecture, calls["clone"], CLONE_THREAD | 0x100) == ALLOW
    assert decision(program, architecture, calls["clone"], 17) == DENY  # SIGCHLD: a process


@pytest.mark.parametrize("machine", CALLS)
def test_fcntl_duplicates_descriptors_and_sends_no_signals(machine: str) -> None:
    """F_SETOWN, F_SETSIG and O_ASYNC together would send any signal to any process of this user."""
    architecture, calls = CALLS[machine]
    program = filter_of(architecture, calls)
    allowed = ALLOWED_VALUES["fcntl"][1]
    assert {8, 10, 15, 4}.isdisjoint(allowed)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETFL
    for command in range(2048):
        assert decision(program, architecture, calls["fcntl"], 0, command) == (ALLOW if command in allowed else DENY)


@pytest.mark.parametrize("machine", CALLS)
def test_a_call_of_another_machine_is_refused(machine: str) -> None:
    architecture, calls = CALLS[machine]
    program = filter_of(architecture, calls)
    for other in (0, 0x40000003, *(each for each, _ in CALLS.values() if each != architecture)):  # and of i386
        assert all(decision(program, other, number) == DENY for number in range(HIGHEST))


def test_no_listed_call_opens_connects_or_starts_anything() -> None:
    refused = re.compile(
        "open|connect|socket|bind|accept|exec|fork|kill|ptrace|mount|unlink|rename|link|chmod|chown|ioctl"
    )
    names = {name for _, calls in CALLS.values() for name in calls}
    assert [name for name in names if refused.search(name)] == []


def test_the_list_in_the_threat_model_is_the_filter_s() -> None:
    text = (ROOT / "SECURITY.md").read_text().partition("allows these system calls")[2].partition("`mmap` and")[0]
    listed = {*re.findall(r"\w+", "".join(line for line in text.splitlines() if line.startswith("    ")))}
    assert listed == {name for _, calls in CALLS.values() for name in calls}
    assert {*CALLS["x86_64"][1]} ^ {*CALLS["aarch64"][1]} == {"poll"}


def test_the_tests_that_the_threat_model_names_exist() -> None:
    table = (ROOT / "SECURITY.md").read_text().partition("| part |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        folder = ROOT
        for name in re.findall(r"[\w./]+/|[\w./]+\.py", row.split("|")[4]):
            path = ROOT / name if (ROOT / name).exists() else folder / name
            assert path.exists(), name
            folder = path if path.is_dir() else path.parent
