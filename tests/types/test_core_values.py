"""Variables of the frames of real cores: expected values, and gdb's answers."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import core_of
from tests.helpers.gdb_values import Compared, compared, gdb_frames
from tests.helpers.golang import environment, goroot
from tests.helpers.programs import folder
from tests.helpers.schemas import conforms
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
    result: dict[str, list[Compared]] = {}
    for each in compared(stacks_of(core), gdb_frames(core, program, program.parent, raw=raw)):
        result.setdefault(each.outcome, []).append(each)
    return result


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


COMPILERS = [
    ("gcc", "-O0"),
    ("gcc", "-O2"),
    ("gcc", "-O1", "-gdwarf-4"),
    ("gcc", "-O1", "-gdwarf-4", "-fdebug-types-section"),
    ("gcc", "-O1", "-gdwarf-5", "-fdebug-types-section"),
    ("gcc", "-O1", "-gsplit-dwarf"),
    ("clang-19", "-O2"),
]


@pytest.mark.parametrize("command", COMPILERS, ids=" ".join)
def test_values_of_c_are_gdbs(command: tuple[str, ...]) -> None:
    program, core = crashed("values.c", command[0], "-g", *command[1:])
    result = outcomes(program, core)
    assert "different" not in result
    count = Counter({outcome: len(each) for outcome, each in result.items()})
    assert count["only gdb"] <= 1  # an array whose length is unknown, once more
    assert count["whence missing"] <= 0.05 * count.total(), result["whence missing"]


def test_values_pass_through_functions_that_jumped_to_others() -> None:
    _, core = crashed("tail_calls.c", "gcc", "-g", "-O2")
    values = values_of(stacks_of(core), "last")
    assert (values["first"], values["second"]) == ("41", "7")


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


def run(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "whence", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_the_command_prints_variables_in_each_form() -> None:
    _, core = crashed("values.c", "gcc", "-g", "-O0")
    text = run("core", core, "--locals")
    assert "        argument first: int = 5\n" in text
    assert "        matrix: int [2][3] = {{1, 2, 3}, {4, 5, 6}}\n" in text
    gdb = run("core", core, "--locals", "--style", "gdb")
    assert " in outer (first=5, second=17, third=0x" in gdb
    assert "        matrix = {{1, 2, 3}, {4, 5, 6}}\n" in gdb
    stack = json.loads(run("core", core, "--locals", "--json").splitlines()[0])
    conforms("stack", stack)
    frames = stack["frames"]
    (depth,) = (frame for frame in frames if frame["function"] == "depth")
    values = {variable["name"]: variable for variable in depth["variables"]}
    assert values["matrix"]["content"] == [[1, 2, 3], [4, 5, 6]]
    assert values["text"] == {
        "name": "text", "type": "char [64]", "argument": False, "line": 36, "length": 64,
        "value": DEPTH["text"], "content": "hello\nworld",
    }  # fmt: skip
    assert "variables" not in run("core", core, "--json")


def test_variables_of_a_live_process(tmp_path: Path) -> None:
    source = (
        "#include <unistd.h>\nint main(int argc, char **argv) { int n = 41 + argc; write(1, &n, 1); for (;;) pause(); }"
    )
    (tmp_path / "live.c").write_text(source)
    built = subprocess.run(["gcc", "-g", "-O0", "live.c", "-o", "live"], cwd=tmp_path, capture_output=True)
    if built.returncode:
        pytest.skip("the compiler does not work")
    with subprocess.Popen([tmp_path / "live"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.read(1)
            (stack,) = whence.Process(child.pid).stacks(variables=True)
            if stack.missing is not None:
                pytest.skip(stack.missing.detail)
            values = values_of([stack], "main")
            assert (values["n"], values["argc"]) == ("42", "1")
            assert "        n: int = 42\n" in run("pid", str(child.pid), "--stop", "--locals")
        finally:
            child.kill()


CONTAINERS = {
    "short_text": '"short"',
    "empty_text": '""',
    "long_text": """'x' <repeats 40 times>, "tail\"""",
    "view": """'x' <repeats 40 times>, "tail\"""",
    "wide": 'L"wäide"',
    "numbers": "std::vector of length 3, capacity 3 = {1, 2, 3}",
    "no_numbers": "std::vector of length 0, capacity 0",
    "words": 'std::vector of length 2, capacity 2 = {"one", "two"}',
    "bits": "std::vector<bool> of length 3, capacity 64 = {true, false, true}",
    "points": "std::vector of length 2, capacity 2 = {{x = 1, y = 2}, {x = 3, y = 4}}",
    "by_number": 'std::map with 3 elements = {[1] = "one", [2] = "two", [3] = "three"}',
    "nested": (
        'std::map with 2 elements = {["a"] = std::vector of length 2, capacity 2 = {1, 2}, '
        '["b"] = std::vector of length 0, capacity 0}'
    ),
    "ordered": "std::set with 3 elements = {[0] = 1, [1] = 2, [2] = 3}",
    "several": "std::multimap with 2 elements = {[1] = 1, [1] = 2}",
    "hashed": 'std::unordered_map with 1 element = {["k"] = 5}',
    "unique": "std::unordered_set with 1 element = {[0] = 42}",
    "some": "std::optional<int> = {[contained value] = 7}",
    "none": "std::optional<int> [no contained value]",
    "some_text": 'std::optional<std::string> = {[contained value] = "text"}',
    "either": 'std::variant<int, std::string> [index 1] = {"hey"}',
    "number": "std::variant<int, std::string> [index 0] = {5}",
    "both": '{first = 1, second = "p"}',
    "three": "std::tuple containing = {[1] = 1, [2] = 99 'c', [3] = 2.5}",
    "colour": "shop::Col::red",
    "plain": "shop::large_size",
    "member": "&shop::Point::y",
    "yes": "true",
    "copy": "2.5",
    "broad": "122 L'z'",
}
CONTAINERS |= {
    "counter": "std::atomic<int> = { 7 }",
    "level": "std::atomic<double> = { 2.5 }",
    "flags_set": "std::bitset = {[3] = 1, [99] = 1}",
    "piled": "std::stack wrapping: std::vector of length 1, capacity 1 = {1}",
    "largest_first": "std::priority_queue wrapping: std::vector of length 1, capacity 1 = {3}",
    "listed": "std::initializer_list of length 2 = {1, 2}",
    "seen": "std::span of length 3 = {1, 2, 3}",
    "two_seen": "std::span of length 2 = {1, 2}",
    "path": '"/usr/é"',
}
STARTS = {
    "queue": "std::deque with 203 elements = {6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 0, 1",
    "owned": "std::unique_ptr<int> = {get() = 0x",
    "nothing": "std::unique_ptr<int> = {get() = 0x0}",
    "shared": "std::shared_ptr<int> (use count 2, weak count 1) = {get() = 0x",
    "no_shared": "std::shared_ptr<int> (empty) = {get() = 0x0}",
    "weak": "std::weak_ptr<int> (use count 2, weak count 1) = {get() = 0x",
}
LIBRARIES = {
    "libstdc++": ("g++", "-O0"),
    "libstdc++ by clang": ("clang++-19", "-O0"),
    "libc++": ("clang++-19", "-O0", "-stdlib=libc++"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_containers_of_both_libraries_have_their_elements(library: str) -> None:
    compiler, *flags = LIBRARIES[library]
    _, core = crashed("containers.cpp", compiler, "-std=c++20", "-w", "-g", *flags)
    values = values_of(stacks_of(core), "int fill<float>")
    assert {name: values[name] for name in CONTAINERS} == CONTAINERS
    assert {name: values[name][: len(start)] for name, start in STARTS.items()} == STARTS
    assert values["linked"].endswith("list = {[0] = 4, [1] = 5}")
    assert values["item"].count("<shop::Base> = ") == 1  # a virtual base class is shown once
    assert 'label = "item", colour = shop::Col::green}' in values["item"]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_values_of_libstdcxx_are_those_of_its_printers_for_gdb(level: str) -> None:
    program, core = crashed("containers.cpp", "g++", "-std=c++20", "-w", "-g", level)
    result = outcomes(program, core)
    if not any("std::vector of length" in each.theirs for each in result["equal"]):
        pytest.skip("the printers of libstdc++ are not loaded into gdb")
    assert [each for each in result.get("different", []) if each.name not in ("called", "null", "path")] == []
    assert len(result["equal"]) > 45


RUST = {
    "number": "-9",
    "text": '"text"',
    "slice": "[1, 2, 3]",
    "flag": "true",
    "letter": "233 'é'",
    "small": "200",
    "large": str(1 << 100),
    "real": "2.5",
    "unit": "()",
    "owned": '"owned"',
    "empty": '""',
    "numbers": "[1, 2, 3]",
    "words": '["a", "bc"]',
    "array": "[7 <repeats 20 times>]",
    "tuple": '(1, "two", 3.5)',
    "some": "Some(7)",
    "none": "None",
    "some_text": 'Some("text")',
    "no_text": "None",
    "good": "Ok(4)",
    "bad": 'Err("bad")',
    "counted": "11",
    "atomic": '"arc"',
    "cell": "3",
    "borrowed": "4",
    "queue": "[2, 3]",
    "path": '"/a/é"',
    "borrowed_path": '"/b"',
    "system_text": '"os"',
    "c_text": '"c text"',
    "borrowed_c_text": '"c text"',
    "shared_text": '"shared"',
    "shared_numbers": "[9, 8]",
    "unit_slice": "[(), ()]",
    "lock": "RwLock {data: 6}",
    "number_of_threads": "77",
    "linked": "[1, 2, 3]",
    "largest_first": "[3, 1, 2]",
    "map": '{"k": 5}',
    "set": "{42}",
    "tree": '{1: "one", 2: "two"}',
    "colour": "Green",
    "red": "Red",
    "pair": "Pair(1, 2.5)",
    "nothing": "Unit",
    "shapes": '[Empty, Circle(1.5), Named {name: "n", sides: 4}]',
    "sum": "274",
}


def test_values_of_rust_are_those_in_the_source() -> None:
    _, core = crashed("values.rs", "rustc", "-g", "--edition", "2021")
    values = values_of(stacks_of(core), "values::depth")
    assert {name: values[name] for name in RUST} == RUST


def test_a_variant_of_rust_is_a_plain_object() -> None:
    _, core = crashed("values.rs", "rustc", "-g", "--edition", "2021")
    frame = next(each for each in stacks_of(core)[0].frames if "depth" in each.place.frames[0].function)
    values = {variable.name: variable.value for variable in frame.variables[0]}
    assert (values["some"].label, values["some"].as_object()) == ("Some", {"Some": [7]})
    assert values["map"].as_object() == [["k", 5]]
    assert values["shapes"].as_object() == [{"Empty": []}, {"Circle": [1.5]}, {"Named": ["n", 4]}]


GO = {
    "number": "-9",
    "text": '"text"',
    "slice": "[]int = {1, 2, 3}",
    "flag": "true",
    "letter": "233",
    "real": "2.5",
    "imaginary": "1 + 2i",
    "empty": '""',
    "nothing": "[]int",
    "words": '[]string = {"a", "bc"}',
    "value": '{x = 3, y = 4, name = "p"}',
    "lookup": 'map[string]int = {["k"] = 5}',
    "moved": '{x = 5, y = 6, name = "moved"}',
    "none": "map[string]int nil",
    "any1": "interface {}(int) 42",
    "any2": 'interface {}(string) "boxed"',
    "nilany": "interface {} nil",
    "channel": "chan int = {1}",
    "structs": '[]main.point = {{x = 1, y = 2, name = "one"}, {x = 3, y = 4, name = "two"}}',
    "nested": 'map[string][]int = {["a"] = []int = {1, 2}}',
}


@functools.cache
def crashed_go() -> tuple[Path, Path]:
    location = folder() / "go-values"
    location.mkdir()
    shutil.copy(PROGRAMS / "values.go", location)
    program = location / "values"
    root = goroot()
    done = subprocess.run(
        [root / "bin" / "go", "build", "-gcflags=-N -l", "-o", program, "values.go"],
        cwd=location, capture_output=True, text=True, env=environment(root, GO111MODULE="off", GOFLAGS=""),
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return program, core_of(program)


def test_values_of_go_are_those_in_the_source() -> None:
    _, core = crashed_go()
    stack = next(stack for stack in stacks_of(core) if values_of([stack], "main.depth"))
    values = values_of([stack], "main.depth")
    assert {name: values[name] for name in GO} == GO
    assert values["fault"].startswith("error(*errors.errorString) 0x")
    assert values["speaks"].startswith("main.speaker(*main.point) 0x")
    many = next(v for f in stack.frames for of in f.variables for v in of if v.name == "many").value
    assert (many.length, many.is_cut, len(many.fields)) == (100, False, 200)
    pairs = many.as_object()
    assert isinstance(pairs, list)
    assert sorted(pairs) == [[i, i * i] for i in range(100)]


def test_values_of_go_are_gdbs() -> None:
    program, core = crashed_go()
    expected = ("any1", "any2", "nilany", "fault", "speaks", "none", "function", "many")  # whence knows more types
    result = outcomes(program, core)
    assert [each for each in result.get("different", []) if each.name not in expected] == []
    assert len(result["equal"]) > 80
