"""Source lines of BPF programs, from the BPF_PROG_INFO and BPF_BTF features of a recording.

    BPF_PROG_INFO   u32 count, then for each program (struct perf_bpil of tools/perf/util/bpf-utils.h):
                    u32 size of the info, u32 size of the data, u64 arrays that are present,
                    struct bpf_prog_info (include/uapi/linux/bpf.h), whose pointers are offsets in the data, the data
    BPF_BTF         u32 count, then for each: u32 id, u32 size, BTF (include/uapi/linux/btf.h)

The kernel's record of a loaded function (KSYMBOL) has its address and the name bpf_prog_TAG_NAME. A program's info has
the addresses, sizes and tags of its functions. For each line of the source it has a struct bpf_line_info (offsets of
file and text in the strings of its BTF, line and column), and the address of the first instruction in machine code.

Perf writes the info of the programs that were loaded when the recording began and of programs loaded later. A damaged
entry ends its section; programs before it keep their lines.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from whence._base.window import cstring

ENTRY = "IIQ"  # before struct bpf_prog_info
INFO_FIELDS = (
    ("type", "I"), ("id", "I"), ("tag", "8s"), ("jited_prog_len", "I"), ("xlated_prog_len", "I"),
    ("jited_prog_insns", "Q"), ("xlated_prog_insns", "Q"), ("load_time", "Q"), ("created_by_uid", "I"),
    ("nr_map_ids", "I"), ("map_ids", "Q"), ("name", "16s"), ("ifindex", "I"), ("flags", "I"), ("netns_dev", "Q"),
    ("netns_ino", "Q"), ("nr_jited_ksyms", "I"), ("nr_jited_func_lens", "I"), ("jited_ksyms", "Q"),
    ("jited_func_lens", "Q"), ("btf_id", "I"), ("func_info_rec_size", "I"), ("func_info", "Q"), ("nr_func_info", "I"),
    ("nr_line_info", "I"), ("line_info", "Q"), ("jited_line_info", "Q"), ("nr_jited_line_info", "I"),
    ("line_info_rec_size", "I"), ("jited_line_info_rec_size", "I"), ("nr_prog_tags", "I"), ("prog_tags", "Q"),
)  # fmt: skip
INFO = "".join(form for _, form in INFO_FIELDS)
INFO_SIZE = struct.calcsize(f"={INFO}")
LINE_INFO = "IIII"  # insn_off, file_name_off, line_off, line_col
LINE_INFO_SIZE = struct.calcsize(LINE_INFO)
COLUMN_BITS = 10  # of line_col
ADDRESS_SIZE = 8
TAG_SIZE = 8
BTF_HEADER = "HBBIIIII"  # magic, version, flags, hdr_len, type_off, type_len, str_off, str_len
BTF_MAGIC = 0xEB9F
LONGEST_PATH = 4096
PATHS_TIMES, PATHS_ALLOWANCE = 8, 1 << 24  # bytes of distinct paths for each byte of BTF
PROGRAM_NAME = re.compile(r"bpf_prog_(?P<tag>[0-9a-f]{16})(?:_|$)")


class BpfLine(NamedTuple):
    """The source of an instruction: file, line, column, and the first line of its function."""

    file: str
    line: int
    column: int
    start_line: int


class BpfProgram(NamedTuple):
    """The line infos of a program as stored, and the id of the BTF with their strings.

    From each of `addresses` (ascending) on, the machine code is of the line info with the index in `infos`.
    """

    btf_id: int
    order: str
    line_info: memoryview
    record_size: int
    addresses: array[int]
    infos: array[int]

    def info(self, row: int) -> tuple[int, int, int, int]:
        """Return the fields of the line info in a row of `infos`."""
        offset = self.infos[row] * self.record_size
        return struct.unpack_from(f"{self.order}{LINE_INFO}", self.line_info, offset)


class BpfFunction(NamedTuple):
    """The end of a function in machine code, and its rows [first, last) of the program's line infos."""

    end: int
    first: int
    last: int
    program: BpfProgram


class BpfLines:
    """The lines of all programs of a recording, by the address and the tag of each function."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, str], BpfFunction] = {}
        self._strings: dict[int, memoryview] = {}  # by id of the BTF
        self._paths: dict[tuple[int, int], str] = {}  # by id of the BTF and offset
        self._path_bytes = PATHS_ALLOWANCE  # that may still be read

    def __bool__(self) -> bool:
        return bool(self._functions)

    def read_programs(self, data: bytes, order: str) -> None:
        """Read the section BPF_PROG_INFO. Raises ValueError or struct.error for a damaged entry."""
        for info, content in entries(memoryview(data), order):
            self._add(info, content, order)

    def _add(self, info: dict[str, int], content: memoryview, order: str) -> None:
        starts = numbers(content, order, "Q", info["jited_ksyms"], info["nr_jited_ksyms"])
        sizes = numbers(content, order, "I", info["jited_func_lens"], info["nr_jited_func_lens"])
        tags = part(content, info["prog_tags"], info["nr_prog_tags"] * TAG_SIZE)
        lines = info["nr_line_info"]
        record_size = info["line_info_rec_size"]
        if not lines or info["nr_jited_line_info"] != lines or info["jited_line_info_rec_size"] != ADDRESS_SIZE:
            return
        if record_size < LINE_INFO_SIZE:
            raise ValueError("records of line infos are too small")
        addresses = numbers(content, order, "Q", info["jited_line_info"], lines)
        infos = array("I", sorted(range(lines), key=addresses.__getitem__))
        ordered = array("Q", map(addresses.__getitem__, infos))
        line_info = part(content, info["line_info"], lines * record_size)
        program = BpfProgram(info["btf_id"], order, line_info, record_size, ordered, infos)
        for number, (start, size) in enumerate(zip(starts, sizes)):
            tag = bytes(tags[number * TAG_SIZE : (number + 1) * TAG_SIZE]).hex()
            first, last = bisect_left(ordered, start), bisect_left(ordered, start + size)
            if first < last:
                self._functions[start, tag] = BpfFunction(start + size, first, last, program)

    def read_btf(self, data: bytes, order: str) -> None:
        """Read the section BPF_BTF. Raises ValueError or struct.error for a damaged entry."""
        view = memoryview(data)
        (count,) = struct.unpack_from(f"{order}I", view)
        offset = 4
        for _ in range(count):
            number, size = struct.unpack_from(f"{order}II", view, offset)
            content = part(view, offset + 8, size)
            self._strings[number] = btf_strings(content)
            self._path_bytes += PATHS_TIMES * size
            offset += 8 + size

    def line(self, start: int, name: str, address: int) -> BpfLine | None:
        """Return the source of an address in the function that begins at `start` and has the kernel's name."""
        match = PROGRAM_NAME.match(name)
        function = self._functions.get((start, match["tag"])) if match is not None else None
        if function is None or not start <= address < function.end:
            return None
        program = function.program
        row = bisect_right(program.addresses, address, function.first, function.last) - 1
        if row < function.first:
            return None
        _, file, _, position = program.info(row)
        _, first_file, _, first_position = program.info(function.first)
        path = self._path(program.btf_id, file)
        if not path:
            return None
        start_line = first_position >> COLUMN_BITS if first_file == file else 0
        return BpfLine(path, position >> COLUMN_BITS, position & (1 << COLUMN_BITS) - 1, start_line)

    def _path(self, btf_id: int, offset: int) -> str:
        """Return the path at an offset of the strings of a BTF; "" if it is missing, or the paths are too many."""
        path = self._paths.get((btf_id, offset))
        if path is None:
            strings = self._strings.get(btf_id, memoryview(b""))
            raw = cstring(strings[: offset + LONGEST_PATH], offset)
            self._path_bytes -= len(raw)
            path = raw.decode("utf-8", "surrogateescape") if self._path_bytes >= 0 else ""
            self._paths[btf_id, offset] = path
        return path


def entries(view: memoryview, order: str) -> Iterator[tuple[dict[str, int], memoryview]]:
    """Yield the info and the data of each program. Raises ValueError or struct.error for a damaged entry."""
    (count,) = struct.unpack_from(f"{order}I", view)
    offset = 4
    for _ in range(count):
        info_size, data_size, _ = struct.unpack_from(f"{order}{ENTRY}", view, offset)
        offset += struct.calcsize(f"={ENTRY}")
        head = bytes(part(view, offset, info_size))[:INFO_SIZE].ljust(INFO_SIZE, b"\0")  # older kernels have less
        offset += info_size
        content = part(view, offset, data_size)
        offset += data_size
        values = struct.unpack(f"{order}{INFO}", head)
        yield dict(zip((name for name, _ in INFO_FIELDS), values, strict=True)), content


def part(view: memoryview, offset: int, size: int) -> memoryview:
    """Return bytes of a section. Raises ValueError if they are not all in it."""
    if offset + size > len(view):
        raise ValueError("truncated entry")
    return view[offset : offset + size]


def numbers(content: memoryview, order: str, form: str, offset: int, count: int) -> tuple[int, ...]:
    """Return an array of the data. Raises ValueError if it is not all in it."""
    return struct.unpack(f"{order}{count}{form}", part(content, offset, count * struct.calcsize(f"={form}")))


def btf_strings(content: memoryview) -> memoryview:
    """Return the strings of BTF of either byte order. Raises ValueError or struct.error if the header is damaged."""
    order = "<" if content[:2] == BTF_MAGIC.to_bytes(2, "little") else ">"
    magic, _, _, header_size, _, _, offset, size = struct.unpack_from(f"{order}{BTF_HEADER}", content)
    if magic != BTF_MAGIC:
        raise ValueError("not BTF")
    return part(content, header_size + offset, size)
