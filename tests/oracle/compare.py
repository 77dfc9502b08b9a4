"""How far whence agrees with the other tools about a file, and what every difference is.

An address agrees when its whole chain (functions, files, lines) is what llvm-symbolizer says, or else what most of the
witnesses say. Names are compared as linkage names; two names of one symbol address are one, and so is a qualified name
and the bare one of tools that do not qualify.

    python -m tests.oracle.compare FILE [COUNT]
"""

from __future__ import annotations

import random
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pydemumble

from tests.oracle import ours, witnesses
from tests.oracle.witnesses import Call, Chain, Witness
from whence.demangle import demangle
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object


@dataclass
class Symbols:
    """Functions of a file's symbol table: where to ask, and which names lie over an address."""

    values: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, elf: ObjectFile) -> Symbols:
        table = elf.symbols(".symtab" if elf.has_symtab else ".dynsym")
        rows = sorted(
            (table.value[i], table.value[i] + table.size[i], table.name(i))
            for i in range(len(table))
            if table.info[i] & 15 in (2, 10) and table.section[i] and table.size[i]
        )
        return cls([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])

    def at(self, address: int) -> set[str]:
        result: set[str] = set()
        offset = bisect_right(self.values, address) - 1
        for back in range(offset, max(-1, offset - 64), -1):
            if address < self.ends[back]:
                result.add(self.names[back])
        return result


def differing_starts(plain: str, path: str, addresses: Sequence[int]) -> list[str]:
    """Return frames whose start line differs from that of llvm-symbolizer for the plain build: it prints the line of
    the declaration, whence only if the frame is in that file. Chains that differ otherwise are left out.

    If it names no file, or a relative file that is the end of our path, both answers are accepted."""
    out = []
    for address, theirs, frames in zip(
        addresses, witnesses.llvm_starts(plain, addresses), ours.frames(path, addresses)
    ):
        if len(theirs) != len(frames):
            continue
        for (_, file, line), frame in zip(theirs, frames, strict=True):
            current = witnesses.normal(frame.file)
            told = {line} if file == current else {0, line} if current.endswith(f"/{file}") or not file else {0}
            if frame.start_line not in told:
                out.append(f"{address:#x}: {frame} starts on {line} of {file or '?'}")
    return out


def sample(symbols: Symbols, regions: Sequence[tuple[int, int]], count: int, seed: int = 1) -> list[int]:
    """Addresses uniform over function bytes, or over code where there are no symbols."""
    chance = random.Random(seed)
    spans = list(zip(symbols.values, symbols.ends, strict=True)) or list(regions)
    total = 0
    starts = []
    for low, high in spans:
        starts.append(total)
        total += high - low
    result = []
    for _ in range(count if total else 0):
        offset = chance.randrange(total)
        span = bisect_right(starts, offset) - 1
        result.append(spans[span][0] + offset - starts[span])
    return result


NO_PARENTHESES = str.maketrans("", "", "()")  # demanglers put them around different parts of expressions


def same_name(one: str, other: str, symbols: set[str]) -> bool:
    """One function? `symbols` are the names that symbol tables have over the address."""
    if one == other or one.endswith((f"::{other}", f".{other}")) or other.endswith((f"::{one}", f".{one}")):
        return True
    first, second = readable(one), readable(other)
    if first.translate(NO_PARENTHESES) == second.translate(NO_PARENTHESES):
        return True
    if f"::{other}(".replace(" ", "") in first or first.startswith(f"{second}(") or second.startswith(f"{first}("):
        return True  # a bare name, or one without the parameters that symbolic adds to names of PDB files
    if not symbols & {one, other}:
        return False
    return symbols >= {one, other} or bare(one) == bare(other)


def readable(name: str) -> str:
    """A demangled name, as in name sections of WebAssembly, without spaces. symbolic removes an underscore from names
    of PE files, which compilers put there on 32-bit x86 only."""
    name = name.partition(".llvm.")[0]
    text = pydemumble.demangle(f"_{name}" if name.startswith(("ZN", "ZZ", "ZT", "ZS")) else name)
    return re.sub(r"\.1$", "", text or demangle(name)).replace(" ", "").removeprefix("_")


def bare(name: str) -> str:
    """A symbol's name without what compilers and linkers add: `.cold`, `.part.0`, `@GLIBC_2.2.5`, and without which
    of a constructor's bodies it is (DWARF may name their common origin, C4)."""
    return re.sub(r"(?<=[CD])[0-5](?=[EI])", "", name.partition(".")[0].partition("@")[0])


def same(one: Chain, other: Chain, symbols: set[str]) -> bool:
    """One answer? Only the outermost function may go by another of its symbols' names."""
    return len(one) == len(other) and all(
        same_place(a, b) and same_name(a.function, b.function, symbols if location == len(one) - 1 else set())
        for location, (a, b) in enumerate(zip(one, other, strict=True))
    )


def same_place(one: Call, other: Call) -> bool:
    """One file and line? A file without a line is a symbol table's (STT_FILE), which we do not show."""
    return one[1:] == other[1:] or (one.line == other.line == 0 and not (one.file and other.file))


def difference(mine: Chain, theirs: Chain) -> str:
    """The class of a difference, by the first thing that differs."""
    if not mine or not theirs:
        return "we say nothing" if not mine else "they say nothing"
    if len(mine) != len(theirs):
        return "we have fewer frames" if len(mine) < len(theirs) else "we have more frames"
    for a, b in zip(mine, theirs, strict=True):
        if a.file != b.file:
            return "no file here" if not a.file else "no file there" if not b.file else "another file"
        if a.line != b.line:
            return "another line"
    return "another function"


@dataclass
class Report:
    asked: int = 0
    like_llvm: int = 0
    like_most: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, dict[str, Chain]]] = field(default_factory=dict)

    def add(self, address: int, mine: Chain, chains: dict[str, Chain], symbols: set[str]) -> None:
        """Settle a difference from the first witness by the votes of all."""
        kind = difference(mine, next(iter(chains.values())))
        votes = sum(same(mine, chain, symbols) for chain in chains.values())
        others = [chain for chain in chains.values() if chain and not same(mine, chain, symbols)]
        against = max((sum(same(each, other, symbols) for other in others) for each in others), default=0)
        if votes > against or votes == against == 1:
            self.like_most += 1
            kind = f"(as most) {kind}"
        self.classes[kind] += 1
        self.examples.setdefault(kind, (address, {"whence": mine, **chains}))

    @property
    def agreement(self) -> float:
        return (self.like_llvm + self.like_most) / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.asked} addresses: {self.agreement:.3%} agree "
            f"({self.like_llvm} as llvm-symbolizer, {self.like_most} as most of the others)"
        ]
        for kind, count in self.classes.most_common():
            address, said = self.examples[kind]
            lines.append(f"  {count} {kind}, for instance {address:#x}")
            for who, chain in said.items():
                lines.append(f"    {who:9}" + " < ".join(f"{c.function} {c.file}:{c.line}" for c in chain))
        return "\n".join(lines)


def plain(chain: Chain) -> Chain:
    """A chain without frames that say nothing (a tool that knows nothing prints one of those)."""
    return tuple(call for call in chain if call.function or call.file)


def compare(
    path: str,
    addresses: Sequence[int],
    mine: Sequence[Chain],
    symbols: Symbols,
    asked_of: dict[str, Witness] | None = None,
) -> Report:
    """Ask the first witness about all addresses and the others where it disagrees."""
    report = Report(asked=len(addresses))
    mine = [plain(chain) for chain in mine]
    (first, ask), *others = (asked_of or witnesses.present()).items()
    said = [plain(chain) for chain in ask(path, addresses)]
    open_ = [i for i, address in enumerate(addresses) if not same(mine[i], said[i], symbols.at(address))]
    if first == "llvm" and open_:
        # The symbol table's name, which llvm-symbolizer puts over the outermost function's own, is not all it knows.
        short = ask(path, [addresses[i] for i in open_], "short")
        own = [(*said[i][:-1], chain[-1]) if said[i] else () for i, chain in zip(open_, short, strict=True)]
        open_ = [i for i, chain in zip(open_, own, strict=True) if not same(mine[i], chain, set())]
    report.like_llvm = len(addresses) - len(open_)
    asked = [addresses[i] for i in open_]
    rest = {name: ask(path, asked) if asked else [] for name, ask in others}
    for location, i in enumerate(open_):
        chains = {first: said[i], **{name: plain(result[location]) for name, result in rest.items()}}
        report.add(addresses[i], mine[i], chains, symbols.at(addresses[i]))
    return report


def compare_file(path: str, count: int, seed: int = 1, asked_of: dict[str, Witness] | None = None) -> Report:
    with open_object(path) as file:
        symbols = Symbols.of(file)
        regions = file.code_ranges()
    addresses = sample(symbols, regions, count, seed)
    chains = ours.answers(path, addresses)
    for address, said, kept in zip(addresses, chains, ours.from_archive(path, addresses), strict=True):
        if said != kept:
            raise AssertionError(f"{path} {address:#x}: the table says {said}, its archive {kept}")
    return compare(path, addresses, chains, symbols, asked_of)


if __name__ == "__main__":
    print(compare_file(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000))


def differing_files(data: bytes, count: int) -> list[tuple[int, list[tuple[str, str]], list[tuple[str, str]]]]:
    """Addresses where the Go package's reader gives other functions or files than whence's: (address, Go, whence)."""
    from tests.forge.go_reader import GoReader
    from whence import lidia

    reader = GoReader(data)
    out = []
    with lidia.from_bytes(data) as table:
        for address in reader.addresses(count):
            ours = [(frame.function, frame.file) for frame in table.lookup(address)]
            theirs = reader.lookup(address)
            if ours != theirs:
                out.append((address, theirs, ours))
    return out
