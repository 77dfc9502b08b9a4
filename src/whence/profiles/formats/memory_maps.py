"""The memory map at the end of gperftools' profiles, and what became of each address of a stack in it.

Lines are those of /proc/PID/maps, or shorter ones that other tools wrote:

    START-END PERM OFFSET DEVICE INODE PATH             7f31c000-7f31d000 r-xp 00001000 08:01 77  /lib/libz.so.1
    START-END [PERM] PATH [(@OFFSET)] [BUILD-ID]        0x40000-0x80000 /path/to/binary (@FF00) abc123456
    KEY=VALUE                                           replaces $KEY in the lines that follow

A prefix that a logger put there (`file:line] `) is cut, what is not executable is left out, other lines mean nothing.
Writers are known to print maps that do not cover their own code; these are mended as google/pprof does: a map that lies
as far behind 0x400000 as its offset says begins there; huge pages in front of the program are left out; an address
right below a map, but not further than its offset, is in it.
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
LONGEST = 1 << 12  # characters of a line: no path has more
MOST_NAMES = 20  # that are replaced in later lines
PROGRAM_START = 0x400000
HUGE_PAGES = "/anon_hugepage"
LIMIT = 1 << 64


def is_sentinel(line: str) -> bool:
    """Whether the memory map begins behind this line."""
    return any(one in line for one in SENTINELS)


def read(lines: Iterable[str], budget: Budget) -> list[Mapping]:
    """The executable mappings that lines list, in their order."""
    names: dict[str, str] = {}
    out = []
    for whole in lines:
        line = whole[:LONGEST]
        logged = LOGGED.match(line)
        if logged is not None:
            line = line[logged.end() :]
        for key, value in names.items() if "$" in line else ():
            line = line.replace(f"${key}", value)[:LONGEST]
        mapping = entry(line)
        if mapping is not None:
            budget.charge(bounds.MAPPING)
            out.append(mapping)
        elif "=" in line and not BRIEF.match(line) and len(names) < MOST_NAMES:
            key, _, value = line.partition("=")
            if key.strip():
                names[key.strip()] = value.strip()
    return out


def entry(line: str) -> Mapping | None:
    """The mapping of a line; None where it has none that is executable.

    >>> entry("7f31c000-7f31d000 r-xp 00001000 08:01 77  /lib/libz.so.1").path
    '/lib/libz.so.1'
    >>> entry("0x40000-0x80000: /path/to/binary (@FF00) abc123456")
    <Mapping 0x40000-0x80000 r-xp 0xff00 /path/to/binary>
    """
    line = line.rstrip()
    found = PROC.match(line)
    if found is not None:
        start, end, perm, offset, path = found.groups()
        build_id = ""
    else:
        found = BRIEF.match(line)
        if found is None:
            return None
        start, end, perm, path, offset, build_id = found.groups()
    low, high = int(start, 16), int(end, 16)
    if (perm and "x" not in perm) or low >= high:
        return None
    return Mapping(low, high, int(offset or "0", 16), path or "", build_id or "")


def mended(mappings: Sequence[Mapping]) -> list[Mapping]:
    """The mappings with what writers are known to get wrong put right."""
    out = list(mappings)
    if len(out) > 1 and out[0].path.startswith(HUGE_PAGES) and out[0].limit == out[1].start:
        del out[0]
    if out and out[0].start - out[0].file_offset == PROGRAM_START:
        out[0] = out[0]._replace(start=PROGRAM_START, offset=0)
    return out


def place(addresses: array[int], mappings: list[Mapping]) -> array[int]:
    """The index of each address's mapping, or NO_MAPPING; a mapping may grow down over what lies before its offset."""
    order = sorted(range(len(mappings)), key=lambda index: mappings[index].start)
    starts = [mappings[index].start for index in order]
    out = array("q", [NO_MAPPING]) * len(addresses)
    for row, address in enumerate(addresses):
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < mappings[order[at]].limit:
            out[row] = order[at]
        elif at + 1 < len(order) and address:
            above = mappings[order[at + 1]]
            if above.file_offset and above.start - above.file_offset <= address:
                begin = above.start - above.file_offset
                mappings[order[at + 1]] = above._replace(start=begin, offset=0)
                starts[at + 1] = begin
                out[row] = order[at + 1]
    return out
