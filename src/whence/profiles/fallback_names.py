"""Names that other tools give to addresses they can't name: a file and an address in it.

    libfoo.so!0x1a2b          Grafana Pyroscope, of a location's own address
    /usr/bin/app+1a2b         its eBPF profiler (unknown_symbol_module_offset), of a vaddr
    libfoo.so+0x1a2b          whence's own folded stacks and others; also in brackets

With "+" such a name is a fallback where its file is an absolute path or a shared library, or where a given file has its
name: else it may be a function and an offset.
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
UNKNOWN_FILE = "unknown"  # what Pyroscope writes for a file without a name
LONGEST = 4096  # characters of a path
MOST_FILES = 1 << 14  # of one profile, beside those of its mappings: the names of others stay
ENDINGS = (".debug", ".lidia")


class FileAddress(NamedTuple):
    """What a fallback name says: a file, by its name or path, and an address in it."""

    path: str
    address: int


def parsed(name: str, given: Collection[str] = ()) -> FileAddress | None:
    """Return what a fallback name says; None for any other name. `given` are the names of the files that are there.

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
    if not ADDRESS.fullmatch(digits) or not 0 < len(path) <= LONGEST or path == UNKNOWN_FILE:
        return None
    return FileAddress(path, int(digits, 16))


class Fallbacks:
    """The locations of a profile whose only frame is a fallback name, without it: addresses to be named.

    `files` are the paths of the files that were given. `restore` gives the names back to those that got no better ones.
    """

    def __init__(self, profile: ProfileData, files: Iterable[str | os.PathLike[str]]) -> None:
        self.profile = profile
        self._frames: dict[int, Frames] = {}
        self._columns = profile.mappings, profile.mapping, profile.address
        self._by_name: dict[str, int] | None = None  # mappings; NO_MAPPING where several have the name
        given = {file_name(os.fspath(one)) for one in files}
        found: dict[str, FileAddress | None] = {}
        frames = profile.frames
        for location, chain in enumerate(frames):
            if len(chain) != 1 or ("+" not in (name := chain[0].function) and "!0x" not in name):
                continue
            if name not in found:
                found[name] = parsed(name, given)
            place = found[name]
            if place is not None:
                self._take(location, place)

    def _take(self, location: int, place: FileAddress) -> None:
        profile = self.profile
        if self._by_name is None:  # the columns that are there stay as they are
            mappings, mapping_of, addresses = self._columns
            profile.mappings, profile.mapping, profile.address = mappings[:], mapping_of[:], addresses[:]
            self._by_name = {}
            for index, mapping in enumerate(profile.mappings):
                name = file_name(mapping.path)
                self._by_name[name] = NO_MAPPING if name in self._by_name else index
        name = file_name(place.path)
        own = profile.mapping_of(location)
        if own is None or file_name(own.path) != name:
            index = self._by_name.get(name, NO_MAPPING)
            if index == NO_MAPPING:
                index = len(profile.mappings)
                if index - len(self._columns[0]) >= MOST_FILES:
                    return
                self._by_name[name] = index
                profile.mappings.append(Mapping(path=place.path))
            profile.mapping[location] = index
        profile.address[location] = place.address
        self._frames[location] = profile.frames[location]
        profile.frames[location] = ()

    def restore(self) -> None:
        """Give the names back where no better ones were found; a profile that is written as it was read keeps its
        mappings and addresses."""
        profile = self.profile
        if not self._frames:
            return
        for location, chain in self._frames.items():
            if location not in profile.changed:
                profile.own_frames[location] = chain
        if profile.origin is not None:
            profile.mappings, profile.mapping, profile.address = self._columns


def file_name(path: str) -> str:
    """The name of a file, without the ending that debug files and archives have.

    >>> file_name("/usr/lib/debug/app.debug")
    'app'
    """
    name = os.path.basename(path)
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
