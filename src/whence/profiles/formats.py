"""Which format a profile is in, told by its bytes; reading and writing by a format's name.

Rooms of formats are imported when they are needed: a command starts with one of them, not all.
"""

from __future__ import annotations

import os

from whence.errors import ProfileError
from whence.files import atomic_write, open_input
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
ENDINGS = (
    (".speedscope.json", "speedscope"), (".otlp.json", "otlp"), (".json", "otlp"), (".otlp", "otlp"),
    (".pb.gz", "pprof"), (".pprof", "pprof"), (".pb", "pprof"), (".folded", "folded"), (".txt", "folded"),
)  # fmt: skip


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


def open_profile(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file (or pipe), in gzip or not; its bytes tell the format.

    Raises OSError, and ProfileError with what breaks which rule. The file is read whole.
    """
    with open_input(path, ProfileError) as file:
        return from_bytes(file.read())


def from_bytes(data: bytes) -> Profile:
    """The profile in some bytes, in gzip or not; they tell the format, which the profile then names."""
    profile, format = read(data)
    profile.format = format
    return profile


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


def format_for(profile: Profile, path: str) -> str:
    """The format to write: told by the path's ending, else the one it was read in; text becomes folded stacks."""
    as_it_came = profile.format if profile.format in WRITTEN else "folded"
    return next((format for ending, format in ENDINGS if path.endswith(ending)), as_it_came)


def write(profile: Profile, path: str | os.PathLike[str], format: str = "", *, json: bool | None = None) -> None:
    """Write a profile to a file, which never holds half of it; pipes and devices are written to.

    `format` is one of WRITTEN (default: by the path's ending, else as it was read; text becomes folded stacks). `json`
    chooses OTLP's JSON form (default: by the ending .json, else the form it was read in).
    """
    place = os.fspath(path)
    format = format or format_for(profile, place)
    save(place, to_bytes(profile, format, os.path.basename(place), json=json or place.endswith(".json") or None))


def save(path: str, data: bytes) -> None:
    """Put bytes into a file, all of them or none."""
    with atomic_write(path) as file:
        file.write(data)


def to_bytes(profile: Profile, format: str, name: str = "", *, json: bool | None = None) -> bytes:
    """The profile in one of WRITTEN, under a name where the format has room for one."""
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
        case "folded":
            from whence.profiles import folded

            return folded.write(profile).encode("utf-8", "surrogateescape")
    raise ValueError(f"a profile is written as {', '.join(WRITTEN)}, not {format!r}")
