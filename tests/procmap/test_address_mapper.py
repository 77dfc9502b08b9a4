"""File offsets, vaddrs and runtime addresses, checked against a model of what the kernel maps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.forge.elf import Section, forge
from tests.forge.elf import Segment as ProgramHeader
from whence._base.errors import ElfError
from whence.objects.elf import Segment
from whence.procmap import AddressMapper, Mapping

PAGE = 4096


@pytest.mark.parametrize(
    ("segment", "file_offset", "vaddr"),
    [
        (Segment.of_code(0x1234, 0x400000, 0x2000), 0x1000, 0x3FFDCC),
        (Segment.of_code(0x1234, 0x400000, 0x2000), 0x1234, 0x400000),
        (Segment.of_code(0x1234, 0x400000, 0x2000), 0xFFF, None),
        (Segment.of_code(0x1234, 0x400000, 0x2000), 0x3233, 0x401FFF),
        (Segment.of_code(0x1234, 0x400000, 0x2000), 0x3234, None),
        (Segment.of_code(0x16EC0, 0x17EC0, 0x47460), 0x16000, 0x17000),
        (Segment.of_code(0x16EC0, 0x17EC0, 0x47460), 0x5E31F, 0x5F31F),
        (Segment.of_code(0x16EC0, 0x17EC0, 0x47460), 0x5E320, None),
        (Segment.of_code(0x1800, 0x400, 0x100), 0x1000, (0x400 - 0x800) % (1 << 64)),
        (Segment.of_code(0x21000, 0x31000, 0x100, 0x10000), 0x20000, 0x30000),
    ],
)
def test_an_offset_maps_to_its_vaddr(segment: Segment, file_offset: int, vaddr: int | None) -> None:
    assert AddressMapper.from_segments([segment]).file_offset_to_virtual_address(file_offset) == vaddr


def test_the_inverse_accepts_only_the_segments_own_bytes() -> None:
    mapper = AddressMapper.from_segments([Segment.of_code(0x1234, 0x400234, 0x2000)])
    assert mapper.virtual_address_to_file_offset(0x400234) == 0x1234
    assert mapper.virtual_address_to_file_offset(0x402233) == 0x3233
    assert mapper.virtual_address_to_file_offset(0x402234) is None
    assert mapper.virtual_address_to_file_offset(0x400233) is None


def test_two_segments_on_one_page_are_distinguished_by_the_mapping() -> None:
    first, second = Segment.of_code(0x1000, 0x1000, 0x800), Segment.of_code(0x1800, 0x2800, 0x900)
    mapper = AddressMapper.from_segments([first, second])
    low = Mapping("/a", 0x7000, 0x8000, 0x1000)
    high = Mapping("/a", 0x8000, 0xA000, 0x1000)
    assert mapper.vaddr(low, 0x7010) == 0x1010
    assert mapper.vaddr(low, 0x7810) == 0x1810  # bytes of the second segment, mapped after the first
    assert mapper.vaddr(high, 0x8010) == 0x2010
    assert mapper.vaddr(high, 0x8810) == 0x2810
    assert mapper.file_offset_to_virtual_address(0x1010) == 0x1010
    assert mapper.file_offset_to_virtual_address(0x1810) == 0x2810


def test_a_mapping_without_a_segment_has_no_runtime_addresses() -> None:
    mapper = AddressMapper.from_segments([Segment.of_code(0x1000, 0x1000, 0x800)])
    assert mapper.runtime(Mapping("/a", 0x10000, 0x90000, 0x40000), 0x1000) is None


def mapped(segment: Segment, bias: int) -> Mapping:
    """Return what the kernel maps for a segment: whole pages, at the bias."""
    before = segment.vaddr % PAGE
    start = segment.vaddr - before + bias
    size = before + segment.file_size
    return Mapping("/a", start, start + size + -size % PAGE, segment.file_offset - before)


@st.composite
def programs(draw: st.DrawFn) -> list[Segment]:
    """Segments as linkers lay them out: ascending, offset and vaddr equal modulo the page, apart in memory."""
    segments = []
    offset, vaddr = draw(st.integers(0, 3 * PAGE)), draw(st.sampled_from([0, 0x1000, 0x400000]))
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 4 * PAGE))
        vaddr += -vaddr % PAGE + draw(st.integers(0, 3)) * PAGE + offset % PAGE
        segments.append(Segment.of_code(offset, vaddr, size, PAGE))
        offset += size + draw(st.sampled_from([0, 0, 16, PAGE, 5000]))
        vaddr += size
    return segments


@given(programs(), st.integers(0, 1 << 34), st.data())
def test_every_runtime_address_maps_to_the_vaddr_that_the_kernel_loaded(
    segments: list[Segment], pages: int, data: st.DataObject
) -> None:
    bias = pages * PAGE
    mapper = AddressMapper.from_segments(segments)
    segment = data.draw(st.sampled_from(segments))
    mapping = mapped(segment, bias)
    twins = [s for s in segments if mapped(s, bias)[2:4] != mapping[2:4] and mapped(s, bias).offset == mapping.offset]
    assume(all(mapped(twin, bias).size != mapping.size for twin in twins))  # then nothing could tell
    runtime = data.draw(st.integers(mapping.start, mapping.limit - 1))
    assert mapper.vaddr(mapping, runtime) == runtime - bias
    inside = segment.vaddr <= runtime - bias < segment.vaddr + segment.file_size
    if inside:
        assert mapper.runtime(mapping, runtime - bias) == runtime
        back = mapper.virtual_address_to_file_offset(runtime - bias)
        assert back == mapping.file_offset_of(runtime)


def test_only_executable_loaded_segments_count(tmp_path: Path) -> None:
    code, data = (
        Section(".text", b"\x90" * 64, vaddr=0x401000, flags=6),
        Section(".data", b"d" * 64, vaddr=0x8000, flags=3),
    )
    path = tmp_path / "program"
    path.write_bytes(
        forge(
            [code, data],
            [ProgramHeader(1, 5, of=".text"), ProgramHeader(1, 6, of=".data"), ProgramHeader(2, 5, of=".data")],
        )
    )
    mapper = AddressMapper(path)
    (segment,) = mapper.segments
    assert (segment.vaddr, segment.file_size) == (0x401000, 64)
    assert mapper.file_offset_to_virtual_address(segment.file_offset) == 0x401000


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(9)])
def test_a_file_that_is_not_elf_is_an_elf_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ElfError):
        AddressMapper(path)
    with pytest.raises(FileNotFoundError):
        AddressMapper(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        AddressMapper(tmp_path)
