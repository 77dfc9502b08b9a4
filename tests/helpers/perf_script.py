"""What `perf script` prints of a recording, and the same of a profile, to be compared frame by frame."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.profiles import Profile
from whence.samples.kinds import GENERATED

FIELDS = "comm,pid,tid,time,event,period,ip,sym,symoff,dso"
HEADER = re.compile(
    r"\s*(?P<comm>\S.*?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?P<time>\d+\.\d+):\s+(?P<period>\d+)\s+"
    r"(?P<event>\S+):\s*(?P<rest>.*)$"
)
FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]+) (?P<name>.*?)(?:\+0x(?P<into>[0-9a-f]+))?"
    r"(?P<inlined> \(inlined\))?(?: \((?P<file>.*)\))?$"
)
NO_LINE = re.compile(r"^\?\?|^:|:[0?]$")
UNKNOWN, VDSO = "[unknown]", "[vdso]"
KALLSYMS = "/proc/kallsyms"
CLONE = re.compile(
    r"(\.(part|constprop|isra|cold|llvm|abi0|abiinternal)(\.\d+)*)+$"
)  # debug info has the function's name
VERSION = re.compile(r"@+\w+(\.\w+)*$")

KERNEL = 0xFFFF_8000_0000_0000  # the first address of the kernel; junk can be between it and the users' half
PAGE = 4096  # junk in call chains is mostly small: the first page has no code


class Seen(NamedTuple):
    """One frame: the address as perf script prints it, its name, its file, and the line as base name and number."""

    address: int
    name: str
    into: int
    file: str
    source: str = ""
    inlined: bool = False


class Event(NamedTuple):
    comm: str
    pid: int
    tid: int
    time: str
    event: str
    period: int
    frames: tuple[Seen, ...]


def printed(text: str) -> list[Event]:
    """The samples of a perf script text."""
    out: list[Event] = []
    frames: list[Seen] = []
    header: re.Match[str] | None = None

    def end() -> None:
        if header is not None:
            pid, tid, period = int(header["pid"]), int(header["tid"]), int(header["period"])
            out.append(Event(header["comm"], pid, tid, header["time"], header["event"], period, tuple(frames)))

    for line in text.splitlines():
        if line.startswith("\t"):
            frames.append(seen(line))
        elif line.startswith("  ") and not line.startswith("   ") and frames:  # a line of a frame
            source = line.strip().removesuffix(" (inlined)")
            inlined = frames[-1].inlined or line.endswith(" (inlined)")
            frames[-1] = frames[-1]._replace(source="" if NO_LINE.search(source) else source, inlined=inlined)
        elif result := HEADER.match(line):
            end()
            header, frames = result, []
            if FRAME.match(result["rest"]):
                frames = [seen(result["rest"])]
    end()
    return out


def seen(line: str) -> Seen:
    result = FRAME.match(line)
    assert result, line
    name = "" if result["name"] == UNKNOWN else result["name"]
    file = result["file"] or UNKNOWN
    return Seen(int(result["address"], 16), name, int(result["into"] or "0", 16), file, "", bool(result["inlined"]))


def recorded(folder: Path, *options: str, program: str | Path | list[str], rate: int = 999) -> Path:
    """A recording of a program; skips where perf may not record."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    out = folder / "perf.data"
    words = program if isinstance(program, list) else [str(program)]
    command = [perf, "record", "-q", "-F", str(rate), "-o", str(out), *options, "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode or not out.exists():
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:200]}")
    return out


def script(path: Path, *, inlined: bool = False) -> list[Event]:
    """What perf script prints of a recording; with `inlined` the inlined calls, too, and lines."""
    fields = ["-F", f"{FIELDS},srcline"] if inlined else ["-F", FIELDS, "--no-inline"]
    command = ["perf", "script", "--no-demangle", "-i", str(path), *fields]
    return printed(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def events(profile: Profile, *, alone: bool = False, unwound: bool = False, inlined: bool = False) -> list[Event]:
    """The samples of a profile as perf script prints them: addresses of callers are return addresses, and in call
    graphs offsets in files. Of stacks that perf unwound itself (`unwound`) it subtracts 1, as whence does everywhere.
    `alone`: the recording has no call graphs. With `inlined` there is a frame for each inlined call."""
    samples = profile.samples
    out = []
    assert samples.timeline is not None
    for event, (index, time) in enumerate(zip(samples.timeline.sample, samples.timeline.time, strict=True)):
        labels = {item.key: item for item in samples.labels[index]}
        frames = [
            item for each in frames_of(profile, samples.locations(index), alone, unwound, inlined) for item in each
        ]
        for kind, item in enumerate(profile.sample_types[1:], 1):
            if value := samples.timeline.values[kind][event]:
                pid, tid = labels["pid"].number, labels["tid"].number
                shown = f"{time // 10**9}.{time % 10**9 // 1000:06}"
                comm = labels["comm"].text if "comm" in labels else f":{tid}"
                out.append(Event(comm, pid, tid, shown, item.type, value, tuple(frames)))
    return out


def frames_of(
    profile: Profile, locations: array[int], alone: bool, unwound: bool, inlined: bool
) -> Iterator[list[Seen]]:
    before = 0
    for depth, location in enumerate(locations):
        address = profile.address[location]
        mapping = profile.mapping_of(location)
        enters_user = before >= KERNEL and not address >> 63
        before = address
        if depth and not enters_user and address >= PAGE and not (unwound and not address >> 63):
            address += 1
        file = UNKNOWN
        if mapping is not None:
            file = re.sub(r"\]_\w+", "]", mapping.path)
            has_file = mapping.path.startswith("/memfd:") or not GENERATED.match(mapping.path)
            if not alone and not mapping.start >> 63 and has_file:
                address += mapping.file_offset - mapping.start
        chain = profile.frames[location]
        if not inlined or not chain:
            yield [Seen(address, chain[-1].function if chain else "", 0, file)]
            continue
        yield [
            Seen(
                address,
                each.function,
                0,
                file,
                f"{os.path.basename(each.file)}:{each.line}" if each.line else "",
                each.inlined,
            )
            for each in chain
        ]


def plain(name: str) -> str:
    """Return a symbol's name without the suffixes of linkers and compilers."""
    return CLONE.sub("", VERSION.sub("", name))


@functools.cache
def symbols_of(path: str) -> dict[str, set[int]]:
    """Where each symbol of a file is, those of its debug file among them."""
    out: dict[str, set[int]] = {}
    if path.startswith("["):
        with open(KALLSYMS) as lines:
            for address, _, name in (line.split()[:3] for line in lines):
                out.setdefault(plain(name), set()).add(int(address, 16))
        return out
    elf = ElfFile.open(path)
    with Locator() as locator:
        debug = locator.find(build_id=elf.build_id, path=path, kinds=("debuginfo",)).path if elf.build_id else ""
    for each in (elf, ElfFile.open(debug)) if debug and debug != path else (elf,):
        for table in (".symtab", ".dynsym"):
            symbols = each.symbols(table)
            for index, value in enumerate(symbols.value):
                out.setdefault(plain(symbols.name(index)), set()).add(value)
    return out


def is_alias(path: str, ours: str, theirs: str) -> bool:
    """Whether two names are those of one function: symbols of one address, or a name that debug info has without
    linkage name (of a local function) which the other one holds."""
    if not (path.startswith("[kernel") or os.path.isfile(path)):
        return False
    expected = symbols_of(path)
    mine, other = expected.get(plain(ours)), expected.get(plain(theirs))
    if mine and other:
        return bool(mine & other)
    base = re.split(r"[<(]", ours)[0].rpartition("::")[2]
    return not mine and bool(base) and base in theirs


def is_past_section(path: str, name: str, into: int) -> bool:
    """Return True if the address `into` bytes after a symbol's start is in another section: perf extends a symbol
    without size (`_init`) to the next symbol, over the procedure linkage table between them."""
    if not os.path.isfile(path):
        return False
    with ElfFile.open(path) as elf:
        ranges = [range(each.vaddr, each.vaddr + each.size) for each in elf.sections if each.vaddr]
    starts = symbols_of(path).get(plain(name), set())
    return bool(starts) and not any(start in each and start + into in each for start in starts for each in ranges)


def is_named_as(here: Seen, there: Seen) -> bool:
    """Whether perf names the same function as the other, or one of another section than the address."""
    if plain(here.name) == plain(there.name) or is_alias(here.file, here.name, there.name):
        return True
    return not here.name and is_past_section(here.file, there.name, there.into)


def compare(theirs: list[Event], ours: list[Event], comm: str = "") -> int:
    """Assert that samples are equal, and return the number of names compared.

    `comm` limits frames to threads of that name. Of a chain the frames up to the first one outside every mapping are
    compared: addresses, files and names. From there on the kernel followed a register that was not a frame pointer, and
    the values are random; perf drops a whole chain with a value that looks like one of its own marks.
    """
    assert [each._replace(frames=()) for each in ours] == [
        each._replace(frames=(), event=each.event.partition(":")[0]) for each in theirs
    ]
    compared = 0
    for mine, other in zip(ours, theirs, strict=True):
        if not other.frames or comm not in ("", other.comm):
            continue
        count = defined_frames(mine)
        mine, other = (event._replace(frames=event.frames[:count]) for event in (mine, other))
        assert [frame.address for frame in mine.frames] == [frame.address for frame in other.frames], other
        compared += compare_names(mine, other)
    return compared


def defined_frames(event: Event) -> int:
    """Return how many frames come before the first one outside every mapping."""
    return next((count for count, frame in enumerate(event.frames) if frame.file == UNKNOWN), len(event.frames))


def compare_names(mine: Event, other: Event) -> int:
    compared = 0
    for current, there in zip(mine.frames, other.frames, strict=True):
        if there.name and there.file != UNKNOWN and not there.file.startswith("/tmp/perf-"):
            assert current.file == there.file, (current, there)
        # of a caller perf names the return address, which may be the next function's first byte; it names every vDSO by
        # its own
        if there.name and there.into and not (current.file == VDSO and not current.name):
            compared += 1
            assert is_named_as(current, there), (current, there)
    return compared


def compare_inlined(theirs: list[Event], ours: list[Event], folder: Path) -> int:
    """Stacks that perf unwound, with a frame for each inlined call: addresses and lines equal, files and names of the
    code in a folder, too. Returns how many inlined frames were compared.

    perf's addr2line calls a file of libraries by its unit's; it gives a name that isn't the symbol's own to the
    innermost frame, or marks it as inlined, arbitrarily; inlined functions have only their last name.
    """
    compared = 0
    for mine, other in zip(ours, theirs, strict=True):
        assert mine._replace(frames=()) == other._replace(frames=(), event=other.event.partition(":")[0])
        files = [each.file.startswith(str(folder)) for each in mine.frames]
        assert [place(*pair) for pair in zip(mine.frames, files, strict=True)] == [
            place(*pair) for pair in zip(other.frames, files, strict=True)
        ], (mine, other)
        for current, there, own in zip(mine.frames, other.frames, files, strict=True):
            if own and current.inlined and there.inlined:
                compared += 1
                assert last_name(current.name) == last_name(there.name), (current, there)
            elif own and not current.inlined and not there.inlined and there.name:
                assert is_named_as(current, there), (current, there)
    return compared


def place(frame: Seen, own: bool) -> tuple[int, str]:
    if frame.address >> 63:
        return frame.address, ""
    return frame.address, frame.source if own else frame.source.rpartition(":")[2]


def last_name(name: str) -> str:
    """A function's name without its scopes and what it was made of.

    >>> last_name("std::sort<int (*)(int), ns::less>"), last_name("(anonymous)::operator()")
    ('sort', 'operator()')
    """
    text = re.sub(r"_?17h[0-9a-f]{16}E$", "", name.replace("operator()", "operator"))
    while "<" in text[1:] and text != (text := re.sub(r"(?<=.)<[^<>]*>", "", text)):
        pass
    result = re.split(r"[(]", text.removeprefix("(anonymous)"))[0].rpartition("::")[2]
    return "operator()" if result == "operator" else result
