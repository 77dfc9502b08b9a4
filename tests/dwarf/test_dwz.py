"""Files that dwz rewrote: many partial units that share abbreviation tables, alone or with a supplementary file.

Frames equal those of the plain file, for any number of addresses.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.builds import MissingTool, run
from tests.forge.elf import Section, forge
from tests.forge.lines import uleb
from tests.oracle.compare import Symbols
from whence._base.model import Frames
from whence.dwarf import DebugInfo
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_DYN
from whence.ranges import StringSpace

CODE = 0x1000
FUNCTION_SIZE = 32
PARTIAL_UNITS = 4000


def declaration(code: int, tag: int, *attributes: tuple[int, int], children: bool = False) -> bytes:
    said = b"".join(uleb(name) + uleb(form) for name, form in attributes)
    return uleb(code) + uleb(tag) + bytes([children]) + said + b"\0\0"


def unit(body: bytes, table: int) -> bytes:
    """Make a unit of version 4."""
    head = (4).to_bytes(2, "little") + table.to_bytes(4, "little") + b"\x08"
    return (len(head) + len(body)).to_bytes(4, "little") + head + body


def four(number: int) -> bytes:
    return number.to_bytes(4, "little")


def filler(first: int, count: int) -> bytes:
    """Return declarations of a table that do not matter here."""
    names = (
        (d.DW_AT_name, d.DW_FORM_strp),
        (d.DW_AT_decl_file, d.DW_FORM_data1),
        (d.DW_AT_decl_line, d.DW_FORM_data1),
        (d.DW_AT_type, d.DW_FORM_ref4),
        (d.DW_AT_location, d.DW_FORM_exprloc),
    )
    return b"".join(declaration(code, d.DW_TAG_variable, *names) for code in range(first, first + count))


def like_dwz() -> bytes:
    """Return many partial units.

    They share one of two large tables, in turns, in which the declaration of the root is last.
    """
    partial = [
        filler(1, 200)
        + declaration(201, d.DW_TAG_subprogram, (d.DW_AT_name, d.DW_FORM_string))
        + declaration(202, d.DW_TAG_partial_unit, children=True)
        for _ in range(2)
    ]
    location = (d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4)
    full = filler(1, 200)
    full += declaration(201, d.DW_TAG_inlined_subroutine, (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr), *location)
    full += declaration(202, d.DW_TAG_subprogram, (d.DW_AT_name, d.DW_FORM_string), *location, children=True)
    full += declaration(203, d.DW_TAG_compile_unit, *location, children=True)
    tables = [*partial, full]
    starts = [sum(len(table) + 1 for table in tables[:n]) for n in range(3)]
    info, origins = b"", []
    for n in range(PARTIAL_UNITS):
        body = uleb(202) + uleb(201) + b"inlined%d\0" % n + b"\0"
        origins.append(len(info) + 11 + 2)
        info += unit(body, starts[n % 2])
    for n in range(PARTIAL_UNITS):
        offset = (CODE + FUNCTION_SIZE * n).to_bytes(8, "little")
        inner = uleb(201) + four(origins[n]) + offset + four(8)
        function = uleb(202) + b"outer%d\0" % n + offset + four(FUNCTION_SIZE) + inner + b"\0"
        info += unit(uleb(203) + offset + four(FUNCTION_SIZE) + function + b"\0", starts[2])
    text = Section(".text", b"", type=8, flags=6, vaddr=CODE, size=FUNCTION_SIZE * PARTIAL_UNITS)
    abbrev = b"".join(table + b"\0" for table in tables)
    return forge([text, Section(".debug_info", info), Section(".debug_abbrev", abbrev)], type=ET_DYN)


def test_thousands_of_partial_units_that_share_tables_are_all_read() -> None:
    info = DebugInfo(ElfFile.from_bytes(like_dwz()), strings=StringSpace())
    table = info.ranges(jobs=1)
    names = {info.strings.text(name) for name in table.function}
    assert info.problems == []
    assert names == {f"{kind}{n}" for kind in ("outer", "inlined") for n in range(PARTIAL_UNITS)}


@pytest.mark.parametrize("asked", [1, 10, 4000])
def test_as_much_is_told_of_one_address_as_of_many(tmp_path: Path, asked: int) -> None:
    path = tmp_path / "program"
    path.write_bytes(like_dwz())
    with whence.open(path) as binary:
        for first in range(0, PARTIAL_UNITS, max(asked, 500)):
            wanted = range(first, first + asked)
            result = binary.lookup_many([CODE + FUNCTION_SIZE * n for n in wanted])
            chains = [[frame.function for frame in frames] for frames in result]
            assert chains == [[f"inlined{n}", f"outer{n}"] for n in wanted]


def test_a_partial_unit_without_a_language_has_that_of_the_unit_that_refers_to_it() -> None:
    debug = d.Debug(version=4)
    shared = d.Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "shared")])
    debug.unit(
        d.Die(
            d.DW_TAG_partial_unit,
            [],
            [d.Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "space")], [shared])],
        )
    )
    origin = d.Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, shared),
            (d.DW_AT_low_pc, d.DW_FORM_addr, CODE),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 16),
        ],
    )
    debug.unit(
        d.Die(
            d.DW_TAG_compile_unit,
            [
                (d.DW_AT_language, d.DW_FORM_data1, 4),
                (d.DW_AT_low_pc, d.DW_FORM_addr, CODE),
                (d.DW_AT_high_pc, d.DW_FORM_udata, 16),
            ],
            [origin],
        )
    )
    info = DebugInfo(ElfFile.from_bytes(debug.elf()), strings=StringSpace())
    assert [info.strings.text(name) for name in info.ranges(jobs=1).function] == ["space::shared"]


HEADERS, UNITS, INCLUDED = 40, 40, 12

HEADER = """#pragma once
namespace space%(n)d {
struct Pair%(n)d { int first; long second; struct Inner { char text[%(n)d + 1]; } inner; };
static inline __attribute__((always_inline)) int mix%(n)d(Pair%(n)d &pair, int value) {
    pair.first += value * %(n)d;
    pair.second ^= value + pair.inner.text[0];
    return pair.first;
}
}
"""


@pytest.fixture(scope="module", params=[4, 5], ids="DWARF {}".format)
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a program of many units in two directories, each of which includes some of many headers.

    `plain` is as compiled, `alone` after dwz, and `shared` with a supplementary file.
    """
    folder = tmp_path_factory.mktemp("dwz")
    (folder / "odd").mkdir()
    for n in range(HEADERS):
        for directory in (folder, folder / "odd"):
            (directory / f"h{n}.h").write_text(HEADER % {"n": n})
    names: tuple[list[str], list[str]] = [], []
    for n in range(UNITS):
        used = sorted({(n * 7 + k * (1 + n % 5)) % HEADERS for k in range(INCLUDED)})
        lines = [f'#include "h{h}.h"' for h in used]
        lines += [f"volatile int seen{n};", f"int unit{n}(int value) {{"]
        for h in used:
            lines += [f"    {{ space{h}::Pair{h} pair = {{}}; seen{n} += space{h}::mix{h}(pair, value + seen{n}); }}"]
        lines += [f"    return seen{n};", "}"]
        (folder / ("odd" if n % 2 else "") / f"u{n}.cc").write_text("\n".join(lines))
        names[n % 2].append(f"u{n}.cc")
    main = "".join(f"int unit{n}(int); " for n in range(UNITS))
    (folder / "main.cc").write_text(
        main + "int main() { return " + "+".join(f"unit{n}(1)" for n in range(UNITS)) + "; }"
    )
    try:
        run("g++", f"-gdwarf-{request.param}", "-O2", "-c", *names[0], "main.cc", cwd=folder)
        run("g++", f"-gdwarf-{request.param}", "-O2", "-c", *names[1], cwd=folder / "odd")
        objects = [str(path) for path in sorted(folder.rglob("*.o"))]
        run("g++", *objects, "-o", "plain", cwd=folder)
        run("dwz", "-o", "alone", "plain", cwd=folder)
        shutil.copy(folder / "plain", folder / "shared")
        shutil.copy(folder / "plain", folder / "twin")
        run("dwz", "-m", "common.debug", "shared", "twin", cwd=folder)
    except MissingTool as reason:
        pytest.skip(str(reason))
    return folder


def chains(path: Path, addresses: list[int], at_once: int) -> list[Frames]:
    with whence.open(path) as binary:
        parts = [addresses[offset : offset + at_once] for offset in range(0, len(addresses), at_once)]
        return [frames for part in parts for frames in binary.lookup_many(part)]


@pytest.mark.parametrize("name", ["alone", "shared"])
def test_chains_of_a_program_that_dwz_rewrote_are_those_of_the_plain_one(programs: Path, name: str) -> None:
    with ElfFile.open(programs / "plain") as elf:
        symbols = Symbols.of(elf)
    ends = zip(symbols.values, symbols.ends, symbols.names, strict=True)
    every = sorted({offset for low, high, name in ends if "unit" in name for offset in range(low, high, 2)})
    plain = chains(programs / "plain", every, len(every))
    assert sum(len(frames) > 1 for frames in plain) > 500
    assert chains(programs / name, every, len(every)) == plain
    assert chains(programs / name, every[::40], 10) == plain[::40]
    for offset in range(0, len(every), max(1, len(every) // 20)):
        assert chains(programs / name, every[offset : offset + 1], 1) == plain[offset : offset + 1]
