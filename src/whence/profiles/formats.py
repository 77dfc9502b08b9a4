"""Which format a profile is in, told by its bytes; reading and writing by a format's name.

Rooms of formats are imported when they are needed: a command starts with one of them, not all.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from whence.errors import ProfileError
from whence.profiles import gz
from whence.profiles.model import Profile
from whence.profiles.wire import Messages

# what else people have at hand: how it begins, what it is, what makes a profile of it
OTHERS = (
    (b"PERFILE2", "perf's own recording", "perf script -i FILE --show-mmap-events | whence profile -"),
    (b"\x7fELF", "an ELF file", "give it with --binary, and a profile first"),
    (b"FLR\0", "a JFR recording", "convert it to pprof or folded stacks (jfrconv)"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "zstd -dc FILE | whence profile -"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"heap profile:", "a profile of gperftools' old form", "pprof -proto FILE > FILE.pb"),
    (bytes(8) + b"\x03" + bytes(7), "a profile of gperftools' old form", "pprof -proto PROGRAM FILE > FILE.pb"),
    (b"go 1.", "a Go execution trace", "whence trace pprof"),
    (b"<!", "a page of HTML", "look at what the server answered"),
    (b"<html", "a page of HTML", "look at what the server answered"),
    (b"<?xml", "a page of XML", "look at what the server answered"),
    (b"@[\n", "bpftrace's own output", "stackcollapse-bpftrace.pl FILE | whence profile -"),
)
WRITTEN = ("pprof", "otlp", "folded", "speedscope")


def recognized(data: bytes) -> str:
    """pprof, otlp, perf or folded; of plain bytes. Two formats of protocol buffers differ by their tables' places."""
    if not data.strip():
        raise ProfileError("file", None, "it holds a profile", "nothing")
    for magic, what, remedy in OTHERS:
        if data.startswith(magic):
            raise ProfileError("file", None, "it holds a profile", what).with_hint(remedy)
    head = data[:4096]
    if head.lstrip()[:1] == b"{":
        return "otlp"
    if not any(byte < 32 and byte not in b"\t\n\r\x1b" for byte in head) and head:
        from whence.profiles import perf

        return "perf" if perf.looks_like(data[: 1 << 20].decode("utf-8", "replace")) else "folded"
    return "otlp" if otlp_inside(data) else "pprof"


def otlp_inside(data: bytes) -> bool:
    """Whether a message has no field but ProfilesData's two, and a dictionary in the second."""
    whole = Messages.whole(data, "profile")
    try:
        if len(whole.field(6, "string_table")) or len(whole.field(4, "location")):
            return False
        dictionary = whole.field(2, "dictionary")
        return len(dictionary) == 1 and len(dictionary.field(5, "string_table")) > 0
    except ProfileError:
        return False


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the cycle collector: a profile has no cycles, and looking for some takes half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read(data: bytes) -> tuple[Profile, str]:
    """The profile in some bytes, in gzip or not, and the name of the format they are in."""
    compressed = data.startswith(gz.MAGIC)
    if compressed:
        data = gz.inflated(data)
    format = recognized(data)
    if format == "pprof":
        from whence.profiles import pprof

        return pprof.read(data, compressed=compressed), format
    if format == "otlp":
        from whence.profiles import otlp

        return otlp.read(data, compressed=compressed), format
    from whence.profiles import folded, perf

    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return perf.read(text) if format == "perf" else folded.read(text), format


def write(profile: Profile, format: str, name: str = "", *, json: bool | None = None) -> bytes:
    """The profile in one of WRITTEN. `json` chooses OTLP's JSON form (default: the form it was read in)."""
    match format:
        case "pprof":
            from whence.profiles import pprof

            return pprof.write(profile)
        case "otlp":
            from whence.profiles import otlp

            return otlp.write(profile, json=json)
        case "speedscope":
            from whence.profiles import speedscope

            return speedscope.write(profile, name).encode("utf-8", "replace")
        case _:
            from whence.profiles import folded

            return folded.write(profile).encode("utf-8", "surrogateescape")
