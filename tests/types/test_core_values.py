"""Variables of the frames of real cores: expected values, and gdb's answers."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import core_of
from tests.helpers.gdb_values import Compared, compared, gdb_frames
from tests.helpers.programs import folder
from whence.symbolize import Stack

PROGRAMS = Path(__file__).parent / "programs"
DEPTH = {
    "n": "5",
    "d": "2.5",
    "f": "1.10000002",
    "arr": "{7 <repeats 12 times>, 1, 2, 3, 0, 0, 0, 0, 0}",
    "text": r""" "hello\nworld", '\000' <repeats 52 times>""".strip(),
    "bytes": r'"\001\002\003\377"',
    "vla": "{0, 1, 4, 9, 16}",
    "fl": "(F_A | F_C)",
    "none": "0",
    "unk": "(F_A | unknown: 0x8)",
    "c2": "BLUE",
    "yes": "true",
    "ld": "1.10000000000000000002",
    "sc": r"-3 '\375'",
    "sh": "-5",
    "ul": "18446744073709551615",
    "ll": "-1",
    "huge": "1267650600228229401496703205381",
    "pp": "0x0",
    "matrix": "{{1, 2, 3}, {4, 5, 6}}",
    "counter": "57",
    "inner": "15",
    "not_a_number": "nan(0x8000000000000)",
    "infinite": "-inf",
}


@functools.cache
def crashed(source: str, *command: str) -> tuple[Path, Path]:
    """A program built by a compiler, and the core that it left."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on this machine")
    program = folder() / "-".join([source.partition(".")[0], *command]).replace("/", "_").replace("=", "_")
    done = subprocess.run([*command, PROGRAMS / source, "-o", program], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr[:200]}")
    return program, core_of(program)


def stacks_of(core: Path) -> list[Stack]:
    with whence.Core(core) as opened, whence.Symbolizer(demangle=True) as symbolizer:
        return opened.stacks(symbolizer, variables=True)


def values_of(stacks: list[Stack], function: str) -> dict[str, str]:
    """The values of a function's variables by name; of variables with one name, the innermost."""
    values: dict[str, str] = {}
    for frame in stacks[0].frames:
        for named, variables in zip(frame.place.frames, frame.variables, strict=False):
            if named.function.partition("(")[0] == function:
                for variable in variables:
                    values.setdefault(variable.name, str(variable.value))
    return values


def outcomes(program: Path, core: Path, *, raw: bool = False) -> dict[str, list[Compared]]:
    """The variables of the program's own code by how they compare with gdb's."""
    found: dict[str, list[Compared]] = {}
    for each in compared(stacks_of(core), gdb_frames(core, program, program.parent, raw=raw)):
        found.setdefault(each.outcome, []).append(each)
    return found


def test_values_of_c_are_those_in_the_source() -> None:
    _, core = crashed("values.c", "gcc", "-g", "-O0")
    stacks = stacks_of(core)
    values = values_of(stacks, "depth")
    assert {name: values[name] for name in DEPTH} == DEPTH
    assert values["ch"] == "121 'y'"
    assert values["s"].endswith(' "argument"')
    assert values["node"].startswith("{id = 2, name = 0x")
    big = values_of(stacks, "outer")["b"]
    assert big.startswith(
        "{a = 5, b = -3, c = 135056262347, d = 3.25, col = GREEN, u = {i = 1094861636, f = 12.1414223"
    )
    assert big.endswith("<twice>}")


@pytest.mark.parametrize("command", [("gcc", "-O0"), ("gcc", "-O2"), ("gcc", "-O1", "-gdwarf-4"), ("clang-19", "-O2")])
def test_values_of_c_are_gdbs(command: tuple[str, ...]) -> None:
    program, core = crashed("values.c", command[0], "-g", *command[1:])
    found = outcomes(program, core)
    assert "different" not in found
    count = Counter({outcome: len(each) for outcome, each in found.items()})
    assert count["only gdb"] <= 1  # an array whose length is unknown, once more
    assert count["whence missing"] <= 0.05 * count.total(), found["whence missing"]


def test_variables_are_plain_objects() -> None:
    _, core = crashed("values.c", "gcc", "-g", "-O0")
    (frame,) = (frame for frame in stacks_of(core)[0].frames if frame.place.frames[0].function == "outer")
    first, second, *_ = (variable for variable in frame.variables[0] if variable.is_argument)
    assert (first.name, first.type, first.value.content, first.line) == ("first", "int", 5, 69)
    assert second.as_object() == {
        "name": "second", "type": "long int", "argument": True, "value": "17", "content": 17, "line": 69
    }  # fmt: skip
    big = next(variable for variable in frame.variables[0] if variable.name == "b")
    assert big.type == "struct big"
    content = big.value.as_object()
    assert isinstance(content, dict)
    assert content["col"] == "GREEN"
    assert content["buf"] == "buffer"
    assert content["anon"] == {"x": 1, "y": 0}
