"""Call frame information as readelf interprets it, beside ours."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from whence.objects.elf import ElfFile
from whence.unwind.cfi import CallFrames, How, Rule
from whence.unwind.registers import X86_64

RA = 16
NAMES = {**{name: number for number, name in X86_64.names.items()}, "ra": RA}
FDE_LINE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)")
KINDS = {How.EXPRESSION: "exp", How.VAL_EXPRESSION: "vexp", How.UNDEFINED: "u", How.SAME: "s"}


def shown(rule: Rule | None) -> str:
    if rule is None:
        return "u"
    if rule.how in KINDS:
        return KINDS[rule.how]
    if rule.how is How.REGISTER:
        return f"r{rule.number}"
    return f"{'c' if rule.how is How.OFFSET else 'v'}{rule.number:+d}"


def rows_of_readelf(path: Path, which: str) -> Iterator[tuple[int, int, list[tuple[int, str, dict[int, str]]]]]:
    """(start, end, rows) of each FDE as `readelf --debug-dump=WHICH` interprets it."""
    done = subprocess.run(["readelf", f"--debug-dump={which}", "-W", str(path)], capture_output=True, text=True)
    fde: tuple[int, int, list[tuple[int, str, dict[int, str]]]] | None = None
    columns: list[str] = []
    for line in done.stdout.splitlines():
        if (match := FDE_LINE.match(line)) is not None:
            fde = int(match[1], 16), int(match[2], 16), []
            yield fde
        elif " CIE " in line:
            fde = None
        elif line.split()[:2] == ["LOC", "CFA"]:
            columns = line.split()[2:]
        elif fde is not None and re.match(r"^[0-9a-f]{16} ", line):
            start, cfa, *values = re.sub(r" \(\w+\)", "", line).split()  # "r5 (rdi)"
            fde[2].append((int(start, 16), cfa, {NAMES[name]: value for name, value in zip(columns, values)}))


def compared(path: Path, which: str = "frames-interp") -> int:
    """How many rows readelf and we agree on; any difference fails."""
    count = 0
    with ElfFile.open(path) as elf:
        frames = CallFrames.of_elf(elf)
        for start, end, rows in list(rows_of_readelf(path, which)):
            if start == end:
                continue
            fde = frames.find(start)
            assert fde is not None, hex(start)
            assert (fde.start, fde.end) == (start, end)
            for offset, cfa, values in rows:
                row = fde.row(offset)
                assert row.cfa is not None
                ours = "exp" if row.cfa.expression is not None else f"{X86_64.names[row.cfa.register]}+{row.cfa.offset}"
                assert ours == cfa, hex(offset)
                assert {number: shown(row.rules.get(number)) for number in values} == values, hex(offset)
                count += 1
    return count
