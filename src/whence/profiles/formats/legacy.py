"""Profiles of addresses from before pprof: gperftools' and tcmalloc's, jemalloc's, and Go's with ?debug=1.

    heap        heap profile: OBJECTS: BYTES [ALLOCATED: BYTES] @ KIND/RATE     gperftools, tcmalloc, Go
                OBJECTS: BYTES [ALLOCATED: BYTES] @ 0x... 0x...
    jemalloc    heap_v2/RATE, then for each stack @ 0x... and counts of all threads (t*) and of each (t3)
    contention  --- contentionz N ---, --- mutex: or --- contention:, KEY = VALUE, then DELAY COUNT @ 0x...
    count       NAME profile: total N, then COUNT @ 0x...                       Go: goroutine, threadcreate, block
    threads     --- threadz N ---, then for each thread its name and addresses
    cpu         words of 4 or 8 bytes: 0, 3, 0, period, 0; then COUNT, LENGTH, addresses; 0, 1, 0; then the memory map

They end with the memory map (profiles.formats.memory_maps), which has no build-ids: files are known by their paths.
Addresses are return addresses and become the byte before, as google/pprof does it: all of a heap's, contention's and
Go's, all but the innermost of CPU profiles and threads.

A heap's samples are a Poisson process over bytes: of objects of S bytes 1 - exp(-S / RATE) are seen. Counts and bytes
are divided by that, in-use and allocated ones each for themselves, for each stack. What Go's ?debug=1 says of names
(lines that begin with #) is kept.

References: github.com/google/pprof, profile/legacy_profile.go; jemalloc, src/prof_data.c and bin/jeprof.in; Go,
runtime/pprof/pprof.go.
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame, Frames
from whence.profiles.formats import memory_maps
from whence.profiles.formats.others import CPLUSPLUS, HEADER_WORDS, word_form
from whence.samples import bounds
from whence.samples.model import Label, Mapping, ProfileData, SampleType
from whence.samples.text import lines_of

HEAP = re.compile(
    r"heap profile: *(?P<objects>\d+): *(?P<bytes>\d+) *\[ *(?P<allocated>\d+): *(?P<allocated_bytes>\d+) *\] *@ *"
    r"(?P<kind>heap[_a-z0-9]*|growthz?|fragmentationz?)/?(?P<rate>\d{0,18})"
)
HEAP_SAMPLE = re.compile(r"(-?\d{1,19}): *(-?\d{1,19}) *\[ *(-?\d{1,19}): *(-?\d{1,19}) *\] *@([ x0-9a-fA-F]*)")
JEMALLOC = re.compile(r"heap_v2/(?P<rate>\d{1,18})\s*$")
JEMALLOC_COUNT = re.compile(
    r"\s*t(?P<thread>\*|\d{1,18}): (?P<objects>-?\d{1,19}): (?P<bytes>-?\d{1,19}) "
    r"\[(?P<allocated>-?\d{1,19}): (?P<allocated_bytes>-?\d{1,19})\](?: (?P<name>.*\S))?\s*$"
)
CONTENTION = re.compile(r"--- (?:contentionz \d+ ---|mutex:|contention:)")
CONTENTION_SAMPLE = re.compile(r"(\d{1,19}) *(\d{1,19}) @([ x0-9a-fA-F]*)")
COUNT = re.compile(r"(\S{1,100}) profile: total \d+\s*$")
COUNT_SAMPLE = re.compile(r"(\d{1,19}) @((?: 0x[0-9a-f]+)*)\s*$")  # Go's threads of unknown origin have no address
THREADS = re.compile(r"--- threadz \d+ ---")
THREAD = re.compile(r"--- Thread ([0-9a-fA-F]{1,16}) \(name: (.*)/(\d+)\) stack: ---")
SAME_STACK = "same as previous thread"
NO_STACK = "---- no stack trace for"
ADDRESS = re.compile(r"0x([0-9a-fA-F]+)")
OFFSET = re.compile(r"0x[0-9a-f]{1,16}$")
LABELS = re.compile(r"# labels: (\{.*\})\s*$")
LARGEST = (1 << 63) - 1
DIGITS = 16  # of an address in hex
SPACE, CPU, COUNTED = SampleType("space", "bytes"), SampleType("cpu", "nanoseconds"), "count"
OBJECT_TYPES = (SampleType("objects", COUNTED), SPACE)
ALLOCATED_TYPES = (
    SampleType("alloc_objects", COUNTED), SampleType("alloc_space", "bytes"),
    SampleType("inuse_objects", COUNTED), SampleType("inuse_space", "bytes"),
)  # fmt: skip
POISSON = ("heap", "heap_v2", "heapz_v2")  # kinds of heap profiles that are sampled
TWICE = "heap"  # Go and tcmalloc write twice the rate for this one


def kind_of(head: str) -> str:
    """Which of the forms a text's beginning is; "" for another text.

    >>> kind_of("heap_v2/524288\\n"), kind_of("goroutine profile: total 3\\n"), kind_of("main;f 3\\n")
    ('jemalloc', 'count', '')
    """
    for line in head.split("\n"):
        text = line.strip("\ufeff \t\r")
        if HEAP.match(text):
            return "heap"
        if JEMALLOC.match(text):
            return "jemalloc"
        if CONTENTION.match(text):
            return "" if "format = java" in head else "contention"
        if THREADS.match(text) or THREAD.match(text):
            return "threads"
        if COUNT.match(text):
            return "count"
        if text and not text.startswith("#"):
            return ""
    return ""


class LegacyLines:
    """A text a line at a time, with one line that may be looked at again."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._lines = lines_of(text, budget)
        self.number, self.line = 0, ""

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.number, self.line = number, line
            yield line


class Stacks:
    """The profile as it grows: stacks of addresses, each once, with values, labels and what is known of names."""

    def __init__(self, types: tuple[SampleType, ...], budget: Budget) -> None:
        self.profile = ProfileData(list(types), stored=bounds.stored(budget))
        self.profile.default_type = len(types) - 1
        self.budget = budget
        self.read = 0
        self.names: dict[int, list[Frame]] = {}
        self._rows: dict[tuple[tuple[int, ...], tuple[Label, ...]], list[int]] = {}

    def add(self, addresses: tuple[int, ...], values: list[int], labels: tuple[Label, ...] = ()) -> None:
        """Add a stack, innermost first; its addresses are of instructions, not of what follows them."""
        self.read += 1
        key = addresses, labels
        row = self._rows.get(key)
        if row is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * (len(addresses) + len(values)))
            row = self._rows[key] = [0] * len(values)
        for kind, value in enumerate(values):
            row[kind] = bounded(row[kind] + value)

    def symbol(self, line: str) -> None:
        """What a comment of Go's says of an address: a function, or one more that calls were inlined into."""
        symbol = symbol_of(line)
        if symbol is None:
            return
        address, frame = symbol
        self.budget.charge(bounds.FRAME)
        frames = self.names.setdefault(address, [])
        if frame not in frames:
            frames.append(frame)

    def whole(self, mappings: list[Mapping]) -> ProfileData:
        """The profile, each address in the mapping that holds it."""
        profile = self.profile
        profile.check_skipped(self.read)
        profile.mappings = memory_maps.mended(mappings)
        known: dict[int, int] = {}
        for addresses, _ in self._rows:
            for address in addresses:
                if address not in known:
                    self.budget.charge(bounds.LOCATION)
                    known[address] = len(known)
        profile.address = array("Q", known)
        profile.mapping = memory_maps.place(profile.address, profile.mappings)
        profile.frames = [self._frames(address) for address in known]
        for (addresses, labels), values in self._rows.items():
            profile.samples.add([known[address] for address in addresses], values, labels)
        while len(profile.samples.values) < len(profile.sample_types):
            profile.samples.values.append(array("q"))
        return profile

    def _frames(self, address: int) -> Frames:
        chain = self.names.get(address) or self.names.get(address + 1) or []
        return tuple(frame._replace(inlined=at + 1 < len(chain)) for at, frame in enumerate(chain))


def symbol_of(line: str) -> tuple[int, Frame] | None:
    """The address and the function of a comment: #, address, name+offset, file:line, with tabs between.

    >>> symbol_of("#\\t0x10\\tmain.main+0x18\\t\\t/a.go:14") == (16, Frame("main.main", "/a.go", 14))
    True
    """
    parts = line.split("\t")
    if len(parts) < 3 or parts[0] != "#" or not OFFSET.match(parts[1]):
        return None
    name, plus, offset = parts[2].rpartition("+")
    if not plus or not name or not OFFSET.match(offset.strip()):
        return None
    file, _, number = parts[-1].strip().rpartition(":") if len(parts) > 3 else ("", "", "")
    known = number.isdecimal() and len(number) < 10
    return int(parts[1], 16), Frame(name, file if known else "", int(number) if known else 0)


def bounded(value: int) -> int:
    return max(-LARGEST - 1, min(value, LARGEST))


def addresses_in(text: str, *, leaf: bool) -> tuple[int, ...]:
    """The addresses of a stack as instructions: return addresses less one; with `leaf` the first is one as it is."""
    found = [one for one in ADDRESS.findall(text) if len(one.lstrip("0")) <= DIGITS]
    numbers = [int(one, 16) for one in found]
    return tuple(number if (leaf and not at) else max(0, number - 1) for at, number in enumerate(numbers))


def unsampled(objects: int, size: int, rate: int) -> tuple[int, int]:
    """How many objects and bytes there were, of which so many were sampled.

    >>> unsampled(1, 524288, 524288), unsampled(10, 160, 1), unsampled(0, 0, 512)
    ((1, 829411), (10, 160), (0, 0))
    """
    factor = scale(objects, size, rate)
    return bounded(int(objects * factor)), bounded(int(size * factor))


def scale(objects: int, size: int, rate: int) -> float:
    """What samples of objects of this mean size stand for. A rate of 1 samples all; below it is unknown."""
    if not objects or not size:
        return 0.0
    if rate <= 1:
        return 1.0
    share = size / objects / rate
    if share <= 0:
        return 1.0
    return 1 / (1 - math.exp(-share) or -math.expm1(-share))  # as pprof has it, which is 0 for the smallest shares


def read(text: str, kind: str, budget: Budget | None = None) -> ProfileData:
    """The profile in a text of one of the forms. Lines that are none are counted, unless most of them are none."""
    budget = budget or bounds.reading(len(text))
    lines = LegacyLines(text, budget)
    stacks = READERS[kind](lines, budget)
    for line in [lines.line] if memory_maps.is_sentinel(lines.line) else lines:
        if memory_maps.is_sentinel(line):
            break
    return stacks.whole(memory_maps.read(lines, budget))


def samples_of(
    lines: LegacyLines, stacks: Stacks, sample: re.Pattern[str], expected: str
) -> Iterator[tuple[re.Match[str], int]]:
    """Each sample's line, matched, up to the next section; comments are read on the way, other lines are counted.

    Comments stand behind what they are of, so a sample is handed out with the labels that follow it.
    """
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            stacks.symbol(text)
        elif memory_maps.is_sentinel(text):
            return
        elif text:
            found = sample.match(text)
            if found is None:
                if text.startswith("---"):
                    return
                stacks.profile.skip(f"line {lines.number}", expected, line)
                continue
            yield found, lines.number


class HeapHead(NamedTuple):
    """What the first line of a heap profile says."""

    rate: int  # 0: not sampled
    allocated: bool  # whether what was allocated and freed is there, too
    period: int


def heap_head(found: re.Match[str]) -> HeapHead:
    kind, rate = found["kind"], int(found["rate"] or 0)
    if kind == TWICE:
        rate //= 2
    sampled = kind in POISSON
    in_use, ever = (found["objects"], found["bytes"]), (found["allocated"], found["allocated_bytes"])
    heap = kind.startswith("heap")
    allocated = heap and any(one not in (other, "0") for one, other in zip(ever, in_use, strict=True))
    return HeapHead(rate if sampled else 0, allocated, rate if sampled else 1)


def read_heap(lines: LegacyLines, budget: Budget) -> Stacks:
    head = next((heap_head(found) for line in lines if (found := HEAP.search(line))), None)
    assert head is not None  # kind_of saw it
    stacks = Stacks(ALLOCATED_TYPES if head.allocated else OBJECT_TYPES, budget)
    stacks.profile.period, stacks.profile.period_type = head.period, SPACE
    expected = "OBJECTS: BYTES [ALLOCATED: BYTES] @ and addresses"
    for found, number in samples_of(lines, stacks, HEAP_SAMPLE, expected):
        objects, size, allocated, allocated_size = map(int, found.groups()[:4])
        pairs = [(allocated, allocated_size)] if head.allocated else []
        pairs.append((objects, size))
        if any(not count and taken for count, taken in pairs):
            stacks.profile.skip(f"line {number}", "a number of objects with the bytes", found[0])
            continue
        mean = next((taken // count for count, taken in reversed(pairs) if count), 0)
        values = [one for count, taken in pairs for one in unsampled_pair(count, taken, head.rate)]
        stacks.add(addresses_in(found[5], leaf=False), values, size_label(mean))
    return stacks


def unsampled_pair(objects: int, size: int, rate: int) -> tuple[int, int]:
    return unsampled(objects, size, rate) if rate else (bounded(objects), bounded(size))


def size_label(mean: int) -> tuple[Label, ...]:
    """The mean size of a stack's objects, as pprof's own heap profiles have it."""
    return (Label("bytes", number=bounded(mean), unit="bytes"),)


class JemallocCount(NamedTuple):
    """A line of counts: of all threads (thread "*") or of one."""

    thread: str
    name: str
    values: tuple[int, int, int, int]  # allocated objects and bytes, those in use


def jemalloc_count(line: str) -> JemallocCount | None:
    found = JEMALLOC_COUNT.match(line)
    if found is None:
        return None
    order = ("allocated", "allocated_bytes", "objects", "bytes")
    objects, size, used, used_size = (int(found[name]) for name in order)
    return JemallocCount(found["thread"], found["name"] or "", (objects, size, used, used_size))


def read_jemalloc(lines: LegacyLines, budget: Budget) -> Stacks:
    """jemalloc's heap_v2: for each stack its counts of all threads, and those of each thread.

    A thread's counts become a sample of their own with its number and name; they are scaled as those of all threads
    together, and what rounding or dead threads leave over of these stays without a thread: sums are jeprof's.
    """
    rate = next((int(found["rate"]) for line in lines if (found := JEMALLOC.match(line.strip("\ufeff \t\r")))), 1)
    names: dict[str, str] = {}
    stack: tuple[int, ...] | None = None
    counts: list[JemallocCount] = []
    allocated = False
    rows: list[tuple[tuple[int, ...], list[JemallocCount]]] = []
    skipped = Stacks(ALLOCATED_TYPES, budget).profile
    for line in lines:
        text = line.strip()
        if memory_maps.is_sentinel(text):
            break
        if text.startswith("@"):
            stack, counts = addresses_in(text, leaf=False), []
            budget.charge(bounds.SAMPLE + bounds.ENTRY * len(stack))
            rows.append((stack, counts))
        elif text:
            count = jemalloc_count(line)
            if count is None:
                skipped.skip(f"line {lines.number}", "tTHREAD: OBJECTS: BYTES [ALLOCATED: BYTES]", line)
                continue
            if count.name:
                names[count.thread] = count.name
            if stack is None:
                continue  # the sums of all stacks
            budget.charge(bounds.SAMPLE)
            allocated |= any(count.values[:2])
            counts.append(count)
    stacks = Stacks(ALLOCATED_TYPES if allocated else OBJECT_TYPES, budget)
    stacks.profile.skipped, stacks.profile.first_skipped = skipped.skipped, skipped.first_skipped
    stacks.profile.period, stacks.profile.period_type = rate, SPACE
    for addresses, counted in rows:
        add_jemalloc(stacks, addresses, counted, names, rate, allocated)
    return stacks


def add_jemalloc(
    stacks: Stacks,
    addresses: tuple[int, ...],
    rows: list[JemallocCount],
    names: dict[str, str],
    rate: int,
    allocated: bool,
) -> None:
    """The samples of one stack."""
    total = next((row.values for row in rows if row.thread == "*"), None)
    threads = [row for row in rows if row.thread != "*"]
    if total is None:
        objects, size, used, used_size = (sum(row.values[kind] for row in threads) for kind in range(4))
        total = objects, size, used, used_size
    factors = scale(total[0], total[1], rate), scale(total[2], total[3], rate)
    low = 0 if allocated else 2
    kinds = range(low, 4)
    mean = size_label(total[3] // total[2] if total[2] else total[1] // total[0] if total[0] else 0)
    left = [bounded(int(total[kind] * factors[kind // 2])) for kind in kinds]
    for row in threads:
        values = [bounded(int(row.values[kind] * factors[kind // 2])) for kind in kinds]
        left = [rest - value for rest, value in zip(left, values, strict=True)]
        who = [Label("thread", number=int(row.thread))]
        if name := names.get(row.thread):
            who.append(Label("thread_name", name))
        stacks.add(addresses, values, (*who, *mean))
    if any(left) or not threads:
        stacks.add(addresses, left, mean)


def read_contention(lines: LegacyLines, budget: Budget) -> Stacks:
    types = (SampleType("contentions", COUNTED), SampleType("delay", "nanoseconds"))
    stacks = Stacks(types, budget)
    about = {"cycles/second": 0, "sampling period": 1, "ms since reset": 0, "discarded samples": 0}
    expected = "DELAY COUNT @ and addresses"
    begun = False
    for line in lines:
        text = line.strip()
        if not begun:
            begun = bool(CONTENTION.match(text.lstrip("\ufeff")))
            continue
        key, equals, value = (part.strip() for part in text.partition("="))
        found = CONTENTION_SAMPLE.match(text)
        if memory_maps.is_sentinel(text) or text.startswith("---"):
            break
        if text.startswith("#"):
            stacks.symbol(text)
        elif found is not None:
            delay, count = contended(int(found[1]), int(found[2]), about["sampling period"], about["cycles/second"])
            stacks.add(addresses_in(found[3], leaf=False), [count, delay])
        elif equals and key in about and value.isdecimal() and len(value) < DIGITS + 4:
            about[key] = int(value)
        elif text:
            stacks.profile.skip(f"line {lines.number}", expected, line)
    stacks.profile.period, stacks.profile.period_type = about["sampling period"], SampleType("contentions", COUNTED)
    stacks.profile.duration_ns = bounded(about["ms since reset"] * 1_000_000)
    return stacks


def contended(delay: int, count: int, period: int, frequency: int) -> tuple[int, int]:
    """Nanoseconds and contentions, of which one in `period` was sampled, with delays in cycles of this frequency.

    >>> contended(3_000_000, 2, 100, 3_000_000_000)
    (100000000, 200)
    """
    if period > 0:
        if frequency > 0:
            delay = int(float(delay) * float(period) / (frequency / 1e9))
        count *= period
    return bounded(delay), bounded(count)


def read_count(lines: LegacyLines, budget: Budget) -> Stacks:
    name = next((found[1] for line in lines if (found := COUNT.match(line.strip("\ufeff \t\r")))), "samples")
    kind = SampleType(name, COUNTED)
    stacks = Stacks((kind,), budget)
    stacks.profile.period, stacks.profile.period_type = 1, kind
    waiting: tuple[tuple[int, ...], int] | None = None
    labels: tuple[Label, ...] = ()
    for line in lines:
        text = line.strip()
        if memory_maps.is_sentinel(text) or text.startswith("---"):
            break
        if text.startswith("#"):
            stacks.symbol(text)
            labels = labels_in(text, budget) or labels
            continue
        if not text:
            continue
        if waiting is not None:
            stacks.add(waiting[0], [waiting[1]], labels)
        waiting, labels = None, ()
        found = COUNT_SAMPLE.match(text)
        if found is None:
            stacks.profile.skip(f"line {lines.number}", "COUNT @ and addresses", line)
            continue
        waiting = addresses_in(found[2], leaf=False), bounded(int(found[1]))
    if waiting is not None:
        stacks.add(waiting[0], [waiting[1]], labels)
    return stacks


def labels_in(text: str, budget: Budget) -> tuple[Label, ...]:
    """The labels that a comment of Go's has for the sample before it.

    >>> labels_in('# labels: {"handler":"/home"}', bounds.reading(0))
    (Label(key='handler', text='/home', number=0, unit=''),)
    """
    found = LABELS.match(text)
    if found is None:
        return ()
    budget.charge(bounds.LABEL + 8 * len(text))
    try:
        held = json.loads(found[1])
    except (ValueError, RecursionError):
        return ()
    return tuple(Label(str(key), str(value)) for key, value in held.items())


def read_threads(lines: LegacyLines, budget: Budget) -> Stacks:
    kind = SampleType("thread", COUNTED)
    stacks = Stacks((kind,), budget)
    stacks.profile.period, stacks.profile.period_type = 1, kind
    last: tuple[int, ...] = ()
    found: list[str] = []
    inside = same = False

    def finish() -> None:
        nonlocal last, found, inside, same
        if inside:
            stack = last if same else without_twin(addresses_in(" ".join(found), leaf=True))
            if stack or not same:
                stacks.add(stack, [1])
            last = stack
        found, inside, same = [], False, False

    for line in lines:
        text = line.strip()
        if memory_maps.is_sentinel(text) or text.startswith(NO_STACK):
            break
        if THREAD.match(text):
            finish()
            inside = True
        elif text.startswith("---"):
            finish()
        elif inside and SAME_STACK in text:
            same = True
        elif inside:
            budget.charge(bounds.STRING)
            found += [f"0x{one}" for one in ADDRESS.findall(text)]
    finish()
    return stacks


def without_twin(stack: tuple[int, ...]) -> tuple[int, ...]:
    """A stack without a second frame that is its first one again: who unwinds from a signal may find it twice."""
    return (stack[0], *stack[2:]) if len(stack) > 1 and stack[0] == stack[1] + 1 else stack


READERS = {
    "heap": read_heap,
    "jemalloc": read_jemalloc,
    "contention": read_contention,
    "count": read_count,
    "threads": read_threads,
}

# CPU profiles: words

MICROSECOND = 1_000  # nanoseconds
ARTIFACTS = 2  # frames of a signal's handler that are looked for
SIMILAR = 32  # one sample of so many may lack such a frame


def read_cpu(data: bytes, budget: Budget | None = None) -> ProfileData:
    """A CPU profile of gperftools: how often each stack was met, and that many periods of time."""
    budget = budget or bounds.reading(len(data))
    form = word_form(data)
    if form is None or form.version != CPLUSPLUS:
        raise ProfileError("cpu", 0, "words 0, 3, 0, a period and 0 begin it", data[:16])
    size, order, _ = form
    whole = len(data) // size
    budget.charge(8 * whole)
    words = array("I" if size == 4 else "Q", data[: whole * size])
    if (order == "big") != (sys.byteorder == "big"):
        words.byteswap()
    period = bounded(words[3] * MICROSECOND)
    stacks = Stacks((SampleType("samples", COUNTED), CPU), budget)
    stacks.profile.period, stacks.profile.period_type = period, CPU
    samples: list[tuple[list[int], int]] = []
    at = 2 + HEADER_WORDS
    while at + 2 <= whole:
        count, depth = words[at], words[at + 1]
        at += 2
        if depth > whole - at:
            found = f"{depth} of {whole - at} words"
            raise ProfileError("cpu", at * size, "a stack's addresses are in the file", found)
        stack = words[at : at + depth].tolist()
        at += depth
        if not count and stack == [0]:
            break
        budget.charge(bounds.SAMPLE + 3 * bounds.ENTRY * depth)
        samples.append((stack[:1] + [max(0, one - 1) for one in stack[1:]], count))
    drop_artifacts(samples)
    for addresses, count in samples:
        stacks.add(without_twin(tuple(addresses)), [bounded(count), bounded(count * period)])
    lines = LegacyLines(data[at * size :].decode("utf-8", "surrogateescape"), budget)
    return stacks.whole(memory_maps.read(lines, budget))


def drop_artifacts(samples: list[tuple[list[int], int]]) -> None:
    """Leave out a second frame that nearly all samples have: the signal's handler put it there."""
    for _ in range(ARTIFACTS):
        seconds: dict[int, int] = {}
        for stack, _ in samples:
            if len(stack) > 1:
                seconds[stack[1]] = seconds.get(stack[1], 0) + 1
        most = max(seconds, key=seconds.__getitem__, default=None)
        if most is None or seconds[most] < len(samples) - len(samples) // SIMILAR:
            return
        for stack, _ in samples:
            if len(stack) > 1 and stack[1] == most:
                del stack[1]
