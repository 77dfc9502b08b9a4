"""The lines of `perf script`: what each of them says. Which fields there are is the caller's choice (perf script -F).

    python3 4242/4243 [001] K 81.5: 250000 cycles:u:          a sample: comm pid/tid [cpu] flags time: period event:
            7f31c2 memcpy+0x12 (/usr/lib/libc.so.6)           a frame: address, what perf calls it, its file
            55d0e4 inner (inlined)                            an inlined call
            55d0e4 main+0x14 (/usr/bin/app+0x10e4)            -F +dsoff: the offset in the file
      main.c:12                                               -F +srcline
    app 4242 81.4: PERF_RECORD_MMAP2 4242/4242: [0x55d000(0x1000) @ 0x1000 08:01 77 0]: r-xp /usr/bin/app

Frames begin with a tab. A sample of one line (without a call graph) has its frame after the header.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EVENT = r"[\w/,=.*@{}-]+(?::[\w-]+)*"
HEADER = re.compile(
    r"\s*(?:(?P<comm>\S.*?)\s+)?(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[\d+\]\s+)?(?:[^\s:]{1,12}\s+)?"
    rf"(?P<time>\d+\.\d+):(?:\s+(?P<period>\d{{1,18}})(?=\s|$))?(?:\s+(?P<event>{EVENT}):+(?=\s|$))?\s*(?P<rest>.*)$"
)
BARE = re.compile(  # a header without a time
    r"(?:(?P<comm>[^\s:][^:]*?)(?:\s+|$))??(?:(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?(?:\s+|$))?(?:\[\d+\]\s*)?"
    rf"(?:(?P<period>\d{{1,18}})(?:\s+|$))?(?:(?P<event>{EVENT}):+(?=\s|$))?\s*(?P<rest>)$"
)
TIMELESS = re.compile(  # a header without a time, but with a pid and an event
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
MAX_HEADER = 1024  # characters
MAX_TIME = 19  # characters of 64 bits of nanoseconds
MAX_FRAME = 1 << 16  # characters of a frame's line: names of templates are long
INLINED = "(inlined)"
UNKNOWN = ("[unknown]", "")


class SampleHeader(NamedTuple):
    """The header of a sample. `sure` is false for a line that is a header only if a frame follows."""

    comm: str
    pid: int
    tid: int
    event: str
    period: int | None  # None if not printed
    rest: str
    sure: bool
    time: int | None  # nanoseconds; None if not printed


class PerfFrame(NamedTuple):
    """A frame. Fields that are not printed (`file`, `offset`) have the value None."""

    address: int
    name: str
    file: str | None
    offset: int | None
    inlined: bool


def header_of(text: str) -> SampleHeader | None:
    """Return the header of a sample; None for other lines."""
    text = RUNS.sub(" ", text).strip()  # runs of blanks would make the patterns backtrack
    text, tail = text[:MAX_HEADER], text[MAX_HEADER:]
    match = HEADER.match(text)
    if match is None and not tail:
        match = timeless(text)
    sure = match is not None
    if match is None:
        match = BARE.match(text)
        if match is None:
            return None
    comm, pid, tid, event, period, rest = match.group("comm", "pid", "tid", "event", "period", "rest")
    return SampleHeader(
        comm or "",
        int(pid or 0),
        int(tid or 0),
        event or "",
        int(period) if period else None,
        (rest or "") + tail,
        sure,
        time_in(match.groupdict().get("time")),
    )


def time_in(text: str | None) -> int | None:
    """Return seconds with a decimal point as nanoseconds.

    >>> time_in("81.5"), time_in("4217.123456"), time_in(None)
    (81500000000, 4217123456000, None)
    """
    if text is None or len(text) > MAX_TIME:
        return None
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))


def timeless(text: str) -> re.Match[str] | None:
    """Match a header without a time, whose event is followed by nothing or by a complete frame."""
    match = TIMELESS.match(text)
    if match is None or not match["rest"]:
        return match
    frame = frame_of(match["rest"])
    return match if frame is not None and frame.file is not None else None


def is_header(text: str) -> bool:
    """Return True if a line is certainly a header."""
    header = header_of(text)
    return header is not None and header.sure


def frame_of(text: str) -> PerfFrame | None:
    """Return the frame of a line; None for other lines."""
    if len(text) > MAX_FRAME:
        return None
    match = FRAME.match(text)
    if match is None:
        match = NO_FILE.match(text)
        if match is None or (match["name"] or "").startswith("insn:"):
            return None
        return PerfFrame(int(match["address"], 16), plain(match["name"] or ""), None, None, False)
    offset = int(match["offset"], 16) if match["offset"] else None
    inlined = text.rstrip().endswith(INLINED)
    return PerfFrame(int(match["address"], 16), plain(match["name"]), match["file"], offset, inlined)


def plain(name: str) -> str:
    """Return a function's name without an offset; "" for [unknown]."""
    name = INTO.sub("", name.strip())
    return "" if name in UNKNOWN else name


def trailing_frame(header: SampleHeader) -> PerfFrame | None:
    """Return the frame after a header, of a sample of one line; None for other fields that are numbers."""
    frame = frame_of(header.rest) if header.rest else None
    if frame is not None and frame.file is None and not frame.name and len(header.rest.strip()) < 6:
        return None
    return frame


def looks_like(text: str) -> bool:
    """Return True for the text of perf script: one of its first two lines is a header, a frame or an event."""
    seen = 0
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if "PERF_RECORD_" in line or is_header(line) or (line.startswith("\t") and frame_of(line)):
            return True
        seen += 1
        if seen > 1:
            break
    return False
