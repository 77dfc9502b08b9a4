"""What people have that is no profile whence reads: recognized by its bytes, with its name and what to do with it.

Text forms of gperftools' family are described in google/pprof (profile/legacy_profile.go); binary ones by their magic.
"""

from __future__ import annotations

import json
import re
from typing import Literal, NamedTuple

from whence.objects.elf.layout import MAGIC as ELF_MAGIC

HEAD = 4096  # bytes that are looked at
BEGINNING, IN_NO_TEXT = 16, 8  # bytes below 8 stand at the beginning of no text, and of nearly all messages
HEADER_WORDS = 3  # of a CPU profile, behind the two that say how many there are
CPLUSPLUS, JAVA = 0, 1  # versions of it
SIZES: tuple[Literal[4, 8], ...] = (4, 8)
ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")


class Other(NamedTuple):
    """A file that is something else: what it is, and what makes a profile of it."""

    what: str
    remedy: str


MEMRAY = "memray flamegraph FILE, or memray transform: its names are known already"
PPROF = "convert it: pprof -proto FILE > FILE.pb.gz (google/pprof reads the old forms)"
JFR = "convert it to pprof or folded stacks: jfrconv (async-profiler) does"
TABLE = "whence columns names the addresses of tables; a profile is kept as pprof or OTLP"
CPROFILE = Other("cProfile's statistics", "they have no stacks: record with py-spy or pyinstrument -r speedscope")
PYINSTRUMENT = Other("a pyinstrument session", "pyinstrument -r speedscope writes what is read")
GMON = Other("gprof's gmon.out", "it has no stacks: gprof PROGRAM FILE reads it; or record with perf")
INSTRUMENTS = Other("a recording of Apple's Instruments", "samply, or sample PID on macOS, records what is read")
TRACE_OF_EVENTS = Other("a Chrome trace", "it has events, no stacks: record a CPU profile")
OWN_HEAD = r"\S.*: \S.* in [\d,]+ functions?(?:, [\d,]+ of them below)?\n *self "  # of top's
OWN_TABLE = "it is for people and programs to look at: give the profile it was made of"
RECORD_JFR = "record with JFR or async-profiler, and convert that: jfrconv"
SERVER = "look at what the server answered"
ASK_AGAIN = "ask for it with ?debug=1, or without ?debug: that is pprof"

# how bytes begin -> what they are
MAGICS: tuple[tuple[bytes, Other], ...] = (
    (b"PERFFILE", Other("perf's own recording, version 1", "run the perf script of that time")),
    (ELF_MAGIC, Other("an ELF file", "give it with --binary, and a profile first")),
    (b"FLR\0", Other("a JFR recording", JFR)),
    (b"JAVA PROFILE 1.0", Other("a Java heap dump (hprof)", "it has objects, no stacks of samples: use a heap viewer")),
    (b"memray", Other("a memray recording", MEMRAY)),
    (b"\x28\xb5\x2f\xfd", Other("packed by zstd", "zstd -dc FILE | whence profile -")),
    (b"\xfd7zXZ", Other("packed by xz", "xz -dc FILE | whence profile -")),
    (b"BZh", Other("packed by bzip2", "bzip2 -dc FILE | whence profile -")),
    (b"PK\x03\x04", Other("a zip archive", "unpack it first")),
    (b"go 1.", Other("a Go execution trace", "whence trace pprof")),
    (b"DTiJ", Other("a jitdump", "perf inject --jit, then perf script | whence profile -")),
    (b"JiTD", Other("a jitdump", "perf inject --jit, then perf script | whence profile -")),
    (b"Nettrace\x14", Other("a .nettrace recording of .NET", "dotnet-trace convert --format Speedscope FILE")),
    (b"SIMPLEPERF\1\0", Other("a report of Android's simpleperf", "give the perf.data it was made of")),
    (b"gmon\1\0\0\0", GMON),
    (b"gmon\0\0\0\1", GMON),
    (b"SQLite format 3\0", Other("an SQLite database", "export the stacks from the program that wrote it")),
    *((b"MOJ%c" % version, Other("an Austin recording", "mojo2austin FILE OUT")) for version in range(1, 5)),
    (b"\xff\xff\xff\xff", Other("a stream of Arrow", TABLE)),
    (b"ARROW1\0\0", Other("an Arrow file", TABLE)),
    (b"PAR1\x15", Other("a Parquet file", TABLE)),
    *((first + pair + b"\3", CPROFILE) for first in (b"{", b"\xfb") for pair in (b")", b"\xa9")),  # as marshal has it
    (b"<!", Other("a page of HTML", SERVER)),
    (b"<html", Other("a page of HTML", SERVER)),
    (b"<?xml", Other("a page of XML", SERVER)),
)
LZ4 = b"\x04\x22\x4d\x18"

# how text begins -> what it is; the most particular first
TEXTS: tuple[tuple[str, Other], ...] = tuple(
    (pattern, Other(what, remedy))
    for pattern, what, remedy in (
        (r"--- (?:heapz|heap) \d+ ---\s+format = java", "a Java heapz profile", PPROF),
        (r"--- contention(?:z)? \d+ ---\s+format = java", "a Java contentionz profile", PPROF),
        (r"--- (?:cpuz?|growthz) \d+ ---\s+format = java", "a Java profile of gperftools' text form", PPROF),
        (r"goroutine \d+ (?:gp=\S+ )?(?:m=\S+ )?(?:mp=\S+ )?\[", "Go's dump of goroutines", ASK_AGAIN),
        (r"(?:\d{4}-\d\d-\d\d [\d:]+\s+)?Full thread dump ", "a Java thread dump (jstack)", RECORD_JFR),
        (r"# callgrind format|version: 1\ncreator: callgrind", "callgrind's output", "callgrind_annotate reads it"),
        (r"version: 1\ncreator: xdebug", "Xdebug's cachegrind output", "KCachegrind reads it"),
        (r"desc: I1 cache: |desc: .*\ncmd: .*\nevents: ", "cachegrind's output", "cg_annotate reads it"),
        (r"desc: .*\ncmd: .*\ntime_unit: ", "massif's output", "ms_print reads it"),
        (r"v [0-9a-f]{5,6} [0-9a-f]\n[xX] ", "a heaptrack recording", "heaptrack_print -F OUT FILE: folded stacks"),
        (r"# To display the perf\.data header info", "the table of perf report", "give the perf.data itself"),
        (
            r"(?:File|Main binary filename): .*\n(?:Build ID: .*\n)?Type: ",
            "a report of pprof",
            "give the profile itself",
        ),
        (OWN_HEAD, "a table of whence profile --top", OWN_TABLE),
        (r"\s*\[\s*\{[^{}]*\"ph\"\s*:", TRACE_OF_EVENTS.what, TRACE_OF_EVENTS.remedy),
    )
)

# members of a JSON document -> what it is
DOCUMENTS: tuple[tuple[frozenset[str], Other], ...] = (
    (frozenset({"traceEvents"}), TRACE_OF_EVENTS),
    (frozenset({"dhatFileVersion"}), Other("DHAT's output", "dh_view.html reads it")),
    (frozenset({"start_time", "sample_count", "target_description"}), PYINSTRUMENT),
    (frozenset({"start_time", "sample_count", "start_call_stack"}), PYINSTRUMENT),
    (frozenset({"sample_types", "default_type"}), Other("a profile's table in JSON", OWN_TABLE)),
)
V8_HEAP = Other("V8's heap profile", "its names are known already: speedscope opens it")
V8_SIZE = '"selfSize"'  # of each node of its tree
XML, INSTRUMENTS_XML = b"<?xml", b"<trace-query-result"  # as xctrace exports it
INSTRUMENTS_FILE = "form.template"  # in the folder of each of its recordings
SPEEDSCOPE_SCHEMA = "speedscope.app/file-format-schema.json"
MEMBER = r'"((?:[^"\\]|\\.){0,64})"\s*:'


def other(data: bytes) -> Other | None:
    """What else some bytes are; None where they may be a profile."""
    head = data[:HEAD]
    if head.startswith(XML) and INSTRUMENTS_XML in head:
        return INSTRUMENTS
    for magic, found in MAGICS:
        if data.startswith(magic):
            return found
    if head.startswith(LZ4):
        memray = b"memray" in head[:64]  # an LZ4 frame's first bytes can't refer to earlier ones
        return (
            Other("a memray recording", MEMRAY) if memray else Other("packed by lz4", "lz4 -dc FILE | whence profile -")
        )
    cpu = java_cpu(head)
    if cpu is not None:
        return cpu
    if not may_be_text(head):
        return None
    text = head.decode("latin-1").lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        return document(data, head)
    for pattern, found in TEXTS:
        if re.match(pattern, text):
            return found
    return None


def may_be_text(head: bytes) -> bool:
    """Whether some bytes may begin a text."""
    return all(byte >= IN_NO_TEXT for byte in head[:BEGINNING])


def java_cpu(head: bytes) -> Other | None:
    """What C++ has a 0 for in the words that begin a CPU profile is 1 in Java's."""
    form = word_form(head)
    if form is None or form.version != JAVA:
        return None
    return Other("a Java CPU profile of gperftools' form", PPROF)


class WordForm(NamedTuple):
    """How wide the words of gperftools' CPU profiles are, their order, and who wrote them."""

    size: int
    order: Literal["little", "big"]
    version: int


def word_form(head: bytes) -> WordForm | None:
    """Words of 4 or 8 bytes in either order: 0, 3, the version, a period, 0. None for other bytes."""
    for size in SIZES:
        if len(head) < 5 * size:
            break
        for order in ORDERS:
            zero, count, version, period, end = (
                int.from_bytes(head[at : at + size], order) for at in range(0, 5 * size, size)
            )
            if (zero, count, end) == (0, HEADER_WORDS, 0) and version in (CPLUSPLUS, JAVA) and period:
                return WordForm(size, order, version)
    return None


def document(data: bytes, head: bytes) -> Other | None:
    """What a JSON document is; None where it may be a profile. The outermost members in its head decide."""
    if json_kind(data):
        return None
    text = head.decode("utf-8", "replace")
    names = members(text)
    if "head" in names and V8_SIZE in text:  # its other member may be past any number of nodes, and of samples
        return V8_HEAP
    tail = set(re.findall(MEMBER, data[-HEAD:].decode("utf-8", "replace")))
    for wanted, found in DOCUMENTS:
        if wanted <= names | tail and wanted & names:
            return found
    return None


def json_kind(data: bytes) -> str:
    """Which profile a JSON document is: "otlp", "firefox", "speedscope" or "v8"; "" for another document."""
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
    """Names of an object's own members, as far as a cut text shows them."""
    found: set[str] = set()
    depth, offset = 0, 0
    while offset < len(text):
        one = text[offset]
        if one == '"':
            end = closing(text, offset)
            if end < 0:
                break
            if depth == 1 and text[end + 1 :].lstrip()[:1] == ":":
                with_quotes = text[offset : end + 1]
                try:
                    found.add(json.loads(with_quotes))
                except ValueError:
                    break
            offset = end
        elif one in "{[":
            depth += 1
        elif one in "}]":
            depth -= 1
        offset += 1
    return found


def closing(text: str, offset: int) -> int:
    """Where the string that starts at `offset` ends; -1 where it is cut."""
    end = offset + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return end if end < len(text) else -1
