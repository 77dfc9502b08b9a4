"""Every command gives the same answer for an address, even if executable segments share a page of the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.forge import core as forged
from tests.forge.elf import Section, Segment, Symbol, build_id_note, forge
from tests.forge.proc import Line, maps_text, process
from whence.columns import Namer
from whence.filter.places import Places
from whence.locator.locator import Locator
from whence.profiles import naming
from whence.samples.model import Mapping, ProfileData, SampleType
from whence.symbolize import Core, Symbolizer

ID = "ab" * 20
BIAS = 0x7000_0000
# Bytes 0x1000 to 0x2800 are at 0x11000, bytes 0x2800 to 0x3800 at 0x22800: page 0x2000 is mapped twice.
LOW, HIGH = (0x1000, 0x11000, 0x1800), (0x2800, 0x22800, 0x1000)
SYMBOLS = (("low", 0x11000), ("low_end", 0x12700), ("low_tail", 0x12800), ("high_head", 0x22000), ("high", 0x22800))
MAPPINGS = [(0x11000, 0x13000, 0x1000), (0x22000, 0x24000, 0x2000)]  # vaddrs, and the file offset of the first


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    segments = [
        Segment(1, 5, file_offset=offset, vaddr=vaddr, file_size=size, memory_size=size, align=0x1000)
        for offset, vaddr, size in (LOW, HIGH)
    ]
    symbols = [
        Symbol(name, position, 0x100, section=".high" if name.startswith("high") else ".text")
        for name, position in SYMBOLS
    ]
    text = Section(".text", b"\x90" * 0x2000, vaddr=0x11000, flags=6)
    sections = [build_id_note(ID), text, Section(".high", b"\x90" * 0x2000, vaddr=0x22000, flags=6)]
    path.write_bytes(forge(sections, [Segment(4, 4, of=".note.gnu.build-id", align=4), *segments], symbols=symbols))
    return path


def by_pid(program: Path, addresses: list[int]) -> list[str]:
    lines = [Line(BIAS + low, BIAS + end, str(program), offset, of=program) for low, end, offset in MAPPINGS]
    process(program.parent, 7, lines)
    with Symbolizer(proc_root=program.parent) as symbolizer:
        return [each.frames[-1].function if each.frames else "" for each in symbolizer.symbolize(7, addresses)]


def by_core(program: Path, addresses: list[int]) -> list[str]:
    head = program.read_bytes()[:0x1000]
    mapped = [forged.Mapped(BIAS, BIAS + 0x1000, str(program), 0, 4, head)]
    mapped += [forged.Mapped(BIAS + low, BIAS + end, str(program), offset, 5) for low, end, offset in MAPPINGS]
    file = program.parent / "core"
    file.write_bytes(forged.core(mapped))
    with Symbolizer() as symbolizer:
        return [each.frames[-1].function if each.frames else "" for each in symbolizer.symbolize(Core(file), addresses)]


def by_profile(program: Path, addresses: list[int], *, end_known: bool = True) -> list[str]:
    mappings = [
        Mapping(BIAS + low, BIAS + end if end_known else 0, offset, str(program), ID) for low, end, offset in MAPPINGS
    ]
    profile = ProfileData([SampleType("samples", "count")], mappings)
    for address in addresses:
        index = next(i for i, (low, end, _) in enumerate(MAPPINGS) if BIAS + low <= address < BIAS + end)
        profile.samples.add([profile.location(index, address)], [1])
    naming.name(profile, Locator())
    return [chain[-1].function if chain else "" for chain in profile.frames]


def by_columns(program: Path, addresses: list[int], *, lists: bool = False) -> list[str]:
    owners = [next(each for each in MAPPINGS if BIAS + each[0] <= address < BIAS + each[1]) for address in addresses]
    columns = {
        "build_id": pa.array([ID] * len(addresses)),
        "address": pa.array(addresses, pa.uint64()),
        "mapping_start": pa.array([BIAS + low for low, _, _ in owners], pa.uint64()),
        "mapping_offset": pa.array([offset for _, _, offset in owners], pa.uint64()),
    }
    if lists:
        columns["address"] = pa.array([[address] for address in addresses], pa.list_(pa.uint64()))
    with Namer(locator=Locator(files=[program], dirs=())) as namer:
        rows = namer(pa.record_batch(columns)).column("frames").to_pylist()
    return [row[-1]["function"] if row else "" for row in rows]


def by_filter(program: Path, addresses: list[int]) -> list[str]:
    lines = [Line(BIAS + low, BIAS + end, str(program), offset, of=program) for low, end, offset in MAPPINGS]
    with Places(Locator()) as places:
        places.learn(maps_text(lines))
        result = [places.at_runtime(address) for address in addresses]
    return [frames[-1].function if frames else "" for frames in result]


def test_two_executable_segments_on_one_page_give_one_answer_through_every_door(program: Path) -> None:
    addresses = [BIAS + vaddr + 0x10 for _, vaddr in SYMBOLS]
    names = [name for name, _ in SYMBOLS]
    assert by_pid(program, addresses) == names
    assert by_core(program, addresses) == names
    assert by_profile(program, addresses) == names
    assert by_profile(program, addresses, end_known=False) == names
    assert by_columns(program, addresses) == names
    assert by_columns(program, addresses, lists=True) == names
    assert by_filter(program, addresses) == names


def test_many_addresses_of_a_profile_are_placed_as_single_ones(program: Path) -> None:
    addresses = [BIAS + vaddr for vaddr in range(0x11000, 0x13000, 0x80)]
    assert by_profile(program, addresses) == [by_profile(program, [address])[0] for address in addresses]
