"""Object files and symbol files whose counts, offsets and sizes lie: 21 kinds of damage for each format.

A kind is one of the three sorts of numbers with one of seven values. Each number of the sort is damaged by itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.forge import breakpad, gsym, pdb
from tests.forge.lines import uleb
from tests.forge.macho import ARM64, X86_64, Symbol, debug_map, fat, forge, text
from tests.helpers import macho as macho_files
from tests.helpers import pe as pe_files
from tests.helpers.macho import BASE
from tests.helpers.wasm import whole_module
from whence.objects.macho import layout as macho_layout
from whence.objects.pe import layout as pe_layout

COUNT, OFFSET, SIZE = SORTS = ("count", "offset", "size")


class Number(NamedTuple):
    """A number of a file: where it is, and its struct format, or "leb", "hex", "decimal"."""

    sort: str
    offset: int
    form: str
    length: int = 0  # of the forms without a struct format, in bytes


def values(sort_of_size: int) -> dict[str, int]:
    """Seven values that a number of a file of that size may lie with."""
    most = (1 << 64) - 1
    return {
        "zero": 0, "one": 1, "most": most, "most but one": most - 1, "half of most": most >> 1,
        "the file's size": sort_of_size, "the file's size less one": sort_of_size - 1,
    }  # fmt: skip


def with_number(data: bytes, number: Number, value: int) -> bytes:
    """Return the file with another value; it has as many bits as fit, and texts become longer."""
    end = number.offset + number.length
    if number.form == "leb":
        padded = uleb(value & 0xFFFFFFFF).ljust(1, b"\0")
        return data[: number.offset] + padded + data[end:]
    if number.form in ("hex", "decimal"):
        text = f"{value:x}" if number.form == "hex" else str(value)
        return data[: number.offset] + text.encode() + data[end:]
    out = bytearray(data)
    bits = 8 * struct.calcsize(number.form)
    struct.pack_into(number.form, out, number.offset, value & (1 << bits) - 1)
    return bytes(out)


def damaged(data: bytes, numbers: Sequence[Number]) -> Iterator[tuple[str, bytes]]:
    """Yield each kind of damage and a file that has it, for each number of the kind's sort."""
    for number in numbers:
        for words, value in values(len(data)).items():
            yield f"{number.sort} {words}", with_number(data, number, value)


def of_structure(form: str, offset: int, sorts: str) -> Iterator[Number]:
    """Yield the numbers of a structure; `sorts` has a letter for each field: c, o, s, or another one for none."""
    order = form[0]
    for code, letter in zip(re.findall(r"(?:\d+s)|[BHIQhi]", form), sorts, strict=True):
        if letter in "cos":
            yield Number(SORTS["cos".index(letter)], offset, order + code)
        offset += struct.calcsize(order + code)


def macho(data: bytes) -> list[Number]:
    """The numbers of a 64-bit file."""
    numbers = [*of_structure("<IIIIIII", 0, "....cs.")]
    (count,) = struct.unpack_from("<I", data, 16)
    offset = macho_layout.HEADER_SIZE[64]
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, offset)
        numbers.append(Number(SIZE, offset + 4, "<I"))
        if command == macho_layout.LC_SEGMENT_64:
            numbers += of_structure("<" + macho_layout.SEGMENT[64], offset + 8, ".oses..c.")
            for row in range(offset + 72, offset + size, 80):
                numbers += of_structure("<" + macho_layout.SECTION[64], row, "..oso.oc....")
        elif command == macho_layout.LC_SYMTAB:
            numbers += of_structure("<IIII", offset + 8, "ocos")
        elif command == macho_layout.LC_FUNCTION_STARTS:
            numbers += of_structure("<II", offset + 8, "os")
        offset += size
    return numbers


def slices(data: bytes) -> list[Number]:
    """The numbers of a fat file, whose slices may overlap, nest or leave the file then."""
    (count,) = struct.unpack_from(">I", data, 4)
    numbers = [Number(COUNT, 4, ">I")]
    for index in range(count):
        numbers += of_structure(">IIIII", 8 + 20 * index, "..oss")
    return numbers


def pe(data: bytes) -> list[Number]:
    (header,) = struct.unpack_from("<I", data, pe_layout.HEADER_OFFSET)
    numbers = [Number(OFFSET, pe_layout.HEADER_OFFSET, "<I"), *of_structure(pe_layout.COFF, header + 4, ".c.ocs.")]
    _, sections, _, symbols, count, size, _ = struct.unpack_from(pe_layout.COFF, data, header + 4)
    optional = header + 24
    directories = optional + pe_layout.DIRECTORIES[pe_layout.PE32_PLUS]
    numbers += [Number(COUNT, directories - 4, "<I"), Number(SIZE, symbols + 18 * count, "<I")]
    for index in (pe_layout.EXPORTS, pe_layout.EXCEPTIONS, pe_layout.DEBUG):
        numbers += of_structure("<II", directories + 8 * index, "os")
    for index in range(sections):
        numbers += of_structure(pe_layout.SECTION, optional + size + 40 * index, ".sosoo.c..")
    return numbers


def coff(data: bytes) -> list[Number]:
    numbers = [*of_structure(pe_layout.COFF, 0, ".c.ocs.")]
    _, sections, _, symbols, count, _, _ = struct.unpack_from(pe_layout.COFF, data)
    numbers.append(Number(SIZE, symbols + 18 * count, "<I"))
    for index in range(sections):
        numbers += of_structure(pe_layout.SECTION, 20 + 40 * index, ".sosoo.c..")
    return numbers


def wasm(data: bytes) -> list[Number]:
    """Sizes of sections, and the numbers that their contents begin with, which are counts or lengths."""
    numbers = []
    offset = 8
    while offset < len(data):
        start = offset + 1
        end = start + next(index for index, byte in enumerate(data[start:]) if byte < 0x80) + 1
        size = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(data[start:end]))
        numbers += [Number(SIZE, start, "leb", end - start), Number(COUNT, end, "leb", 1)]
        numbers += [Number(OFFSET, number, "leb", 1) for number in range(end + 1, min(end + 12, end + size))]
        offset = end + size
    return numbers


def gsym_file(data: bytes) -> list[Number]:
    """The numbers of a file of version 1, and of its first function."""
    numbers = [*of_structure("<IHBBQIII", 0, "..ssocos")]
    count = struct.unpack_from("<I", data, 16)[0]
    infos = 48 + 4 * count
    first = struct.unpack_from("<I", data, infos)[0]
    numbers += [Number(OFFSET, 48, "<I"), Number(OFFSET, infos, "<I"), Number(COUNT, infos + 4 * count, "<I")]
    numbers += of_structure("<IIII", infos + 4 * count + 4, "oooo")
    return [*numbers, *of_structure("<IIII", first, "so.s")]


def breakpad_file(data: bytes) -> list[Number]:
    """The numbers of all records but MODULE, which are a count (of a file or a depth), an offset or a size."""
    numbers = []
    for line in re.finditer(rb"^(FUNC|INLINE|PUBLIC|FILE|INLINE_ORIGIN|)(?: m)? ?([0-9a-f]+(?: [0-9a-f]+)*)",
                            data, re.MULTILINE):  # fmt: skip
        words = [*re.finditer(rb"[0-9a-f]+", line[2])]
        for index, word in enumerate(words):
            in_hex = line[1] in (b"FUNC", b"PUBLIC") or (line[1] == b"" and index < 2) or index > 3
            sort = SORTS[(1, 2, 0)[index % 3]] if in_hex else COUNT
            numbers.append(Number(sort, line.start(2) + word.start(), "hex" if in_hex else "decimal", len(word[0])))
    return numbers


def pdb_file(data: bytes) -> list[Number]:
    """The numbers of the superblock, of the directory and of the headers that its streams begin with."""
    block, _, _, directory_size, _, map_block = struct.unpack_from("<6I", data, 32)
    numbers = [*of_structure("<IIIIII", 32, "socs.o"), Number(OFFSET, map_block * block, "<I")]
    directory = struct.unpack_from("<I", data, map_block * block)[0] * block
    (count,) = struct.unpack_from("<I", data, directory)
    numbers.append(Number(COUNT, directory, "<I"))
    sizes = struct.unpack_from(f"<{count}I", data, directory + 4)
    numbers += [Number(SIZE, directory + 4 + 4 * index, "<I") for index in range(count)]
    blocks = directory + 4 + 4 * count
    for size in sizes:
        if size and size != 0xFFFFFFFF and blocks < directory + directory_size:
            first = struct.unpack_from("<I", data, blocks)[0] * block
            numbers.append(Number(OFFSET, blocks, "<I"))
            numbers += [Number(SIZE, first + 4 * index, "<I") for index in range(min(size, 64) // 4)]
            blocks += 4 * -(-size // block)
    return numbers


def inputs() -> dict[str, tuple[bytes, list[Number]]]:
    """A whole file of each format, and its numbers."""
    program, dsym, linker_input = macho_files.program(), macho_files.dsym_of(), macho_files.object_file()
    functions = ("_outer", BASE, 0x40), ("_other", BASE + 0x40, 0x20)
    mapped = forge([text()], symbols=[*debug_map("/src/x.o", *functions, time=7), Symbol("_outer", BASE)])
    both = fat((X86_64, program), (ARM64, mapped))
    image, small = pe_files.image(), pe_files.object_file()
    module = whole_module()
    symbols = gsym.example(1, "little", 4).pack()
    debug_info = pdb.program().forge()
    return {
        "Mach-O": (program, macho(program)),
        "dSYM": (dsym, macho(dsym)),
        "object file of Mach-O": (linker_input, macho(linker_input)),
        "debug map": (mapped, macho(mapped)),
        "fat file": (both, slices(both)),
        "PE": (image, pe(image)),
        "COFF": (small, coff(small)),
        "WebAssembly": (module, wasm(module)),
        "GSYM": (symbols, gsym_file(symbols)),
        "Breakpad": (breakpad.example(), breakpad_file(breakpad.example())),
        "PDB": (debug_info, pdb_file(debug_info)),
    }
