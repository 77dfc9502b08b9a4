"""Decide by a file's content which command `whence FILE [ADDRESS...]` and `whence PID` run.

| content | without addresses | with addresses |
|---|---|---|
| ELF core dump, also compressed or in a report of apport; minidump | core | core |
| other object file (ELF, Mach-O, PE, WebAssembly), slice of a fat file, dSYM bundle | explain | addr |
| lidia archive | lidia info | addr |
| snapshot of a process | (an error: addresses are needed) | addr --snapshot |
| Go execution trace | trace info | |
| Parquet, Arrow, CSV or JSON lines with addresses | columns | |
| profile of any format | profile --top 20 | |
| other text | filter | |

A program and a file that needs it may be given in either order: `whence app core.4711`, `whence cpu.pb.gz app`.
"""

from __future__ import annotations

import os
import re
import shlex
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whence._base.errors import ElfError, WrongUse, empty_file, plain
from whence._base.files import open_regular
from whence._base.streams import complain, shortened
from whence._base.words import is_address
from whence.cli.parser import did_you_mean
from whence.objects.opening import BREAKPAD_MAGIC, is_object_head, split_architecture
from whence.objects.zipped import split_entry

MAGIC_SIZE = 64  # bytes that tell object files from others
HEAD = 1 << 16  # bytes that decide
ELF_MAGIC, GZIP_MAGIC, ZSTD_MAGIC = b"\x7fELF", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MINIDUMP_MAGICS = (b"MDMP", b"PMDM")
PACKED_CORE_MAGICS = (GZIP_MAGIC, ZSTD_MAGIC, b"\x04\x22\x4d\x18", b"\xfd7zXZ\0", b"ProblemType:")
E_TYPE, ET_CORE = slice(16, 18), 4
TABLE_MAGICS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
BINARY_BYTE = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
FOLDED_LINE = re.compile(r"[^\s;][^;]*(?:;[^;]+)* \d+(?:\.\d+)?")
CONTINUES = 0x80  # bit of a byte of a varint that another one follows
FOLDED_LINES = 20  # that are compared with the pattern


class InputKind(NamedTuple):
    """The kind of a file, and the command lines for it: without and with addresses. FILE is replaced by its path."""

    what: str
    command: tuple[str, ...]
    with_addresses: tuple[str, ...] = ()
    takes_binary: bool = False


FILE = "FILE"
CORE = InputKind("a core dump", ("core", FILE), ("core", FILE), takes_binary=True)
MINIDUMP = InputKind("a minidump", ("core", FILE), ("core", FILE), takes_binary=True)
ELF = InputKind("an ELF file", ("explain", FILE), ("addr", FILE))
OBJECT = InputKind("an object file", ("explain", FILE), ("addr", FILE))
ARCHIVE = InputKind("a lidia archive", ("lidia", "info", FILE), ("addr", FILE))
SNAPSHOT = InputKind("a snapshot of a process", (), ("addr", "--snapshot", FILE))
TRACE = InputKind("a Go execution trace", ("trace", "info", FILE))
TABLE = InputKind("a table", ("columns", FILE), takes_binary=True)
PROFILE = InputKind("a profile", ("profile", FILE), takes_binary=True)
PROFILE_OUTPUTS = {"-o", "--output", "--format", "--top", "--coverage", "--json", "--fail-under"}  # instead of a table
PROGRAMS = (ELF, OBJECT, ARCHIVE)
LOG = InputKind("text", ("filter", FILE), takes_binary=True)


def command_for(words: Sequence[str], commands: Iterable[str] = ()) -> list[str]:
    """Return the command line for words that start with a file or a pid instead of one of `commands`.

    Raises WrongUse if the first word is neither a file nor a pid, or the file has no command; OSError.
    """
    path, rest = words[0], list(words[1:])
    if not os.path.lexists(split_architecture(path)[0]) and not split_entry(path)[1]:
        if path.isdecimal():
            return ["pid", path, *(rest or ["--stop"])]
        guess = did_you_mean(path, [*commands, "help", "--help", "--version", "--debug"])
        raise WrongUse(f"no command or file is named {shortened(path)!r}{guess} (see whence help)")
    kind = kind_of(path)
    if rest and not rest[0].startswith("-") and os.path.isfile(rest[0]):  # a program and a file that needs it
        other = kind_of(rest[0])
        if kind in PROGRAMS and other.takes_binary:
            path, kind, rest = rest[0], other, ["--binary", path, *rest[1:]]
        elif other in PROGRAMS and kind.takes_binary:
            rest = ["--binary", *rest]
    if rest and is_address(rest[0]) and not kind.with_addresses and not os.path.lexists(rest[0]):
        raise WrongUse(
            f"{path}: {kind.what}, which has no addresses to give: give those of a program: whence PROGRAM ADDRESS..."
        )
    addresses = (rest and not rest[0].startswith("-")) or any(map(is_address, rest))
    line = (kind.with_addresses or kind.command) if addresses else kind.command
    if not line:
        raise WrongUse(f"{path}: {kind.what}: give addresses to name: whence {plain(path)} ADDRESS...")
    command = [path if word == FILE else word for word in line] + rest
    if kind is PROFILE and not any(word.partition("=")[0] in PROFILE_OUTPUTS for word in rest):
        command += ["--top", "20"]
    hint = " (-o OUT.html draws a flame graph)" if kind is PROFILE and "--top" in command else ""
    complain(f"{path} is {kind.what}: running whence {shlex.join(command)}{hint}")
    return command


def kind_of(path: str) -> InputKind:
    """Return what a file is, by its content. Raises WrongUse if no command reads it; FormatError; OSError."""
    if split_entry(path)[1]:
        return OBJECT
    path = split_architecture(path)[0]  # of a fat file, or of a dSYM bundle with one file
    if os.path.isdir(path):
        if os.path.isfile(os.path.join(path, "data")):  # perf record --threads
            return PROFILE
        raise WrongUse(f"{path}: a folder: give a file in it, or add it to a store: whence store add STORE FOLDER")
    with open_regular(path, ElfError) as (descriptor, _):
        head = os.read(descriptor, HEAD)
    if not head:
        raise empty_file(ElfError).in_file(path)
    if head.startswith(ELF_MAGIC):
        is_big = head[5:6] == b"\2"
        return CORE if int.from_bytes(head[E_TYPE], "big" if is_big else "little") == ET_CORE else ELF
    if head.startswith(MINIDUMP_MAGICS):
        return MINIDUMP
    if is_object_head(head[:MAGIC_SIZE]) and (head.startswith(BREAKPAD_MAGIC) or not is_text(head)):
        return OBJECT
    if head.startswith(PACKED_CORE_MAGICS):
        from whence.dumps.unpacked import is_unpackable

        if is_unpackable(head):
            return CORE
    content = decompressed(head)
    kind = by_magic(content)
    if kind is None and head.startswith(ZSTD_MAGIC) and is_archive(path):
        kind = ARCHIVE
    if kind is None and is_text(content):
        return text_kind(content.decode("utf-8", "replace"))
    if kind is None and (is_protobuf(content) or is_cpu_profile(content)):  # protobuf: pprof and OTLP
        kind = PROFILE
    if kind is None:
        raise WrongUse(f"{path}: no command reads this kind of file (see whence help)")
    return kind


def decompressed(head: bytes) -> bytes:
    """Return the start of a file without its gzip compression."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(31).decompress(head, HEAD)
    except zlib.error:
        return head


def by_magic(head: bytes) -> InputKind | None:
    """Return what the first bytes prove the content to be, None if they prove nothing."""
    from whence import perfdata
    from whence.gotrace.specs import looks_like_text, looks_like_wire
    from whence.lidia.layout import MAGICS

    if head[:4] in MAGICS:
        return ARCHIVE
    if head.startswith(TABLE_MAGICS):
        return TABLE
    if looks_like_wire(head) or looks_like_text(head):
        return TRACE
    return PROFILE if perfdata.is_recording(head) else None


def is_archive(path: str) -> bool:
    from whence.lidia import compressed

    with open(path, "rb") as file:
        return compressed.is_archive(file)


def is_text(head: bytes) -> bool:
    return BINARY_BYTE.search(head) is None


def is_cpu_profile(head: bytes) -> bool:
    """Return True if the head of a file is that of a CPU profile of gperftools."""
    from whence.profiles.formats.others import word_form

    return word_form(head) is not None


def is_protobuf(head: bytes) -> bool:
    """Return True if the head of a file is fields of pprof's or OTLP's message: numbers and texts, numbered 1 to 15."""
    offset = 0
    while offset < len(head):
        number, wire_type = head[offset] >> 3, head[offset] & 7
        if not 1 <= number <= 15 or wire_type not in (0, 2):
            return False
        value, offset = varint(head, offset + 1)
        offset += value if wire_type == 2 else 0
    return offset > 0


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset and the offset after it; a cut-off one ends where the data does."""
    value = shift = 0
    while offset < len(data):
        byte = data[offset]
        value |= (byte & ~CONTINUES) << shift
        offset, shift = offset + 1, shift + 7
        if not byte & CONTINUES:
            break
    return value, offset


def text_kind(text: str) -> InputKind:
    """Return what text is: a profile in a text form, a table or a snapshot, else a log."""
    from whence.procmap.snapshot import FORMAT
    from whence.profiles.formats import legacy, perf, stack_texts
    from whence.profiles.formats.others import json_kind

    stripped = text.lstrip("\ufeff \t\r\n")
    if f'"format": "{FORMAT}"' in stripped[:1024]:
        return SNAPSHOT
    first = stripped.partition("\n")[0].strip()
    if first.startswith("{") and first.endswith("}") and '"address"' in first and '"build_id"' in first:
        return TABLE
    if {"address", "build_id"} <= {cell.strip().strip('"') for cell in first.split(",")}:
        return TABLE
    if stripped.startswith("{"):
        is_document = json_kind(text.encode()) or '"resourceProfiles"' in stripped or '"$schema"' in stripped[:1024]
        return PROFILE if is_document else LOG
    if legacy.kind_of(text) or stack_texts.kind_of(text) or perf.looks_like(text) or is_folded(stripped):
        return PROFILE
    return LOG


def is_folded(text: str) -> bool:
    """Return True if the first lines are stacks with a count: a stack has several frames, or no name has a blank."""
    lines = [line for line in text.splitlines()[: FOLDED_LINES + 1] if line.strip()][:FOLDED_LINES]
    if not lines or not all(map(FOLDED_LINE.fullmatch, lines)):
        return False
    return any(";" in line for line in lines) or all(len(line.split()) == 2 for line in lines)
