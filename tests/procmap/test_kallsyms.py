"""Names of the kernel: only lines of functions are read, and an address has the nearest function below."""

from __future__ import annotations

import random
import re
from pathlib import Path

from whence.procmap.kallsyms import LONGEST, KernelNames

LINE = re.compile(rb"^([0-9a-fA-F]{1,16}) [tTwW] (\S+)(?:[ \t]+\[(\S+)\])?[ \t]*$", re.MULTILINE)
FIRST = re.compile(rb"^([0-9a-fA-F]{8,16}) [tT] (_text|_stext)$", re.MULTILINE)
PIECES = [
    b"ffffffff81000000", b"ffffffff81000010", b"ffffffffc0401000", b"0", b"00000000", b"fFfFfFfF80000000",
    b"12345678901234567",
        b" ", b" ", b"  ", b"\t", b"T", b"t", b"w", b"D", b"f", b"_text", b"_stext", b"name", b"[loop]",
    b"[]", b"[", b"[a]]",
    b"\n", b"\n", b"\n", b"\r", b"\x85", b"",
]  # fmt: skip
LINES = [
    b"ffffffff81000000 T _text\n", b"ffffffff81000000 T _stext\n", b"ffffffff81000010 t f\t[loop]\n",
    b"ffffffff81000010 W g\n",
    b"ffffffff81000020 t h [loop] \n", b"ffffffff81000005 D data\n", b"0000000000000000 T hidden\n",
]  # fmt: skip


def expected(data: bytes) -> tuple[dict[int, str], dict[str, int]]:
    first: dict[int, str] = {}
    for address, name, module in LINE.findall(data):
        text = name + (b" [" + module + b"]" if module else b"")
        first.setdefault(int(address, 16), text.decode("utf-8", "surrogateescape"))
    first.pop(0, None)
    return first, {name.decode(): offset for text, name in FIRST.findall(data) if (offset := int(text, 16))}


def same(data: bytes) -> int:
    first, begins = expected(data)
    names = KernelNames(data)
    assert (len(names), names.begins) == (len(first), begins)
    for address, name in first.items():
        assert names.lookup(address) == name
    if first:
        assert names.lookup(min(first) - 1) == names.lookup(max(first) + LONGEST) == ""
        assert names.lookup(max(first) + LONGEST - 1) == first[max(first)]
    return len(first)


def test_only_lines_of_functions_are_read() -> None:
    dice = random.Random(3)
    result = 0
    for _ in range(1000):
        result += same(b"".join(dice.choices(PIECES, k=dice.randrange(24))))
        result += same(b"".join(dice.choices([*LINES, *PIECES], k=dice.randrange(12))))
    assert result > 100


def test_the_running_kernel_has_names_if_addresses_are_readable() -> None:
    data = Path("/proc/kallsyms").read_bytes()
    assert same(data) == len({line[0] for line in LINE.findall(data)} - {b"0" * 16})


def test_an_address_between_two_functions_is_in_the_first() -> None:
    names = KernelNames(b"ffffffff81000010 t b\t[mod]\nffffffff81000000 T a\nffffffff81000000 T alias")
    assert [names.lookup(0xFFFFFFFF81000000 + offset) for offset in (-1, 0, 15, 16)] == ["", "a", "a", "b [mod]"]
