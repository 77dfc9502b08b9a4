"""Reader of stacks in the text of other tracers: DTrace, bpftrace, and macOS's sample.

DTrace, aggregated by stack() or ustack(): frames innermost first, then the count; a blank line between.

                  libc.so.1`__read+0xa
                  app`main+0x1f
                  42

bpftrace, maps by stacks and other keys: frames innermost first. Other keys on the first or the last line (the command,
the process) become labels; each map is a sample type.

    @[
        do_syscall_64+97
        0x7f3a5c41e7f2
        __read+14 (/usr/lib/libc.so.6)
    , bash, 4242]: 7

sample(1): a tree of calls with counts, indented by marks; then the images, whose names are in the frames.

    Call graph:
        2559 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
        + 2559 start  (in dyld) + 1903  [0x18f1f3e50]
        +   2559 main  (in app) + 100  [0x104a3c7d4]  main.c:12

Frames have names if the tracer knew them; other frames have runtime addresses, and no mapping is known for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from whence._base.budget import Budget
from whence._base.model import Frame
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType
from whence.samples.text import lines_of

HEAD_LINES = 200  # lines by which the form is recognized
MAX_LINE = 1 << 14  # characters
COUNT_LINE = re.compile(r"\s+(\d{1,18})\s*$")
DTRACE_FRAME = re.compile(r"\s+(?:(?P<module>[^`\s][^`]{0,255})`(?P<name>\S.*)|(?P<address>0x[0-9a-fA-F]{1,16}))$")
BPFTRACE_OPEN = re.compile(r"@(?P<map>\w*)\[(?P<keys>.*)$")
BPFTRACE_CLOSE = re.compile(r"(?P<keys>.*)\]:\s+(?P<count>\d{1,18})\s*$")
BPFTRACE_ADDRESS = re.compile(r"((?:0x)?[0-9a-f]{6,16}|[0-9a-f]{1,5}(?=\s+0x))\s+")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}$")
OFFSET = re.compile(r"\+0x[0-9a-fA-F]+$")
CALL_GRAPH, TOTALS = "Call graph:", "Total number in stack"
SAMPLE_LINE = re.compile(r"(?P<marks>[\s+!:|]*)(?P<count>\d{1,18}) (?P<rest>\S.*)$")
IN_MODULE, AT_ADDRESS = " (in ", "["
UNKNOWN = ("???", "")
NUMBER_KEY, NAME_KEY = "pid", "comm"


def kind_of(head: str) -> str:
    """Return the form of a text by its first lines: "dtrace", "bpftrace" or "sample"; "" for other texts.

    >>> kind_of("@[\\n    f+1\\n]: 3\\n"), kind_of("\\n   libc`read+0x1\\n   3\\n"), kind_of("main;f 3\\n")
    ('bpftrace', 'dtrace', '')
    """
    frames = 0
    for line in head.split("\n")[:HEAD_LINES]:
        if line.startswith("Analysis of sampling ") or line.rstrip() == CALL_GRAPH:
            return "sample"
        if BPFTRACE_OPEN.match(line) and not BPFTRACE_CLOSE.match(line):
            return "bpftrace"
        if frames and COUNT_LINE.match(line):
            return "dtrace"
        frames = frames + 1 if DTRACE_FRAME.match(line[:MAX_LINE].rstrip()) else 0
    return ""


class TracedStacks:
    """Builds a profile with a location for each frame; equal stacks are added up."""

    def __init__(self, budget: Budget) -> None:
        self.profile = ProfileData(stored=bounds.stored(budget))
        self.budget = budget
        self._locations: dict[tuple[str, Frame | int], int] = {}
        self._mappings: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._rows: dict[tuple[tuple[int, ...], tuple[Label, ...]], dict[int, int]] = {}  # values by sample type

    def location(self, module: str, frame: Frame | int) -> int:
        """Return the location of a frame of a module ("": unknown), or of an address without a name."""
        key = module, frame
        location = self._locations.get(key)
        if location is None:
            self.budget.charge(bounds.LOCATION)
            mapping = NO_MAPPING
            if module:
                mapping = self._mappings.setdefault(module, len(self.profile.mappings))
                if mapping == len(self.profile.mappings):
                    self.profile.mappings.append(Mapping(path=module))
            if isinstance(frame, Frame):
                location = self.profile.location(mapping, 0, (frame,))
            else:
                location = self.profile.location(mapping, frame)
            self._locations[key] = location
        return location

    def add(self, stack: list[int], count: int, labels: tuple[Label, ...] = (), type: str = "samples") -> None:
        """Add `count` to the value of a sample type."""
        key = tuple(stack), labels
        if key not in self._rows:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(stack))
        values = self._rows.setdefault(key, {})
        number = self._types.setdefault(type, len(self._types))
        values[number] = values.get(number, 0) + count

    def finish(self) -> ProfileData:
        """Return the profile. Raises ProfileError if most lines are of another form."""
        self.profile.check_skipped(len(self._rows))
        self.profile.sample_types = [SampleType(type, "count") for type in self._types or ("samples",)]
        self.profile.default_type = 0
        self.budget.charge(bounds.ENTRY * len(self._rows) * len(self._types))
        for (stack, labels), values in self._rows.items():
            row = [min(values.get(number, 0), (1 << 63) - 1) for number in range(len(self.profile.sample_types))]
            self.profile.samples.add(list(stack), row, labels)
        return self.profile


def read(text: str, kind: str, budget: Budget | None = None) -> ProfileData:
    """Read a text of one of the forms. Raises ProfileError if most lines are of another form."""
    budget = budget or bounds.reading(len(text))
    stacks = TracedStacks(budget)
    READERS[kind](lines_of(text, budget), stacks)
    return stacks.finish()


def read_dtrace(lines: Iterable[tuple[int, str]], stacks: TracedStacks) -> None:
    stack: list[int] = []
    for number, line in lines:
        count = COUNT_LINE.match(line)
        if count is not None:
            if stack:
                stacks.add(stack, int(count[1]))
            stack = []
        elif not line.strip():
            stack = []
        else:
            match = DTRACE_FRAME.match(line[:MAX_LINE].rstrip())
            if match is not None:
                module, name = match["module"] or "", match["name"] or ""
                address = match["address"] or (name if ADDRESS.match(name) else "")
                stack.append(stacks.location(module, int(address, 16) if address else Frame(OFFSET.sub("", name))))
            elif stack:
                stacks.profile.skip(f"line {number}", "MODULE`FUNCTION+OFFSET or an address", line)


def read_bpftrace(lines: Iterable[tuple[int, str]], stacks: TracedStacks) -> None:
    stack: list[int] | None = None
    keys: list[str] = []
    name_of_map = ""
    for number, line in lines:
        begin = BPFTRACE_OPEN.match(line) if stack is None else None
        if begin is not None:
            if BPFTRACE_CLOSE.match(line) is None:  # else the map has no stacks
                stack, keys, name_of_map = [], [begin["keys"]], begin["map"]
            continue
        if stack is None:
            continue
        close = BPFTRACE_CLOSE.match(line[:MAX_LINE])
        if close is not None:
            keys.append(close["keys"])
            stacks.add(stack, int(close["count"]), labels_of(keys), name_of_map or "samples")
            stack = None
            continue
        text = line.strip().removesuffix(",").removeprefix(",").strip()
        if not text:
            continue
        if not line[:1].isspace():
            stacks.profile.skip(f"line {number}", "FUNCTION+OFFSET", line)
            continue
        address, name, file = bpftrace_frame(text[:MAX_LINE])
        module = file if file.startswith(("/", "[")) else ""
        unnamed = ADDRESS.match(name) or name == "[unknown]"
        address = address or (name if ADDRESS.match(name) else "0")
        stack.append(stacks.location(module, int(address, 16) if unnamed else Frame(name)))


def bpftrace_frame(text: str) -> tuple[str, str, str]:
    """Return the address, the function and the file of a frame; "" for missing parts.

    >>> bpftrace_frame("7f3a5c41e7f2 __read+14 (/usr/lib/libc.so.6)"), bpftrace_frame("do_syscall_64+97")
    (('7f3a5c41e7f2', '__read', '/usr/lib/libc.so.6'), ('', 'do_syscall_64', ''))
    """
    file = ""
    if text.endswith(")") and " (" in text:
        text, _, file = text[:-1].rpartition(" (")
    address = BPFTRACE_ADDRESS.match(text)
    name = text[address.end() :] if address is not None else text
    before, plus, offset = name.rpartition("+")
    if plus and before and (offset.isdecimal() or ADDRESS.match(offset)):
        name = before
    return address[1] if address is not None else "", name.strip(), file


def labels_of(parts: list[str]) -> tuple[Label, ...]:
    """Return the labels of a map's other keys: a number is a process, a text the command.

    >>> labels_of(["bash, ", ""]), labels_of(["", ", 42"])
    ((Label(key='comm', text='bash', number=0, unit=''),), (Label(key='pid', text='', number=42, unit=''),))
    """
    out: dict[str, Label] = {}
    for key in (key.strip() for part in parts for key in part.split(",")):
        if key.isdecimal() and len(key) < 11:
            out.setdefault(NUMBER_KEY, Label(NUMBER_KEY, number=int(key)))
        elif key:
            out.setdefault(NAME_KEY, Label(NAME_KEY, key))
    return tuple(out.values())


def read_sample(lines: Iterable[tuple[int, str]], stacks: TracedStacks) -> None:
    """Read a call graph. A line's self count is its count minus the counts of the lines below it."""
    opened: list[tuple[int, int, int]] = []  # column of the count, location (-1: a thread), self count
    thread: tuple[Label, ...] = ()

    def close(column: int) -> None:
        while opened and opened[-1][0] >= column:
            _, leaf, count = opened.pop()
            if leaf >= 0 and count > 0:
                stacks.add([leaf, *(caller for _, caller, _ in reversed(opened) if caller >= 0)], count, thread)

    for number, line in in_call_graph(lines):
        match = SAMPLE_LINE.match(line[:MAX_LINE])
        if match is None:
            stacks.profile.skip(f"line {number}", "a count and a function", line)
            continue
        column, count, rest = len(match["marks"]), int(match["count"]), match["rest"]
        close(column)
        if opened:
            outer_column, location, outer_count = opened[-1]
            opened[-1] = outer_column, location, outer_count - count
            opened.append((column, frame_location(rest, stacks), count))
        else:
            thread = (Label("thread.name", rest.strip()),)
            opened.append((column, -1, count))
        stacks.budget.charge(bounds.ENTRY * len(opened))
    close(0)


def frame_location(text: str, stacks: TracedStacks) -> int:
    """Return the location of NAME  (in MODULE) + OFFSET  [ADDRESS]  FILE:LINE; all parts after NAME are optional."""
    name, inside, rest = text.partition(IN_MODULE)
    module = ""
    if inside:
        module, _, rest = rest.partition(")")
    else:
        name, bracket, rest = text.partition(AT_ADDRESS)
        rest = bracket + rest
    _, bracket, rest = rest.partition(AT_ADDRESS)
    addresses, _, source = rest.partition("]")
    file, _, line = source.strip().rpartition(":")
    has_line = bool(bracket) and line.isdecimal() and len(line) < 10
    name = name.strip()
    if name in UNKNOWN:
        address = ADDRESS.match(addresses.partition(",")[0].strip())
        return stacks.location(module, int(address[0], 16) if address is not None else 0)
    return stacks.location(module, Frame(name, file if has_line else "", int(line) if has_line else 0))


def in_call_graph(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines of the call graph."""
    inside = False
    for number, line in lines:
        if line.rstrip() == CALL_GRAPH:
            inside = True
        elif line.startswith(TOTALS):
            return
        elif inside and line.strip():
            yield number, line


READERS = {"dtrace": read_dtrace, "bpftrace": read_bpftrace, "sample": read_sample}
