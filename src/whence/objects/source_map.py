"""Source maps (version 3) of WebAssembly modules: JSON with the source line of each part of a module's file.

    {"version": 3, "sources": ["a.c"], "names": [], "mappings": "0CAAA,EACA", "sourceRoot": "/src"}

A map may have sections, each with a map of its own and an offset. Offsets are those of the module's file. This module
reads the JSON; `whence.exchange.source_map` the mappings.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from urllib.parse import unquote_to_bytes

from whence._base.errors import SourceMapError, naming
from whence._base.records import Record
from whence.objects.machines import EM_WASM
from whence.objects.names_only import NamesFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence.objects.elf.segments import Segment

VERSION = 3
LARGEST = 64 << 20  # bytes of a map, as JSON takes several times its bytes of memory
PROTECTION = b")]}"  # start of a first line that keeps a map from being run as a program
MOST_SECTIONS = 1 << 12


class MapSection(Record, frozen=True):
    """A part of a source map. `offset` is where its part of the module starts."""

    offset: int
    sources: tuple[str, ...]
    mappings: bytes


class SourceMapFile(NamesFile):
    """A source map. Offsets are those of the module's file. Raises SourceMapError if it is malformed."""

    error = SourceMapError
    format = "source map"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.bits, self.machine = 32, EM_WASM
            self.ignored = 0  # sources on the ignore list: code of libraries
            self.maps = tuple(self._read())
            self.check()

    def _read(self) -> list[MapSection]:
        if self.size > LARGEST:
            raise SourceMapError("", None, f"the map has {self.size} bytes, more than {LARGEST}")
        text = bytes(self.data)
        if text.startswith(PROTECTION):
            text = text.partition(b"\n")[2]
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceMapError("", None, f"not JSON ({error})") from None
        if not isinstance(fields, dict) or fields.get("version") != VERSION:
            raise SourceMapError("", None, "not a source map of version 3")
        sections = fields.get("sections")
        if sections is None:
            return [self._section(fields, 0)]
        if not isinstance(sections, list) or len(sections) > MOST_SECTIONS:
            raise SourceMapError("sections", None, f"not a list of at most {MOST_SECTIONS} maps")
        out = []
        for number, section in enumerate(sections):
            try:
                offset, line = section["offset"]["column"], section["offset"]["line"]
                if line == 0 and isinstance(offset, int) and offset >= 0:
                    out.append(self._section(section["map"], offset))
            except (KeyError, TypeError):
                self.problems.append(SourceMapError(f"section {number}", None, "without an offset or a map"))
        return out

    def _section(self, fields: Any, offset: int) -> MapSection:
        sources, mappings, root = fields.get("sources"), fields.get("mappings"), fields.get("sourceRoot") or ""
        ignored = fields.get("ignoreList", fields.get("x_google_ignoreList")) or ()
        if not isinstance(sources, list) or not isinstance(mappings, str) or not isinstance(root, str):
            raise SourceMapError("", None, "without sources or mappings")
        self.ignored += len(ignored) if isinstance(ignored, list) else 0
        prefix = root if not root or root.endswith("/") else f"{root}/"
        names = tuple(prefix + name if isinstance(name, str) else "" for name in sources)
        return MapSection(offset, names, mappings.encode("utf-8", "surrogatepass"))

    @property
    def build_id(self) -> str:
        return ""

    @property
    def details(self) -> dict[str, str]:
        facts = {"sources": str(sum(len(each.sources) for each in self.maps))}
        return facts | ({"ignored sources": str(self.ignored)} if self.ignored else {})

    @property
    def segments(self) -> tuple[Segment, ...]:
        return ()

    def close(self) -> None:
        self.maps = ()
        super().close()


def map_in_url(url: str) -> bytes:
    """Return the bytes of a URL that starts with "data:". Raises SourceMapError.

    >>> map_in_url("data:application/json;base64,e30="), map_in_url("data:,%7B%7D")
    (b'{}', b'{}')
    """
    head, _, data = url.partition(",")
    try:
        return b64decode(data, validate=True) if head.endswith(";base64") else unquote_to_bytes(data)
    except ValueError as error:
        raise SourceMapError("sourceMappingURL", None, f"not base64 ({error})") from None
