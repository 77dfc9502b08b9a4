"""Guess where a position-independent program was loaded, from the raw addresses of a log that does not say it.

Most addresses of stacks are return addresses: a call ends there. A program is loaded at whole pages, so an address
keeps its offset in the page, and each call of the program that ends at this offset makes a base possible. The base that
most addresses agree on is taken if chance does not explain it.

1. For each address, find the calls that end at its offset in a page of code; each is a vote for a base.
2. Of each base with votes, count the addresses that are inside the code with it, and how many of them follow calls.
3. Accept the base with most calls if a base at random would reach as many with a probability below MOST_CHANCE over all
   bases, and no other base for these addresses has nearly as many. Take its addresses away and repeat: a log may have
   several processes.

Intel SDM, volume 2, CALL; Arm ARM, BL and BLR; RISC-V ISA manual, JAL, JALR and C.JALR.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import comb
from typing import NamedTuple

from whence._base.errors import Unsupported, WhenceError
from whence.filter.forms import ANY_ADDRESS, FORMS, Back, Holds
from whence.filter.matching import FormIndex
from whence.objects.interface import ObjectFile
from whence.objects.machines import EM_386, EM_AARCH64, EM_RISCV, EM_X86_64, machine_name

PAGE = 4096
MOST_READ = 1 << 16  # distinct addresses of a log
MOST_ADDRESSES = 256  # of these that vote; a log repeats itself
MOST_LOOKS = 1 << 21  # at code: pages times addresses
MOST_BASES = 1 << 20  # that have votes
MOST_PROCESSES = 16  # bases of one log
MOST_CHANCE = 1e-4
FEWEST = 3  # calls of a base
MARGIN = 2  # calls that the next best base has less
LONGEST_CALL = 7  # bytes
SHOWN_BASES = 3
EVERY_NEEDLE = (1 << 64) - 1
LINE_BYTES = 1 << 16  # longer lines are not read

ARM_SIZE, HALF = 4, 2  # bytes of an instruction
BL, BL_BITS, BL_MASK, BL_SIGN = 0b100101, 26, 0x3FFFFFF, 0x2000000
BLR, BLR_MASK = 0xD63F0000, 0xFFFFFC1F
BLRA, BLRA_MASK = 0xD63F0800, 0xFEFFF800  # BLRAA and the like
JAL_RA, JALR_RA, JAL_MASK = 0x0EF, 0x0E7, 0xFFF
C_JALR, C_JALR_MASK, C_JALR_REGISTER = 0x9002, 0xF07F, 0x0F80
DIRECT, DIRECT_SIZE = 0xE8, 5
INDIRECT = re.compile(
    rb"\xff(?:[\xd0-\xd7]|[\x10-\x13\x16\x17]|\x14.|\x15.{4}|[\x50-\x53\x55-\x57].|\x54..|[\x90-\x93\x95-\x97].{4}"
    rb"|\x94.{5})\Z",
    re.DOTALL,
)


class LoadBase(NamedTuple):
    """A base: what is added to a file's vaddrs.

    calls: addresses that follow calls.
    inside: addresses in the code.
    addresses: all addresses that were considered.
    next_calls: calls of the next best base that would put the code at some of these addresses.
    possible: number of bases with any call.
    """

    base: int
    calls: int
    inside: int
    addresses: int
    next_calls: int
    possible: int

    def __str__(self) -> str:
        return (
            f"{self.base:#x}: {self.calls} of {self.inside} addresses in its code follow calls; "
            f"the next best of {self.possible:,} bases has {self.next_calls}"
        )


class BaseUnknown(WhenceError):
    """The addresses do not say where the file was loaded."""


def raw_addresses(blocks: Iterable[bytes], *, every: bool = False) -> list[int]:
    """Return the distinct runtime addresses in frames of a log, or with `every` all addresses, in its order."""
    index = FormIndex((*FORMS, ANY_ADDRESS) if every else FORMS)
    addresses: dict[int, None] = {}
    rest = b""
    for block in blocks:
        text = rest + block
        end = text.rfind(b"\n") + 1
        rest = text[end:] if len(text) - end <= LINE_BYTES else b""
        _collect(index, text[:end], addresses)
    _collect(index, rest + b"\n", addresses)
    return list(addresses)


def _collect(index: FormIndex, text: bytes, addresses: dict[int, None]) -> None:
    numbers = iter(index.needles.lines(text, EVERY_NEEDLE).numbers())
    for start, end, present in zip(numbers, numbers, numbers, strict=True):
        line = text[start:end] if end - start <= LINE_BYTES else b""
        for matcher in index.with_needles(present):
            if matcher.form.holds is Holds.RUNTIME:
                for match in matcher.form.pattern.finditer(line):
                    if len(addresses) < MOST_READ and not match.groupdict().get("module"):
                        addresses[int(match["address"], 16) + (matcher.form.back is Back.INSIDE)] = None


def guess_bases(file: ObjectFile, addresses: Sequence[int]) -> list[LoadBase]:
    """Return where the file was loaded, best base first; several if the addresses are of several processes.

    Raises BaseUnknown if no base is sure, Unsupported for a machine whose calls are unknown.
    """
    code = CallFinder(file)
    chosen = sorted({address for address in addresses if address >= PAGE})
    limit = max(1, min(MOST_ADDRESSES, MOST_LOOKS // max(1, code.pages)))
    if len(chosen) > limit:  # evenly over all of them
        chosen = [chosen[number * len(chosen) // limit] for number in range(limit)]
    votes: Counter[int] = Counter()
    voters: defaultdict[int, list[int]] = defaultdict(list)
    looks = hits = 0
    for address in chosen:
        for vaddr in code.ends(address % PAGE):
            base = address - vaddr
            hits += 1
            if base >= 0 and (base in votes or len(votes) < MOST_BASES):
                votes[base] += 1
                voters[base].append(address)
        looks += code.pages
    out: list[LoadBase] = []
    density = hits / looks if looks else 0.0
    possible = len(votes)
    why = "no address follows a call of the file" if chosen else "the log has no raw addresses"
    while votes and len(out) < MOST_PROCESSES:
        base, calls = max(votes.items(), key=lambda vote: (vote[1], -vote[0]))
        rivals = [count for other, count in votes.items() if 0 < abs(other - base) < code.span]
        next_calls = max(rivals, default=0)
        inside = sum(1 for address in chosen if code.contains(address - base))
        guess = LoadBase(base, calls, inside, len(chosen), next_calls, possible)
        chance = possible * tail(inside, calls, density)
        if calls < FEWEST or chance > MOST_CHANCE or calls - next_calls < MARGIN:
            best = ", ".join(f"{base:#x} ({calls})" for base, calls in votes.most_common(SHOWN_BASES))
            why = f"of {len(chosen)} addresses too few agree; the best of {possible:,} bases by calls: {best}"
            break
        out.append(guess)
        taken = {address for address in chosen if code.contains(address - base)}
        chosen = [address for address in chosen if address not in taken]
        votes = Counter()
        for other, addresses_of in voters.items():
            left = [address for address in addresses_of if address not in taken]
            if left:
                votes[other] = len(left)
                voters[other] = left
    if not out:
        raise BaseUnknown(f"{file.path}: the base is not sure: {why}").with_hint(
            "give a longer log with more stacks, or the executable that wrote it"
        )
    return out


def tail(trials: int, hits: int, chance: float) -> float:
    """Return the probability of at least `hits` hits in some trials.

    >>> tail(4, 4, 0.5)
    0.0625
    """
    return sum(
        comb(trials, count) * chance**count * (1 - chance) ** (trials - count) for count in range(hits, trials + 1)
    )


class CallFinder:
    """Finds where calls end in the code of a file.

    Raises Unsupported for a machine whose calls are unknown, and for a file without code.
    """

    def __init__(self, file: ObjectFile) -> None:
        tests: dict[int, Callable[[bytes, int], bool]] = {
            EM_X86_64: self._is_x86, EM_386: self._is_x86, EM_AARCH64: self._is_aarch64, EM_RISCV: self._is_riscv,
        }  # fmt: skip
        if file.machine not in tests:
            raise Unsupported(f"{file.path}: calls of {machine_name(file.machine)} are unknown: a base is not guessed")
        self._follows = tests[file.machine]
        self._sections: list[tuple[int, memoryview]] = []
        for section in file.sections:
            if section.executable and section.allocated and section.in_file and section.size:
                self._sections.append((section.vaddr, file.content(section)))
        if not self._sections:
            for segment in file.code_segments():
                start, content = file.loaded_around(segment.vaddr)
                self._sections.append((start, content))
        self._sections = sorted((start, content) for start, content in self._sections if len(content))
        if not self._sections:
            raise Unsupported(f"{file.path}: the file has no code: give the executable, not its debug file")
        self._starts = [start for start, _ in self._sections]
        self._ends = [*accumulate((start + len(content) for start, content in self._sections), max)]

    @property
    def pages(self) -> int:
        """The number of pages of code."""
        return sum(len(content) // PAGE + 1 for _, content in self._sections)

    @property
    def span(self) -> int:
        """The number of bytes from the first code to the last."""
        return self._ends[-1] - self._starts[0]

    def contains(self, vaddr: int) -> bool:
        """Return True for the vaddr of code, and for one after its end."""
        index = bisect_left(self._starts, vaddr) - 1
        return index >= 0 and vaddr <= self._ends[index]

    def ends(self, offset: int) -> Iterator[int]:
        """Yield the vaddrs with an offset in their page that follow a call."""
        for start, content in self._sections:
            for vaddr in range(start + (offset - start) % PAGE, start + len(content) + 1, PAGE):
                end = vaddr - start
                if end >= HALF and self._follows(bytes(content[max(0, end - LONGEST_CALL) : end]), vaddr):
                    yield vaddr

    def _is_x86(self, code: bytes, vaddr: int) -> bool:
        if len(code) >= DIRECT_SIZE and code[-DIRECT_SIZE] == DIRECT:
            target = vaddr + int.from_bytes(code[-4:], "little", signed=True)
            if self.contains(target + 1):
                return True
        return INDIRECT.search(code) is not None

    def _is_aarch64(self, code: bytes, vaddr: int) -> bool:
        if vaddr % ARM_SIZE or len(code) < ARM_SIZE:
            return False
        word = int.from_bytes(code[-ARM_SIZE:], "little")
        if word >> BL_BITS == BL:
            distance = ((word & BL_MASK) ^ BL_SIGN) - BL_SIGN
            return self.contains(vaddr - ARM_SIZE + ARM_SIZE * distance + 1)
        return word & BLR_MASK == BLR or word & BLRA_MASK == BLRA

    def _is_riscv(self, code: bytes, vaddr: int) -> bool:
        if vaddr % HALF:
            return False
        if len(code) >= 2 * HALF and int.from_bytes(code[-2 * HALF :], "little") & JAL_MASK in (JAL_RA, JALR_RA):
            return True
        half = int.from_bytes(code[-HALF:], "little")
        return half & C_JALR_MASK == C_JALR and half & C_JALR_REGISTER != 0
