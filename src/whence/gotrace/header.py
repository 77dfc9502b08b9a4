"""What a trace starts with, in either form, read from a feed."""

from __future__ import annotations

import re

from whence._base.errors import WRONG_KIND, TraceError, empty_file, shown
from whence.gotrace.faults import TextError
from whence.gotrace.feed import Feed
from whence.gotrace.quoting import is_blank, tokens
from whence.gotrace.specs import HEADER_SIZE, Version, known, looks_like_text, looks_like_wire, read_header

_GO = re.compile(r"Go1\.([0-9]+)")
MAX_HEADER_LINE = 1 << 16


def read_wire_header(feed: Feed) -> Version:
    """Take the header of a wire trace."""
    while feed.stop - feed.start < HEADER_SIZE and feed.more():
        pass
    version = read_header(bytes(feed.window()[:HEADER_SIZE]))
    feed.use(feed.start + HEADER_SIZE)
    return version


def read_text_header(feed: Feed) -> tuple[Version, int]:
    """Take the header line of a text trace, with what is empty or a comment before it. Returns the version and the
    number of the line after it."""
    number = 0
    while True:
        line = _line(feed)
        if line is None:
            raise TextError(feed.offset(feed.start), number + 1, 1, "a text trace starts with Trace Go1.N", "nothing")
        number += 1
        offset = feed.offset(feed.start)
        feed.use(feed.start + len(line))
        text = line.decode("utf-8", "replace")
        words = tokens(text.removesuffix("\n").removesuffix("\r"))
        if words:
            break
    match = _GO.fullmatch(words[1][0]) if len(words) > 1 else None
    if words[0][0] != "Trace" or match is None:
        raise TextError(offset, number, 1, "a text trace starts with Trace Go1.N", text.strip())
    rest = text[words[1][1] + len(words[1][0]) :]
    if not is_blank(rest):
        raise TextError(offset, number, words[1][1] + len(words[1][0]) + 1, "nothing follows the version", rest.strip())
    minor = int(match[1]) if len(match[1]) < 20 else -1
    return known(minor, "text", offset), number + 1


def _line(feed: Feed) -> bytes | None:
    """The next line with its newline, not yet used; None at the end."""
    while True:
        window = bytes(feed.window()[:MAX_HEADER_LINE])
        end = window.find(b"\n")
        if end >= 0:
            return window[: end + 1]
        if len(window) == MAX_HEADER_LINE:
            raise TraceError("text", feed.offset(feed.start), "a text trace starts with a short line")
        if not feed.more():
            return window or None


def recognize(feed: Feed) -> str:
    """Which form a feed's trace has: "wire" or "text"; nothing is taken."""
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
    """The error for bytes that start as no trace does."""
    if not head:
        return empty_file(TraceError)
    rule = 'it starts with "go 1.N trace" (wire) or "Trace Go1.N" (text)'
    fault = f"not a Go execution trace: it starts with {shown(head[:16])}"
    return TraceError("header", 0, rule, head[:16], fault=fault, code=WRONG_KIND)
