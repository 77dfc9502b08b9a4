"""pprof profiles: read whole, written with only their names changed, refused with the rule they break."""

from __future__ import annotations

import gzip
import itertools
import random
import zlib
from array import array

import pytest

from tests.forge import pprof as forge
from tests.helpers.profiles import made
from tests.helpers.survive import survives
from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import gz, pprof
from whence.profiles.formats.schema import PPROF
from whence.samples import wire
from whence.samples.kernels import encode
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType
from whence.samples.wire import Messages

INNER = Frame("inner", "/src/a.c", 12, True, start_line=10)
OUTER = Frame("outer", "", 30)


def top(data: bytes, number: int) -> list[bytes]:
    """Payloads of one field of a message."""
    result = Messages.from_bytes(data, "profile").field(number, "field")
    return [result.raw(i) for i in range(len(result))]


def test_reads_mappings_locations_frames_samples_and_labels() -> None:
    profile = pprof.read(forge.small())
    assert profile.sample_types == [SampleType("cpu", "nanoseconds")]
    assert profile.mappings == [Mapping(0x400000, 0x500000, 0x1000, "/bin/app", "ab12")]
    assert list(profile.mapping) == [0, 0, NO_MAPPING]
    assert list(profile.address) == [0x401000, 0x402000, 0xFFFF]
    assert profile.frames == [(), (INNER, OUTER), ()]
    samples = profile.samples
    assert [list(samples.locations(i)) for i in (0, 1)] == [[0, 1], [2, 1]]
    assert list(samples.values[0]) == [10, -5]
    assert samples.labels == [(Label("thread", "main"),), ()]


def test_writes_a_profile_without_new_names_byte_for_byte() -> None:
    data = forge.small(wire.payload(99, b"from the future"))
    assert pprof.write(pprof.read(data)) == data


def test_naming_changes_only_locations_functions_strings_and_flags() -> None:
    data = forge.small(wire.payload(99, b"from the future"))
    profile = pprof.read(data)
    leaf = Frame("leaf", "/src/b.c", 3, True, start_line=2)
    profile.name(0, (leaf, Frame("outer", "", 4)))
    out = pprof.write(profile)
    assert [top(out, n) for n in (1, 2, 99)] == [top(data, n) for n in (1, 2, 99)]
    assert top(out, 4)[1:] == top(data, 4)[1:]
    assert top(out, 5)[:2] == top(data, 5)
    assert top(out, 6)[:10] == top(data, 6)
    assert top(out, 6)[10:] == [b"leaf", b"/src/b.c"]
    assert top(out, 3)[0] == top(data, 3)[0] + bytes.fromhex("3801400148015001")
    again = pprof.read(out)
    assert again.frames == [(leaf, Frame("outer", "", 4)), (INNER, OUTER), ()]


def test_new_frames_replace_only_the_lines_of_a_location() -> None:
    profile = pprof.read(forge.small())
    profile.name(1, (Frame("other", "", 1),))
    out = pprof.write(profile)
    assert top(top(out, 4)[1] and out, 4)[1].endswith(bytes.fromhex("2204") + bytes([8, 9, 16, 1]))
    assert Messages.from_bytes(top(out, 4)[1], "location").table(6)[5] == 1  # is_folded stays
    assert pprof.read(out).frames[1] == (Frame("other", "", 1),)


def test_a_function_named_in_many_locations_is_written_once() -> None:
    profile = pprof.read(forge.small())
    profile.name(0, (Frame("same", "f.c", 1),))
    profile.name(2, (Frame("same", "f.c", 2),))
    assert len(top(pprof.write(profile), 5)) == 3


def test_shared_and_equal_chains_are_written_equally() -> None:
    shared, equal = pprof.read(forge.small()), pprof.read(forge.small())
    chain = (INNER, OUTER)
    for location in range(3):
        shared.name(location, chain)
        equal.name(location, (INNER._replace(), OUTER._replace()))
    assert pprof.write(shared) == pprof.write(equal)
    assert pprof.read(pprof.write(shared)).frames == [chain] * 3


def test_duplicate_strings_in_the_table_do_not_shift_the_new_ones() -> None:
    profile = pprof.read(forge.small(forge.strings("cpu", "cpu")))
    profile.name(0, (Frame("fresh", "new.c", 1),))
    assert pprof.read(pprof.write(profile)).frames[0] == (Frame("fresh", "new.c", 1),)


def test_a_profile_made_from_its_model_reads_back_equal() -> None:
    first = pprof.read(forge.small())
    full = ProfileData(first.sample_types, first.mappings, first.mapping, first.address, first.frames)
    full.load = first.load
    again = pprof.read(pprof.write(full))
    for name in ("sample_types", "mappings", "mapping", "address", "frames", "samples"):
        assert getattr(again, name) == getattr(first, name), name


def test_ids_may_be_sparse_and_in_any_order() -> None:
    data = b"".join(
        (
            forge.strings("", "a", "b"),
            forge.sample_type(),
            forge.location(1 << 63, 77, 5),
            forge.location(3, 9, 6),
            forge.mapping(77, 1, 2),
            forge.mapping(9, 3, 4),
            forge.sample([3, 1 << 63], [1]),
        )
    )
    profile = pprof.read(data)
    assert list(profile.samples.stack) == [1, 0]
    assert list(profile.mapping) == [0, 1]


def test_reads_gzip_of_several_members_and_writes_one() -> None:
    data = forge.small()
    packed = gz.deflated(data[:50]) + gz.deflated(data[50:])
    assert zlib.decompress(pprof.write(pprof.read(packed)), 31) == data


BROKEN = {
    'string_table: the first string is "x", must be ""': forge.strings("x"),
    "sample_type 0: unit 2 is out of range: string_table has 2 strings": forge.strings("", "a") + forge.sample_type(),
    "mapping 0: filename 3 is out of range: string_table has 1 strings": forge.strings("")
    + forge.mapping(1, 0, 0, 0, 3),
    "mapping 0: the id is 0": forge.strings("") + forge.mapping(0, 0, 0),
    "mapping: duplicate id 2": forge.strings("") + 2 * forge.mapping(2, 0, 0),
    "function: duplicate id 1": forge.strings("") + 2 * forge.function(1, 0),
    "location: duplicate id 1": forge.strings("") + 2 * forge.location(1, 0, 0),
    "location: unknown mapping_id 5": forge.strings("") + forge.location(1, 5, 0),
    "line: unknown function_id 6": forge.strings("") + forge.location(1, 0, 0, (6, 1)),
    "sample: unknown location_id 4": forge.small(forge.sample([4], [1])),
    "sample 2: 2 values for 1 sample types": forge.small(forge.sample([1], [1, 2])),
    "label 1: key 99 is out of range: string_table has 10 strings": forge.small(forge.sample([1], [1], (99, 0, 0))),
    "comment 0: index 10 is out of range: string_table has 10 strings": forge.small(wire.packed(13, [10])),
    "drop_frames: index 10 is out of range: string_table has 10 strings": forge.small(wire.number(7, 10)),
    "doc_url: index 10 is out of range: string_table has 10 strings": forge.small(wire.number(15, 10)),
    "profile+0x0: unknown wire type: 0b": b"\x0b",
    "profile+0x0: a field has the number 0: 00": b"\x00",
    "profile+0x0: a field extends past the end of its message: 0a 05": b"\x0a\x05",
    "gzip+0x14: the file ends before the end of the stream": gz.deflated(forge.small())[:20],
}


@pytest.mark.parametrize("problem", BROKEN)
def test_rejects_malformed_profiles(problem: str) -> None:
    with pytest.raises(ProfileError) as caught:
        pprof.read(BROKEN[problem])
    assert str(caught.value).startswith(f"profile {problem}")


def test_truncated_profiles_raise_profile_error_or_are_read() -> None:
    data = forge.small()
    for size in range(len(data)):
        profile = survives(pprof.read, data[:size], refused=ProfileError)
        if profile is not None:
            survives(len, profile.samples, refused=())


def test_time_for_many_gzip_members_is_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = bytes(range(256)) * 100
    packed = b"".join(gzip.compress(plain[offset : offset + 8]) for offset in range(0, len(plain), 8))
    original, read = zlib.decompressobj, []

    class Counting:
        """The decompressor of zlib, which copies the data after the end of its member."""

        def __init__(self, wbits: int) -> None:
            self.real = original(wbits=wbits)

        def decompress(self, piece: bytes, limit: int) -> bytes:
            read.append(len(piece))
            return self.real.decompress(piece, limit)

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    monkeypatch.setattr(gz, "fastest_zlib", lambda: zlib)
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert gz.inflated(packed + bytes(512)) == plain
    assert len(read) == len(plain) // 8
    assert sum(read) < len(packed) + len(read) * 2 * gz.MEMBER_BYTES
    with pytest.raises(ProfileError, match="unknown data after the last member"):
        gz.inflated(packed + b"rest")


def test_a_gzip_bomb_stops_at_the_limit() -> None:
    budget = Budget("file", "parts", 1000, times=2, allowance=0)
    with pytest.raises(ProfileError, match="decompresses to more than 1000 bytes"):
        gz.inflated(gz.deflated(bytes(5000)), budget)


def test_parts_compressed_on_threads_are_one_stream() -> None:
    data = bytes(range(256)) * (5 * gz.PART_BYTES // 512)
    packed = gz.deflated(data)
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(packed) == data
    assert reader.eof
    assert not reader.unused_data
    assert gz.deflated(data) == packed
    assert zlib.decompress(gz.deflated(b""), 31) == b""


def test_locations_are_written_as_their_schema_says() -> None:
    dice = random.Random(4)
    numbers = [0, 1, 127, 128, 1 << 14, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    fields = 4, 1, 2, 3, 4, 1, 2
    for _ in range(200):
        mapping = array("q", dice.choices([-1, 0, 1, 126, 127, 1 << 40], k=dice.randrange(6)))
        address = array("Q", dice.choices(numbers, k=len(mapping)))
        chains = [
            dice.choices([(each, other) for each in numbers for other in numbers], k=dice.randrange(4)) for _ in address
        ]
        first = array("Q", [0, *itertools.accumulate(map(len, chains))])
        function, line = (array("Q", [row[offset] for chain in chains for row in chain]) for offset in (0, 1))
        expected = b""
        for row, chain in enumerate(chains):
            lines = [{"function_id": each, "line": other} for each, other in chain]
            location = {"id": row + 1, "mapping_id": mapping[row] + 1, "address": address[row], "line": lines}
            expected += wire.payload(4, PPROF.encoded(location, "Location"))
        assert bytes(encode.locations(mapping, address, first, function, line, fields)) == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_checks_samples_in_parts_with_one_result(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    data = pprof.encoded(made())
    once = pprof.read(data)
    monkeypatch.setattr(pprof, "PART_BYTES", 16)
    monkeypatch.setattr("whence._base.cores.available", lambda: threads)
    result = pprof.read(data)
    assert (list(result.samples.stack), result.samples.values) == (list(once.samples.stack), once.samples.values)
    unknown = wire.payload(2, wire.packed(1, [99]) + wire.packed(2, [1, 1]))
    with pytest.raises(ProfileError, match="unknown location_id 99"):
        pprof.read(data + unknown)
    short = wire.payload(2, wire.packed(1, [1]) + wire.packed(2, [1]))
    with pytest.raises(ProfileError, match=f"sample {len(once.samples)}: .*2 sample types"):
        pprof.read(data + short)


def test_a_large_profile_without_samples_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof, "PART_BYTES", 1)
    monkeypatch.setattr("whence._base.cores.available", lambda: 2)
    profile = pprof.read(wire.payload(1, b"") + b"".join(wire.payload(6, b"") for _ in range(100)))
    assert len(profile.samples) == 0
