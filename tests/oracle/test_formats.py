"""Programs of other formats than ELF: whole chains against llvm-symbolizer and symbolic.

Debian has the compilers: clang-19, lld-19, llvm-19, g++-mingw-w64-x86-64-posix, rustc, libstd-rust-dev-windows and
emscripten. A program that can't be built is skipped, and says why.
"""

from __future__ import annotations

import pytest

from tests.oracle import witnesses
from tests.oracle.compare import compare_file
from tests.oracle.formats import PLATFORMS, PROGRAMS, built, libraries

pytestmark = pytest.mark.oracle

COUNT = 20_000
LEAST = 0.999


@pytest.mark.parametrize("name", PROGRAMS)
def test_chains_of_a_program_are_what_other_tools_say(name: str) -> None:
    files = built(name)
    for file in files:
        report = compare_file(file, COUNT // len(files), asked_of=witnesses.of_formats())
        print(name, report)
        assert report.agreement >= LEAST, str(report)


@pytest.mark.parametrize("system", PLATFORMS)
def test_names_of_the_libraries_of_wheels_are_what_other_tools_say(system: str) -> None:
    files = libraries(system)
    count = agreeing = 0
    for file in files:
        report = compare_file(file, COUNT // len(files) + 1, asked_of=witnesses.of_formats())
        count += report.asked
        agreeing += report.like_llvm + report.like_most
        if report.agreement < 1:
            print(file, report)
    print(f"{system}: {agreeing} of {count} addresses of {len(files)} libraries agree")
    assert count >= COUNT
    assert agreeing >= LEAST * count
