"""The public class Profile: read it, name it, filter it, write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from html import escape
from typing import TYPE_CHECKING, BinaryIO

from whence import flamegraph
from whence._base.records import as_dict
from whence._base.streams import by_ending
from whence.lidia.results import imported
from whence.listing.model import ListingOptions
from whence.locator.coerce import check_no_fields, locator_from
from whence.profiles import code, page_code
from whence.profiles.arrow import table
from whence.profiles.binaries import Binaries
from whence.profiles.callers import callers
from whence.profiles.coverage import Report
from whence.profiles.formats import registry as formats
from whence.profiles.formats import written
from whence.profiles.naming import find_functions, name
from whence.profiles.page_code import PageCodeOptions
from whence.profiles.top import top
from whence.samples import merging
from whence.samples.difference import diff
from whence.samples.model import ProfileData, Sample

if TYPE_CHECKING:
    from typing import Unpack

    import pandas
    import polars
    import pyarrow

    from whence.listing import Listing, SourceOptions
    from whence.locator.coerce import Places
    from whence.locator.options import LocatorFields
    from whence.profiles.callers import CallTable
    from whence.profiles.top import Top

NOTEBOOK_NODES = 20_000  # of a flame graph: a notebook keeps each page it shows


class Profile(ProfileData):
    """A profile: sample types, mappings, locations with their frames, samples. Made by `read`, or field by field."""

    __slots__ = ()

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.samples)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Sample]:
        """Yield each sample: its functions, values and labels."""
        return iter(self.samples)

    @classmethod
    def of(cls, data: ProfileData) -> Profile:
        """Return a profile that shares the tables of `data`."""
        profile = cls()
        for part, value in as_dict(data).items():
            setattr(profile, part, value)
        return profile

    def symbolize(
        self,
        locator: Places | Binaries | None = None,
        *,
        overwrite: bool = False,
        demangle: bool | Callable[[str], str] = False,
        progress: Callable[[str, int, int], None] | None = None,
        **fields: Unpack[LocatorFields],
    ) -> Report:
        """Give frames or a reason to every location that has no frames.

        A file that can't be read costs only its own locations their names.

        Args:
            locator: where the files of mappings are: a Locator, a Store, or a path or address (default: the files of
                this machine). Each file is opened once and closed afterwards. Binaries stay open for the next profile,
                and add names that are in no file.
            overwrite: also name locations that have frames.
            demangle: store readable names; a function replaces whence.demangle.demangle.
            progress: is called with a file's path, the number of files that are done, and the number of all files.
            fields: keywords of whence.Locator: store, binaries, debug_dirs, ...

        Returns:
            How much has names now, and what would name the rest.
        """
        if isinstance(locator, Binaries):
            check_no_fields(fields)
            return Report(self, name(self, locator, overwrite=overwrite, demangle=demangle, progress=progress))
        with Binaries(locator_from(locator, **fields), once=True) as binaries:
            return Report(self, name(self, binaries, overwrite=overwrite, demangle=demangle, progress=progress))

    def write(self, path: str | os.PathLike[str], format: str = "", *, json: bool | None = None) -> None:
        """Write the profile to a file, completely or not at all.

        Args:
            path: the file.
            format: "pprof", "otlp", "otlp-json", "folded", "speedscope", "firefox", "top", "json", "arrow" or
                "flamegraph" (an HTML page). Default: by the path's ending; for a path without ending the format it was
                read in; text formats become folded stacks.
            json: choose the JSON or the binary form of OTLP.

        Raises:
            OSError: the file can't be written.
            ProfileError: the output would be too large for what the profile was read from.
            WrongUse: no format is given, and the path has an unknown ending.
            ValueError: unknown format.
            WrongUse: unknown ending, and no format.
        """
        if not format:
            by_ending(os.fspath(path), written.ENDINGS + written.PAGE_ENDINGS, "a profile", "; or give a format")
        formats.write(self, path, format, json=json)

    def merge(self, *others: ProfileData) -> Profile:
        """Return one profile of this one and `others`. Equal samples are added up, mappings of one file are joined."""
        return Profile.of(merging.merge([self, *others]))

    def diff(self, base: ProfileData, *, normalize: bool = False) -> Profile:
        """Return what changed since `base`, by function and file, so that two builds compare; values may be negative.

        Symbolize both profiles first. The result's `samples.base` has the values of `base`; its flame graph shows
        growth in red and decline in blue.

        Args:
            base: the older profile.
            normalize: scale `base` so that both have the same sum of each sample type.

        Raises:
            ProfileError: the profiles have no sample type in common.
        """
        return Profile.of(diff(self, base, normalize=normalize))

    def _repr_html_(self) -> str:
        """Return the flame graph, as notebooks show it."""
        page = flamegraph.page(self, nodes=NOTEBOOK_NODES)
        return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 600px; border: 0"></iframe>'

    def top(self, rows: int = 30, sort: str = "self", *, by: str = "function") -> Top:
        """Return the functions with the highest values of the default sample type.

        Args:
            rows: number of functions; 0 for all.
            sort: "self" or "total".
            by: what a row is: "function", "process", "thread", "binary" or "line".

        Returns:
            Rows of self, total, function, file, binary, and the reason if there is no name; as text, a table.
        """
        return top(self, rows, sort, by=by)

    def listing(
        self, pattern: str, locator: Places | Binaries | None = None, *, sources: SourceOptions | None = None
    ) -> list[Listing]:
        """Return the lines of the functions whose name matches, with their costs, the most expensive first.

        Symbolize the profile first. Costs are of the default sample type; they equal those of `go tool pprof -list`.

        Args:
            pattern: a regular expression that is searched in the names.
            locator: where the binaries are, as for `symbolize`: their debug info may have the text or the MD5 of
                source files.
            sources: where source files are looked for (default: the debug info, and the paths in the profile).

        Raises:
            ValueError: the pattern is not a regular expression.
        """
        if isinstance(locator, Binaries):
            return code.listings(self, pattern, sources=sources, binaries=locator)
        with Binaries(locator) as binaries:
            return code.listings(self, pattern, sources=sources, binaries=binaries)

    def annotate(
        self,
        pattern: str,
        locator: Places | Binaries | None = None,
        *,
        sources: SourceOptions | None = None,
        syntax: str = "intel",
        skid: int = 0,
    ) -> list[Listing]:
        """Return the instructions of the functions whose name matches, with their costs, the most expensive first.

        Symbolize the profile first. The cost of an instruction is that of the samples at its address, as recorded.

        Args:
            pattern: a regular expression that is searched in the names; inlined functions are part of their callers.
            locator: where the executables are, as for `symbolize`.
            sources: where source files are looked for (default: the debug info, and the paths in it).
            syntax: "intel" or "att", for x86.
            skid: number of instructions by which costs are moved back.

        Raises:
            ValueError: the pattern is not a regular expression.
            ImportError: capstone is not installed.
        """
        options = ListingOptions(sources, syntax=syntax, skid=skid)
        if isinstance(locator, Binaries):
            return list(code.instruction_listings(self, pattern, locator, options=options))
        with Binaries(locator) as binaries:
            return list(code.instruction_listings(self, pattern, binaries, options=options))

    def callers(self, pattern: str, *, rows: int = 20, neighbours: int = 30) -> CallTable:
        """Return callers and callees of the functions whose name matches, as `go tool pprof -peek` counts them.

        Args:
            pattern: a regular expression that is searched in the names.
            rows: number of functions; 0 for all.
            neighbours: number of callers, and of callees, of each function; 0 for all.

        Raises ValueError for an invalid pattern.
        """
        return callers(self, pattern, rows=rows, neighbours=neighbours)

    def to_arrow(self) -> pyarrow.Table:
        """Return a pyarrow Table with a row for each sample (for each event, if times are known): see profiles.arrow.

        Raises:
            ImportError: pyarrow is not installed.
        """
        return table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame with a row for each sample; the columns are those of `to_arrow`.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """
        imported("pandas", "Profile.to_pandas", "pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return a Polars DataFrame with a row for each sample; the columns are those of `to_arrow`.

        Raises:
            ImportError: Polars or pyarrow is not installed.
        """
        pl = imported("polars", "Profile.to_polars", "polars")
        frame: polars.DataFrame = pl.from_arrow(self.to_arrow())
        return frame

    def flamegraph(
        self,
        path: str | os.PathLike[str] = "",
        *,
        embed_source: bool = False,
        embed_code: bool = False,
        locator: Places | Binaries | None = None,
        sources: SourceOptions | None = None,
    ) -> str:
        """Return the flame graph as an HTML page; also write it to a file if `path` is given.

        Symbolize the profile first.

        Args:
            path: the file.
            embed_source: embed source files, and show the cost of each line.
            embed_code: embed instructions, and show the cost of each.
            locator: where the executables are, as for `symbolize`, if code is embedded.
            sources: where source files are looked for (default: the debug info, and the paths in it).

        Raises:
            OSError: the file can't be written.
            ImportError: capstone is not installed, with `embed_code`.
        """
        if not embed_source and not embed_code:
            page = flamegraph.page_bytes(self)
        else:
            options = PageCodeOptions(embed_source, embed_code, sources=sources)
            with ExitStack() as stack:
                if not isinstance(locator, Binaries):
                    locator = stack.enter_context(Binaries(locator))
                if embed_code:
                    find_functions(self, locator)
                page = page_code.page(self, "", locator, options)
        if path:
            formats.save(os.fspath(path), page)
        return page.decode("utf-8")

    def to_bytes(self, format: str, *, name: str = "", json: bool | None = None) -> bytes:
        """Return the bytes that `write` puts into a file; some formats store `name` as the profile's name."""
        return formats.to_bytes(self, format, name, json=json)


def merge(profiles: Iterable[ProfileData]) -> Profile:
    """Return one profile of all. Each is released before the next is taken, so an iterator needs little memory."""
    return Profile.of(merging.merge(profiles))


def read(source: str | os.PathLike[str] | bytes | BinaryIO) -> Profile:
    """Read a profile, which may be compressed with gzip; samples are decoded on first use.

    The format is recognized by the bytes (docs/profiles.md lists all formats); the profile's `format` then names it:
    "perf.data", "pprof", "otlp", "perf", "folded", "firefox", "speedscope", "v8", "heap", "jemalloc", "cpu", ... Time
    and memory are bounded by the stored bytes.

    Args:
        source: the path of a file or pipe, an open binary file, or bytes.

    Raises:
        OSError: the file can't be read.
        ProfileError: the bytes are not a profile, or damaged.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return Profile.of(formats.from_bytes(bytes(source)))
    if isinstance(source, str | os.PathLike):
        return Profile.of(formats.open_profile(source))
    return Profile.of(formats.from_file(source))
