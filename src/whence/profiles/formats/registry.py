"""Which format a profile is in, by its bytes; reading and writing by a format's name.

Rooms of formats are imported when they are needed: a command starts with one of them, not all.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from whence import flamegraph, perfdata
from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ProfileError, empty_file, naming
from whence._base.files import atomic_write, open_input
from whence.profiles import arrow, top
from whence.profiles.formats import (
    firefox,
    firefox_read,
    folded,
    gz,
    legacy,
    otlp,
    perf,
    plain_json,
    pprof,
    speedscope,
    speedscope_read,
    stack_texts,
    v8,
)
from whence.profiles.formats.others import (
    HEAD,
    INSTRUMENTS,
    INSTRUMENTS_FILE,
    Other,
    json_kind,
    may_be_text,
    other,
    word_form,
)
from whence.samples.model import ProfileData
from whence.samples.text import CONTROLS, utf8
from whence.samples.wire import Messages

WRITTEN = ("pprof", "otlp", "otlp-json", "folded", "speedscope", "firefox", "top", "json", "arrow")
BINARY = ("pprof", "arrow")
TEXTS = ("top", "json")  # which say what is in a profile, and are not read again
PAGE = "flamegraph"  # a page for people, which is not read again
PAGE_ENDINGS = ((".html", PAGE), (".htm", PAGE))
ENDINGS = (
    (".speedscope.json", "speedscope"), (".firefox.json", "firefox"), (".firefox.json.gz", "firefox"),
    (".otlp.json", "otlp-json"), (".json", "otlp-json"), (".otlp", "otlp"), (".arrow", "arrow"), (".arrows", "arrow"),
    (".pb.gz", "pprof"), (".pprof", "pprof"), (".prof", "pprof"), (".pb", "pprof"),
    (".folded", "folded"), (".txt", "folded"),
)  # fmt: skip


# what is written where nothing says another format
AS_IT_CAME = {
    "perf": "folded", "": "folded", "dtrace": "folded", "bpftrace": "folded", "sample": "folded", "v8": "speedscope",
    "perf.data": "folded",
}  # fmt: skip
JSON_FORMS = ("firefox", "speedscope", "v8")


def recognized(data: bytes, budget: Budget | None = None) -> str:
    """The name of the format of plain bytes. Those of protocol buffers differ by their tables' places.

    perf.data, pprof, otlp, perf, folded, one of JSON_FORMS, or a form of profiles.formats.legacy or .stack_texts.
    """
    if perfdata.is_recording(data):
        return perfdata.FORMAT
    if not data or data.isspace():
        if data:
            raise ProfileError("file", None, "it holds a profile", "blanks", fault="nothing but blanks: not a profile")
        raise empty_file(ProfileError)
    found = other(data)
    if found is not None:
        raise refused(found)
    head = data[:HEAD]
    if word_form(head) is not None:
        return "cpu"
    if not may_be_text(head):
        return "otlp" if otlp_inside(data, budget) else "pprof"
    text = head.decode("utf-8", "replace")
    old = legacy.kind_of(text) or stack_texts.kind_of(text)
    if old:
        return old
    if head.lstrip().removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        return json_kind(data) or "otlp"
    if head and CONTROLS.isdisjoint(head):
        return "perf" if perf.looks_like(data[: 1 << 20].decode("utf-8", "replace")) else "folded"
    return "otlp" if otlp_inside(data, budget) else "pprof"


def refused(found: Other) -> ProfileError:
    """The error for what is no profile, with what to do."""
    fault = f"{found.what}, not a profile"
    problem = ProfileError("file", None, "it holds a profile", found.what, fault=fault, code=WRONG_KIND)
    return problem.with_hint(found.remedy)


def otlp_inside(data: bytes, budget: Budget | None = None) -> bool:
    """Whether a message has no field but ProfilesData's two, and a dictionary in the second."""
    whole = Messages.from_bytes(data, "profile", budget)
    try:
        if whole.count(6) or whole.count(4):
            return False
        dictionary = whole.field(2, "dictionary") if whole.count(2) == 1 else None
        return dictionary is not None and dictionary.count(5) > 0
    except ProfileError:
        return False


def open_profile(path: str | os.PathLike[str]) -> ProfileData:
    """The profile in a file (or pipe), in gzip or not; its bytes decide the format.

    Raises OSError, and ProfileError with what breaks which rule. The file is read whole.
    """
    folder = os.path.isdir(path) and os.path.isfile(os.path.join(path, "data"))
    if folder:  # perf record --threads makes such
        with naming(os.fspath(path)):
            profile = perfdata.from_folder(os.fspath(path))
            profile.format = perfdata.FORMAT
            return profile
    if os.path.isdir(path) and os.path.exists(os.path.join(path, INSTRUMENTS_FILE)):
        with naming(os.fspath(path)):
            raise refused(INSTRUMENTS)
    with open_input(path, ProfileError) as file, naming(os.fspath(path)):
        return from_file(file, os.path.dirname(path))


def from_file(file: BinaryIO, folder: str | os.PathLike[str] = "") -> ProfileData:
    """The profile in an open binary file or pipe. A recording of perf's is read in pieces, anything else whole."""
    head = file.read(perfdata.MAGIC_BYTES)
    if perfdata.is_recording(head) and isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
        profile = perfdata.from_file(file, head, os.fspath(folder))
        profile.format = perfdata.FORMAT
        return profile
    if isinstance(file, io.BufferedReader) and file.seekable():  # around its buffer: read once more, and not copied
        file.raw.seek(file.tell() - len(head))
        return from_bytes(file.raw.readall())
    return from_bytes(head + file.read())


def from_bytes(data: bytes, *, local: bool = True) -> ProfileData:
    """The profile in some bytes, in gzip or not; they decide the format, which the profile then names.

    With `local` false no file of this machine is opened, even if the profile names one (a jitdump).
    """
    profile, format = read(data, local=local)
    profile.format = format
    return profile


def read(data: bytes, *, local: bool = True) -> tuple[ProfileData, str]:
    """The profile in some bytes, in gzip or not, and the name of the format they are in."""
    data, compressed, budget = gz.opened(data)
    format = recognized(data, budget)
    if format == "perf.data":
        return perfdata.from_bytes(data, budget, local=local), format
    if format == "pprof":
        return pprof.read(data, compressed=compressed, budget=budget), format
    if format == "otlp":
        return otlp.read(data, compressed=compressed, budget=budget), format
    if format == "cpu":
        return legacy.read_cpu(data, budget), format
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    if format in JSON_FORMS:
        readers = {"firefox": firefox_read.read, "speedscope": speedscope_read.read, "v8": v8.read}
        return readers[format](text, budget), format
    if format in stack_texts.READERS:
        return stack_texts.read(text, format, budget), format
    if format in legacy.READERS:
        return legacy.read(text, format, budget), format
    return (perf if format == "perf" else folded).read(text, budget), format


def format_for(profile: ProfileData, path: str) -> str:
    """The format to write: by the path's ending, else the one it was read in.

    Text of perf's becomes folded stacks; what has values of several types and is not written becomes pprof.
    """
    as_it_came = AS_IT_CAME.get(profile.format, profile.format if profile.format in WRITTEN else "pprof")
    return next((format for ending, format in ENDINGS + PAGE_ENDINGS if path.endswith(ending)), as_it_came)


def renamed(name: str, format: str) -> str:
    """A file's name with the ending of a format in place of its own; as it is where its ending says the format already.

    >>> renamed("cpu.pb.gz", "firefox"), renamed("cpu.pb", "pprof"), renamed("perf.txt", "folded"), renamed("x", "top")
    ('cpu.firefox.json', 'cpu.pb', 'perf.folded', 'x.top.txt')
    """
    endings = ENDINGS + PAGE_ENDINGS
    found = next(((ending, meant) for ending, meant in endings if name.endswith(ending)), ("", ""))
    if found[1] == format and found[0] != ".txt":
        return name
    own = {
        "top": ".top.txt",
        "json": ".profile.json",
        "pprof": ".pb.gz",
        "folded": ".folded",
        "otlp-json": ".otlp.json",
    }
    ending = own.get(format) or next(ending for ending, meant in endings if meant == format)
    return name.removesuffix(found[0]) + ending


def is_binary(profile: ProfileData, format: str, path: str = "") -> bool:
    """Whether a profile written in a format to a path is something else than text."""
    if format == "otlp":
        return not (path.endswith(".json") or otlp.is_text(profile))
    return format in BINARY or path.endswith(".gz")


def write(profile: ProfileData, path: str | os.PathLike[str], format: str = "", *, json: bool | None = None) -> None:
    """Write a profile to a file, which never holds half of it; pipes and devices are written to.

    `format` is one of WRITTEN, or PAGE, a flame graph's HTML (default: by the path's ending, else as it was read; text
    becomes folded stacks). `json` chooses OTLP's JSON form (default: by the ending .json, else as it was read).
    """
    place = os.fspath(path)
    format = format or format_for(profile, place)
    json = json or place.endswith(".json") or None
    save(place, packed(to_bytes(profile, format, os.path.basename(place), json=json), format, place))


def packed(data: bytes, format: str, path: str) -> bytes:
    """What goes into a file of this name: JSON and text in gzip where its ending says so."""
    done = format in ("pprof", "otlp") or data.startswith(gz.MAGIC)
    return gz.deflated(data) if path.endswith(".gz") and not done else data


def save(path: str, data: bytes) -> None:
    """Put bytes into a file, all of them or none."""
    with atomic_write(path) as file:
        file.write(data)


def to_bytes(
    profile: ProfileData,
    format: str,
    name: str = "",
    *,
    json: bool | None = None,
    rows: int | None = None,
    sort: str = "self",
) -> bytes:
    """The profile in one of WRITTEN or as PAGE, under a name where the format has room for one.

    `rows` and `sort` are of "top": how many functions, and whether self or total puts them in order.
    """
    match format:
        case "pprof":
            return pprof.write(profile)
        case "otlp":
            return otlp.write(profile, json=json)
        case "otlp-json":
            return otlp.write(profile, json=True)
        case "top":
            found = top.write(profile, top.ROWS if rows is None else rows, sort)
            return utf8(found)
        case "json":
            return plain_json.write(profile, name).encode()
        case "arrow":
            return arrow.write(profile)
        case "firefox":
            origin = profile.unchanged_origin
            if isinstance(origin, firefox_read.FirefoxOrigin):
                return firefox_read.renamed(profile, origin).encode()
            return firefox.write(profile, name).encode()
        case "speedscope":
            return speedscope.write(profile, name).encode("utf-8", "replace")
        case "flamegraph":
            return flamegraph.page_bytes(profile, name)
        case "folded":
            return utf8(folded.write(profile))
    raise ValueError(f"a profile is written as {', '.join(WRITTEN)} or {PAGE}, not {format!r}")
