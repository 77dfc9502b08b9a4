"""Formats that whence recognizes by their bytes but does not read, each with a name and a remedy.

The text forms of gperftools are described in google/pprof (profile/legacy_profile.go).
"""

from __future__ import annotations

import json
import re
from typing import Literal, NamedTuple

from whence.objects.elf.layout import MAGIC as ELF_MAGIC

HEAD = 4096  # bytes that are examined
TEXT_HEAD, MIN_TEXT = 16, 8  # of nearly all protobuf messages, and of no text, one of the first 16 bytes is below 8
HEADER_WORDS = 3  # of a CPU profile, after the two words with their count
CPLUSPLUS, JAVA = 0, 1  # versions of CPU profiles
SIZES: tuple[Literal[4, 8], ...] = (4, 8)
ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")


class Other(NamedTuple):
    """A format that is not read: its name, and how to get a profile."""

    what: str
    remedy: str


MEMRAY = "its frames have names: use memray flamegraph FILE, or convert it with memray transform"
PPROF = "convert it with google/pprof, which reads the old forms: pprof -proto FILE > FILE.pb.gz"
JFR = "convert it to pprof or folded stacks with jfrconv, a part of async-profiler"
TABLE = "name the addresses of a table with whence columns; a profile is pprof, OTLP or another format with stacks"
CPROFILE = Other("cProfile's statistics", "statistics have no stacks: record with py-spy or pyinstrument -r speedscope")
PYINSTRUMENT = Other("a pyinstrument session", "convert it to a format that whence reads: pyinstrument -r speedscope")
GMON = Other("gprof's gmon.out", "read it with gprof PROGRAM FILE, or record stacks with perf")
INSTRUMENTS = Other("a recording of Apple's Instruments", "record with samply, or with sample PID on macOS")
TRACE_OF_EVENTS = Other("a Chrome trace", "a trace has events but no stacks: record a CPU profile")
OWN_HEAD = r"\S.*: \S.* in [\d,]+ functions?(?:, [\d,]+ shown)?\n *self "  # of `whence profile --top`
OWN_TABLE = "whence does not read its own tables: give the profile that the table was made of"
JITDUMP = "combine it with the perf.data: perf inject --jit, then perf script | whence profile -"
RECORD_JFR = "record with JFR or async-profiler, and convert the recording with jfrconv"
SERVER = "open the file: it is the page that a server sent instead of the profile"
QUERY_AGAIN = "request the profile with ?debug=1, or without ?debug for pprof"

# magic numbers, and the formats that have them
MAGICS: tuple[tuple[bytes, Other], ...] = (
    (b"PERFFILE", Other("perf's own recording, version 1", "convert it to text with perf script of that version")),
    (ELF_MAGIC, Other("an ELF file", "give the profile as the argument, and the ELF file with --binary")),
    (b"FLR\0", Other("a JFR recording", JFR)),
    (b"JAVA PROFILE 1.0", Other("a Java heap dump (hprof)", "a heap dump has objects, not samples: use a heap viewer")),
    (b"memray", Other("a memray recording", MEMRAY)),
    (b"\x28\xb5\x2f\xfd", Other("packed by zstd", "decompress it: zstd -dc FILE | whence profile -")),
    (b"\xfd7zXZ", Other("packed by xz", "decompress it: xz -dc FILE | whence profile -")),
    (b"BZh", Other("packed by bzip2", "decompress it: bzip2 -dc FILE | whence profile -")),
    (b"PK\x03\x04", Other("a zip archive", "unpack the archive first")),
    (b"go 1.", Other("a Go execution trace", "make a profile of its CPU samples with whence trace pprof")),
    (b"DTiJ", Other("a jitdump", JITDUMP)),
    (b"JiTD", Other("a jitdump", JITDUMP)),
    (
        b"Nettrace\x14",
        Other("a .nettrace recording of .NET", "convert it: dotnet-trace convert --format Speedscope FILE"),
    ),
    (b"SIMPLEPERF\1\0", Other("a report of Android's simpleperf", "give the perf.data that the report was made of")),
    (b"gmon\1\0\0\0", GMON),
    (b"gmon\0\0\0\1", GMON),
    (b"SQLite format 3\0", Other("an SQLite database", "export the stacks with the program that wrote it")),
    *(
        (b"MOJ%c" % version, Other("an Austin recording", "convert it: mojo2austin FILE OUT"))
        for version in range(1, 5)
    ),
    (b"\xff\xff\xff\xff", Other("a stream of Arrow", TABLE)),
    (b"ARROW1\0\0", Other("an Arrow file", TABLE)),
    (b"PAR1\x15", Other("a Parquet file", TABLE)),
    *((first + pair + b"\3", CPROFILE) for first in (b"{", b"\xfb") for pair in (b")", b"\xa9")),  # of marshal
    (b"<!", Other("a page of HTML", SERVER)),
    (b"<html", Other("a page of HTML", SERVER)),
    (b"<?xml", Other("a page of XML", SERVER)),
)
LZ4 = b"\x04\x22\x4d\x18"

# patterns of the start of a text, and the formats that have them; the most specific first
TEXTS: tuple[tuple[str, Other], ...] = tuple(
    (pattern, Other(what, remedy))
    for pattern, what, remedy in (
        (r"--- (?:heapz|heap) \d+ ---\s+format = java", "a Java heapz profile", PPROF),
        (r"--- contention(?:z)? \d+ ---\s+format = java", "a Java contentionz profile", PPROF),
        (r"--- (?:cpuz?|growthz) \d+ ---\s+format = java", "a Java profile of gperftools' text form", PPROF),
        (r"goroutine \d+ (?:gp=\S+ )?(?:m=\S+ )?(?:mp=\S+ )?\[", "Go's dump of goroutines", QUERY_AGAIN),
        (r"(?:\d{4}-\d\d-\d\d [\d:]+\s+)?Full thread dump ", "a Java thread dump (jstack)", RECORD_JFR),
        (r"# callgrind format|version: 1\ncreator: callgrind", "callgrind's output", "read it with callgrind_annotate"),
        (r"version: 1\ncreator: xdebug", "Xdebug's cachegrind output", "read it with KCachegrind"),
        (r"desc: I1 cache: |desc: .*\ncmd: .*\nevents: ", "cachegrind's output", "read it with cg_annotate"),
        (r"desc: .*\ncmd: .*\ntime_unit: ", "massif's output", "read it with ms_print"),
        (
            r"v [0-9a-f]{5,6} [0-9a-f]\n[xX] ",
            "a heaptrack recording",
            "convert it to folded stacks: heaptrack_print -F OUT FILE",
        ),
        (r"# To display the perf\.data header info", "the table of perf report", "give the perf.data itself"),
        (
            r"(?:File|Main binary filename): .*\n(?:Build ID: .*\n)?Type: ",
            "a report of pprof",
            "give the profile itself",
        ),
        (OWN_HEAD, "a table of whence profile --top", OWN_TABLE),
        (r"\s*\[\s*\{(?:[^{}]|\{[^{}]*\})*\"ph\"\s*:", TRACE_OF_EVENTS.what, TRACE_OF_EVENTS.remedy),
        (r"v8-version,", "V8's log (node --prof)", "record with node --cpu-prof, or read it with node --prof-process"),
    )
)

V8_SNAPSHOT = Other(
    "a V8 heap snapshot", "a snapshot has objects, not samples: open it in the browser's developer tools"
)
UNKNOWN_JSON = Other("JSON of an unknown kind", "whence reads OTLP, speedscope, Firefox and V8 CPU profiles in JSON")
# members of JSON documents, and the formats that have them
DOCUMENTS: tuple[tuple[frozenset[str], Other], ...] = (
    (frozenset({"traceEvents"}), TRACE_OF_EVENTS),
    (frozenset({"snapshot"}), V8_SNAPSHOT),
    (frozenset({"dhatFileVersion"}), Other("DHAT's output", "read it with dh_view.html")),
    (frozenset({"start_time", "sample_count", "target_description"}), PYINSTRUMENT),
    (frozenset({"start_time", "sample_count", "start_call_stack"}), PYINSTRUMENT),
    (frozenset({"sample_types", "default_type"}), Other("a profile's table in JSON", OWN_TABLE)),
)
OTLP_MEMBERS = (b'"resourceProfiles"', b'"dictionary"')
V8_HEAP = Other("V8's heap profile", "its frames have names: open it in speedscope")
V8_SIZE = '"selfSize"'  # of each node of its tree
SVG = b"<svg"
IMAGE = Other("an SVG image", "a flame graph has no addresses: give the profile that it was drawn from")
XML, INSTRUMENTS_XML = b"<?xml", b"<trace-query-result"  # written by xctrace export
INSTRUMENTS_FILE = "form.template"  # in the folder of each of its recordings
SPEEDSCOPE_SCHEMA = "speedscope.app/file-format-schema.json"
MEMBER = r'"((?:[^"\\]|\\.){0,64})"\s*:'


def other(data: bytes) -> Other | None:
    """Return the format of bytes that are not a profile; None if they may be one."""
    head = data[:HEAD]
    if head.startswith(XML) and INSTRUMENTS_XML in head:
        return INSTRUMENTS
    if head.startswith(b"<") and SVG in head:
        return IMAGE
    for magic, format in MAGICS:
        if data.startswith(magic):
            return format
    if head.startswith(LZ4):
        memray = b"memray" in head[:64]  # an LZ4 frame's first bytes can't refer to earlier ones
        if memray:
            return Other("a memray recording", MEMRAY)
        return Other("packed by lz4", "decompress it: lz4 -dc FILE | whence profile -")
    form = word_form(head)
    if form is not None and form.version == JAVA:
        return Other("a Java CPU profile of gperftools' form", PPROF)
    if not may_be_text(head):
        return None
    text = head.decode("latin-1").lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        return document(data, head)
    for pattern, format in TEXTS:
        if re.match(pattern, text):
            return format
    return None


def may_be_text(head: bytes) -> bool:
    """Return True if these may be the first bytes of a text."""
    return all(byte >= MIN_TEXT for byte in head[:TEXT_HEAD])


class WordForm(NamedTuple):
    """The size and byte order of the words of a gperftools CPU profile, and its version."""

    size: int
    order: Literal["little", "big"]
    version: int


def word_form(head: bytes) -> WordForm | None:
    """Recognize words of 4 or 8 bytes in either order: 0, 3, the version, a period, 0. None for other bytes."""
    for size in SIZES:
        if len(head) < 5 * size:
            break
        for order in ORDERS:
            zero, count, version, period, end = (
                int.from_bytes(head[offset : offset + size], order) for offset in range(0, 5 * size, size)
            )
            if (zero, count, end) == (0, HEADER_WORDS, 0) and version in (CPLUSPLUS, JAVA) and period:
                return WordForm(size, order, version)
    return None


def document(data: bytes, head: bytes) -> Other | None:
    """Return the format of a JSON document by its outermost members; None if it may be a profile."""
    if json_kind(data):
        return None
    text = head.decode("utf-8", "replace")
    names = members(text)
    if "head" in names and V8_SIZE in text:  # its other member may follow any number of nodes and samples
        return V8_HEAP
    tail = set(re.findall(MEMBER, data[-HEAD:].decode("utf-8", "replace")))
    for required, format in DOCUMENTS:
        if required <= names | tail and required & names:
            return format
    return None if any(member in data for member in OTLP_MEMBERS) else UNKNOWN_JSON


def json_kind(data: bytes) -> str:
    """Return the format of a profile in JSON: "otlp", "firefox", "speedscope" or "v8"; "" for other documents."""
    head = data[:HEAD]
    text = head.decode("utf-8", "replace")
    names = members(text)
    if names & {"resourceProfiles", "dictionary"}:
        return "otlp"
    if SPEEDSCOPE_SCHEMA in text or SPEEDSCOPE_SCHEMA.encode() in data[-HEAD:] or {"shared", "profiles"} <= names:
        return "speedscope"
    if b'"preprocessedProfileVersion"' in data or {"meta", "threads"} <= names:
        return "firefox"
    if (b'"callFrame"' in head and "nodes" in names) or (b'"hitCount"' in head and "head" in names):
        return "v8"
    return "speedscope" if "exporter" in names else ""


def members(text: str) -> set[str]:
    """Return the names of an object's own members, as far as they are in a truncated text."""
    names: set[str] = set()
    depth, offset = 0, 0
    while offset < len(text):
        character = text[offset]
        if character == '"':
            end = closing(text, offset)
            if end < 0:
                break
            if depth == 1 and text[end + 1 :].lstrip()[:1] == ":":
                with_quotes = text[offset : end + 1]
                try:
                    names.add(json.loads(with_quotes))
                except ValueError:
                    break
            offset = end
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        offset += 1
    return names


def closing(text: str, offset: int) -> int:
    """Return the offset of the closing quote of the string at `offset`; -1 if the text ends before."""
    end = offset + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return end if end < len(text) else -1
