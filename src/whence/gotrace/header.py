"""Read the start of a trace in either form from a feed."""

from __future__ import annotations

import re

from whence._base.errors import WRONG_KIND, TraceError, empty_file, shown
from whence.gotrace.faults import TextError
from whence.gotrace.feed import Feed
from whence.gotrace.quoting import is_blank, tokens
from whence.gotrace.specs import HEADER_SIZE, Version, looks_like_text, looks_like_wire, read_header, version_of

_GO = re.compile(r"Go1\.([0-9]+)")
MAX_HEADER_LINE = 1 << 16
NO_HEADER = "expected the header Trace Go1.N"


def read_wire_header(feed: Feed) -> Version:
    """Read the header of a binary trace and return its version."""
    while feed.stop - feed.start < HEADER_SIZE and feed.more():
        pass
    version = read_header(bytes(feed.window()[:HEADER_SIZE]))
    feed.use(feed.start + HEADER_SIZE)
    return version


def read_text_header(feed: Feed) -> tuple[Version, int]:
    """Read the header line of a text trace, after empty lines and comments.

    Returns the version and the number of the line after the header.
    """
    number = 0
    while True:
        line = _line(feed)
        if line is None:
            raise TextError(feed.offset(feed.start), number + 1, 1, NO_HEADER)
        number += 1
        offset = feed.offset(feed.start)
        feed.use(feed.start + len(line))
        text = line.decode("utf-8", "replace")
        header = tokens(text.removesuffix("\n").removesuffix("\r"))
        if header:
            break
    match = _GO.fullmatch(header[1][0]) if len(header) > 1 else None
    if header[0][0] != "Trace" or match is None:
        raise TextError(offset, number, 1, f"{NO_HEADER}, found {shown(text.strip())}")
    version_end = header[1][1] + len(header[1][0])
    rest = text[version_end:]
    if not is_blank(rest):
        problem = f"unexpected text after the version: {shown(rest.strip())}"
        raise TextError(offset, number, version_end + 1, problem)
    minor = int(match[1]) if len(match[1]) < 20 else -1
    return version_of(minor, "text", offset), number + 1


def _line(feed: Feed) -> bytes | None:
    """Return the next line with its newline without using it, None at the end."""
    while True:
        window = bytes(feed.window()[:MAX_HEADER_LINE])
        end = window.find(b"\n")
        if end >= 0:
            return window[: end + 1]
        if len(window) == MAX_HEADER_LINE:
            raise TraceError("text", feed.offset(feed.start), f"the first line has more than {MAX_HEADER_LINE} bytes")
        if not feed.more():
            return window or None


def recognize(feed: Feed) -> str:
    """Return the form of a feed's trace, "wire" or "text", without using any bytes."""
    while feed.stop - feed.start < HEADER_SIZE and feed.more():
        pass
    head = bytes(feed.window()[:MAX_HEADER_LINE])
    if looks_like_wire(head):
        return "wire"
    while not looks_like_text(head) and len(head) < MAX_HEADER_LINE and feed.more():
        head = bytes(feed.window()[:MAX_HEADER_LINE])
    if looks_like_text(head):
        return "text"
    raise no_trace(head)


def no_trace(head: bytes) -> TraceError:
    """Return the error for bytes that do not start a trace."""
    if not head:
        return empty_file(TraceError)
    return TraceError("", 0, f"not a Go execution trace: the file starts with {shown(head[:16])}", code=WRONG_KIND)
