"""Which format a profile is in, told by its bytes; reading and writing by a format's name."""

from __future__ import annotations

from whence.errors import ProfileError
from whence.profiles import folded, gz, otlp, perf, pprof, speedscope
from whence.profiles.model import Profile
from whence.profiles.wire import Messages

WRITTEN = ("pprof", "otlp", "folded", "speedscope")


def recognized(data: bytes) -> str:
    """pprof, otlp, perf or folded. Two formats of protocol buffers differ by their string tables' place."""
    if data.startswith(gz.MAGIC):
        return "pprof" if not otlp_inside(gz.inflated(data)) else "otlp"
    head = data[:4096]
    if head.lstrip()[:1] == b"{":
        return "otlp"
    if not any(byte < 32 and byte not in b"\t\n\r\x1b" for byte in head) and head:
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


def read(data: bytes) -> Profile:
    """The profile in some bytes, whatever its format; `profile.origin` and `recognized` tell which it was."""
    match recognized(data):
        case "pprof":
            return pprof.read(data)
        case "otlp":
            return otlp.read(data)
        case "perf":
            return perf.read(data.decode("utf-8", "surrogateescape"))
        case _:
            return folded.read(data.decode("utf-8", "surrogateescape"))


def write(profile: Profile, format: str, name: str = "", *, json: bool | None = None) -> bytes:
    """The profile in one of WRITTEN. `json` chooses OTLP's JSON form (default: the form it was read in)."""
    match format:
        case "pprof":
            return pprof.write(profile)
        case "otlp":
            return otlp.write(profile, json=json)
        case "speedscope":
            return speedscope.write(profile, name).encode("utf-8", "replace")
        case _:
            return folded.write(profile).encode("utf-8", "surrogateescape")
