"""Variables (DATA) and locals (FRAME) as llvm-symbolizer answers them."""

from __future__ import annotations

import functools
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.drop_ins import ask, asked, program, symbol, tool
from tests.helpers.programs import folder

VARIABLES = r"""
#include <stdio.h>
struct big { int a[10]; char *p; };
static struct big table[7];
int global_counter = 3;
const char *names[] = {"a", "b"};
static inline __attribute__((always_inline)) int mix(int x, struct big *b) {
    int local_in = x * 3;
    volatile char buf[32];
    buf[x & 31] = x;
    return local_in + b->a[0] + buf[0];
}
__attribute__((noinline)) int run(int n, double d) {
    int arr[n + 1];
    static int calls;
    calls++;
    arr[n] = n;
    {
        int deep = n + 2;
        arr[0] = deep;
    }
    return mix(arr[n], &table[1]) + (int)d;
}
int main(int argc, char **argv) {
    printf("%d %p\n", run(argc, 2.5), names);
    return global_counter;
}
"""


def test_a_variable_has_its_name_start_size_and_declaration() -> None:
    path = program()
    start, size = symbol(path, "global_counter")
    stdin = f'DATA "{path}" {start + 1:#x}\n'
    declared = f"{folder() / 'dropin.cpp'}:3"
    assert ask("llvm-symbolizer", stdin=stdin) == f"global_counter\n{start} {size}\n{declared}\n\n"
    assert ask("llvm-symbolizer", stdin=f"DATA {path} 0x1\n") == "??\n0 0\n??:?\n\n"
    theirs = asked(tool("llvm-symbolizer-14"), stdin=stdin).stdout.decode()
    assert theirs == f"global_counter\n{start} {size}\n\n"  # version 16 adds the declaration


@functools.cache
def with_variables(compiler: str, *flags: str) -> Path:
    source = folder() / "variables.c"
    source.write_text(VARIABLES)
    out = folder() / ("variables" + compiler + "".join(flags))
    subprocess.run([tool(compiler), "-g", *flags, str(source), "-o", str(out)], check=True)
    return out


@pytest.mark.parametrize("flags", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-14", "clang-19"])
def test_variables_and_locals_are_those_of_llvm_symbolizer(compiler: str, flags: str) -> None:
    symbolizer = tool("llvm-symbolizer-19")
    path = with_variables(compiler, flags)
    frames = [
        f"FRAME {vaddr:#x}\n"
        for name in ("run", "main")
        for start, size in [symbol(path, name)]
        for vaddr in range(start, start + size, 3)
    ]
    theirs = asked(symbolizer, "-e", str(path), stdin="".join(frames)).stdout.decode()
    if "-O0" in flags:
        assert "\narr\n" in theirs
        assert "\nmix\nlocal_in\n" in theirs
    assert ask("llvm-symbolizer", "-e", str(path), stdin="".join(frames)) == theirs
    for name, line in (("global_counter", 5), ("names", 6)):
        start, size = symbol(path, name)
        answer = f"{name}\n{start} {size}\n{folder() / 'variables.c'}:{line}\n\n"
        for vaddr in (start, start + size - 1):
            assert ask("llvm-symbolizer", "-e", str(path), f"DATA {vaddr:#x}") == answer
            if compiler != "gcc":  # it finds no declaration in what gcc writes
                assert asked(symbolizer, "-e", str(path), f"DATA {vaddr:#x}").stdout.decode() == answer
    for question in (f"DATA {start:#x}", frames[len(frames) // 2].strip()):
        words = ("--output-style=JSON", "-e", str(path), question)
        assert ask("llvm-symbolizer", *words) == asked(symbolizer, *words).stdout.decode()


@pytest.mark.parametrize("flags", ["-gdwarf-4", "-gdwarf-5", "-m32"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_locals_with_location_lists_have_the_first_frame_offset(compiler: str, flags: str) -> None:
    """More variables than registers: optimized code keeps some in the frame for a time."""
    symbolizer, names = tool("llvm-symbolizer-19"), [f"v{index}" for index in range(24)]
    source = folder() / "spilled.c"
    source.write_text(
        'extern int get(int);\n__attribute__((noinline)) int get(int x) { __asm__ volatile("" : "+r"(x)); return x; }\n'
        f"int spill(void) {{ {' '.join(f'int {name} = get({index});' for index, name in enumerate(names))}\n"
        f"return {' + '.join(f'get({name} ^ {other})' for name, other in pairwise(names))}; }}\n"
        "int main(void) { return spill(); }\n"
    )
    path = folder() / f"spilled-{compiler}{flags}"
    built = asked(tool(compiler), "-g", "-O2", flags, str(source), "-o", str(path))
    if built.returncode:
        pytest.skip(f"{compiler} {flags} can't link here: {built.stderr.decode()[-200:]}")
    start, size = symbol(path, "spill")
    questions = "".join(f"FRAME {vaddr:#x}\n" for vaddr in range(start, start + size, 7))
    theirs = asked(symbolizer, "-e", str(path), stdin=questions).stdout.decode()
    placed = re.search(r"\nv\d+\n\S*spilled\.c:3\n-?\d+ 4 \?\?\n", theirs)
    assert placed or compiler != "gcc" or flags == "-m32", theirs
    assert ask("llvm-symbolizer", "-e", str(path), stdin=questions) == theirs


@pytest.mark.parametrize("order", [("strong", "weak"), ("weak", "strong")])
def test_a_variable_that_two_units_define_is_declared_where_llvm_symbolizer_finds_it(
    order: tuple[str, str], tmp_path: Path
) -> None:
    """The linker keeps the strong definition, and both units' DIEs have its address: the first unit's counts."""
    symbolizer, compiler = tool("llvm-symbolizer-19"), tool("clang-19")
    (tmp_path / "strong.c").write_text("int shared[3] = {1, 2, 3};\nint main(void) { return shared[0]; }\n")
    (tmp_path / "weak.c").write_text("\n\n__attribute__((weak)) int shared[2] = {4, 5};\n")
    path = tmp_path / "program"
    sources = [str(tmp_path / f"{name}.c") for name in order]
    subprocess.run([compiler, "-g", *sources, "-o", str(path)], check=True)
    start, size = symbol(path, "shared")
    stdin = "".join(f"DATA {path} {vaddr:#x}\n" for vaddr in range(start, start + size))
    theirs = asked(symbolizer, stdin=stdin).stdout.decode()
    assert f"{sources[0]}:{1 if order[0] == 'strong' else 3}\n" in theirs
    assert ask("llvm-symbolizer-19", stdin=stdin) == theirs
