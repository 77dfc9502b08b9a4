"""Source files in a PDB file, and where its source server has them.

    /src/headerblock       injected files: names, and the streams /src/files/NAME with their text
    srcsrv                 Microsoft's source server: variables, and fields of each file
    sourcelink$1           Source Link: patterns of paths and addresses, in JSON
    checksums of modules   the MD5 of each file

Nothing is fetched: an address is for people. An address of srcsrv is its variable SRCSRVTRG with the fields var1 to
var9 of the file; functions of paths (%fnbksl%, %fnfile%) are applied.
"""

from __future__ import annotations

import json
import re
import struct

from whence._base.errors import PdbError
from whence._base.forks import cached_property
from whence._base.records import Record
from whence._base.window import cstring
from whence.objects.pdb import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from whence.objects.pdb import PdbFile

HEADER_BLOCK, INJECTED = "/src/headerblock", "/src/files/"
HEADER_SIZE = 64
ENTRY = "<7IBBH8x"  # size version crc file_size file object virtual_file compression is_virtual padding
SOURCE_BYTES = 16 << 20  # of an injected file
SERVER_BYTES = 64 << 20  # of source server data
FIELDS = 10  # of a file of the source server
STEPS = 16  # variables inside each other
LONGEST = 4096  # characters of an address
SUBSECTION_FILES = 0xF4
MD5, MD5_BYTES = 1, 16
VARIABLE = re.compile(r"%(\w+)%")
FUNCTION = re.compile(r"%(fnbksl|fnfile)%\(([^()]*)\)")


class SourceFacts(Record):
    """A source file in a PDB file: its MD5 in hex, "" if missing; its text, None if it is not there."""

    md5: str = ""
    text: bytes | None = None


class PdbSources:
    """The source files of a PDB file. Damaged streams have none."""

    def __init__(self, pdb: PdbFile) -> None:
        self._pdb = pdb

    def facts(self, paths: Collection[str]) -> dict[str, SourceFacts]:
        """Return what the file has of source files, by their paths. Files without either are left out."""
        facts: dict[str, SourceFacts] = {}
        wanted = {path.encode("utf-8", "surrogateescape"): path for path in paths}
        for name, digest in self._checksums():
            path = wanted.get(name)
            if path is not None:
                facts[path] = SourceFacts(digest)
        for path in paths:
            stream = self.injected.get(path)
            if stream is not None:
                with_text = facts.setdefault(path, SourceFacts())
                with_text.text = self._text(stream)
        return facts

    def _text(self, stream: str) -> bytes | None:
        try:
            return bytes(self._pdb.named_stream(stream)[:SOURCE_BYTES])
        except PdbError:
            return None

    @cached_property
    def _names(self) -> memoryview:
        try:
            return self._pdb.named_stream("/names")[layout.NAMES_HEADER :]
        except PdbError:
            return memoryview(b"")

    def _checksums(self) -> Iterator[tuple[bytes, str]]:
        """Yield path and MD5 of files, module after module."""
        dbi = self._pdb.dbi
        try:
            modules = dbi.modules if dbi is not None else None
        except PdbError:
            return
        for module in range(len(modules) if modules is not None else 0):
            assert modules is not None
            try:
                content = self._pdb.msf.stream(modules.stream[module])
            except PdbError:
                continue
            start = modules.symbols[module] + modules.c11[module]
            for kind, body in subsections(content[start : start + modules.c13[module]]):
                if kind == SUBSECTION_FILES:
                    yield from self._files(body)

    def _files(self, body: memoryview) -> Iterator[tuple[bytes, str]]:
        offset = 0
        while offset + 6 <= len(body):
            name, size, kind = struct.unpack_from("<IBB", body, offset)
            digest = bytes(body[offset + 6 : offset + 6 + size])
            offset = (offset + 6 + size + 3) & ~3
            if kind == MD5 and len(digest) == MD5_BYTES:
                yield cstring(self._names, name), digest.hex()

    @cached_property
    def injected(self) -> dict[str, str]:
        """Streams of injected files that are stored uncompressed, by path."""
        try:
            content = self._pdb.named_stream(HEADER_BLOCK)
        except PdbError:
            return {}
        table = content[HEADER_SIZE:]
        if len(table) < 12:
            return {}
        count, _, present = struct.unpack_from("<III", table)
        position = 12 + 4 * present
        if position + 4 > len(table):
            return {}
        position += 4 + 4 * struct.unpack_from("<I", table, position)[0]
        stride = 4 + struct.calcsize(ENTRY)
        streams: dict[str, str] = {}
        for index in range(min(count, max(0, len(table) - position) // stride)):
            entry = struct.unpack_from(ENTRY, table, position + index * stride + 4)
            name, virtual, compression = entry[4], entry[6], entry[7]
            path = cstring(self._names, name).decode("utf-8", "surrogateescape")
            stored = INJECTED + cstring(self._names, virtual).decode("utf-8", "surrogateescape")
            if not compression:
                streams.setdefault(path, stored)
        return streams

    # addresses

    def address(self, path: str) -> str:
        """Return the address of a source file, by Source Link or the source server; "" if neither has it."""
        return self._linked(path) or self._served(path)

    @cached_property
    def _links(self) -> list[tuple[str, str]]:
        """Patterns of paths, in lowercase, and addresses of Source Link."""
        links: list[tuple[str, str]] = []
        for name in self._pdb.info.streams:
            if name.startswith("sourcelink"):
                try:
                    documents = json.loads(bytes(self._pdb.named_stream(name)[:SERVER_BYTES]))["documents"]
                    links += [(str(pattern).lower(), str(address)[:LONGEST]) for pattern, address in documents.items()]
                except (PdbError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
                    continue
        return links

    def _linked(self, path: str) -> str:
        lowered = path.lower()
        for pattern, address in self._links:
            start, star, end = pattern.partition("*")
            if not star and lowered == pattern:
                return address[:LONGEST]
            if star and len(lowered) >= len(start) + len(end) and lowered.startswith(start) and lowered.endswith(end):
                part = path[len(start) : len(path) - len(end)].replace("\\", "/")
                return address.replace("*", part)[:LONGEST]
        return ""

    @cached_property
    def _server(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Variables of the source server, and the fields of files by path, both with names in lowercase."""
        variables: dict[str, str] = {}
        files: dict[str, list[str]] = {}
        try:
            text = bytes(self._pdb.named_stream("srcsrv")[:SERVER_BYTES]).decode("utf-8", "replace")
        except PdbError:
            return variables, files
        part = ""
        for line in text.splitlines():
            if line.startswith("SRCSRV:"):
                part = line[7:].strip(" -")
            elif part == "source files" and line:
                fields = [field[:LONGEST] for field in line.split("*", FIELDS)]
                files.setdefault(fields[0].lower(), fields)
            elif part in ("ini", "variables") and "=" in line:
                name, _, value = line.partition("=")
                variables[name.lower()] = value[:LONGEST]
        return variables, files

    def _served(self, path: str) -> str:
        variables, files = self._server
        fields = files.get(path.lower())
        if fields is None:
            return ""
        values = {**variables, **{f"var{index}": field for index, field in enumerate(fields, 1)}}
        text = values.get("srcsrvtrg", "")
        for _ in range(STEPS):
            changed = FUNCTION.sub(applied, VARIABLE.sub(lambda match: values.get(match[1].lower(), match[0]), text))
            if changed == text:
                break
            text = changed[:LONGEST]
        return text[:LONGEST]


def applied(match: re.Match[str]) -> str:
    """Return the value of a function of a path: fnbksl makes backslashes, fnfile takes the name."""
    name, value = match.groups()
    return value.replace("/", "\\") if name == "fnbksl" else value.replace("\\", "/").rpartition("/")[2]


def subsections(lines: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield kind and content of subsections; ends before a subsection that is cut off."""
    offset = 0
    while offset + 8 <= len(lines):
        kind, size = struct.unpack_from("<II", lines, offset)
        if size > len(lines) - offset - 8:
            return
        yield kind, lines[offset + 8 : offset + 8 + size]
        offset += 8 + ((size + 3) & ~3)
