"""Reader of profiles of addresses from before pprof: gperftools, tcmalloc, jemalloc, and Go with ?debug=1.

    heap        heap profile: OBJECTS: BYTES [ALLOCATED: BYTES] @ KIND/RATE     gperftools, tcmalloc, Go
                OBJECTS: BYTES [ALLOCATED: BYTES] @ 0x... 0x...
    jemalloc    heap_v2/RATE, then for each stack @ 0x... and counts of all threads (t*) and of each thread (t3)
    contention  --- contentionz N ---, --- mutex: or --- contention:, KEY = VALUE, then DELAY COUNT @ 0x...
    count       NAME profile: total N, then COUNT @ 0x...                       Go: goroutine, threadcreate, block
    threads     --- threadz N ---, then for each thread its name and addresses
    cpu         words of 4 or 8 bytes: 0, 3, 0, period, 0; then COUNT, LENGTH, addresses; 0, 1, 0; then the memory map

They end with the memory map (profiles.formats.memory_maps), which has no build-ids: files are identified by paths.
Return addresses become the byte before, as in google/pprof. These are all addresses of heap, contention and Go
profiles, and all except the innermost of CPU profiles and threads.

A heap is sampled by a Poisson process over bytes: a share of 1 - exp(-S / RATE) of the objects of S bytes is recorded.
Counts and bytes are divided by that share, for each stack, separately for in-use and allocated objects. The names in
Go's profiles (lines that start with #) are kept.

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
from whence._base.errors import ProfileError, shown
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
INT64_MAX = (1 << 63) - 1
DIGITS = 16  # of an address in hex
SPACE, CPU, COUNTED = SampleType("space", "bytes"), SampleType("cpu", "nanoseconds"), "count"
OBJECT_TYPES = (SampleType("objects", COUNTED), SPACE)
ALLOCATED_TYPES = (
    SampleType("alloc_objects", COUNTED), SampleType("alloc_space", "bytes"),
    SampleType("inuse_objects", COUNTED), SampleType("inuse_space", "bytes"),
)  # fmt: skip
POISSON = ("heap", "heap_v2", "heapz_v2")  # kinds of heap profiles that are sampled
TWICE = "heap"  # a kind for which Go and tcmalloc write twice the rate


def kind_of(head: str) -> str:
    """Return the form of a text by its first lines; "" for other texts.

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
    """The lines of a text, with the current line and its number."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._lines = lines_of(text, budget)
        self.number, self.line = 0, ""

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.number, self.line = number, line
            yield line


class AddressStacks:
    """Builds a profile of stacks of addresses, each once, with values, labels and names."""

    def __init__(self, types: tuple[SampleType, ...], budget: Budget) -> None:
        self.profile = ProfileData(list(types), stored=bounds.stored(budget))
        self.profile.default_type = len(types) - 1
        self.budget = budget
        self.read = 0
        self.names: dict[int, list[Frame]] = {}
        self._rows: dict[tuple[tuple[int, ...], tuple[Label, ...]], list[int]] = {}

    def add(self, addresses: tuple[int, ...], values: list[int], labels: tuple[Label, ...] = ()) -> None:
        """Add a stack of addresses of instructions (not return addresses), innermost first."""
        self.read += 1
        key = addresses, labels
        row = self._rows.get(key)
        if row is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * (len(addresses) + len(values)))
            row = self._rows[key] = [0] * len(values)
        for kind, value in enumerate(values):
            row[kind] = bounded(row[kind] + value)

    def symbol(self, line: str) -> None:
        """Add the function of an address from a comment of Go's; the first is inlined into the next."""
        symbol = symbol_of(line)
        if symbol is None:
            return
        address, frame = symbol
        self.budget.charge(bounds.FRAME)
        frames = self.names.setdefault(address, [])
        if frame not in frames:
            frames.append(frame)

    def finish(self, mappings: list[Mapping]) -> ProfileData:
        """Return the profile, with each address in its mapping."""
        profile = self.profile
        profile.check_skipped(self.read)
        profile.mappings = memory_maps.corrected(mappings)
        location_of: dict[int, int] = {}
        for addresses, _ in self._rows:
            for address in addresses:
                if address not in location_of:
                    self.budget.charge(bounds.LOCATION)
                    location_of[address] = len(location_of)
        profile.address = array("Q", location_of)
        profile.mapping = memory_maps.assign(profile.address, profile.mappings)
        profile.frames = [self._frames(address) for address in location_of]
        for (addresses, labels), values in self._rows.items():
            profile.samples.add([location_of[address] for address in addresses], values, labels)
        while len(profile.samples.values) < len(profile.sample_types):
            profile.samples.values.append(array("q"))
        return profile

    def _frames(self, address: int) -> Frames:
        chain = self.names.get(address) or self.names.get(address + 1) or []
        return tuple(frame._replace(inlined=index + 1 < len(chain)) for index, frame in enumerate(chain))


def symbol_of(line: str) -> tuple[int, Frame] | None:
    """Return the address and the function of a comment: #, address, name+offset, file:line, separated by tabs.

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
    has_line = number.isdecimal() and len(number) < 10
    return int(parts[1], 16), Frame(name, file if has_line else "", int(number) if has_line else 0)


def bounded(value: int) -> int:
    return max(-INT64_MAX - 1, min(value, INT64_MAX))


def addresses_in(text: str, *, leaf: bool) -> tuple[int, ...]:
    """Return the addresses of a stack, minus one as return addresses; with `leaf` the first is not a return address."""
    numbers = [int(digits, 16) for digits in ADDRESS.findall(text) if len(digits.lstrip("0")) <= DIGITS]
    return tuple(number if (leaf and not index) else max(0, number - 1) for index, number in enumerate(numbers))


def unsampled(objects: int, size: int, rate: int) -> tuple[int, int]:
    """Estimate the objects and bytes of which these were sampled.

    >>> unsampled(1, 524288, 524288), unsampled(10, 160, 1), unsampled(0, 0, 512)
    ((1, 829411), (10, 160), (0, 0))
    """
    factor = scale(objects, size, rate)
    return bounded(int(objects * factor)), bounded(int(size * factor))


def scale(objects: int, size: int, rate: int) -> float:
    """Return the factor from samples of objects to all objects. A rate of 1 samples all objects; 0 is unknown."""
    if not objects or not size:
        return 0.0
    if rate <= 1:
        return 1.0
    share = size / objects / rate
    if share <= 0:
        return 1.0
    return 1 / (1 - math.exp(-share) or -math.expm1(-share))  # pprof's formula, which is 0 for the smallest shares


def read(text: str, kind: str, budget: Budget | None = None) -> ProfileData:
    """Read a text of one of the forms; other lines are counted. Raises ProfileError if most lines can't be read."""
    budget = budget or bounds.reading(len(text))
    lines = LegacyLines(text, budget)
    stacks = READERS[kind](lines, budget)
    for line in [lines.line] if memory_maps.is_sentinel(lines.line) else lines:
        if memory_maps.is_sentinel(line):
            break
    return stacks.finish(memory_maps.read(lines, budget))


def samples_of(
    lines: LegacyLines, stacks: AddressStacks, sample: re.Pattern[str], expected: str
) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the match and the line number of each sample up to the next section.

    Comments with symbols are read, other lines are counted.
    """
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            stacks.symbol(text)
        elif memory_maps.is_sentinel(text):
            return
        elif text:
            match = sample.match(text)
            if match is None:
                if text.startswith("---"):
                    return
                stacks.profile.skip(f"line {lines.number}", expected, line)
                continue
            yield match, lines.number


class HeapHead(NamedTuple):
    """The first line of a heap profile."""

    rate: int  # 0: not sampled
    allocated: bool  # whether freed objects are counted too
    period: int


def heap_head(match: re.Match[str]) -> HeapHead:
    kind, rate = match["kind"], int(match["rate"] or 0)
    if kind == TWICE:
        rate //= 2
    sampled = kind in POISSON
    in_use, ever = (match["objects"], match["bytes"]), (match["allocated"], match["allocated_bytes"])
    heap = kind.startswith("heap")
    allocated = heap and any(number not in (used, "0") for number, used in zip(ever, in_use, strict=True))
    return HeapHead(rate if sampled else 0, allocated, rate if sampled else 1)


def read_heap(lines: LegacyLines, budget: Budget) -> AddressStacks:
    head = next((heap_head(match) for line in lines if (match := HEAP.search(line))), None)
    assert head is not None  # kind_of saw it
    stacks = AddressStacks(ALLOCATED_TYPES if head.allocated else OBJECT_TYPES, budget)
    stacks.profile.period, stacks.profile.period_type = head.period, SPACE
    expected = "OBJECTS: BYTES [ALLOCATED: BYTES] @ and addresses"
    for match, number in samples_of(lines, stacks, HEAP_SAMPLE, expected):
        objects, size, allocated, allocated_size = map(int, match.groups()[:4])
        pairs = [(allocated, allocated_size)] if head.allocated else []
        pairs.append((objects, size))
        if any(not count and total for count, total in pairs):
            stacks.profile.skip(f"line {number}", "a number of objects with the bytes", match[0])
            continue
        mean = next((total // count for count, total in reversed(pairs) if count), 0)
        values = [value for count, total in pairs for value in unsampled_pair(count, total, head.rate)]
        stacks.add(addresses_in(match[5], leaf=False), values, size_label(mean))
    return stacks


def unsampled_pair(objects: int, size: int, rate: int) -> tuple[int, int]:
    return unsampled(objects, size, rate) if rate else (bounded(objects), bounded(size))


def size_label(mean: int) -> tuple[Label, ...]:
    """Return the label of pprof's heap profiles for the mean size of objects."""
    return (Label("bytes", number=bounded(mean), unit="bytes"),)


class JemallocCount(NamedTuple):
    """A line of counts: of all threads (thread "*") or of one thread."""

    thread: str
    name: str
    values: tuple[int, int, int, int]  # allocated objects and bytes, objects and bytes in use


def jemalloc_count(line: str) -> JemallocCount | None:
    match = JEMALLOC_COUNT.match(line)
    if match is None:
        return None
    order = ("allocated", "allocated_bytes", "objects", "bytes")
    objects, size, used, used_size = (int(match[name]) for name in order)
    return JemallocCount(match["thread"], match["name"] or "", (objects, size, used, used_size))


def read_jemalloc(lines: LegacyLines, budget: Budget) -> AddressStacks:
    """Read jemalloc's heap_v2: for each stack the counts of all threads, and of each thread.

    The counts of a thread become a sample with its number and name. They are scaled like the counts of all threads; the
    difference to these, from rounding and dead threads, is a sample without a thread, so that sums are those of jeprof.
    """
    rate = next((int(match["rate"]) for line in lines if (match := JEMALLOC.match(line.strip("\ufeff \t\r")))), 1)
    names: dict[str, str] = {}
    stack: tuple[int, ...] | None = None
    counts: list[JemallocCount] = []
    allocated = False
    rows: list[tuple[tuple[int, ...], list[JemallocCount]]] = []
    skipped = AddressStacks(ALLOCATED_TYPES, budget).profile
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
    stacks = AddressStacks(ALLOCATED_TYPES if allocated else OBJECT_TYPES, budget)
    stacks.profile.skipped, stacks.profile.first_skipped = skipped.skipped, skipped.first_skipped
    stacks.profile.period, stacks.profile.period_type = rate, SPACE
    for addresses, counts in rows:
        add_jemalloc(stacks, addresses, counts, names, rate, allocated)
    return stacks


def add_jemalloc(
    stacks: AddressStacks,
    addresses: tuple[int, ...],
    rows: list[JemallocCount],
    names: dict[str, str],
    rate: int,
    allocated: bool,
) -> None:
    """Add the samples of one stack."""
    total = next((row.values for row in rows if row.thread == "*"), None)
    threads = [row for row in rows if row.thread != "*"]
    if total is None:
        objects, size, used, used_size = (sum(row.values[kind] for row in threads) for kind in range(4))
        total = objects, size, used, used_size
    factors = scale(total[0], total[1], rate), scale(total[2], total[3], rate)
    low = 0 if allocated else 2
    kinds = range(low, 4)
    mean = size_label(total[3] // total[2] if total[2] else total[1] // total[0] if total[0] else 0)
    rest = [bounded(int(total[kind] * factors[kind // 2])) for kind in kinds]
    for row in threads:
        values = [bounded(int(row.values[kind] * factors[kind // 2])) for kind in kinds]
        rest = [total - value for total, value in zip(rest, values, strict=True)]
        labels = [Label("thread", number=int(row.thread))]
        if name := names.get(row.thread):
            labels.append(Label("thread_name", name))
        stacks.add(addresses, values, (*labels, *mean))
    if any(rest) or not threads:
        stacks.add(addresses, rest, mean)


def read_contention(lines: LegacyLines, budget: Budget) -> AddressStacks:
    types = (SampleType("contentions", COUNTED), SampleType("delay", "nanoseconds"))
    stacks = AddressStacks(types, budget)
    header = {"cycles/second": 0, "sampling period": 1, "ms since reset": 0, "discarded samples": 0}
    expected = "DELAY COUNT @ and addresses"
    in_profile = False
    for line in lines:
        text = line.strip()
        if not in_profile:
            in_profile = bool(CONTENTION.match(text.lstrip("\ufeff")))
            continue
        key, equals, value = (part.strip() for part in text.partition("="))
        sample = CONTENTION_SAMPLE.match(text)
        if memory_maps.is_sentinel(text) or text.startswith("---"):
            break
        if text.startswith("#"):
            stacks.symbol(text)
        elif sample is not None:
            delay, count = contended(int(sample[1]), int(sample[2]), header["sampling period"], header["cycles/second"])
            stacks.add(addresses_in(sample[3], leaf=False), [count, delay])
        elif equals and key in header and value.isdecimal() and len(value) < DIGITS + 4:
            header[key] = int(value)
        elif text:
            stacks.profile.skip(f"line {lines.number}", expected, line)
    stacks.profile.period, stacks.profile.period_type = header["sampling period"], SampleType("contentions", COUNTED)
    stacks.profile.duration_ns = bounded(header["ms since reset"] * 1_000_000)
    return stacks


def contended(delay: int, count: int, period: int, frequency: int) -> tuple[int, int]:
    """Return the nanoseconds and contentions of which 1 in `period` was sampled; `delay` is in cycles of `frequency`.

    >>> contended(3_000_000, 2, 100, 3_000_000_000)
    (100000000, 200)
    """
    if period > 0:
        if frequency > 0:
            delay = int(float(delay) * float(period) / (frequency / 1e9))
        count *= period
    return bounded(delay), bounded(count)


def read_count(lines: LegacyLines, budget: Budget) -> AddressStacks:
    name = next((match[1] for line in lines if (match := COUNT.match(line.strip("\ufeff \t\r")))), "samples")
    kind = SampleType(name, COUNTED)
    stacks = AddressStacks((kind,), budget)
    stacks.profile.period, stacks.profile.period_type = 1, kind
    pending: tuple[tuple[int, ...], int] | None = None  # until its labels are read
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
        if pending is not None:
            stacks.add(pending[0], [pending[1]], labels)
        pending, labels = None, ()
        sample = COUNT_SAMPLE.match(text)
        if sample is None:
            stacks.profile.skip(f"line {lines.number}", "COUNT @ and addresses", line)
            continue
        pending = addresses_in(sample[2], leaf=False), bounded(int(sample[1]))
    if pending is not None:
        stacks.add(pending[0], [pending[1]], labels)
    return stacks


def labels_in(text: str, budget: Budget) -> tuple[Label, ...]:
    """Return the labels in a comment of Go's, which are of the sample before it.

    >>> labels_in('# labels: {"handler":"/home"}', bounds.reading(0))
    (Label(key='handler', text='/home', number=0, unit=''),)
    """
    match = LABELS.match(text)
    if match is None:
        return ()
    budget.charge(bounds.LABEL + 8 * len(text))
    try:
        labels = json.loads(match[1])
    except (ValueError, RecursionError):
        return ()
    return tuple(Label(str(key), str(value)) for key, value in labels.items())


def read_threads(lines: LegacyLines, budget: Budget) -> AddressStacks:
    kind = SampleType("thread", COUNTED)
    stacks = AddressStacks((kind,), budget)
    stacks.profile.period, stacks.profile.period_type = 1, kind
    last: tuple[int, ...] = ()
    addresses: list[str] = []
    in_thread = is_same = False

    def finish() -> None:
        nonlocal last, addresses, in_thread, is_same
        if in_thread:
            stack = last if is_same else without_twin(addresses_in(" ".join(addresses), leaf=True))
            if stack or not is_same:
                stacks.add(stack, [1])
            last = stack
        addresses, in_thread, is_same = [], False, False

    for line in lines:
        text = line.strip()
        if memory_maps.is_sentinel(text) or text.startswith(NO_STACK):
            break
        if THREAD.match(text):
            finish()
            in_thread = True
        elif text.startswith("---"):
            finish()
        elif in_thread and SAME_STACK in text:
            is_same = True
        elif in_thread:
            budget.charge(bounds.STRING)
            addresses += [f"0x{digits}" for digits in ADDRESS.findall(text)]
    finish()
    return stacks


def without_twin(stack: tuple[int, ...]) -> tuple[int, ...]:
    """Return a stack without a duplicate of its first frame, which unwinders that start in a signal handler may add."""
    return (stack[0], *stack[2:]) if len(stack) > 1 and stack[0] == stack[1] + 1 else stack


READERS = {
    "heap": read_heap,
    "jemalloc": read_jemalloc,
    "contention": read_contention,
    "count": read_count,
    "threads": read_threads,
}

# CPU profiles

MICROSECOND = 1_000  # nanoseconds
MAX_ARTIFACTS = 2  # frames of a signal handler that are removed
OUTLIERS = 32  # one in this many samples may lack such a frame


def read_cpu(data: bytes, budget: Budget | None = None) -> ProfileData:
    """Read a CPU profile of gperftools: the count of each stack, and count times the period."""
    budget = budget or bounds.reading(len(data))
    form = word_form(data)
    if form is None or form.version != CPLUSPLUS:
        raise ProfileError(
            "cpu", 0, f"not a CPU profile: expected the words 0, 3, 0, a period and 0, found {shown(data[:16])}"
        )
    size, order, _ = form
    count_of_words = len(data) // size
    budget.charge(8 * count_of_words)
    words = array("I" if size == 4 else "Q", data[: count_of_words * size])
    if (order == "big") != (sys.byteorder == "big"):
        words.byteswap()
    period = bounded(words[3] * MICROSECOND)
    stacks = AddressStacks((SampleType("samples", COUNTED), CPU), budget)
    stacks.profile.period, stacks.profile.period_type = period, CPU
    samples: list[tuple[list[int], int]] = []
    index = 2 + HEADER_WORDS
    while index + 2 <= count_of_words:
        count, depth = words[index], words[index + 1]
        index += 2
        if depth > count_of_words - index:
            problem = (
                f"a stack of {depth} addresses extends past the end of the file, {count_of_words - index} words on"
            )
            raise ProfileError("cpu", index * size, problem)
        stack = words[index : index + depth].tolist()
        index += depth
        if not count and stack == [0]:
            break
        budget.charge(bounds.SAMPLE + 3 * bounds.ENTRY * depth)
        samples.append((stack[:1] + [max(0, address - 1) for address in stack[1:]], count))
    drop_artifacts(samples)
    for addresses, count in samples:
        stacks.add(without_twin(tuple(addresses)), [bounded(count), bounded(count * period)])
    lines = LegacyLines(data[index * size :].decode("utf-8", "surrogateescape"), budget)
    return stacks.finish(memory_maps.read(lines, budget))


def drop_artifacts(samples: list[tuple[list[int], int]]) -> None:
    """Remove a second frame that nearly all samples have: it is of the signal handler."""
    for _ in range(MAX_ARTIFACTS):
        seconds: dict[int, int] = {}
        for stack, _ in samples:
            if len(stack) > 1:
                seconds[stack[1]] = seconds.get(stack[1], 0) + 1
        most = max(seconds, key=seconds.__getitem__, default=None)
        if most is None or seconds[most] < len(samples) - len(samples) // OUTLIERS:
            return
        for stack, _ in samples:
            if len(stack) > 1 and stack[1] == most:
                del stack[1]
