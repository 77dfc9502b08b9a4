"""Names of addresses that the recorder could not name: a file and an address in it.

    libfoo.so!0x1a2b          Grafana Pyroscope, of a location's own address
    /usr/bin/app+1a2b         its eBPF profiler (unknown_symbol_module_offset), of a vaddr
    libfoo.so+0x1a2b          whence's own folded stacks and others; also in brackets

A name with "+" counts only if its file is an absolute path, a shared library, or has the name of a given file: it may
be a function and an offset otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from whence._base.model import Frames
from whence.samples.model import NO_MAPPING, Mapping, ProfileData

ADDRESS = re.compile(r"[0-9a-fA-F]{1,16}")
LIBRARY = re.compile(r"[^/]*\.so(?:\.[\w.-]+)?")
UNKNOWN_FILE = "unknown"  # Pyroscope's name for a file without a name
MAX_PATH = 4096  # characters
MAX_FILES = 1 << 14  # of one profile, not counting its mappings; fallback names of more files are not replaced
ENDINGS = (".debug", ".lidia")


class FileAddress(NamedTuple):
    """The parts of a fallback name: a file, by its name or path, and an address in it."""

    path: str
    address: int


def parsed(name: str, given: Collection[str] = ()) -> FileAddress | None:
    """Parse a fallback name; None for any other name. `given` are the names of the user's files.

    >>> parsed("libfoo.so!0x1a2b"), parsed("/bin/app+1f"), parsed("main+0x20"), parsed("unknown!0x20")
    (FileAddress(path='libfoo.so', address=6699), FileAddress(path='/bin/app', address=31), None, None)
    >>> parsed("[libz.so.1+0x20]"), parsed("main+0x20", {"main"})
    (FileAddress(path='libz.so.1', address=32), FileAddress(path='main', address=32))
    """
    path, mark, digits = name.rpartition("!0x")
    if not mark:
        text = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        path, mark, digits = text.rpartition("+")
        in_file = path.startswith("/") or LIBRARY.fullmatch(path)
        if not in_file and not (digits.startswith("0x") and path in given):
            return None
        digits = digits.removeprefix("0x")
    if not ADDRESS.fullmatch(digits) or not 0 < len(path) <= MAX_PATH or path == UNKNOWN_FILE:
        return None
    return FileAddress(path, int(digits, 16))


class Fallbacks:
    """The fallback names of a profile, removed so that their addresses can be named.

    `files` are the paths of the user's files. `restore` puts back the names of locations that are still unnamed.
    """

    def __init__(self, profile: ProfileData, files: Iterable[str | os.PathLike[str]]) -> None:
        self.profile = profile
        self._frames: dict[int, Frames] = {}
        self._columns = profile.mappings, profile.mapping, profile.address
        self._by_name: dict[str, int] | None = None  # mappings by file name; NO_MAPPING if several have the name
        given = {file_name(os.fspath(path)) for path in files}
        cache: dict[str, FileAddress | None] = {}
        frames = profile.frames
        for location, chain in enumerate(frames):
            if len(chain) != 1 or ("+" not in (name := chain[0].function) and "!0x" not in name):
                continue
            if name not in cache:
                cache[name] = parsed(name, given)
            fallback = cache[name]
            if fallback is not None:
                self._replace(location, fallback)

    def _replace(self, location: int, fallback: FileAddress) -> None:
        """Replace the name of a location by the mapping and address in it."""
        profile = self.profile
        if self._by_name is None:  # first replacement: keep the original columns
            mappings, mapping_of, addresses = self._columns
            profile.mappings, profile.mapping, profile.address = mappings[:], mapping_of[:], addresses[:]
            self._by_name = {}
            for index, mapping in enumerate(profile.mappings):
                name = file_name(mapping.path)
                self._by_name[name] = NO_MAPPING if name in self._by_name else index
        name = file_name(fallback.path)
        own = profile.mapping_of(location)
        if own is None or file_name(own.path) != name:
            index = self._by_name.get(name, NO_MAPPING)
            if index == NO_MAPPING:
                index = len(profile.mappings)
                if index - len(self._columns[0]) >= MAX_FILES:
                    return
                self._by_name[name] = index
                profile.mappings.append(Mapping(path=fallback.path))
            profile.mapping[location] = index
        profile.address[location] = fallback.address
        self._frames[location] = profile.frames[location]
        profile.frames[location] = ()

    def restore(self) -> None:
        """Put back the names of locations that are still unnamed, and the columns if the profile keeps its origin."""
        profile = self.profile
        if not self._frames:
            return
        for location, chain in self._frames.items():
            if location not in profile.changed:
                profile.own_frames[location] = chain
        if profile.origin is not None:
            profile.mappings, profile.mapping, profile.address = self._columns


def file_name(path: str) -> str:
    """Return the name of a file without the ending of debug files and archives.

    >>> file_name("/usr/lib/debug/app.debug")
    'app'
    """
    name = os.path.basename(path)
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
