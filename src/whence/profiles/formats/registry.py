"""Recognizes the format of a profile by its bytes; reads and writes by the name of a format."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from whence import flamegraph, perfdata
from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ProfileError, empty_file, naming
from whence._base.files import atomic_write, open_input
from whence._base.streams import by_ending
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
from whence.profiles.formats.written import BINARY, ENDINGS, PAGE, PAGE_ENDINGS, WRITTEN
from whence.samples.model import ProfileData
from whence.samples.text import CONTROLS, utf8
from whence.samples.wire import Messages

# formats that are read -> the default format to write
DEFAULTS = {
    "perf": "folded", "": "folded", "dtrace": "folded", "bpftrace": "folded", "sample": "folded", "v8": "speedscope",
    "perf.data": "folded",
}  # fmt: skip
JSON_FORMS = ("firefox", "speedscope", "v8")


def recognized(data: bytes, budget: Budget | None = None) -> str:
    """Return the name of the format of decompressed bytes. Raises ProfileError for other formats.

    It is perf.data, pprof, otlp, perf, folded, one of JSON_FORMS, or a form of profiles.formats.legacy or .stack_texts.
    """
    if perfdata.is_recording(data):
        return perfdata.FORMAT
    if not data or data.isspace():
        if data:
            raise ProfileError("", None, "not a profile: the file is blank")
        raise empty_file(ProfileError)
    not_read = other(data)
    if not_read is not None:
        raise not_a_profile(not_read)
    head = data[:HEAD]
    if word_form(head) is not None:
        return "cpu"
    if not may_be_text(head):
        return "otlp" if is_otlp(data, budget) else "pprof"
    text = head.decode("utf-8", "replace")
    old = legacy.kind_of(text) or stack_texts.kind_of(text)
    if old:
        return old
    if head.lstrip().removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        return json_kind(data) or "otlp"
    if head and CONTROLS.isdisjoint(head):
        return "perf" if perf.looks_like(data[: 1 << 20].decode("utf-8", "replace")) else "folded"
    return "otlp" if is_otlp(data, budget) else "pprof"


def not_a_profile(format: Other) -> ProfileError:
    """Return the error for a format that is not read, with its remedy."""
    return ProfileError("", None, f"{format.what}, not a profile", code=WRONG_KIND).with_hint(format.remedy)


def is_otlp(data: bytes, budget: Budget | None = None) -> bool:
    """Return True if a message has only the two fields of ProfilesData, and a dictionary in the second."""
    message = Messages.from_bytes(data, "profile", budget)
    try:
        if message.count(6) or message.count(4):
            return False
        dictionary = message.field(2, "dictionary") if message.count(2) == 1 else None
        return dictionary is not None and dictionary.count(5) > 0
    except ProfileError:
        return False


def open_profile(path: str | os.PathLike[str]) -> ProfileData:
    """Read the profile in a file, pipe, or folder of perf record --threads; it may be gzip.

    Raises OSError, ProfileError.
    """
    if os.path.isdir(path) and os.path.isfile(os.path.join(path, "data")):
        with naming(os.fspath(path)):
            profile = perfdata.from_folder(os.fspath(path))
            profile.format = perfdata.FORMAT
            return profile
    if os.path.isdir(path) and os.path.exists(os.path.join(path, INSTRUMENTS_FILE)):
        with naming(os.fspath(path)):
            raise not_a_profile(INSTRUMENTS)
    with open_input(path, ProfileError) as file, naming(os.fspath(path)):
        return from_file(file, os.path.dirname(path))


def from_file(file: BinaryIO, folder: str | os.PathLike[str] = "") -> ProfileData:
    """Read the profile in an open binary file or pipe: perf.data in pieces, other formats at once."""
    head = file.read(perfdata.MAGIC_BYTES)
    if perfdata.is_recording(head) and isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
        profile = perfdata.from_file(file, head, os.fspath(folder))
        profile.format = perfdata.FORMAT
        return profile
    if isinstance(file, io.BufferedReader) and file.seekable():  # past its buffer, which would be copied
        file.raw.seek(file.tell() - len(head))
        return from_bytes(file.raw.readall())
    return from_bytes(head + file.read())


def from_bytes(data: bytes, *, local: bool = True) -> ProfileData:
    """Read the profile in some bytes, which may be gzip, and set its `format`.

    With `local` false no file of this machine is opened, even if the profile refers to one (a jitdump).
    """
    profile, format = read(data, local=local)
    profile.format = format
    return profile


def read(data: bytes, *, local: bool = True) -> tuple[ProfileData, str]:
    """Read the profile in some bytes, which may be gzip; return it and the name of its format."""
    data, compressed, budget = gz.plain_bytes(data)
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
    """Return the format to write: by the path's ending, else the format it was read in.

    Text of stacks becomes folded stacks; other formats that are not written become pprof.
    """
    default = DEFAULTS.get(profile.format, profile.format if profile.format in WRITTEN else "pprof")
    return next((format for ending, format in ENDINGS + PAGE_ENDINGS if path.endswith(ending)), default)


def renamed(name: str, format: str) -> str:
    """Return a file's name with the ending of a format, unless it has an ending of that format.

    >>> renamed("cpu.pb.gz", "firefox"), renamed("cpu.pb", "pprof"), renamed("perf.txt", "folded"), renamed("x", "top")
    ('cpu.firefox.json', 'cpu.pb', 'perf.folded', 'x.top.txt')
    """
    endings = ENDINGS + PAGE_ENDINGS
    old, old_format = next(((ending, meant) for ending, meant in endings if name.endswith(ending)), ("", ""))
    if old_format == format and old != ".txt":
        return name
    preferred = {
        "top": ".top.txt",
        "json": ".profile.json",
        "pprof": ".pb.gz",
        "folded": ".folded",
        "otlp-json": ".otlp.json",
    }
    ending = preferred.get(format) or next(ending for ending, meant in endings if meant == format)
    return name.removesuffix(old) + ending


def is_binary(profile: ProfileData, format: str, path: str = "") -> bool:
    """Return True if a profile written in a format to a path is not text."""
    if format == "otlp":
        return not (path.endswith(".json") or otlp.is_text(profile))
    return format in BINARY or path.endswith(".gz")


def write(profile: ProfileData, path: str | os.PathLike[str], format: str = "", *, json: bool | None = None) -> None:
    """Write a profile to a file, completely or not at all, or to a pipe or device.

    `format` is one of WRITTEN, or PAGE (default: by the path's ending; for a path without ending the format it was read
    in; text becomes folded stacks). `json` chooses OTLP's JSON form (default: by the ending .json, else the form it was
    read in). Raises WrongUse for an unknown ending.
    """
    path = os.fspath(path)
    format = format or by_ending(path, ENDINGS + PAGE_ENDINGS, "a profile", "; or give a format")
    format = format or format_for(profile, path)
    json = json or path.endswith(".json") or None
    save(path, packed(to_bytes(profile, format, os.path.basename(path), json=json), format, path))


def packed(data: bytes, format: str, path: str) -> bytes:
    """Return the contents of a file of this name: text is compressed if the name ends with .gz."""
    is_packed = format in ("pprof", "otlp") or data.startswith(gz.MAGIC)
    return gz.deflated(data) if path.endswith(".gz") and not is_packed else data


def save(path: str, data: bytes) -> None:
    """Write bytes to a file, completely or not at all."""
    with atomic_write(path) as file:
        file.write(data)


def to_bytes(
    profile: ProfileData,
    format: str,
    name: str = "",
    *,
    json: bool | None = None,
    table: top.TableOptions = top.DEFAULT_TABLE,
) -> bytes:
    """Return the profile in one of WRITTEN or as PAGE; some formats store `name`.

    `table` is for "top". Raises ValueError for other formats, ProfileError if the output would be too large.
    """
    match format:
        case "pprof":
            return pprof.write(profile)
        case "otlp":
            return otlp.write(profile, json=json)
        case "otlp-json":
            return otlp.write(profile, json=True)
        case "top":
            return utf8(top.write(profile, table))
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
    raise ValueError(f"unknown format {format!r}: a profile is written as {', '.join(WRITTEN)} or {PAGE}")
