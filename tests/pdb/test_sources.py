"""Source files in PDB files, and the addresses of source servers and of Source Link."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

import whence
from tests.forge.pdb import CHECKSUMS, Module, Pdb, lines, names_stream, procedure, subsection
from whence.listing.sources import SourceOptions
from whence.objects.pdb import PdbFile
from whence.pdb.sources import ENTRY, LONGEST, PdbSources

PATH = "C:\\src\\main.c"
TEXT = b"int main(void)\n{\n    return 0;\n}\n"
SERVER = """SRCSRV: ini ------------------------------------------------
VERSION=2
SRCSRV: variables ------------------------------------------
BASE=https://example.com/%var3%
SRCSRVTRG=%base%/%fnfile%(%var1%)?at=%fnbksl%(%var2%)
SRCSRV: source files ---------------------------------------
c:\\src\\main.c*a/b*rev7
SRCSRV: end ------------------------------------------------
"""


def with_checksum(**named: bytes) -> Pdb:
    """A file with the MD5 of main.c, and streams."""
    files = [PATH, "main.c"]
    _, offsets = names_stream(files)
    md5 = hashlib.md5(TEXT, usedforsecurity=False).digest()
    checks = subsection(CHECKSUMS, struct.pack("<IBB", offsets[PATH], len(md5), 1) + md5)
    module = Module(procedure("main", 0, 0x40), checks + lines(0, 0x40, [(0, 1), (8, 3)]), [(1, 0, 0x40)])
    return Pdb([module], files=files, named={name.replace("__", "/"): data for name, data in named.items()})


def header_block(compression: int = 0) -> bytes:
    _, offsets = names_stream([PATH, "main.c"])
    entry = struct.pack(ENTRY, 40, 19980827, 0, len(TEXT), offsets[PATH], 0, offsets["main.c"], compression, 1, 0)
    table = struct.pack("<IIIIII", 1, 2, 1, 1, 0, 7) + entry
    return struct.pack("<IIQI44x", 19980827, 64 + len(table), 0, 1) + table


def sources(pdb: Pdb) -> PdbSources:
    return PdbSources(PdbFile.from_bytes(pdb.forge()))


def test_injected_files_and_checksums_are_found_by_path() -> None:
    result = sources(with_checksum(__src__headerblock=header_block(), **{"__src__files__main.c": TEXT}))
    facts = result.facts([PATH, "other.c"])
    assert [*facts] == [PATH]
    assert facts[PATH].text == TEXT
    assert facts[PATH].md5 == hashlib.md5(TEXT, usedforsecurity=False).hexdigest()


def test_compressed_files_are_left_out() -> None:
    result = sources(with_checksum(__src__headerblock=header_block(101), **{"__src__files__main.c": TEXT}))
    assert result.facts([PATH])[PATH].text is None


def test_a_listing_has_the_text_of_an_injected_file_or_of_a_verified_one(tmp_path: Path) -> None:
    data = with_checksum(__src__headerblock=header_block(), **{"__src__files__main.c": TEXT}).forge()
    with whence.open(data) as binary:
        assert "return 0" in str(binary.listing("main", lines=True))
    for name, text in (("right", TEXT), ("wrong", TEXT + b"//")):
        folder = tmp_path / name / "src"
        folder.mkdir(parents=True)
        (folder / "main.c").write_bytes(text)
        with whence.open(with_checksum().forge()) as binary:
            options = SourceOptions(folders=(str(folder.parent),))
            listed = str(binary.listing("main", lines=True, sources=options))
        assert ("return 0" in listed) == (name == "right")


def test_addresses_of_a_source_server_are_expanded() -> None:
    result = sources(with_checksum(srcsrv=SERVER.encode()))
    assert result.address(PATH) == "https://example.com/rev7/main.c?at=a\\b"
    assert result.address("C:\\src\\other.c") == ""


def test_addresses_of_source_link_keep_the_rest_of_the_path() -> None:
    link = json.dumps({"documents": {"C:\\src\\*": "https://x/*?raw", "C:\\one.c": "https://y/one"}}).encode()
    result = sources(with_checksum(**{"sourcelink$1": link}))
    assert result.address("c:\\SRC\\a\\B.c") == "https://x/a/B.c?raw"
    assert result.address("C:\\one.c") == "https://y/one"
    assert result.address("D:\\one.c") == ""


@pytest.mark.parametrize(
    "named",
    [
        {"srcsrv": b"SRCSRV: variables -\nSRCSRVTRG=" + b"%a%" * 2000 + b"\na=" + b"%a%" * 2000 + b"\n"
                   b"SRCSRV: source files -\nC:\\src\\main.c\n"},
        {"sourcelink$1": b'{"documents": {"*": "' + b"*" * 5000 + b'"}}'},
        {"sourcelink$1": b"[" * 100_000},
        {"sourcelink$1": b'{"documents": 5}'},
        {"__src__headerblock": b"\xff" * 100},
        {"__src__headerblock": header_block()[:100]},
    ],
)  # fmt: skip
def test_damaged_or_endless_data_has_no_or_a_short_address(named: dict[str, bytes]) -> None:
    result = sources(with_checksum(**named))
    assert len(result.address(PATH)) <= LONGEST
    assert result.facts([PATH])[PATH].text is None
