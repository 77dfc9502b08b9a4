"""The tools of `whence mcp`: each answers with the text that the command of the same job prints.

| tool | command |
|---|---|
| open | explain, profile --coverage, core --info |
| top | profile --top |
| callers | profile --callers |
| list | profile --list and --annotate, listing |
| diff | profile --base --top, size --base |
| name | addr, core ADDRESS... |
| stacks | core |

Answers have at most ANSWER characters, and say how many lines are left out. One request is answered at a time; the last
profiles are kept, so that further questions about them are answered at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from whence._base.amounts import amount
from whence._base.errors import WrongUse
from whence._base.lru import Lru
from whence._base.streams import ESCAPES
from whence._base.words import address, counted, plain
from whence.cli.answers import as_lines, frame_text
from whence.cli.dispatch import ARCHIVE, CORE, ELF, MINIDUMP, OBJECT, PROFILE, InputKind, kind_of
from whence.cli.mcp_files import AllowedFolders, allowed_locator
from whence.cli.overview import overview
from whence.cli.size import growth_text
from whence.cli.stacks import About, StackLines, title
from whence.listing.text import annotated, listed
from whence.profiles import Profile, SymbolLists
from whence.profiles.binaries import Binaries
from whence.profiles.code import compiled
from whence.profiles.coverage import Report
from whence.profiles.formats import registry as formats
from whence.profiles.naming import name as name_profile
from whence.samples.stacks import unnamed
from whence.sizes import Change, compare
from whence.symbolize import Core, Symbolizer

if TYPE_CHECKING:
    from whence.locator.locator import Locator
    from whence.samples.model import ProfileData

ANSWER = 60_000  # characters of an answer
PROFILE_BYTES = 1 << 30  # of a profile that is read
KEPT = 4  # profiles
ADDRESSES = 1000  # of a request
BINARIES = 100
PATTERN_SECONDS = 5.0  # for matching a pattern with all names of a profile
THREADS = 64  # whose stacks are printed, unless one is requested
FUNCTIONS = 5  # that a listing prints

TRY_PATTERN = """
import json, re, sys
pattern, *names = json.load(sys.stdin.buffer)
for name in names:
    re.search(pattern, name)
"""

OBJECTS = (ELF, OBJECT, ARCHIVE)
DUMPS = (CORE, MINIDUMP)


class NamedProfile(NamedTuple):
    """A profile whose locations have names, and what named them."""

    profile: Profile
    coverage: Report


class Tools:
    """Answers questions about the files below the allowed folders.

    Args:
        allowed: the folders.
        options: the options of the command line, for the Locator.
    """

    def __init__(self, allowed: AllowedFolders, options: Namespace) -> None:
        self._allowed, self._options = allowed, options
        self._profiles: Lru[tuple[object, ...], NamedProfile] = Lru(KEPT)
        self._lock = Lock()

    # tools

    def open(self, path: str, binaries: Sequence[str] = ()) -> str:
        """Say what a file is: a profile, a core dump, a program or an archive; and what there is to ask about it.

        Args:
            path: the file.
            binaries: programs or debug files to take names from, if the mapped ones are missing.
        """
        with self._opened(path) as (file, kind):
            return bounded(self._about(file, kind, binaries))

    def top(
        self, path: str, rows: int = 30, sort: str = "self", by: str = "function", sample_type: str = "",
        binaries: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """Print the functions with the highest values of a profile.

        Args:
            path: the profile.
            rows: number of functions, at most 500.
            sort: "self" (the function's own value) or "total" (with what it calls).
            by: what a row is: "function", "process", "thread", "binary" or "line".
            sample_type: what is summed, such as "cpu" or "alloc_space", as open lists them.
            binaries: programs or debug files to take names from, if the mapped ones are missing.
        """
        with self._opened(path, PROFILE) as (file, _):
            profile = self._profile(file, binaries).profile
            with chosen_type(profile, sample_type):
                return bounded(str(profile.top(at_most(rows, 500), sort, by=by)).splitlines())

    def callers(self, path: str, function: str, sample_type: str = "", binaries: Sequence[str] = ()) -> str:
        """Print who calls the functions of a profile that match, and what they call, with values.

        Args:
            path: the profile.
            function: a regular expression, searched in the names of functions.
            sample_type: what is summed, as open lists them.
            binaries: programs or debug files to take names from, if the mapped ones are missing.
        """
        with self._opened(path, PROFILE) as (file, _):
            profile = self._profile(file, binaries).profile
            check_pattern(function, profile)
            with chosen_type(profile, sample_type):
                table = profile.callers(function)
            if not table.rows:
                raise WrongUse(f"no function with samples matches {function!r}")
            more = table.functions - len(table.rows)
            return bounded([*str(table).splitlines(), *([f"{more} more functions match"] if more else [])])

    def list(
        self, path: str, function: str, instructions: bool = False, sample_type: str = "",
        binaries: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """Print the source lines of a function, or its instructions: of a profile with the cost of each.

        Args:
            path: a profile, a program, a library or an archive.
            function: of a profile a regular expression, otherwise the name of a function.
            instructions: print instructions instead of lines.
            sample_type: what is summed, as open lists them.
            binaries: programs or debug files to take names from; for an archive, the program with the code.
        """
        with self._opened(path, PROFILE, *OBJECTS) as (file, kind):
            if kind is PROFILE:
                return bounded(self._costs(file, function, instructions, sample_type, binaries))
            with (
                self._locator(binaries) as locator,
                locator.open(file, demangle=True) as binary,
            ):
                code = self._allowed.path(binaries[0]) if binaries and binary.is_archive else None
                sources = self._allowed.sources()
                listing = binary.listing(function, sources=sources, code=code, lines=not instructions)
                return bounded(annotated(listing) if instructions else listed(listing))

    def diff(self, new: str, old: str, rows: int = 30, normalize: bool = False, binaries: Sequence[str] = ()) -> str:
        """Print what changed between two profiles, by function, or what grew between two builds of a program.

        Args:
            new: a profile or a program.
            old: an older one.
            rows: number of functions, at most 500.
            normalize: scale the older profile so that both sums are equal.
            binaries: programs or debug files to take names from, if the mapped ones are missing.
        """
        with self._opened(new, PROFILE, *OBJECTS) as (file, kind):
            before = self._allowed.path(old)
            if kind is not PROFILE:
                return bounded(self._growth(file, before, at_most(rows, 500)))
            if kind_of(before) is not PROFILE:
                raise WrongUse(f"{plain(old)} is {kind_of(before).what}, and {plain(new)} is {kind.what}")
            profile, base = (self._profile(path, binaries).profile for path in (file, before))
            table = Profile.of(profile.diff(base, normalize=normalize)).top(at_most(rows, 500))
            return bounded(str(table).splitlines())

    def name(
        self, path: str, addresses: Sequence[str], return_addresses: bool = False, binaries: Sequence[str] = ()
    ) -> str:
        """Name addresses of a program, a library or an archive (vaddrs), or of a core dump (runtime addresses).

        Args:
            path: the file.
            addresses: in hexadecimal, such as "0x1210"; at most 1,000.
            return_addresses: the addresses follow calls, as those of stacks do: look up the byte before each.
            binaries: programs or debug files to take names from, if the mapped ones are missing.
        """
        if len(addresses) > ADDRESSES:
            raise WrongUse(f"{len(addresses):,} addresses: a request may have {ADDRESSES:,}")
        if not addresses:
            raise WrongUse("no addresses: give at least one")
        try:
            numbers = [address(word) for word in addresses]
        except ValueError as error:
            raise WrongUse(str(error)) from None
        with (
            self._opened(path, *OBJECTS, *DUMPS) as (file, kind),
            self._locator(binaries) as locator,
        ):
            if kind in DUMPS:
                with Symbolizer(locator=locator, demangle=True) as symbolizer:
                    answers = symbolizer.symbolize(self._core(file, binaries), numbers, return_address=return_addresses)
                    return bounded(line for answer in answers for line in as_lines(answer))
            with locator.open(file, demangle=True) as binary:
                table = binary.lookup_many(numbers, return_address=return_addresses)
                return bounded(named_lines(numbers, table))

    def stacks(self, path: str, thread: int = 0, variables: bool = False, binaries: Sequence[str] = ()) -> str:
        """Print the stacks of a core dump or minidump, of all threads or of one.

        Args:
            path: the core dump.
            thread: the id of a thread; 0 for all.
            variables: print arguments and local variables, too.
            binaries: the program and libraries, if the mapped ones are missing.
        """
        with (
            self._opened(path, *DUMPS) as (file, _),
            self._locator(binaries) as locator,
            Symbolizer(locator=locator, demangle=True) as symbolizer,
        ):
            core = self._core(file, binaries)
            tids = [each.tid for each in core.threads]
            if thread and thread not in tids:
                raise WrongUse(f"{plain(path)} has no thread {thread} (threads: {', '.join(map(str, tids)) or 'none'})")
            selected = [thread] if thread else tids[:THREADS]
            stacks = core.stacks(symbolizer, tids=selected, variables=variables)
            lines, texts = StackLines(), [str(About.core(core))]
            for stack in stacks:
                texts.append(title(stack) + (f" {stack.signal}" if stack.signal is not None else ""))
                texts += lines.of(stack)
            if len(tids) > len(selected) > 1:
                texts.append(f"{len(tids) - len(selected)} more threads: {', '.join(map(str, tids[THREADS:]))}")
            return bounded(texts)

    # files

    def _given(self, binaries: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of the binaries of a request. Raises WrongUse if there are too many."""
        if len(binaries) > BINARIES:
            raise WrongUse(f"{len(binaries):,} binaries: a request may have {BINARIES:,}")
        return (*map(self._allowed.path, binaries),)

    def _locator(self, binaries: Sequence[str]) -> AbstractContextManager[Locator]:
        """Open a Locator for the binaries of a request, and the sources of the command line."""
        return allowed_locator(self._allowed, self._given(binaries), self._options)

    @contextmanager
    def _opened(self, path: str, *kinds: InputKind) -> Iterator[tuple[str, InputKind]]:
        """Resolve a path, and find out what the file is. Raises WrongUse if it has another kind."""
        with self._lock:
            file = self._allowed.path(path)
            kind = kind_of(file)
            if kinds and kind not in kinds:
                expected = " or ".join(dict.fromkeys(each.what for each in kinds))
                raise WrongUse(f"{plain(path)} is {kind.what}: this tool needs {expected}")
            yield file, kind

    def _core(self, path: str, binaries: Sequence[str]) -> Core:
        programs = [*self._given(binaries), *self._options.binary]
        return Core(path, programs=programs, sysroot=self._options.sysroot, allows=self._allowed.contain)

    def _profile(self, path: str, binaries: Sequence[str]) -> NamedProfile:
        """Return a profile with names; the last ones are kept until the file changes."""
        status = os.stat(path)
        if status.st_size > PROFILE_BYTES:
            raise WrongUse(f"{plain(path)}: {amount(status.st_size, 'bytes')} are too many for a profile here")
        key = path, status.st_mtime_ns, status.st_size, tuple(binaries)
        kept = self._profiles.get(key)
        if kept is not None:
            return kept
        with open(path, "rb") as file:
            profile = Profile.of(formats.from_bytes(file.read(), local=False))
        with (
            self._locator(binaries) as locator,
            Binaries(locator, symbol_lists=SymbolLists(local=False)) as files,
        ):
            named = NamedProfile(profile, Report(profile, name_profile(profile, files, demangle=True)))
        self._profiles[key] = named
        return named

    # parts of answers

    def _about(self, path: str, kind: InputKind, binaries: Sequence[str]) -> Iterator[str]:
        yield f"{plain(path)}: {kind.what}"
        if kind is PROFILE:
            profile, coverage = self._profile(path, binaries)
            yield f"samples: {len(profile):,}"
            for number, (type, values) in enumerate(zip(profile.sample_types, profile.samples.values)):
                default = " (default)" if number == profile.default_type else ""
                yield f"sample type {type.type or 'samples'}{default}: {amount(sum(values), type.unit)}"
            yield from str(coverage).splitlines()
            yield "ask: top, callers, list, diff"
        elif kind in DUMPS:
            core = self._core(path, binaries)
            yield str(About.core(core))
            yield from (f"problem: {problem}" for problem in map(str, core.problems))
            shown = ", ".join(str(thread.tid) for thread in core.threads[:THREADS])
            yield f"threads: {shown or 'none'}"
            yield f"{counted(len(core.threads), 'thread')}, {counted(len(core.mappings()), 'executable mapping')}"
            yield "ask: stacks, name"
        elif kind in OBJECTS:
            with self._locator(binaries) as locator:
                if kind is ARCHIVE:
                    with locator.open(path) as binary:
                        yield f"build-id {binary.build_id or 'none'}"
                else:
                    yield from overview(path, locator).lines()
            yield "ask: name, list, diff"
        else:
            yield "no tool reads this kind of file"

    def _costs(
        self, path: str, pattern: str, instructions: bool, sample_type: str, binaries: Sequence[str]
    ) -> Iterator[str]:
        profile, sources = self._profile(path, binaries).profile, self._allowed.sources()
        check_pattern(pattern, profile)
        count = 0
        with (
            chosen_type(profile, sample_type),
            self._locator(binaries) as locator,
            Binaries(locator, symbol_lists=SymbolLists(local=False)) as files,
        ):
            make = profile.annotate if instructions else profile.listing
            for listing in make(pattern, files, sources=sources)[:FUNCTIONS]:
                if count:
                    yield ""
                count += 1
                yield from annotated(listing) if instructions else listed(listing)
        if not count:
            raise WrongUse(f"no function with samples matches {pattern!r}")

    def _growth(self, new: str, old: str, rows: int) -> Iterator[str]:
        with self._locator(()) as locator:
            sizes = []
            for path in (new, old):
                with locator.open(path, demangle=True) as binary:
                    sizes.append(binary.sizes())
        changes = [row for row in compare(sizes[0], sizes[1]) if row.change is not Change.SAME]
        yield from growth_text(changes, sizes[0], sizes[1], rows)


def check_pattern(pattern: str, profile: ProfileData) -> None:
    """Raise WrongUse for a pattern that is invalid, or needs long for the names of a profile.

    Some patterns need time that is exponential in the length of a name, and matching cannot be stopped. So they are
    tried in a process, which can be.
    """
    try:
        compiled(pattern)
    except ValueError as error:
        raise WrongUse(str(error)) from None
    names = {frame.function for frames in profile.frames for frame in frames}
    names.update(
        unnamed(profile, location, grouped=True) for location, frames in enumerate(profile.frames) if not frames
    )
    try:
        subprocess.run(
            [sys.executable, "-I", "-c", TRY_PATTERN], input=json.dumps([pattern, *names]).encode(),
            timeout=PATTERN_SECONDS, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        fault = f"matching {pattern!r} with {len(names):,} names needs more than {PATTERN_SECONDS:g} s"
        raise WrongUse(f"{fault}: give a simpler pattern") from None


@contextmanager
def chosen_type(profile: Profile, word: str) -> Iterator[None]:
    """Make a sample type of a profile its default within the block. Raises WrongUse if it does not exist."""
    default = profile.default_type
    names = [type.type for type in profile.sample_types]
    if word:
        if word not in names:
            raise WrongUse(f"no sample type is named {word!r} (sample types: {', '.join(names)})")
        profile.default_type = names.index(word)
    try:
        yield
    finally:
        profile.default_type = default


def named_lines(addresses: Sequence[int], chains: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield each address with its frames, innermost first."""
    for number, frames in zip(addresses, chains, strict=True):
        yield f"{number:#x}"
        for frame in frames:
            yield f"    {frame_text(frame)}"  # type: ignore[arg-type]
        if not frames:
            yield "    ?? no name"


def at_most(rows: int, limit: int) -> int:
    """Return a requested number of rows within the limit. Raises WrongUse if it is not positive."""
    if rows < 1:
        raise WrongUse(f"{rows} rows: give a positive number")
    return min(rows, limit)


def bounded(lines: Iterable[str]) -> str:
    """Return lines as a text of at most ANSWER characters, which says how many lines are missing."""
    texts: list[str] = []
    size = left_out = 0
    for line in lines:
        line = line.translate(ESCAPES).encode(errors="backslashreplace").decode()  # JSON has no single surrogates
        size += len(line) + 1
        if size > ANSWER or left_out:
            left_out += 1
        else:
            texts.append(line)
    if left_out:
        texts.append(f"[{counted(left_out, 'more line')}: ask for less]")
    return "\n".join(texts)
