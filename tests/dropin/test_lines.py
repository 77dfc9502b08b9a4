"""Drop-ins over forged files: whose name a function has, what line 0 is answered with, members of static libraries."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die
from tests.forge.elf import Symbol
from tests.forge.lines import Step, program
from tests.forge.split import Attributes
from tests.helpers.drop_ins import ask, asked, link, tool
from whence._base.errors import ElfError
from whence.dwarf.kernels import constants
from whence.objects.elf.members import open_member

CODE = 0x1000
SIZE = 0x10  # bytes of a function
SOURCE = "".join(f"line {number}\r\n" for number in range(1, 13))
# Languages whose functions keep the name of the debug info, as binutils 2.40 was seen to answer
NAMED_BY_DWARF = {
    "C89": 0x01, "C": 0x02, "Cobol74": 0x05, "Cobol85": 0x06, "Fortran77": 0x07, "Pascal83": 0x09, "C99": 0x0C,
    "PLI": 0x0F, "UPC": 0x12, "C11": 0x1D, "Mips_Assembler": 0x8001,
}  # fmt: skip
LANGUAGES = (*range(0x41), 0x8001)


def described(
    debug: Debug, at: int, size: int, steps: list[Step], language: int = 0x0C, *more: tuple[int, int, object]
) -> None:
    """Add a unit with a function of `size` bytes at `at`, named after its address, and a line program."""
    statements = len(debug.line)
    debug.line += program(steps, files=((b"main.c", 0), (b"util.h", 0)))
    of_unit: Attributes = [
        (d.DW_AT_name, d.DW_FORM_string, "main.c"), (d.DW_AT_comp_dir, d.DW_FORM_string, "/src"),
        (d.DW_AT_language, d.DW_FORM_data2, language),
        (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, statements), (d.DW_AT_low_pc, d.DW_FORM_addr, at),
        (d.DW_AT_high_pc, d.DW_FORM_data4, size),
    ]  # fmt: skip
    function = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_name, d.DW_FORM_string, f"name_{at:x}"),
            (d.DW_AT_low_pc, d.DW_FORM_addr, at),
            (d.DW_AT_high_pc, d.DW_FORM_data4, size),
            *more,
        ],
    )
    debug.unit(Die(d.DW_TAG_compile_unit, of_unit, [function]))


def of_languages(path: Path, *more: tuple[int, int, object]) -> str:
    """Forge a file with a function for each language, whose symbols have other names; return the questions too."""
    debug, symbols = Debug(4), []
    for number, language in enumerate(LANGUAGES):
        offset = CODE + number * SIZE
        described(debug, offset, SIZE, [("set_address", offset), ("special", 0, 6), ("end", SIZE)], language, *more)
        symbols.append(Symbol(f"symbol_{offset:x}", offset, SIZE))
    path.write_bytes(debug.elf(symbols=symbols))
    return "".join(f"{CODE + number * SIZE:x}\n" for number in range(len(LANGUAGES)))


def test_addr2line_names_functions_without_linkage_names_by_symbols(
    tmp_path: Path,
) -> None:
    questions = of_languages(tmp_path / "languages")
    answers = ask("addr2line", "-f", "-e", str(tmp_path / "languages"), stdin=questions).splitlines()[::2]
    assert answers == [
        f"{'name' if language in NAMED_BY_DWARF.values() else 'symbol'}_{CODE + number * SIZE:x}"
        for number, language in enumerate(LANGUAGES)
    ]
    for name, language in NAMED_BY_DWARF.items():
        assert getattr(constants, f"DW_LANG_{name}") == language


@pytest.mark.parametrize("linkage", [(), ((d.DW_AT_linkage_name, d.DW_FORM_string, "m__run.4"),)])
def test_addr2line_names_functions_of_every_language_as_binutils_do(
    tmp_path: Path, linkage: tuple[tuple[int, int, object], ...]
) -> None:
    questions = of_languages(tmp_path / "languages", *linkage)
    words = ("-f", "-e", str(tmp_path / "languages"))
    theirs = asked(tool("addr2line"), *words, stdin=questions).stdout.decode()
    assert ask("addr2line", *words, stdin=questions) == theirs


def test_a_cold_part_has_the_name_of_its_function(tmp_path: Path) -> None:
    debug, hot, cold = Debug(4), CODE + 0x40, CODE
    steps: list[Step] = []
    for offset in (cold, hot):
        steps += [("set_address", offset), ("special", 0, 6), ("end", SIZE)]
    debug.line += program(steps)
    debug.range_list((hot, hot + SIZE), (cold, cold + SIZE))
    function = Die(
        d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "run"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, 0)]
    )
    of_unit = [
        (d.DW_AT_name, d.DW_FORM_string, "main.cc"), (d.DW_AT_language, d.DW_FORM_data2, constants.DW_LANG_C_plus_plus),
        (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0), (d.DW_AT_low_pc, d.DW_FORM_addr, 0),
        (d.DW_AT_ranges, d.DW_FORM_sec_offset, 0),
    ]  # fmt: skip
    debug.unit(Die(d.DW_TAG_compile_unit, of_unit, [function]))
    path = tmp_path / "parts"
    path.write_bytes(debug.elf(symbols=[Symbol("_Z3runv", hot, SIZE), Symbol("_Z3runv.cold", cold, SIZE)]))
    words = ("-f", "-e", str(path), f"{hot:x}", f"{cold:x}")
    assert ask("addr2line", *words).splitlines()[::2] == ["_Z3runv", "_Z3runv"]
    assert ask("addr2line", *words) == asked(tool("addr2line"), *words).stdout.decode()


def test_a_call_inlined_at_the_start_of_a_function_has_its_symbol(tmp_path: Path) -> None:
    answers = {}
    for language in (constants.DW_LANG_C99, constants.DW_LANG_C_plus_plus):
        debug = Debug(4)
        debug.line += program([("set_address", CODE), ("special", 0, 6), ("end", SIZE)])
        callee = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "callee")])
        caller = d.function("caller", CODE, SIZE, d.inlined(callee, CODE, 4, 9))
        of_unit = [
            (d.DW_AT_name, d.DW_FORM_string, "main.cc"), (d.DW_AT_language, d.DW_FORM_data2, language),
            (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0),
            (d.DW_AT_low_pc, d.DW_FORM_addr, CODE), (d.DW_AT_high_pc, d.DW_FORM_data4, SIZE),
        ]  # fmt: skip
        debug.unit(Die(d.DW_TAG_compile_unit, of_unit, [callee, caller]))
        path = tmp_path / str(language)
        path.write_bytes(debug.elf(symbols=[Symbol("run", CODE, SIZE)]))
        words = ("-fi", "-e", str(path))
        answers[language] = ask("addr2line", *words, f"{CODE:x}").splitlines()[::2]
        # binutils name the caller by its symbol once they were asked about it alone
        theirs = asked(tool("addr2line"), *words, f"{CODE + 8:x}", f"{CODE:x}", f"{CODE:x}").stdout.decode()
        assert answers[language] == theirs.splitlines()[-4::2]
    assert answers == {constants.DW_LANG_C99: ["callee", "caller"], constants.DW_LANG_C_plus_plus: ["run", "run"]}


FORTRAN = """
module vecs
contains
  subroutine push(a, n)
    integer, intent(inout) :: a(:)
    integer, intent(in) :: n
    a(n) = n * 2
  contains
    integer function inner(x)
      integer, intent(in) :: x
      inner = x + n
    end function
  end subroutine
end module
program run
  use vecs
  integer :: a(9)
  call push(a, 3)
  call local()
  print *, a(3)
contains
  subroutine local()
    a(4) = a(3) + 1
  end subroutine
end program
"""
ADA = """
with Ada.Text_IO;
procedure Main is
   package Vecs is
      type Cursor is record At_Place : Integer; end record;
      function To_Cursor (X : Integer) return Cursor;
      function To_Cursor (X : Boolean) return Cursor;
   end Vecs;
   package body Vecs is
      function To_Cursor (X : Integer) return Cursor is
      begin
         return (At_Place => X * 3);
      end To_Cursor;
      function To_Cursor (X : Boolean) return Cursor is
      begin
         return (if X then To_Cursor (1) else To_Cursor (2));
      end To_Cursor;
   end Vecs;
   procedure Show (X : Vecs.Cursor) is
   begin
      Ada.Text_IO.Put_Line (Integer'Image (X.At_Place));
   end Show;
begin
   Show (Vecs.To_Cursor (True));
   Show (Vecs.To_Cursor (7));
end Main;
"""


def built(folder: Path, language: str, optimized: str) -> tuple[Path, str]:
    """Build a program in a language; return it and a name that differs in the debug info."""
    if language == "fortran":
        (folder / "main.f90").write_text(FORTRAN)
        subprocess.run([tool("gfortran"), optimized, "-g", "main.f90", "-o", "main"], cwd=folder, check=True)
        return folder / "main", "MAIN__"
    (folder / "main.adb").write_text(ADA)
    command = [tool("gnatmake"), "-q", optimized, "-g", "main.adb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "main", "main__vecs__to_cursor__2"


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("language", ["fortran", "ada"])
def test_addr2line_names_fortran_and_ada_as_binutils_do(tmp_path: Path, language: str, optimized: str) -> None:
    path, named = built(tmp_path, language, optimized)
    symbols = subprocess.run([tool("nm"), "-S", str(path)], capture_output=True, check=True, text=True).stdout
    own = [line.split() for line in symbols.splitlines() if line.lower().split()[2:3] == ["t"]]
    addresses = [index for start, size, *_ in own for index in range(int(start, 16), int(start, 16) + int(size, 16))]
    assert any(symbol[3].startswith(named) for symbol in own) or optimized == "-O2"
    words = ("-f", "-e", str(path))
    # binutils name a function by its symbol once they were asked about it
    theirs = asked(
        tool("addr2line"), *words, stdin="".join(f"{index:x}\n{index:x}\n" for index in addresses)
    ).stdout.decode()
    twice = theirs.splitlines()
    last = [line for index in range(0, len(twice), 4) for line in twice[index + 2 : index + 4]]
    assert ask("addr2line", *words, stdin="".join(f"{index:x}\n" for index in addresses)).splitlines() == last


ROWS: list[Step] = [
    ("set_address", CODE), ("column", 4), ("special", 0, 2),  # 3:4
    ("column", 9), ("special", 4, 2),  # 5:9
    ("advance_line", -5), ("copy",),  # and line 0 at that address
    ("column", 2), ("special", 4, 5),  # 5:2
    ("file", 2), ("advance_line", -5), ("special", 4, 0),  # line 0 in another file
    ("end", 4),
    ("set_address", CODE + SIZE), ("advance_line", -1), ("copy",),  # line 0, nothing before it in its sequence
    ("advance_line", 7), ("special", 8, 0),  # 7:0
    ("end", 8),
]  # fmt: skip


def lined(folder: Path) -> Path:
    """Forge a file with lines 0 at CODE + 4 (3:4, 5:9 before), CODE + 12 (5:2 before), CODE + SIZE (none before)."""
    debug = Debug(4)
    described(debug, CODE, 2 * SIZE, ROWS)
    path = folder / "lines"
    path.write_bytes(debug.elf(symbols=[Symbol("run", CODE, 2 * SIZE)]))
    return path


PLACES = (CODE, CODE + 4, CODE + 8, CODE + 12, CODE + SIZE, CODE + SIZE + 8)


def test_line_zero_is_skipped_back_to_the_last_line_of_its_sequence(tmp_path: Path) -> None:
    path = lined(tmp_path)
    words = ("--skip-line-zero", "-s", "--functions=none", "-e", str(path), *map(hex, PLACES))
    assert ask("llvm-symbolizer-22", *words).split("\n\n")[:-1] == [
        "main.c:3:4", "main.c:5:9 (approximate)", "main.c:5:2", "main.c:5:2 (approximate)", "main.c:0:0", "main.c:7:0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "run\n/src/main.c:5:9 (approximate)\n\n"),
        (("-p", "-s"), "run at main.c:5:9 (approximate)\n\n"),
        (("--output-style=GNU", "--no-inlines"), "run\n/src/main.c:5 (approximate)\n"),
    ],
)
def test_a_line_instead_of_line_zero_is_marked(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    path = lined(tmp_path)
    assert ask("llvm-symbolizer-22", "--skip-line-zero", *options, "-e", str(path), hex(CODE + 4)) == expected


def test_the_verbose_form_and_json_mark_it_too(tmp_path: Path) -> None:
    path = lined(tmp_path)
    words = ("--skip-line-zero", "-e", str(path), hex(CODE + 4), hex(CODE))
    verbose = ask("llvm-symbolizer-22", "--verbose", *words).split("\n\n")
    assert verbose[0].endswith("  Line: 5\n  Column: 9\n  Approximate: true")
    assert "Approximate" not in verbose[1]
    frames = [answer["Symbol"][0] for answer in json.loads(ask("llvm-symbolizer-22", "--output-style=JSON", *words))]
    assert (frames[0]["Approximate"], frames[0]["Line"]) == (True, 5)
    assert "Approximate" not in frames[1]


@pytest.mark.parametrize("options", [(), ("--skip-line-zero",)])
@pytest.mark.parametrize("style", [(), ("--output-style=JSON",), ("--verbose",), ("--output-style=GNU", "-i")])
def test_line_zero_is_answered_as_llvm_symbolizer_does(
    tmp_path: Path, options: tuple[str, ...], style: tuple[str, ...]
) -> None:
    symbolizer = tool("llvm-symbolizer-22")
    words = (*options, *style, "-e", str(lined(tmp_path)), *map(hex, range(CODE, CODE + 2 * SIZE)))
    assert ask("llvm-symbolizer-22", *words) == asked(symbolizer, *words).stdout.decode()


@pytest.mark.parametrize("version", [14, 19, 22])
def test_the_context_of_line_zero_is_the_beginning_of_the_file(tmp_path: Path, version: int) -> None:
    path = lined(tmp_path)
    (tmp_path / "main.c").write_text(SOURCE, newline="")
    words = ("-s", "--functions=none", "-e", str(path), hex(CODE + 4))
    done = subprocess.run(
        [link(f"llvm-symbolizer-{version}"), "--print-source-context-lines=3", *words],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "main.c:0:9\n1  : line 1\n2  : line 2\n3  : line 3\n\n"


@pytest.mark.parametrize("version", [14, 19, 22])
@pytest.mark.parametrize("style", [(), ("--output-style=JSON",), ("--verbose",)])
def test_the_lines_around_one_are_those_of_llvm_symbolizer(
    tmp_path: Path, version: int, style: tuple[str, ...]
) -> None:
    symbolizer = tool(f"llvm-symbolizer-{version}")
    path = lined(tmp_path)
    (tmp_path / "main.c").write_text(SOURCE, newline="")
    for count in (1, 2, 3, 10, 11, 100):
        words = (f"--print-source-context-lines={count}", *style, "-s", "-e", str(path), *map(hex, PLACES))
        theirs = subprocess.run([symbolizer, *words], cwd=tmp_path, capture_output=True)
        ours = subprocess.run([link(f"llvm-symbolizer-{version}"), *words], cwd=tmp_path, capture_output=True)
        assert ours.stdout == theirs.stdout


def header(name: bytes, size: int) -> bytes:
    return struct.pack("16s12s6s6s8s10s2s", name.ljust(16), b"0", b"0", b"0", b"644", b"%d" % size, b"`\n").replace(
        b"\0", b" "
    )


def padded(data: bytes) -> bytes:
    return data + b"\n" * (len(data) % 2)


def archive(folder: Path) -> Path:
    """Make a static library with members of GNU and BSD, each with another function."""
    elf = lined(folder).read_bytes()
    names = b"a_name_longer_than_sixteen.o/\nsub/deep.o/\n"
    out = b"!<arch>\n" + header(b"/", 4) + b"\0\0\0\0" + header(b"//", len(names)) + padded(names)
    for name, stored in [
        (b"z.o/", elf),
        (b"/0", elf + b"x"),
        (b"/30", elf),
        (b"#1/20", b"bsd.o".ljust(20, b"\0") + elf),
    ]:
        out += header(name, len(stored)) + padded(stored)
    path = folder / "lib.a"
    path.write_bytes(out)
    return path


@pytest.mark.parametrize("member", ["z.o", "a_name_longer_than_sixteen.o", "sub/deep.o", "bsd.o", "z.o):x86_64"])
def test_names_addresses_of_a_member_of_a_static_library(tmp_path: Path, member: str) -> None:
    name = f"{archive(tmp_path)}({member}" + ("" if ")" in member else ")")
    expected = "run\n/src/main.c:3:4\n\n"
    assert ask("llvm-symbolizer-22", "--obj=" + name, hex(CODE)) == expected
    assert ask("llvm-symbolizer-22", stdin=f"CODE {name} {CODE:#x}\n{name} {CODE + 1:#x}\n") == 2 * expected


def test_a_member_of_a_thin_library_is_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    elf = lined(tmp_path / "sub")
    names = b"sub/lines/\n\n"
    path = tmp_path / "thin.a"
    path.write_bytes(b"!<thin>\n" + header(b"//", len(names)) + names + header(b"/0", elf.stat().st_size))
    assert ask("llvm-symbolizer-22", f"--obj={path}(sub/lines)", hex(CODE)) == "run\n/src/main.c:3:4\n\n"


def test_members_of_ar_archives_have_the_answers_of_llvm_symbolizer(tmp_path: Path) -> None:
    symbolizer = tool("llvm-symbolizer-22")
    (tmp_path / "main.c").write_text("int run(int x)\n{\n  return x * 3;\n}\n")
    subprocess.run([tool("gcc"), "-g", "-c", "main.c"], cwd=tmp_path, check=True)
    for flags in ("rcs", "rcsT"):
        (tmp_path / "lib.a").unlink(missing_ok=True)
        subprocess.run([tool("ar"), flags, "lib.a", "main.o"], cwd=tmp_path, check=True)
        words = ("--default-arch=x86-64", f"--obj={tmp_path}/lib.a(main.o)", *map(hex, range(16)))
        assert ask("llvm-symbolizer-22", *words) == asked(symbolizer, *words).stdout.decode()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lib.a(nope.o)", "no member 'nope.o' in"),
        ("lib.a()", "no member '' in"),
        ("lines(z.o)", "!<arch> or !<thin>"),
        ("nowhere.a(z.o)", "No such file"),
        ("cut.a(bsd.o)", "extends past the end of the archive"),
        ("bad.a(z.o)", "invalid header of a member"),
    ],
)
def test_a_missing_member_is_unknown_and_reported(tmp_path: Path, name: str, words: str) -> None:
    full = archive(tmp_path).read_bytes()
    (tmp_path / "cut.a").write_bytes(full[:-9])
    (tmp_path / "bad.a").write_bytes(full[:8] + full[9:])
    done = asked(str(link("llvm-symbolizer-22")), stdin=f"{tmp_path / name} {CODE:#x}\n")
    assert done.stdout == b"??\n??:0:0\n\n"
    assert words in done.stderr.decode()


def test_a_file_whose_name_ends_in_a_parenthesis_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "lib.a(z.o)"
    path.write_bytes(lined(tmp_path).read_bytes())
    assert ask("llvm-symbolizer-22", f"--obj={path}", hex(CODE)) == "run\n/src/main.c:3:4\n\n"


def test_a_truncated_archive_raises_an_error_of_whence(tmp_path: Path) -> None:
    full = archive(tmp_path).read_bytes()
    path = tmp_path / "cut.a"
    for end in (*range(250), *range(250, len(full), 97)):
        path.write_bytes(full[:end])
        with pytest.raises((ElfError, FileNotFoundError)):
            open_member(str(path), "bsd.o")
