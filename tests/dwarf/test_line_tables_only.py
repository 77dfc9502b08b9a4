"""Line tables only (clang -g1): functions without qualified names take the symbol's linkage name."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, run
from whence import lidia
from whence.binary import Binary
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import STT_FUNC

SOURCE = """
template<class T> __attribute__((always_inline)) inline T kept(T a) { volatile T y = a; return y; }
template<class T> struct Box { T t; Box(T a); };
template<class T> __attribute__((noinline)) Box<T>::Box(T a) { t = kept(a); }
struct Any { int v; template<class T> Any(T const &x, int k); ~Any(); };
template<class T> __attribute__((noinline)) Any::Any(T const &x, int k) { v = kept((int)sizeof(x)) + k; }
__attribute__((noinline)) Any::~Any() { kept(v); }
namespace n { struct Inner { int v; __attribute__((noinline)) Inner(int a) { v = kept(a); } }; }
extern "C" __attribute__((noinline)) int plain(int a) { return kept(a); }
extern "C" void _start() { Box<int> b(1); Any q(b, 2), r(3.0, 4); n::Inner s(5); plain(b.t + q.v + r.v + s.v); }
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_constructors_that_are_templates_get_the_linkage_name(level: str, tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(SOURCE)
    flags = ["-target", "x86_64-linux", "-gline-tables-only", level, "-fno-sanitize=undefined"]
    zig = [sys.executable, "-m", "ziglang"]
    try:
        run(*zig, "c++", "-c", *flags, "-fno-stack-protector", "-fno-exceptions", "a.cc", cwd=tmp_path)
        run(*zig, "ld.lld", "a.o", "-o", "program", cwd=tmp_path)
    except MissingTool as missing:
        pytest.skip(str(missing))
    out = io.BytesIO()
    with ElfFile.open(tmp_path / "program") as elf:
        symbols = elf.symbols()
        wanted = {
            value: symbols.name(index)
            for index, value in enumerate(symbols.value)
            if symbols.info[index] & 15 == STT_FUNC and symbols.section[index]
        }
        lidia.create_from_elf(elf, out)
    assert {name for name in wanted.values() if "C2" in name} == {
        "_ZN3AnyC2I3BoxIiEEERKT_i", "_ZN3AnyC2IdEERKT_i", "_ZN3BoxIiEC2Ei", "_ZN1n5InnerC2Ei",
    }  # fmt: skip
    with Binary.from_elf(ElfFile.open(tmp_path / "program")) as binary, lidia.from_bytes(out.getvalue()) as table:
        for vaddr, name in wanted.items():
            outer = binary.lookup(vaddr)[-1]
            assert (outer.function, outer.line > 0) == (name, True)
            assert table.lookup(vaddr)[-1] == outer
        inlined = {frame.function for offset in table for frame in table.lookup(offset.vaddr) if frame.inlined}
    assert inlined == {"kept<int>"}
