"""The Go package reads whence's archives and finds the same functions and files at every address."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, Recipe, build
from tests.forge.elf import Section, Symbol, forge
from tests.forge.go_reader import GoReader
from tests.forge.lidia import OVERFLOW
from tests.helpers import golang
from tests.oracle.compare import differing_files
from whence import lidia
from whence.objects.elf import ElfFile


def archived(path: str | os.PathLike[str]) -> bytes:
    out = io.BytesIO()
    with ElfFile.open(path) as elf:
        lidia.create_from_elf(elf, out)
    return out.getvalue()


@pytest.mark.parametrize(
    "recipe",
    [Recipe(), Recipe(version=4, level="-O3"), Recipe("x86_64-linux", level="-O2"), Recipe(variant="static")],
    ids=str,
)
def test_both_readers_give_the_same_files_for_c_and_cpp(recipe: Recipe, tmp_path: Path) -> None:
    try:
        data = archived(build(recipe, tmp_path))
    except MissingTool as missing:
        pytest.skip(str(missing))
    assert differing_files(data, 20_000) == []


def test_both_readers_give_the_same_files_for_calls_in_an_included_file(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not on this machine")
    (tmp_path / "calls.def").write_text("CALL(1) CALL(2)\n")
    (tmp_path / "spread.c").write_text(
        """static inline __attribute__((always_inline)) int mix(volatile int *p, int n) { return *p * n + *p; }
int spread(volatile int *p) {
    int sum = *p;
#define CALL(n) sum += mix(p, n);
#include "calls.def"
    return sum + *p;
}
"""
    )
    command = [gcc, "-O2", "-g", "-shared", "-fPIC", "-nostdlib", "spread.c", "-o", "spread.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    data = archived(tmp_path / "spread.so")
    assert differing_files(data, 20_000) == []
    reader = GoReader(data)
    frames = {frame for index in range(len(reader.vas)) for frame in reader.lookup(reader.vas[index])}
    assert {os.path.basename(file) for function, file in frames if function == "spread"} == {"calls.def", "spread.c"}


@pytest.mark.parametrize("flags", ["", "-s -w"])
def test_both_readers_give_the_same_files_for_go(flags: str, tmp_path: Path) -> None:
    data = archived(golang.build("small", tmp_path / "small", ldflags=flags))
    assert differing_files(data, 20_000) == []


def test_names_are_stored_in_the_order_of_the_symbol_table() -> None:
    """The symbols are not in address order, a name occurs twice, and one symbol is not a function."""
    code = Section(".text", bytes(0x40), vaddr=0x401000, flags=6)
    symbols = [
        Symbol("zebra", 0x401020, 0x10),
        Symbol("data", 0x401000, 4, type=1),
        Symbol("apple", 0x401010, 0x10),
        Symbol("zebra", 0x401030, 0x10),
        Symbol("mango", 0x401000, 0x10),
    ]
    out = io.BytesIO()
    lidia.create_from_elf(ElfFile.from_bytes(forge([code], symbols=symbols)), out, compat="go")
    assert OVERFLOW + b"\x05\0\0\0zebra\x05\0\0\0apple\x05\0\0\0mango" in out.getvalue()
    with lidia.from_bytes(out.getvalue(), crc=True) as table:
        assert [(each.vaddr, each.function) for each in table] == [
            (0x401000, "mango"), (0x401010, "apple"), (0x401020, "zebra"), (0x401030, "zebra"),
        ]  # fmt: skip
