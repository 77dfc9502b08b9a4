"""What the records of a PDB file say about addresses, as llvm-pdbutil prints them: chains of functions and lines.

    python -m tests.oracle.pdb_records FILE.pdb ...

llvm-pdbutil decodes the records; how they make chains is written here a second time, plainly: a call is where its
annotations have a row, its line is that of the row, and the line of a function is that of its module's lines.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import whence

TOOLS = ("llvm-pdbutil-22", "llvm-pdbutil-19", "llvm-pdbutil")
MODULE = re.compile(r"^ *Mod (\d+) \| `(.*)`: *$")
PROCEDURE = re.compile(r"\| S_[GL]PROC32(?:_ID)? \[size = \d+\] `(.*)`$")
EXTENT = re.compile(r"addr = (\d+):(\d+), code size = (\d+)")
SITE = re.compile(r"inlinee = 0x([0-9A-F]+)(?: \((.*)\))?, parent")
END = re.compile(r"\| S_(INLINESITE_END|PROC_ID_END|END|INLINESITE|BLOCK32|THUNK32|SEPCODE) \[")
ANNOTATION = re.compile(r"^ +[0-9A-F]{2,} +(\S.*)$")
CODE = re.compile(r"\bcode 0x([0-9A-F]+)")
CODE_END = re.compile(r"\bcode end 0x([0-9A-F]+)")
LINE = re.compile(r"\bline -?\d+ \(([+-]\d+)\)")
BLOCK = re.compile(r"^ *([0-9A-F]{4}):([0-9A-F]{8})-([0-9A-F]{8}), line(?:/column)?/addr entries")
ENTRY = re.compile(r"(\d+|ASI|NSI)(?::\d+)?(?:-\d+(?::\d+)?)? ([0-9A-F]{8})")
INLINEE = re.compile(r"^ *0x([0-9A-F]+) \| +(\d+) \|")
HEADER = re.compile(r"^ *([0-9A-F]+) virtual address$")
Chain = list[tuple[str, int]]
NEAR = 8  # functions before an address that may contain it
ANY = "..."  # a name that llvm-pdbutil does not print; it cuts long ones so, too


@dataclass
class Site:
    """A function or an inlined call: its code as rows [start, end) with lines, and the calls inlined into it."""

    name: str
    start: int = 0
    rows: list[tuple[int, int, int]] = field(default_factory=list)  # start end line, of inlined calls
    sites: list[Site] = field(default_factory=list)


@dataclass
class ModuleRecords:
    """The functions and lines of a module: (start, end, function), and (start, end, [(start, line)])."""

    functions: list[tuple[int, int, Site]] = field(default_factory=list)
    lines: list[tuple[int, int, list[tuple[int, int]]]] = field(default_factory=list)


def dump(path: Path, *options: str) -> list[str]:
    """Return the lines that llvm-pdbutil prints."""
    tool = next((name for name in TOOLS if shutil.which(name)), "")
    if not tool:
        raise FileNotFoundError("llvm-pdbutil")
    done = subprocess.run([tool, "dump", *options, str(path)], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace").splitlines()


def by_module(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the lines of each module."""
    number, content = -1, list[str]()
    for line in lines:
        match = MODULE.match(line)
        if match is None:
            content.append(line)
            continue
        if number >= 0:
            yield number, content
        number, content = int(match[1]), []
    if number >= 0:
        yield number, content


class PdbRecords:
    """The records of a PDB file."""

    def __init__(self, path: Path) -> None:
        headers = map(HEADER.match, dump(path, "-section-headers"))
        self.sections = [0, *(int(match[1], 16) for match in headers if match is not None)]
        self.modules: dict[int, ModuleRecords] = {}
        first = {
            number: {int(match[1], 16): int(match[2]) for line in lines if (match := INLINEE.match(line))}
            for number, lines in by_module(dump(path, "-il"))
        }
        for number, lines in by_module(dump(path, "-symbols")):
            self.modules[number] = ModuleRecords(self._functions(lines, first.get(number, {})))
        for number, lines in by_module(dump(path, "-l")):
            self.modules[number].lines = [*self._lines(lines)]

    def _lines(self, lines: list[str]) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        block: tuple[int, int, list[tuple[int, int]]] | None = None
        base = 0
        for line in lines:
            match = BLOCK.match(line)
            if match is not None:
                if block is not None:
                    yield block
                base = self.sections[int(match[1], 16)]
                block = base + int(match[2], 16), base + int(match[3], 16), []
            elif block is not None and not line.endswith(")"):
                block[2].extend(
                    (base + int(entry[2], 16), int(entry[1]) if entry[1].isdecimal() else 0)
                    for entry in ENTRY.finditer(line.replace("!", " "))
                )
        if block is not None:
            yield block

    def _functions(self, lines: list[str], first: dict[int, int]) -> list[tuple[int, int, Site]]:
        functions, stack = list[tuple[int, int, Site]](), list[Site | None]()
        name, top, inlined, code, base, delta = "", None, None, 0, 0, 0
        for line in lines:
            if (match := PROCEDURE.search(line)) is not None:
                name, inlined = match[1], None
                stack.append(None)
            elif name and (match := EXTENT.search(line)) is not None:
                start = self.sections[int(match[1])] + int(match[2])
                stack[-1] = top = Site(name, start)
                if int(match[1]):  # not dropped by the linker
                    functions.append((start, start + int(match[3]), top))
                name, base = "", start
                limit = start + int(match[3])
            elif (match := SITE.search(line)) is not None:
                inlined = Site(match[2] or ANY, first.get(int(match[1], 16), 0))
                parent = next(site for site in reversed(stack) if site is not None)
                parent.sites.append(inlined)
                stack[-1] = inlined
                delta = 0
            elif (match := END.search(line)) is not None:
                inlined = None
                if match[1].endswith("END"):
                    if stack:
                        stack.pop()
                else:
                    stack.append(None)
            elif inlined is not None and (match := ANNOTATION.match(line)) is not None and "|" not in line:
                text = match[1]
                if (change := LINE.search(text)) is not None:
                    delta += int(change[1])
                begin, end = CODE.search(text), CODE_END.search(text)
                if begin is not None:
                    code = base + int(begin[1], 16)
                    self._close(inlined, code)
                    inlined.rows.append((code, limit, inlined.start + delta))
                if end is not None:
                    self._close(inlined, base + int(end[1], 16))
        return functions

    @staticmethod
    def _close(site: Site, end: int) -> None:
        """End the last row, unless it has ended."""
        if site.rows and site.rows[-1][1] > end:
            site.rows[-1] = site.rows[-1][0], max(end, site.rows[-1][0]), site.rows[-1][2]

    @staticmethod
    def chains(module: ModuleRecords, site: Site, rva: int) -> Iterator[Chain]:
        """Yield the chains of a function at an RVA, innermost first: with each of the module's lines there.

        Folded functions have the same code, each with lines of its own.
        """
        inner: Chain = []
        outer = site
        while True:
            inside = next(
                ((each, row[2]) for each in reversed(site.sites) for row in each.rows if row[0] <= rva < row[1]), None
            )
            if inside is None:
                break
            site = inside[0]
            inner.insert(0, (site.name, inside[1]))
        blocks = [rows for start, end, rows in module.lines if start <= rva < end]
        for rows in blocks or [[]]:
            before = [line for start, line in rows if start <= rva]
            yield [*inner, (outer.name, before[-1] if before else 0)]


@dataclass
class Comparison:
    """Counts of compared addresses and differences, by kind, with an example of each."""

    compared: int = 0
    ambiguous: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


def compare(path: Path) -> Comparison:
    """Compare whence's chains with those of the records, at every byte of every function."""
    result, records = Comparison(), PdbRecords(path)
    starts = sorted({(start, end) for module in records.modules.values() for start, end, _ in module.functions})
    index: dict[int, list[tuple[ModuleRecords, int, Site]]] = {}
    for module in records.modules.values():
        for start, end, site in module.functions:
            index.setdefault(start, []).append((module, end, site))
    keys = sorted(index)
    with whence.open(path) as binary:
        done = 0
        for start, end in starts:
            for rva in range(max(start, done), end):
                theirs = list[Chain]()
                for key in keys[max(0, bisect_right(keys, rva) - NEAR) : bisect_right(keys, rva)]:
                    for module, last, site in index[key]:
                        theirs += records.chains(module, site, rva) if rva < last else ()
                ours = [(frame.function, frame.line) for frame in binary.lookup(rva)]
                result.compared += 1
                result.ambiguous += any(each != theirs[0] for each in theirs)
                if not any(is_same(ours, each) for each in theirs):
                    kind = kind_of(ours, theirs[0])
                    result.differing[kind] += 1
                    result.examples.setdefault(kind, f"{rva:#x}: {ours}, records {theirs[0]}")
            done = max(done, end)
    return result


def is_same(ours: Chain, theirs: Chain) -> bool:
    """Compare chains; inlined functions have their bare names in the records."""
    return len(ours) == len(theirs) and all(
        mine[1] == other[1] and is_same_name(mine[0], other[0]) for mine, other in zip(ours, theirs, strict=True)
    )


def is_same_name(ours: str, theirs: str) -> bool:
    if theirs.endswith(ANY):
        start = theirs.removesuffix(ANY)
        return ours.startswith(start) or f"::{start}" in ours
    return ours == theirs or ours.endswith(f"::{theirs}")


def kind_of(ours: Chain, theirs: Chain) -> str:
    if not ours:
        return "no answer"
    if len(ours) != len(theirs):
        return "shorter chain" if len(ours) < len(theirs) else "longer chain"
    return "lines" if [line for _, line in ours] != [line for _, line in theirs] else "names"


def main(paths: list[str]) -> None:
    for path in paths:
        result = compare(Path(path))
        print(f"{path}: {result.compared} addresses, {result.ambiguous} of several functions, {dict(result.differing)}")
        for kind, example in result.examples.items():
            print(f"  {kind}: {example}")


if __name__ == "__main__":
    main(sys.argv[1:])
