"""Linkage names become readable, within bounds of time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.mangled import bomb
from whence.demangle import demangle, demangle_once
from whence.demangle.expansion import MAX_TEXT, is_bounded
from whence.demangle.kernels.expansion import expansion, references
from whence.demangle.kernels.names import Demangler
from whence.objects.elf import ElfFile


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main", "main"),
        ("", ""),
        ("_Z3foov", "foo()"),
        ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int>>::push_back(int&&)"),
        ("_ZL3foov.isra.0", "foo() (.isra.0)"),
        ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
        ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
        ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
        ("$s4main3fooyyF", "main.foo() -> ()"),
        ("_Z3foov@plt", "foo()@plt"),
        ("memcpy@@GLIBC_2.14", "memcpy@@GLIBC_2.14"),
        ("_Z99damaged", "_Z99damaged"),
        ("runtime.(*mheap).alloc", "runtime.(*mheap).alloc"),
        ("_ZN3\udcffoo", "_ZN3\udcffoo"),
    ],
)
def test_demangles_names_of_every_language(name: str, text: str) -> None:
    assert demangle(name) == demangle_once(name) == text


def test_a_name_that_doubles_with_every_reference_is_unchanged() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for levels in range(10, 40):
        name = bomb(levels)
        began = time.process_time()
        demangle(name)
        assert time.process_time() - began < 5
    assert (
        demangle(bomb(3))
        == "f(a<int, int>, a<a<int, int>, a<int, int>>, "
        + ", ".join(
            f"a<{pair}, {pair}>"
            for pair in ("a<a<int, int>, a<int, int>>", "a<a<a<int, int>, a<int, int>>, a<a<int, int>, a<int, int>>>")
        )
        + ")"
    )
    assert demangle(bomb(39)) == bomb(39)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_very_long_names_are_unchanged() -> None:
    name = "_Z" + "P" * 200_000 + "v"
    assert demangle(name) == name
    assert demangle("_Z3foo" + "P" * 4000 + "v").startswith(("foo(", "_Z3foo"))


def test_bounds_the_back_references_of_rust() -> None:
    name = "_RC" + "TB_B_E" * 600
    assert not is_bounded(name)
    assert demangle(name) == name


def test_a_long_name_with_harmless_references_is_demangled() -> None:
    part = "NSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE"
    name = "_Z1f" + part + "iRKS3_" * 40
    assert expansion(name[2:].encode(), MAX_TEXT) < MAX_TEXT
    assert demangle(name).startswith("f(std::__1::basic_string<")


@pytest.mark.parametrize(
    ("name", "length"),
    [
        (b"", 0),
        (b"3foov", 4),  # the name, and a byte for v
        (b"3fooS_v", 3 + 32 + 1),
        (b"N1a40" + b"x" * 40 + b"ES0_", 41 + 41),  # without a second part the longest counts
        (b"1fIJ1a1b1cEEDpT_", 4 * (1 + 3) + 32),  # J counts as a member; outside of brackets all the text is repeated
        (b"1fIJ1a1b1cEEvJDpT_E", 1 + 3 + 1 + 4 * 32),
        (b"Lin5EA7_C1TVSaSt", 5 + 3 + 2 + 2 + 64 + 2),
        (b"TV_TL0__T1_", 2 + 1 + 32 + 32),  # T, V and _ are not parameters
        (b"99999999999x", 1),  # longer than what follows
    ],
)
def test_expansion_counts_characters_and_references(name: bytes, length: int) -> None:
    assert expansion(name, MAX_TEXT) == length
    assert length == 0 or expansion(name, length - 1) > length - 1


@given(st.text("_DspSx0", max_size=40).map(str.encode))
def test_counts_underscores_and_packs_as_references(name: bytes) -> None:
    assert references(name) == name.count(b"_") + name.count(b"Dp") + name.count(b"sp")


def test_nested_packs_exceed_every_limit() -> None:
    assert expansion(b"J1a1b1c1dE" + b"J" + b"Dp" * 200 + b"1aE", MAX_TEXT) > MAX_TEXT


def test_the_bound_holds_for_every_name_of_a_real_library() -> None:
    libraries = sorted(Path("/usr/lib").glob("*-linux-gnu/libstdc++.so.6"))
    if not libraries:
        pytest.skip("no libstdc++ on this machine")
    with ElfFile.open(libraries[0]) as elf:
        symbols = elf.symbols(".dynsym")
        names = [name for name in map(symbols.name, range(len(symbols))) if name.startswith("_Z")]
    assert len(names) > 1000
    for name in names:
        assert is_bounded(name)
        assert len(demangle(name)) <= 3 * max(64, expansion(name[2:].encode(), MAX_TEXT))


def test_names_are_unchanged_if_the_demangler_is_not_installed() -> None:
    program = (
        "import sys; sys.modules['pydemumble'] = None; from whence import demangle as d; print(d.demangle('_Z1fv'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("_Z1fv\n", "")


MICROSOFT = {
    "?f@ns@@YAHXZ": "int __cdecl ns::f(void)",
    "??1system_error@std@@UEAA@XZ": "public: virtual __cdecl std::system_error::~system_error(void)",
    "?_Tidy@?$vector@KV?$allocator@K@std@@@std@@AEAAXXZ": (
        "private: void __cdecl std::vector<unsigned long, class std::allocator<unsigned long>>::_Tidy(void)"
    ),
}


@pytest.mark.parametrize("name", MICROSOFT)
def test_names_of_microsofts_compiler_are_demangled(name: str) -> None:
    assert demangle(name) == MICROSOFT[name]


@pytest.mark.parametrize("name", ["?", "??", "?f", "?f@@YAXP6AX", "?" * 4000, "?f@@YAX" + "P6AX0@Z" * 25 + "@Z"])
def test_invalid_and_endless_names_of_microsofts_compiler_stay(name: str) -> None:
    assert demangle(name) == name


def test_the_budget_is_kept_by_a_demangler_of_its_own() -> None:
    calls = []

    def text_of(name: str) -> str:
        calls.append(name)
        return "x" * 5000

    limited = Demangler(
        lambda: text_of, lambda name, most=0: False, max_name=4096, max_text=1 << 16, max_references=24, factor=2,
        allowance=10_000,
    )  # fmt: skip
    texts = [limited.readable(f"?f{index}@@YAXXZ") for index in range(10)]
    assert len(calls) == 3
    assert texts[-1] == "?f9@@YAXXZ"
    assert limited.readable("?f@@YAXXZ") == "x" * 5000
