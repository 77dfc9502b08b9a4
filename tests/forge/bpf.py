"""Forge the features of perf.data about BPF programs: struct bpf_prog_info with its arrays, and BTF."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from whence.perfdata.bpf import BTF_HEADER, BTF_MAGIC, INFO, INFO_FIELDS

JITED_KSYMS, FUNC_LENS, FUNC_INFO, LINE_INFO, JITED_LINE_INFO, PROG_TAGS = 3, 4, 5, 6, 7, 8  # bits of arrays
INT, FUNC, FUNC_PROTO = 1, 12, 13  # kinds of BTF


class Function(NamedTuple):
    """A function: address, size, tag, and its lines as (address, file, line, column)."""

    start: int
    size: int
    tag: str
    lines: Sequence[tuple[int, str, int, int]]


class Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        offset = self.data.find(b"\0" + text.encode() + b"\0") + 1
        if not offset:
            offset = len(self.data)
            self.data += text.encode() + b"\0"
        return offset


def btf(strings: Strings, order: str = "<") -> bytes:
    """BTF with a function `int probe(void)`."""
    types = struct.pack(f"{order}IIII", strings.add("int"), INT << 24, 4, 32)
    types += struct.pack(f"{order}III", 0, FUNC_PROTO << 24, 1)
    types += struct.pack(f"{order}III", strings.add("probe"), FUNC << 24, 2)
    head = struct.pack(f"{order}{BTF_HEADER}", BTF_MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings.data))
    return head + types + strings.data


def program(
    functions: Sequence[Function], strings: Strings, *, btf_id: int = 9, order: str = "<", info_size: int = 232,
    wrong: Mapping[str, int] | None = None,
) -> bytes:  # fmt: skip
    """An entry of BPF_PROG_INFO; `wrong` replaces fields of the info."""
    data = b""
    fields: dict[str, object] = {name: b"" if form.endswith("s") else 0 for name, form in INFO_FIELDS}
    lines = [line for function in functions for line in function.lines]
    arrays = {
        "jited_ksyms": struct.pack(f"{order}{len(functions)}Q", *(each.start for each in functions)),
        "jited_func_lens": struct.pack(f"{order}{len(functions)}I", *(each.size for each in functions)),
        "func_info": struct.pack(
            f"{order}{2 * len(functions)}I", *(word for i in range(len(functions)) for word in (i, 3))
        ),
        "line_info": b"".join(
            struct.pack(f"{order}IIII", number, strings.add(file), 0, line << 10 | column)
            for number, (_, file, line, column) in enumerate(lines)
        ),
        "jited_line_info": struct.pack(f"{order}{len(lines)}Q", *(address for address, *_ in lines)),
        "prog_tags": b"".join(bytes.fromhex(each.tag) for each in functions),
    }
    for name, content in arrays.items():
        fields[name] = len(data)
        data += content + bytes(-len(content) % 8)
    fields |= {
        "type": 5, "id": 4, "btf_id": btf_id, "nr_jited_ksyms": len(functions), "nr_jited_func_lens": len(functions),
        "func_info_rec_size": 8, "nr_func_info": len(functions), "nr_line_info": len(lines),
        "nr_jited_line_info": len(lines), "line_info_rec_size": 16, "jited_line_info_rec_size": 8,
        "nr_prog_tags": len(functions), "name": b"probe", "tag": bytes.fromhex(functions[0].tag), **(wrong or {}),
    }  # fmt: skip
    info = struct.pack(f"{order}{INFO}", *(fields[name] for name, _ in INFO_FIELDS)).ljust(info_size, b"\0")[:info_size]
    bits = sum(1 << bit for bit in (JITED_KSYMS, FUNC_LENS, FUNC_INFO, LINE_INFO, JITED_LINE_INFO, PROG_TAGS))
    return struct.pack(f"{order}IIQ", len(info), len(data), bits) + info + data


def programs(entries: Sequence[bytes], order: str = "<") -> bytes:
    return struct.pack(f"{order}I", len(entries)) + b"".join(entries)


def types(entries: dict[int, bytes], order: str = "<") -> bytes:
    out = struct.pack(f"{order}I", len(entries))
    for number, content in entries.items():
        out += struct.pack(f"{order}II", number, len(content)) + content
    return out
