"""Type units of version 4 (.debug_types): classes that only refer to one are named by it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.builds import MissingTool, run
from tests.forge.dwarf import Debug, Die, function
from tests.forge.elf import Section
from tests.oracle.compare import Symbols
from whence._base.window import ByteOrder
from whence.demangle import demangle
from whence.dwarf import DebugInfo
from whence.dwarf.info import ReadState
from whence.objects.elf import ElfFile
from whence.ranges import Ranges, StringSpace

TYPE_UNIT, SIGNATURE = 0x41, 0x69  # DW_TAG_type_unit, DW_AT_signature


def opened(data: bytes) -> DebugInfo:
    return DebugInfo(ElfFile.from_bytes(data), strings=StringSpace())


def names_of(table: Ranges) -> list[str]:
    """Return the names of functions in order of vaddr."""
    return [table.strings.text(name) for _, name in sorted(zip(table.vaddr, table.function, strict=True))]


def classes(debug: Debug, signatures: list[int], described: list[int]) -> bytes:
    """Put a function into a class of each signature, all in one unit.

    Return a .debug_types that describes some of them, as n::C<signature>.
    """
    skeletons = [
        Die(
            d.DW_TAG_class_type,
            [(SIGNATURE, d.DW_FORM_ref_sig8, signature), (d.DW_AT_declaration, d.DW_FORM_flag_present, 1)],
            [function("at", vaddr, 4)],
        )
        for vaddr, signature in zip(range(0x1000, 0x10000, 4), signatures, strict=False)
    ]
    debug.unit(
        Die(
            d.DW_TAG_compile_unit,
            [(d.DW_AT_language, d.DW_FORM_data1, 4)],
            [Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "n")], skeletons)],
        )
    )
    info, debug.info = debug.info, bytearray()
    for signature in described:
        start = len(debug.info)
        die = Die(d.DW_TAG_class_type, [(d.DW_AT_name, d.DW_FORM_string, f"C{signature}")])
        head = (39 if debug.wide else 23) + len(b"\1\4")  # and the root
        root = Die(TYPE_UNIT, [(d.DW_AT_language, d.DW_FORM_data1, 4)], [die])
        debug.unit(root, extra=debug.number(signature, 8) + debug.offset(head))
        assert die.offset == start + head
    types, debug.info = bytes(debug.info), info
    return types


def file_of(debug: Debug, types: bytes, *more: Section) -> DebugInfo:
    return opened(debug.elf(more=[Section(".debug_types", types), *more]))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("wide", "order"), [(False, "little"), (True, "little"), (False, "big"), (True, "big")])
def test_a_class_in_debug_types_has_its_name_there(wide: bool, order: ByteOrder, jobs: int) -> None:
    debug = Debug(4, order, wide=wide)
    info = file_of(debug, classes(debug, [7, 9, 11], [11, 7]))
    assert names_of(info.ranges(jobs=jobs)) == ["n::C7::at", "n::(anonymous)::at", "n::C11::at"]
    assert not info.problems


def test_thousands_of_classes_in_debug_types_all_have_their_names() -> None:
    debug = Debug(4)
    signatures = [number * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for number in range(1, 10_001)]
    info = file_of(debug, classes(debug, signatures, signatures[::-1]))
    assert names_of(info.ranges(jobs=1)) == [f"n::C{signature}::at" for signature in signatures]


def test_signatures_that_follow_each_other_are_told_apart() -> None:
    debug = Debug(4)
    info = file_of(debug, classes(debug, [*range(3000)], [*range(3000)]))
    assert names_of(info.ranges(jobs=1)) == [f"n::C{signature}::at" for signature in range(3000)]


def test_few_addresses_need_no_other_unit_for_a_class_in_debug_types() -> None:
    debug = Debug(4)
    types = classes(debug, [7], [7])
    pairs = b"".join(debug.number(word, 8) for word in (0x1000, 4, 0, 0))
    table = debug.length(b"\2\0" + debug.offset(0) + b"\x08\0" + bytes(4) + pairs)
    debug.unit(Die(d.DW_TAG_compile_unit, [], [function("other", 0x2000, 4)]))
    info = file_of(debug, types, Section(".debug_aranges", table))
    assert names_of(info.ranges(info.units_at([0x1000]))) == ["n::C7::at"]
    assert info.state < ReadState.ALL_UNITS


def test_a_broken_type_unit_is_a_problem_and_the_others_name_their_classes() -> None:
    debug = Debug(4)
    types = classes(debug, [7, 9, 11], [7, 9, 11])
    info = file_of(debug, types[:4] + b"\x09" + types[5:])  # the version of the first
    assert names_of(info.ranges()) == ["n::(anonymous)::at", "n::C9::at", "n::C11::at"]
    assert [str(problem).split("\n")[0] for problem in info.problems] == [
        ".debug_types+0x4: unit version 9 is not supported (2 to 5 are)"
    ]


def test_debug_types_that_are_cut_anywhere_cost_no_function() -> None:
    debug = Debug(4)
    types = classes(debug, [7, 9], [7, 9])
    for size in range(len(types)):
        assert len(names_of(file_of(debug, types[:size]).ranges())) == 2


SOURCE = """
volatile int sink;
namespace { struct Hidden { int v; __attribute__((noinline)) int get(int x) { return v + x + sink; } }; }
namespace shown {
struct Known { int v; __attribute__((noinline)) int twice(int x) { return (x + v + sink) * 2; } };
template <class T> struct Box { static __attribute__((noinline)) int open(T x) { return (int)(long)x + sink; } };
}
int main(int argc, char **argv) {
  Hidden h{argc}; shown::Known k{argc};
  return h.get(1) + k.twice(3) + shown::Box<int>::open(3) + shown::Box<shown::Known *>::open(nullptr);
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++", "clang++-14"])
@pytest.mark.parametrize("flags", ["-gdwarf-4", "-gdwarf-4 -gsce", "-gdwarf-4 -gsce -gsplit-dwarf", "-gdwarf-5 -gsce"])
def test_methods_of_classes_in_type_units_are_named_as_llvm_symbolizer_names_them(
    compiler: str, flags: str, tmp_path: Path
) -> None:
    if "-gsce" in flags and compiler == "g++":
        pytest.skip("only clang leaves linkage names out")
    (tmp_path / "a.cc").write_text(SOURCE)
    try:
        run(compiler, "-O1", *flags.split(), "-fdebug-types-section", "a.cc", "-o", "program", cwd=tmp_path)
        with ElfFile.open(tmp_path / "program") as elf:
            symbols = Symbols.of(elf)
            if "4" in flags and "split" not in flags:
                assert elf.section(".debug_types") is not None
        named = zip(symbols.values, symbols.names, strict=True)
        vaddrs = sorted({vaddr for vaddr, name in named if re.search("Hidden|Known|Box", name)})
        assert len(vaddrs) == 4
        command = ["llvm-symbolizer", "--no-inlines", f"--obj={tmp_path / 'program'}", *map(hex, vaddrs)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (MissingTool, FileNotFoundError) as reason:
        pytest.skip(str(reason))
    expected = [re.sub(r"\([^()]*(\(anonymous namespace\)[^()]*)?\)$", "", name) for name in out.split("\n")[:-1:3]]
    with whence.open(tmp_path / "program", symtab=False) as binary:
        result = [re.sub(r"\([^()]*\)$", "", demangle(binary.lookup(vaddr)[-1].function)) for vaddr in vaddrs]
    assert sorted(name.replace(" *", "*") for name in result) == sorted(name.replace(" *", "*") for name in expected)


OTHER = """
volatile int more;
namespace shown {
template <class T> struct Crate { static __attribute__((noinline)) int shut(T x) { return (int)x * 3 + more; } };
struct Other { int a, b; __attribute__((noinline)) long add(double q) { return a + b + (long)q + more; } };
}
int other(int n) { shown::Other o{n, n}; return shown::Crate<long>::shut(n) + o.add(2.5); }
"""


@pytest.mark.parametrize("version", [4, 5])
def test_type_units_of_a_package_name_the_classes_of_every_file_in_it(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(
        SOURCE.replace("int main", "int other(int); int main").replace("h.get", "other(2) + h.get")
    )
    (tmp_path / "b.cc").write_text(OTHER)
    flags = "-O1", f"-gdwarf-{version}", "-gsce", "-gsplit-dwarf", "-fdebug-types-section"
    try:
        run("clang++-14", *flags, "-c", "a.cc", "b.cc", cwd=tmp_path)
        run("clang++-14", "a.o", "b.o", "-o", "program", cwd=tmp_path)
        run("llvm-dwp-14", "-e", "program", "-o", "program.dwp", cwd=tmp_path)
    except MissingTool as reason:
        pytest.skip(str(reason))
    for file in tmp_path.glob("*.dwo"):
        file.unlink()
    with whence.open(tmp_path / "program", symtab=False) as binary:
        named = {part.function for part in binary.functions() if part.function}  # not those without debug info
    assert named == {
        "main", "other", "(anonymous namespace)::Hidden::get", "shown::Known::twice", "shown::Box<int>::open",
        "shown::Box<shown::Known *>::open", "shown::Crate<long>::shut", "shown::Other::add",
    }  # fmt: skip
