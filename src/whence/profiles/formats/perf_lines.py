"""The lines of `perf script`: what each of them says. Which fields there are is the caller's choice (perf script -F).

    python3 4242/4243 [001] K 81.5: 250000 cycles:u:          a sample: comm pid/tid [cpu] flags time: period event:
            7f31c2 memcpy+0x12 (/usr/lib/libc.so.6)           a frame: address, what perf calls it, its file
            55d0e4 inner (inlined)                            an inlined call
            55d0e4 main+0x14 (/usr/bin/app+0x10e4)            -F +dsoff: the offset in the file
      main.c:12                                               -F +srcline
    app 4242 81.4: PERF_RECORD_MMAP2 4242/4242: [0x55d000(0x1000) @ 0x1000 08:01 77 0]: r-xp /usr/bin/app

Frames begin with a tab. A sample of one line (no call graph) has its frame behind the header.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EVENT = r"[\w/,=.*@{}-]+(?::[\w-]+)*"
HEADER = re.compile(
    r"\s*(?:(?P<comm>\S.*?)\s+)?(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[\d+\]\s+)?(?:[^\s:]{1,12}\s+)?"
    rf"(?P<time>\d+\.\d+):(?:\s+(?P<period>\d{{1,18}})(?=\s|$))?(?:\s+(?P<event>{EVENT}):+(?=\s|$))?\s*(?P<rest>.*)$"
)
BARE = re.compile(  # what is left of a header where -F leaves out the time
    r"(?:(?P<comm>[^\s:][^:]*?)(?:\s+|$))??(?:(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?(?:\s+|$))?(?:\[\d+\]\s*)?"
    rf"(?:(?P<period>\d{{1,18}})(?:\s+|$))?(?:(?P<event>{EVENT}):+(?=\s|$))?\s*(?P<rest>)$"
)
TIMELESS = re.compile(  # a header without a time that shows by its pid and event what it is
    r"(?:(?P<comm>\S.*?)\s+)?(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[\d+\]\s+)?"
    rf"(?:(?P<period>\d{{1,18}})\s+)?(?P<event>{EVENT}):+(?:\s+(?P<rest>.*))?$"
)
FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]{1,16})\s(?P<name>.*)\s"
    r"\((?P<file>[^()]*?(?:\([^()]*\)[^()]*?)*?)(?:\+0x(?P<offset>[0-9a-f]{1,16}))?\)(?:\s+\(inlined\))?$"
)
NO_FILE = re.compile(r"\s*(?P<address>[0-9a-f]{1,16})(?:\s+(?P<name>[^\s(].*)|\s*)$")  # -F without dso
MMAP = re.compile(
    r"PERF_RECORD_MMAP2? (?P<pid>-?\d+)/-?\d+: \[(?P<start>0x[0-9a-f]{1,16}|0)\((?P<size>0x[0-9a-f]{1,16}|0)\) @ "
    r"(?P<offset>0x[0-9a-f]{1,16}|0)(?: (?P<about>[^\]]*))?\]: (?P<mode>\S+) (?P<path>.*)$"
)
FORK = re.compile(r"PERF_RECORD_FORK\((?P<child>\d+):(?P<tid>\d+)\):\((?P<parent>\d+):\d+\)")
LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?:? lost (?P<count>\d{1,18})")
LINE = re.compile(r"\s+(?P<file>[^\s?:].*):(?P<line>[1-9]\d{0,9})(?: \(discriminator \d+\))?$")
INTO = re.compile(r"\+0x[0-9a-f]+$")
RUNS = re.compile(r"\s+")
HEAD = 1024  # characters in which a header ends
LONGEST_TIME = 19  # characters that 64 bits of nanoseconds have
LONGEST = 1 << 16  # characters of a frame's line: names of templates are long
INLINED = "(inlined)"
UNKNOWN = ("[unknown]", "")


class SampleHeader(NamedTuple):
    """The head of a sample. `sure` is false where nothing but a frame behind it makes it one."""

    comm: str
    pid: int
    tid: int
    event: str
    period: int
    rest: str
    sure: bool
    time: int | None  # nanoseconds; None where it is not printed


class PerfFrame(NamedTuple):
    """A frame. `file` is None where perf was not asked for it, `offset` where it is not printed."""

    address: int
    name: str
    file: str | None
    offset: int | None
    inlined: bool


def header_of(text: str) -> SampleHeader | None:
    """The head of a sample; None for a line that is none."""
    text = RUNS.sub(" ", text).strip()  # where blanks stand alone, no line can be read in many ways
    text, behind = text[:HEAD], text[HEAD:]
    found = HEADER.match(text)
    if found is None and not behind:
        found = timeless(text)
    sure = found is not None
    if found is None:
        found = BARE.match(text)
        if found is None:
            return None
    comm, pid, tid, event, period, rest = found.group("comm", "pid", "tid", "event", "period", "rest")
    return SampleHeader(
        comm or "",
        int(pid or 0),
        int(tid or 0),
        event or "",
        int(period or 1),
        (rest or "") + behind,
        sure,
        time_in(found.groupdict().get("time")),
    )


def time_in(text: str | None) -> int | None:
    """Seconds with digits behind the point as nanoseconds.

    >>> time_in("81.5"), time_in("4217.123456"), time_in(None)
    (81500000000, 4217123456000, None)
    """
    if text is None or len(text) > LONGEST_TIME:
        return None
    seconds, _, behind = text.partition(".")
    return int(seconds) * 10**9 + int(behind[:9].ljust(9, "0"))


def timeless(text: str) -> re.Match[str] | None:
    """A header without a time that nothing else can be: nothing or a whole frame stands behind its event."""
    found = TIMELESS.match(text)
    if found is None or not found["rest"]:
        return found
    place = place_of(found["rest"])
    return found if place is not None and place.file is not None else None


def sure(text: str) -> bool:
    """Whether a line is a header for certain."""
    header = header_of(text)
    return header is not None and header.sure


def place_of(text: str) -> PerfFrame | None:
    """The frame of a line; None for a line that is none."""
    if len(text) > LONGEST:
        return None
    found = FRAME.match(text)
    if found is None:
        found = NO_FILE.match(text)
        if found is None or (found["name"] or "").startswith("insn:"):
            return None
        return PerfFrame(int(found["address"], 16), plain(found["name"] or ""), None, None, False)
    offset = found["offset"]
    inlined = text.rstrip().endswith(INLINED)
    return PerfFrame(
        int(found["address"], 16), plain(found["name"]), found["file"], int(offset, 16) if offset else None, inlined
    )


def plain(name: str) -> str:
    """A function's name without the offset in it; "" for [unknown]."""
    name = INTO.sub("", name.strip())
    return "" if name in UNKNOWN else name


def behind(header: SampleHeader) -> PerfFrame | None:
    """The frame behind a header, for a sample of one line; numbers there may be other fields."""
    place = place_of(header.rest) if header.rest else None
    if place is not None and place.file is None and not place.name and len(header.rest.strip()) < 6:
        return None
    return place


def looks_like(text: str) -> bool:
    """Whether text is perf script's, and not folded stacks: its first two lines have a sample, a frame or an event."""
    seen = 0
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if "PERF_RECORD_" in line or sure(line) or (line.startswith("\t") and place_of(line)):
            return True
        seen += 1
        if seen > 1:
            break
    return False
