"""PDB files whose few bytes claim much work."""

from __future__ import annotations

import struct

from tests.forge import pdb as forge
from tests.forge.pdb import (
    CHECKSUM,
    FIRST,
    Module,
    Pdb,
    annotate,
    checksums,
    class_type,
    function_id,
    inline_site,
    inlinees,
    member_id,
    names_stream,
    procedure,
)

FILES = ["a.c", "b.h"]
NAMES = [names_stream(FILES)[1][name] for name in FILES]


def of_function(inside: bytes, size: int) -> bytes:
    text = checksums(NAMES) + inlinees([(FIRST, CHECKSUM, 1)])
    module = Module(procedure("f", 0, size, inside), text, [(1, 0, size)])
    return Pdb([module], ids=[function_id("g"), function_id("h")], files=FILES).forge()


def many_pieces(size: int) -> bytes:
    """A call of many pieces, each of them under many calls that cover all of it."""
    pieces = annotate(*[("part", 1, 1)] * size)
    inner = b"".join(inline_site(FIRST + 1, annotate(("code", 0), ("length", 0x7FFF))) for _ in range(size))
    return of_function(inline_site(FIRST, pieces, inner), 0x7FFF)


def deep_calls(size: int) -> bytes:
    """Calls inside each other."""
    site = b""
    for _ in range(size):
        site = inline_site(FIRST, annotate(("code", 1), ("length", 0x100)), site)
    return of_function(site, 0x200)


def long_scopes(size: int) -> bytes:
    """Many functions of a class with a long name."""
    ids = [member_id("f", FIRST) for _ in range(size)]
    sites = b"".join(inline_site(FIRST + index, annotate(("code", 1), ("length", 1))) for index in range(size))
    module = Module(procedure("f", 0, 0x100, sites), b"", [(1, 0, 0x100)])
    return Pdb([module], types=[class_type("x" * 60000)], ids=ids).forge()


def folded(size: int) -> bytes:
    """Functions and line programs that all have the same code."""
    text = checksums(NAMES) + b"".join(forge.lines(0, 0x1000, [(index % 0x1000, index)]) for index in range(size))
    module = Module(b"".join(procedure(f"f{index}", 0, 0x1000) for index in range(size)), text, [(1, 0, 0x1000)])
    return Pdb([module], files=FILES).forge()


def sources() -> dict[str, bytes]:
    """Named streams of an injected source file, source server data and Source Link."""
    _, offsets = names_stream([])
    assert not offsets
    entry = struct.pack("<7IBBH8x", 40, 19980827, 0, 5, 0, 0, 0, 0, 0, 0)
    table = struct.pack("<IIIII", 1, 2, 1, 1, 0) + struct.pack("<I", 0) + entry
    header = struct.pack("<IIQI44x", 19980827, 64 + len(table), 0, 1)
    server = (
        "SRCSRV: ini ----\r\nVERSION=2\r\nSRCSRV: variables ----\r\nSRCSRVTRG=http://x/%var2%\r\n"
        "SRCSRV: source files ----\r\nC:\\src\\main.c*main.c\r\nSRCSRV: end ----\r\n"
    )
    link = b'{"documents": {"C:\\\\src\\\\*": "https://example.com/*"}}'
    return {
        "/src/headerblock": header + table, "/src/files/": b"int x", "srcsrv": server.encode(), "sourcelink$1": link,
    }  # fmt: skip
