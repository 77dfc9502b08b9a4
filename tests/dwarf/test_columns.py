"""Columns and discriminators of line rows and of inlined calls, on request."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function
from tests.forge.lines import Step, program, sections
from tests.helpers.programs import folder
from whence._base.options import ReadOptions
from whence.dwarf import DebugInfo
from whence.dwarf.lines import read_lines
from whence.objects.elf import ElfFile
from whence.ranges import Ranges, StringSpace
from whence.ranges.strings import Arena

Row = tuple[int, int, int, int]


def rows(*steps: Step, lowest: int = 1) -> list[Row]:
    """(vaddr, line, column, discriminator) of a program's rows."""
    table = read_lines(sections(program(steps)), offset=0, arena=Arena(StringSpace()), lowest=lowest, columns=True)
    assert not table.problems
    offset = table.rows.locations
    assert offset is not None
    numbers = table.rows.line
    return [
        (vaddr, offset.line[n], offset.column[n], offset.discriminator[n])
        for vaddr, n in zip(table.rows.vaddr, numbers, strict=True)
    ]


START: Step = ("set_address", 0x1000)


def test_a_row_whose_column_alone_differs_is_kept_when_columns_are_asked_for() -> None:
    steps: list[Step] = [START, ("column", 5), ("special", 0, 6), ("column", 300), ("special", 4, 0), ("end", 4)]
    assert rows(*steps) == [(0x1000, 7, 5, 0), (0x1004, 7, 300, 0), (0x1008, 0, 0, 0)]
    plain = read_lines(sections(program(steps)), offset=0, arena=Arena(StringSpace()))
    assert list(zip(plain.rows.vaddr, plain.rows.line)) == [(0x1000, 7), (0x1008, 0)]
    assert plain.rows.locations is None


def test_a_discriminator_holds_for_one_row_and_a_column_until_the_next_or_the_end_of_the_sequence() -> None:
    assert rows(
        START, ("column", 9), ("discriminator", 3), ("special", 0, 1), ("special", 4, 1), ("end", 4),
        ("set_address", 0x2000), ("special", 0, 1), ("end", 4),
    ) == [
        (0x1000, 2, 9, 3), (0x1004, 3, 9, 0), (0x1008, 0, 0, 0), (0x2000, 2, 0, 0), (0x2004, 0, 0, 0),
    ]  # fmt: skip


def test_line_0_keeps_its_column() -> None:
    assert rows(START, ("column", 4), ("special", 0, 1), ("advance_line", -2), ("special", 4, 0), ("end", 4)) == [
        (0x1000, 2, 4, 0), (0x1004, 0, 4, 0), (0x1008, 0, 0, 0),
    ]  # fmt: skip


def test_rows_that_say_the_same_are_one_location() -> None:
    steps: list[Step] = [START]
    for number in range(3000):
        steps += [("column", 1 + number % 2000), ("special", 1, 0)]
    result = rows(*steps, ("end", 1))
    assert [column for _, _, column, _ in result[:-1]] == [1 + number % 2000 for number in range(3000)]


def calls(*columns: tuple[int, int], wanted: bool = True) -> Ranges:
    """Return the ranges of a function with neighboring inlined calls on one line."""
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper")])
    inside = [
        Die(d.DW_TAG_inlined_subroutine, [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref4, helper), (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000 + 8 * number),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
            (d.DW_AT_call_file, d.DW_FORM_data1, 1), (d.DW_AT_call_line, d.DW_FORM_data1, 7),
            (d.DW_AT_call_column, d.DW_FORM_data2, column),
            (d.DW_AT_GNU_discriminator, d.DW_FORM_data1, discriminator),
        ])
        for number, (column, discriminator) in enumerate(columns)
    ]  # fmt: skip
    debug = Debug(5).unit(Die(d.DW_TAG_compile_unit, [], [helper, function("main", 0x1000, 8 * len(columns), *inside)]))
    info = DebugInfo(ElfFile.from_bytes(debug.elf()), strings=StringSpace(), options=ReadOptions(columns=wanted))
    result = info.ranges()
    assert not info.problems
    return result


def test_calls_have_the_columns_and_discriminators_of_their_dies() -> None:
    table = calls((5, 0), (300, 2))
    assert table.columns is not None
    assert table.depth == array("I", [0, 1, 1])
    assert table.call_line == array("I", [0, 7, 7])
    assert table.columns.call_column == array("I", [0, 5, 300])
    assert table.columns.call_discriminator == array("I", [0, 0, 2])


def test_neighbouring_calls_on_one_line_are_one_range_unless_their_columns_differ() -> None:
    assert len(calls((5, 0), (5, 0))) == 2
    assert len(calls((5, 0), (6, 0))) == 3
    assert len(calls((5, 0), (6, 0), wanted=False)) == 2
    assert calls((5, 0), (6, 0), wanted=False).columns is None


C = r"""
static inline int leaf(int a, int b) { return a ? b * a : b + 1; }
static inline int middle(int n) {
    int s = 0;
    for (int i = 0; i < n && s < 1000; i++) s += leaf(i, n) + leaf(n, i);
    return s;
}
int f(int n) {
    switch (n) { case 1: return middle(1); case 2: return middle(2) + leaf(3, 4); default: return middle(n); }
}
int main(int c, char **v) { int t = 0; while (c--) { t += f(c); t ^= middle(c); } return t; }
"""
CPP = r"""
#include <algorithm>
#include <vector>
namespace ns { struct S { int v; int sq(int x) const { return x * x + (v ? v : x); } }; }
int main(int c, char **) {
    std::vector<int> v;
    for (int i = 0; i < c; i++) v.push_back(ns::S{c}.sq(i));
    std::sort(v.begin(), v.end()); return v.back();
}
"""
RUST = r"""
fn sq(x: u64) -> u64 { x * x + if x > 3 { 1 } else { x } }
fn main() { let n = std::env::args().map(|a| sq(a.len() as u64)).sum::<u64>(); println!("{}", n); }
"""
BUILDS = [
    ("gcc", "c", "-O0"), ("gcc", "c", "-O2"), ("gcc", "c", "-O2 -gdwarf-4"), ("gcc", "c", "-O2 -g1"),
    ("clang-14", "c", "-O0"), ("clang-14", "c", "-O2"), ("clang-14", "c", "-O2 -fdebug-info-for-profiling"),
    ("g++", "cpp", "-O2"), ("g++", "cpp", "-O2 -gsplit-dwarf"), ("clang++-14", "cpp", "-O2"),
    ("rustc", "rs", "-Copt-level=2"),
]  # fmt: skip


def build(compiler: str, language: str, flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not on this machine")
    source = folder() / f"columns.{language}"
    source.write_text({"c": C, "cpp": CPP, "rs": RUST}[language])
    out = folder() / f"columns-{compiler}{''.join(flags.split())}"
    subprocess.run([compiler, "-g", *flags.split(), str(source), "-o", str(out)], check=True, cwd=folder())
    return out


@pytest.mark.parametrize(("compiler", "language", "flags"), BUILDS)
def test_every_address_has_the_columns_that_llvm_symbolizer_prints(compiler: str, language: str, flags: str) -> None:
    symbolizer = shutil.which("llvm-symbolizer")
    if symbolizer is None:
        pytest.skip("llvm-symbolizer is not on this machine")
    path = build(compiler, language, flags)
    with ElfFile.open(path) as elf:
        text = elf.section(".text")
        assert text is not None
        vaddrs = range(text.vaddr, text.vaddr + text.size, 1 if language != "rs" else 41)
    command = [symbolizer, f"--obj={path}", "--inlines", "--functions=none"]
    asked = "".join(f"{vaddr:#x}\n" for vaddr in vaddrs)
    answers = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    theirs = [answer.split("\n") for answer in answers.split("\n\n")[: len(vaddrs)]]
    with whence.open(path, columns=True) as binary:
        chains = binary.lookup_many(vaddrs)
        ours = [[f"{f.file or '??'}:{f.line}:{f.column}" for f in chain] or ["??:0:0"] for chain in chains]
        assert ours == theirs
        assert sum(column > 0 for column in chains.column) > len(vaddrs) // 3
        assert all(binary.lookup(vaddr) == chain for vaddr, chain in zip(vaddrs[::97], chains[::97]))
    with whence.open(path) as plain:
        assert not any(plain.lookup_many(vaddrs).column)
