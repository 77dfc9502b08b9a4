"""A profile as users hold it: read it, name it, filter it, write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING, BinaryIO

from whence import flamegraph
from whence._base.records import as_dict
from whence.profiles.arrow import table
from whence.profiles.binaries import Binaries
from whence.profiles.coverage import Report
from whence.profiles.formats import registry as formats
from whence.profiles.naming import name
from whence.profiles.top import top
from whence.samples import merging, model
from whence.samples.difference import diff

if TYPE_CHECKING:
    import pyarrow

    from whence.locator.locator import Locator
    from whence.profiles.binaries import Binaries
    from whence.profiles.coverage import Report
    from whence.profiles.top import Top


NOTEBOOK_NODES = 20_000  # of a flame graph: a notebook keeps each page it shows


class Profile(model.ProfileData):
    """A profile: sample types, mappings, locations with their frames, samples. Made by `read`, or by hand."""

    __slots__ = ()

    @classmethod
    def of(cls, tables: model.ProfileData) -> Profile:
        """The profile that has the tables a reader filled; they are shared, not copied."""
        found = cls()
        for part, value in as_dict(tables).items():
            setattr(found, part, value)
        return found

    def symbolize(
        self,
        locator: Locator | Binaries | None = None,
        *,
        overwrite: bool = False,
        demangle: bool | Callable[[str], str] = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Report:
        """Give frames or a reason to every location that has none (with `overwrite`: to every location).

        `locator` says which file answers for a mapping (default: this machine's files); each file is opened once, and
        closed afterwards. Binaries, in its place, stay open for the next profile and add names that are in no file.
        `demangle`: names are those that linkers use, or readable ones. `progress` is called with a file's path, how
        many files are done and how many there are. Returns how much got names, and what would name the rest. What can't
        be read costs only its own locations.
        """
        if isinstance(locator, Binaries):
            return Report(self, name(self, locator, overwrite=overwrite, demangle=demangle, progress=progress))
        with Binaries(locator, once=True) as binaries:
            return Report(self, name(self, binaries, overwrite=overwrite, demangle=demangle, progress=progress))

    def write(self, path: str | os.PathLike[str], format: str = "", *, json: bool | None = None) -> None:
        """Write the profile to a file, which never holds half of it. Raises OSError, ProfileError, ValueError.

        `format` is "pprof", "otlp", "otlp-json", "folded", "speedscope", "firefox", "top", "json", "arrow" or
        "flamegraph", a page for people (default: by the path's ending, else the one it was read in; text becomes folded
        stacks). `json` chooses OTLP's JSON form.
        """
        formats.write(self, path, format, json=json)

    def merge(self, *others: model.ProfileData) -> Profile:
        """One profile of this and the others: equal samples, and mappings of the same file, become one each."""
        from whence.samples.merging import merge

        return Profile.of(merge([self, *others]))

    def diff(self, base: model.ProfileData, *, normalize: bool = False) -> Profile:
        """What changed since `base`, by functions and files, so that two builds compare; values may be negative.

        With `normalize` as if both had the same sum of each sample type. Its `samples.base` has the values of `base`;
        its flame graph shows growth in red and decline in blue. ProfileError where the profiles have no sample type in
        common. Both want their names first: see `symbolize`.
        """
        return Profile.of(diff(self, base, normalize=normalize))

    def _repr_html_(self) -> str:
        """The flame graph, as notebooks show it."""

        page = flamegraph.page(self, nodes=NOTEBOOK_NODES)
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 600px; border: 0"></iframe>'

    def top(self, rows: int = 30, sort: str = "self") -> Top:
        """The `rows` functions (0: all) that have most of the default sample type, by "self" or "total".

        A table as text; its rows have self, total, function, file, binary and the reason where there is no name.
        """
        return top(self, rows, sort)

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow Table with a row for each sample (for each moment, where times are known): see profiles.arrow.

        ImportError where pyarrow is not installed.
        """
        return table(self)

    def to_bytes(self, format: str, *, name: str = "", json: bool | None = None) -> bytes:
        """The bytes `write` would put into a file; `name` is the profile's in formats that have room for one."""
        return formats.to_bytes(self, format, name, json=json)


def merge(profiles: Iterable[model.ProfileData]) -> Profile:
    """One profile of all. Each is let go before the next one is taken, so an iterator of many needs little memory."""
    return Profile.of(merging.merge(profiles))


def read(source: str | os.PathLike[str] | bytes | BinaryIO) -> Profile:
    """The profile in a file (or pipe) by its path, in an open binary file, or in bytes; in gzip or not.

    The format is recognized from the bytes (docs/profiles.md lists those that are read); `format` then names it:
    "perf.data", "pprof", "otlp", "perf", "folded", "firefox", "speedscope", "v8", "heap", "jemalloc", "cpu", ...
    Raises OSError, and ProfileError with what breaks which rule. All of it is read; samples are decoded when they are
    asked for. Time and memory are bounded by the stored bytes.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return Profile.of(formats.from_bytes(bytes(source)))
    if isinstance(source, str | os.PathLike):
        return Profile.of(formats.open_profile(source))
    return Profile.of(formats.from_file(source))
