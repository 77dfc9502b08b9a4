"""The memory map at the end of gperftools' profiles, and the mapping of each address.

Lines have the form of /proc/PID/maps, or a shorter form of other tools:

    START-END PERM OFFSET DEVICE INODE PATH             7f31c000-7f31d000 r-xp 00001000 08:01 77  /lib/libz.so.1
    START-END [PERM] PATH [(@OFFSET)] [BUILD-ID]        0x40000-0x80000 /path/to/binary (@FF00) abc123456
    KEY=VALUE                                           replaces $KEY in the lines that follow

The prefix of a logger (`file:line] `) is removed; mappings that are not executable, and other lines, are ignored. Some
writers print mappings that do not cover their own code. They are corrected as google/pprof does: a mapping whose start
minus its offset is 0x400000 starts there; huge pages before the program are left out; an address below a mapping, by no
more than its offset, is in the mapping.
Reference: github.com/google/pprof, profile/legacy_profile.go.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from whence._base.budget import Budget
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Mapping

SENTINELS = ("--- Memory map: ---", "MAPPED_LIBRARIES:")
HEX = r"(?:0x)?([0-9a-fA-F]{1,16})"
RANGE = rf"\s*{HEX}[\s-]?\s*{HEX}:?"
PERM = r"(?:\s+([-rwxps]+))?"
PROC = re.compile(rf"{RANGE}{PERM}\s+([0-9a-fA-F]{{1,16}})\s+[0-9a-fA-F]+:[0-9a-fA-F]+\s+\d+(?:\s+(\S.*))?$")
BRIEF = re.compile(rf"{RANGE}{PERM}(?:\s+(\S+))?(?:\s+\(@([0-9a-fA-F]{{1,16}})\))?(?:\s+([0-9a-fA-F]+))?")
LOGGED = re.compile(r"[^\[\]]+:[0-9]+\]\s")
MAX_LINE = 1 << 12  # characters
MAX_NAMES = 20  # that are replaced in later lines
PROGRAM_START = 0x400000
HUGE_PAGES = "/anon_hugepage"
LIMIT = 1 << 64


def is_sentinel(line: str) -> bool:
    """Return True if the memory map starts after this line."""
    return any(sentinel in line for sentinel in SENTINELS)


def read(lines: Iterable[str], budget: Budget) -> list[Mapping]:
    """Return the executable mappings, in the order of the lines."""
    names: dict[str, str] = {}
    out = []
    for full_line in lines:
        line = full_line[:MAX_LINE]
        logged = LOGGED.match(line)
        if logged is not None:
            line = line[logged.end() :]
        for key, value in names.items() if "$" in line else ():
            line = line.replace(f"${key}", value)[:MAX_LINE]
        mapping = entry(line)
        if mapping is not None:
            budget.charge(bounds.MAPPING)
            out.append(mapping)
        elif "=" in line and not BRIEF.match(line) and len(names) < MAX_NAMES:
            key, _, value = line.partition("=")
            if key.strip():
                names[key.strip()] = value.strip()
    return out


def entry(line: str) -> Mapping | None:
    """Return the executable mapping of a line; None for other lines.

    >>> entry("7f31c000-7f31d000 r-xp 00001000 08:01 77  /lib/libz.so.1").path
    '/lib/libz.so.1'
    >>> entry("0x40000-0x80000: /path/to/binary (@FF00) abc123456")
    <Mapping 0x40000-0x80000 r-xp 0xff00 /path/to/binary>
    """
    line = line.rstrip()
    match = PROC.match(line)
    if match is not None:
        start, end, perm, offset, path = match.groups()
        build_id = ""
    else:
        match = BRIEF.match(line)
        if match is None:
            return None
        start, end, perm, path, offset, build_id = match.groups()
    low, high = int(start, 16), int(end, 16)
    if (perm and "x" not in perm) or low >= high:
        return None
    return Mapping(low, high, int(offset or "0", 16), path or "", build_id or "")


def corrected(mappings: Sequence[Mapping]) -> list[Mapping]:
    """Return the mappings with known errors of writers corrected."""
    out = list(mappings)
    if len(out) > 1 and out[0].path.startswith(HUGE_PAGES) and out[0].limit == out[1].start:
        del out[0]
    if out and out[0].start - out[0].file_offset == PROGRAM_START:
        out[0] = out[0]._replace(start=PROGRAM_START, offset=0)
    return out


def assign(addresses: array[int], mappings: list[Mapping]) -> array[int]:
    """Return the index of each address's mapping, or NO_MAPPING.

    A mapping is extended downwards, by its offset at most, for an address below it.
    """
    order = sorted(range(len(mappings)), key=lambda index: mappings[index].start)
    starts = [mappings[index].start for index in order]
    out = array("q", [NO_MAPPING]) * len(addresses)
    for row, address in enumerate(addresses):
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < mappings[order[index]].limit:
            out[row] = order[index]
        elif index + 1 < len(order) and address:
            above = mappings[order[index + 1]]
            if above.file_offset and above.start - above.file_offset <= address:
                start = above.start - above.file_offset
                mappings[order[index + 1]] = above._replace(start=start, offset=0)
                starts[index + 1] = start
                out[row] = order[index + 1]
    return out
