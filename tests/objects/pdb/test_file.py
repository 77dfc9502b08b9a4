"""PDB files as streams and tables: forged ones, and damaged ones."""

from __future__ import annotations

import random
import struct

import pytest

import whence
from tests.forge.mutations import mutated
from tests.forge.pdb import DATA, GUID, TEXT, Pdb, msf, program, public
from whence._base.errors import ObjectError, PdbError, Unsupported, WhenceError
from whence.objects.elf.function_symbols import functions
from whence.objects.ids import DebugId
from whence.objects.opening import is_magic, object_of_bytes
from whence.objects.pdb import PdbFile, layout
from whence.objects.pdb.msf import Msf

GUID_TEXT = "23222120252427262829 2a2b2c2d2e2f".replace(" ", "")
FASTLINK = 0x494E494D


def test_streams_are_read_from_consecutive_and_from_scattered_blocks() -> None:
    streams = [b"", b"one", b"two" * 1000, b"", b"four" * 128]
    for scattered in (False, True):
        data = memoryview(msf(streams, 512, scattered=scattered))
        container = Msf(data)
        assert [bytes(container.stream(number)) for number in range(len(streams))] == streams
        assert (container.stream(2).obj is data.obj) is not scattered  # a view needs no memory
    assert bytes(Msf(memoryview(msf(streams, 32768))).stream(2)) == streams[2]


def test_a_stream_that_does_not_exist_is_empty() -> None:
    container = Msf(memoryview(msf([b"", b"one"])))
    assert not len(container.stream(2))
    assert not len(container.stream(-1))


def test_identity_sections_and_machine_are_those_of_the_program() -> None:
    with object_of_bytes(program().forge()) as file:
        assert isinstance(file, PdbFile)
        assert (file.format, file.build_id, file.debug_id) == ("PDB", GUID_TEXT, DebugId(GUID_TEXT, 1))
        assert [(section.name, section.vaddr, section.size) for section in file.sections[1:]] == [TEXT[:3], DATA[:3]]
        assert file.details["debug id"] == GUID_TEXT.upper() + "1"
        assert file.has_debug_info
        assert file.bits == 64
    with object_of_bytes(Pdb(machine=0x14C).forge()) as file:
        assert file.bits == 32
        assert file.details["architecture"] == "i386"


def test_the_age_is_that_of_the_dbi_stream() -> None:
    with object_of_bytes(Pdb(age=2, file_age=7).forge()) as file:
        assert file.debug_id.age == 2
        assert file.details["age of the PDB"] == "7"


def test_public_symbols_are_named_in_sections_of_code() -> None:
    for machine, names in ((0x8664, ["_main", "?f@@YAXXZ"]), (0x14C, ["main", "?f@@YAXXZ"])):
        symbols = public("_main", 0x10) + public("?f@@YAXXZ", 0x20) + public("datum", 0, section=2, flags=0)
        with object_of_bytes(Pdb(publics=symbols, machine=machine).forge()) as file:
            table = functions(file)
            assert [table.strings.text(name) for name in table.function] == names
            assert [*table.vaddr] == [0x1010, 0x1020]
            assert len(file.symbols()) == 4


def test_vaddrs_follow_the_image_base_once_it_is_known() -> None:
    with PdbFile.from_bytes(program().forge()) as file:
        assert file.sections[1].vaddr == 0x1000
        assert file.image_base == 0
        file.rebase(0x140000000)
        assert file.image_base == 0x140000000
        assert file.sections[1].vaddr == file.segments[0].vaddr == 0x140001000
        assert functions(file).vaddr[0] == 0x140001010


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (Pdb(features=[FASTLINK]).forge(), "/DEBUG:FASTLINK, whose symbols are in the object files"),
        (b"BSJB" + bytes(60), "portable PDB file of .NET"),
        (b"MSCF" + bytes(60), "a cabinet"),
        (b"MSFZ" + bytes(60), "compressed PDB"),
        (layout.OLD_MAGIC.ljust(100, b"\0"), "version 2"),
    ],
)
def test_files_of_other_kinds_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        object_of_bytes(data, "x.pdb")


def test_only_pdb_files_are_object_files_by_their_first_bytes() -> None:
    assert is_magic(program().forge()[:4])
    assert is_magic(b"BSJB")
    assert not is_magic(b"MSCF")


def test_claims_of_terabytes_are_refused_in_the_superblock() -> None:
    plain = program().forge()
    for change, reason in (
        ({"count": 1 << 31}, "blocks of 512 bytes, the file has"),
        ({"directory_size": 1 << 31}, "the directory has"),
        ({"directory_size": 2}, "the directory has"),
        ({"block_map": 1 << 30}, "block map"),
        ({"size": 1 << 30}, "power of two"),
        ({"size": 513}, "power of two"),
        ({"size": 0}, "power of two"),
    ):
        with pytest.raises(PdbError, match=reason):
            object_of_bytes(program().forge(**change))
    for end in (3, 30, 40, 100, len(plain) // 2):
        with pytest.raises(ObjectError):
            object_of_bytes(plain[:end])


def directory_of(data: bytes) -> tuple[int, list[int]]:
    """The offset of the directory (in one block) and its words."""
    size, _, block_map = struct.unpack_from("<III", data, 44)
    offset = struct.unpack_from("<I", data, 512 * block_map)[0] * 512
    return offset, [*struct.unpack_from(f"<{size // 4}I", data, offset)]


def test_streams_of_shared_outside_and_missing_blocks_are_refused_alone() -> None:
    data = msf([b"", b"a" * 1500, b"b" * 1500, b"c"])
    offset, words = directory_of(data)
    first_block = 1 + words[0]
    assert first_block + 7 == len(words)
    for index, value, broken, reason in (
        (first_block + 3, words[first_block], 2, "another stream has the same block"),
        (first_block + 1, words[first_block], 1, "another stream has the same block"),
        (first_block + 4, 1 << 31, 2, "outside of the file"),
        (2, 0xFFFFFFFE, 1, "the directory ends before"),
        (4, 1 << 31, 3, "the directory ends before"),
    ):
        changed = bytearray(data)
        struct.pack_into("<I", changed, offset + 4 * index, value)
        container = Msf(memoryview(bytes(changed)))
        with pytest.raises(PdbError, match=reason):
            container.stream(broken)
        if broken == 2:
            assert bytes(container.stream(1)) == b"a" * 1500
            assert bytes(container.stream(3)) == b"c"


def test_a_directory_of_one_repeated_block_is_refused() -> None:
    data = bytearray(msf([b"x" * 512] * 200))
    size, _, block_map = struct.unpack_from("<III", data, 44)
    assert size > 1024
    first = struct.unpack_from("<I", data, 512 * block_map)[0]
    struct.pack_into("<I", data, 512 * block_map + 4, first)
    with pytest.raises(PdbError, match="listed twice"):
        Msf(memoryview(bytes(data)))


def test_every_flipped_bit_of_the_headers_costs_no_more_than_the_file() -> None:
    data = program().forge()
    for bit in range(8 * 56):
        changed = bytearray(data)
        changed[bit >> 3] ^= 1 << (bit & 7)
        try:
            with whence.open(bytes(changed)) as binary:
                binary.lookup(0x1020)
        except WhenceError:
            pass


def test_damaged_files_raise_errors_of_whence_or_name_something() -> None:
    rng = random.Random(37)
    data = program().forge()
    answered = 0
    for _ in range(1500):
        try:
            with whence.open(mutated(data, rng)) as binary:
                answered += bool(binary.lookup(0x1020) or binary.lookup(0x1010))
                assert all(isinstance(problem, str) for problem in binary.problems)
        except WhenceError:
            continue
    assert answered > 100


def test_the_guid_is_spelled_as_microsoft_does() -> None:
    assert bytes.fromhex("202122232425262728292a2b2c2d2e2f") == GUID
    assert GUID_TEXT == "23222120252427262829" + "2a2b2c2d2e2f"
