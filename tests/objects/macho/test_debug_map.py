"""Debug maps: debug info that the linker left in object files and static libraries."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.macho import ARM64, X86_64, Section, Symbol, debug_map, dwarf_sections, fat, forge, text
from tests.helpers.objects import chains_of, code_of, llvm_chains, tools
from whence._base.model import Frames
from whence.objects.macho import MachoFile, layout
from whence.objects.opening import open_object

BASE = 0x100001000
TIME = 1_700_000_000
FIRST = """
#include <stdio.h>
int twice(int);
static inline __attribute__((always_inline)) int square(int x) { return x * x + (x > 99 ? puts("large") : 1); }
int unused(int x) { return square(x) * 3; }
__attribute__((noinline)) static int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++) total += square(i);
    return total;
}
int main(int argc, char **argv) { return (sum(argc + 4) + twice(argc)) & 1; }
"""
SECOND = """
static inline __attribute__((always_inline)) int twofold(int x) { return x + x; }
__attribute__((noinline)) static int changed(int x) { return twofold(x) ^ 5; }
__attribute__((noinline)) int twice(int x) { return changed(twofold(x)) + 1; }
"""


def object_file(cpu: tuple[int, int] = X86_64, *, relocated: bool = False) -> bytes:
    """An object file with `outer` at 0x40, which has `inner` inlined, and `unused` at 0."""
    base = 0 if relocated else 0x40
    callee = function("inner", 0, 0)
    outer = function("outer", base, 0x40, inlined(callee, base + 8, 8, 7))
    debug = Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], [callee, function("unused", 0x10000, 0x40), outer]))
    contents = debug.contents()
    sections = [text(0, 0x100), *dwarf_sections(contents)]
    if relocated:
        offsets = [offset for offset in range(len(contents["info"]) - 8) if is_address(contents["info"], offset)]
        table = b"".join(struct.pack("<II", offset, 1 | 3 << 25 | 1 << 27) for offset in offsets)
        assert len(offsets) == 2
        sections[1] = Section("__DWARF", "__debug_info", contents["info"], 0x200000000, relocations=table)
    symbols = [Symbol("_unused", 0), Symbol("_outer", 0x40)]
    return forge(sections, symbols=symbols, uuid=b"", cpu=cpu, type=layout.MH_OBJECT)


def is_address(info: bytes, offset: int) -> bool:
    """Return True for the addresses of `outer` and the call in it, which are 0 and 8 before relocation."""
    return info[offset : offset + 9] in (struct.pack("<QB", 0, 0x40), struct.pack("<QB", 8, 8))


def program(path: str, *, time: int = 0, cpu: tuple[int, int] = X86_64) -> bytes:
    symbols = [*debug_map(path, ("_outer", BASE + 0x80, 0x40), time=time), Symbol("_outer", BASE + 0x80)]
    return forge([text()], symbols=symbols, cpu=cpu)


def archive(name: str, data: bytes, time: int = 0) -> bytes:
    """A static library with one member as Apple's tools write it."""
    padded = name.encode() + bytes(-len(name) % 4 + 4)
    head = f"{f'#1/{len(padded)}':<16}{time:<12}{0:<6}{0:<6}{100644:<8}{len(padded) + len(data):<10}`\n"
    return b"!<arch>\n" + head.encode() + padded + data


def frames_at(path: Path | str, vaddr: int, **options: object) -> Frames:
    with whence.open(path, **options) as binary:  # type: ignore[arg-type]
        return binary.lookup(vaddr)


def names_at(path: Path | str, vaddr: int, **options: object) -> list[str]:
    return [frame.function for frame in frames_at(path, vaddr, **options)]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "x.o").write_bytes(object_file())
    os.utime(tmp_path / "x.o", (TIME, TIME))
    path = tmp_path / "app"
    path.write_bytes(program(str(tmp_path / "x.o"), time=TIME))
    return path


def explained(path: Path, vaddr: int) -> str:
    with whence.open(path) as binary:
        return str(binary.explain(vaddr))


def test_the_map_lists_object_files_with_their_functions(app: Path) -> None:
    with MachoFile.open(app) as file:
        (entry,) = file.linked_objects
        assert (entry.path, entry.member, entry.time) == (str(app.parent / "x.o"), "", TIME)
        assert (entry.name_of(0), list(entry.vaddr), list(entry.length)) == (b"outer", [BASE + 0x80], [0x40])


def test_an_object_file_names_a_function_where_the_linker_put_it(app: Path) -> None:
    assert names_at(app, BASE + 0x88) == ["inner", "outer"]
    assert names_at(app, BASE + 0x80) == ["outer"]
    with whence.open(app) as binary:
        rows = [(each.vaddr, each.length, each.function, str(each.source)) for each in binary.functions()]
    assert rows == [(BASE + 0x80, 0x40, "outer", "dwarf"), (BASE + 0xC0, 0x40, "outer", "symtab")]


def test_addresses_of_symbols_are_added_to_the_debug_info_of_object_files(app: Path) -> None:
    (app.parent / "x.o").write_bytes(object_file(relocated=True))
    os.utime(app.parent / "x.o", (TIME, TIME))
    assert names_at(app, BASE + 0x88) == ["inner", "outer"]


def test_an_object_file_that_was_built_again_is_refused(app: Path) -> None:
    os.utime(app.parent / "x.o", (TIME + 60, TIME + 60))
    assert names_at(app, BASE + 0x88) == ["outer"]
    said = "modified at 2023-11-14 22:14:20 UTC, expected 2023-11-14 22:13:20 UTC: built again after it was linked"
    assert said in explained(app, BASE + 0x88)


def test_a_map_without_times_takes_any_object_file_of_the_machine(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.write_bytes(program(str(tmp_path / "x.o")))
    (tmp_path / "x.o").write_bytes(object_file())
    assert names_at(app, BASE + 0x88) == ["inner", "outer"]
    (tmp_path / "x.o").write_bytes(object_file(ARM64))
    assert names_at(app, BASE + 0x88) == ["outer"]
    assert "a Mach-O file for aarch64" in explained(app, BASE + 0x88)


def test_a_missing_object_file_leaves_the_symbols(app: Path) -> None:
    (app.parent / "x.o").unlink()
    assert names_at(app, BASE + 0x88) == ["outer"]
    assert f"{app.parent}/x.o (debug map): the file does not exist" in explained(app, BASE + 0x88)


@pytest.mark.parametrize("fat_archive", [False, True])
def test_a_member_of_a_static_library_is_read(tmp_path: Path, fat_archive: bool) -> None:
    library = archive("a long name of a member.o", object_file(), TIME)
    if fat_archive:
        library = fat((ARM64, archive("other.o", object_file(ARM64))), (X86_64, library))
    (tmp_path / "lib.a").write_bytes(library)
    app = tmp_path / "app"
    for time, expected in ((TIME, ["inner", "outer"]), (TIME - 1, ["outer"])):
        app.write_bytes(program(f"{tmp_path}/lib.a(a long name of a member.o)", time=time))
        assert names_at(app, BASE + 0x88) == expected


def test_object_files_are_found_in_a_debug_folder(app: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "moved" / "app"
    elsewhere.parent.mkdir()
    shutil.move(app, elsewhere)
    flat, tree = tmp_path / "flat", tmp_path / "tree"
    inside = Path(f"{tree}{tmp_path}")
    inside.mkdir(parents=True)
    shutil.copy2(tmp_path / "x.o", inside)
    flat.mkdir()
    shutil.move(tmp_path / "x.o", flat)
    assert names_at(elsewhere, BASE + 0x88) == ["outer"]
    for folder in (flat, tree):
        assert names_at(elsewhere, BASE + 0x88, debug_dirs=[folder]) == ["inner", "outer"]


def test_damaged_object_files_leave_the_symbols_and_a_problem(app: Path) -> None:
    full = object_file()
    for size in range(0, len(full), 97):
        (app.parent / "x.o").write_bytes(full[:size])
        os.utime(app.parent / "x.o", (TIME, TIME))
        assert names_at(app, BASE + 0x88)[-1] == "outer"


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
def test_the_names_of_a_real_program_are_those_of_its_dsym(tmp_path: Path, target: str) -> None:
    pytest.importorskip("ziglang")
    (dsymutil,) = tools("dsymutil-19")
    (tmp_path / "first.c").write_text(FIRST)
    (tmp_path / "second.c").write_text(SECOND)
    zig = [sys.executable, "-m", "ziglang"]
    compiler = [*zig, "cc", "-target", target, "-g", "-O1"]
    for name in ("first", "second"):
        subprocess.run([*compiler, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    subprocess.run([*zig, "ar", "--format=darwin", "rc", "lib.a", "second.o"], cwd=tmp_path, check=True)
    subprocess.run([*compiler, "first.o", "lib.a", "-o", "main"], cwd=tmp_path, check=True)
    path, copy = tmp_path / "main", tmp_path / "copy"
    shutil.copy(path, copy)
    subprocess.run([dsymutil, path, "-o", f"{copy}.dSYM"], check=True)
    (tmp_path / "copy.dSYM/Contents/Resources/DWARF/main").rename(tmp_path / "copy.dSYM/Contents/Resources/DWARF/copy")
    with open_object(path) as file:
        objects = sorted(str(entry).rpartition("/")[2] for entry in file.linked_objects)
        assert objects == ["first.o", "lib.a(second.o)"]
    vaddrs = code_of(path)
    ours = chains_of(path, vaddrs)
    for chain, other in zip(ours, llvm_chains(copy, vaddrs), strict=True):
        if other and other[0][1]:  # dsymutil leaves out the lines of padding after a function
            assert chain == other
    assert sum(len(chain) > 1 for chain in ours) > 10
    assert any(chain and chain[-1][0] == "changed" for chain in ours)
