"""`whence profile A B C... -o DIR`: each profile named and written on its own, by one process that opens a file once.

A file that can't be read costs only itself. Profiles are read ahead on other threads, as many at a time as there are
threads, and let go when they are written; the files that name them stay open for the next profile, up to a bound.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from whence import cores
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, message_of
from whence.cli.options import locator_of
from whence.cli.profile_output import choose_type, format_asked, report_notes, report_shortfall, reports, skipped_lines
from whence.cli.progress import Progress
from whence.cli.words import plain
from whence.errors import WhenceError, WrongUse
from whence.files import NotRegularError
from whence.profiles import Profile, formats, read
from whence.profiles.binaries import Binaries
from whence.profiles.coverage import Report
from whence.profiles.naming import Named, name
from whence.profiles.symbol_lists import SymbolLists

OPEN_BYTES = 1 << 30  # what open files may take from one profile to the next
OPEN_FILES = 2_000
WRITERS = 2  # threads that write: most of the time they wait for the disk
WRITTEN_AT_ONCE = 4  # profiles
OPEN_PIPES = ("/dev/fd/", "/proc/")  # what a shell makes of <(...)
READ_AHEAD = 2  # profiles, beside one for each thread


def run_files(options: Namespace) -> int:
    """Name and write every profile. Returns the exit code: the worst of all files."""
    folder = options.output
    if folder is None and not (reports(options) or options.flamegraph):
        raise WrongUse("of several profiles, -o is the folder they are written to; --merge makes one of them")
    if folder == "-" or (folder is not None and os.path.exists(folder) and not os.path.isdir(folder)):
        raise WrongUse(f"{folder} is no folder: of several profiles, -o is the folder they are written to")
    options.output = None  # its ending says nothing
    format = format_asked(options)
    places = names_apart(options.profiles)
    done = broken = under = 0
    began = time.monotonic()

    def finish(job: ProfileJob) -> None:
        nonlocal broken, under
        job.finish()
        broken += job.error is not None
        under += job.under

    with (
        locator_of(options) as locator,
        Binaries(locator, symbol_lists=SymbolLists(options.perf_map, options.kallsyms), remember=True) as binaries,
        Progress("naming profiles", quiet=options.quiet) as progress,
        ThreadPoolExecutor(WRITERS) as writers,
    ):
        progress.share = lambda: (done, len(options.profiles))
        waiting: deque[ProfileJob] = deque()
        for path, found in read_ahead(options.profiles, options.jobs or cores.available()):
            progress.what = f"naming {os.path.basename(path)}"
            job = ProfileJob(path, places[path], options, format, folder, writers)
            job.take(found, binaries)
            waiting.append(job)
            binaries.trim(OPEN_BYTES, OPEN_FILES)
            if len(waiting) > WRITTEN_AT_ONCE:
                finish(waiting.popleft())
            done += 1
        while waiting:
            finish(waiting.popleft())
    if not options.json:
        left = f", {broken:,} of them could not be read or written" if broken else ""
        print(f"whence profile: {done:,} files{left}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return BROKEN_INPUT if broken else SOME_UNKNOWN if under else ANSWERED


def names_apart(paths: list[str]) -> dict[str, str]:
    """What each file is called in the folder: its name; where some have the same, with the folders that differ.

    >>> names_apart(["a/x.pb", "b/x.pb"]), names_apart(["a/x.pb", "b/y.pb"])
    ({'a/x.pb': 'a/x.pb', 'b/x.pb': 'b/x.pb'}, {'a/x.pb': 'x.pb', 'b/y.pb': 'y.pb'})
    """
    names = {path: os.path.basename(path) for path in paths}
    if len({*names.values()}) == len(names):
        return {path: "stdin" if path == "-" else one for path, one in names.items()}
    whole = {path: os.path.realpath(path) for path in names}
    top = os.path.commonpath([os.path.dirname(one) for one in whole.values()])
    return {path: os.path.relpath(one, top) for path, one in whole.items()}


def read_ahead(paths: list[str], threads: int) -> Iterator[tuple[str, Future[Profile]]]:
    """Each path with its profile, in order; some are read before they are asked for."""
    waiting: deque[tuple[str, Future[Profile]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for path in paths:
                waiting.append((path, pool.submit(read_path, path)))
                if len(waiting) > threads + READ_AHEAD:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            for _, future in waiting:
                future.cancel()


def read_path(path: str) -> Profile:
    """The profile of a path. A pipe that lies in a folder is refused: nobody may ever write to it."""
    if path == "-":
        return read(sys.stdin.buffer.read())
    if not path.startswith(OPEN_PIPES):
        mode = os.stat(path).st_mode
        if stat.S_ISFIFO(mode):
            raise NotRegularError(mode)
    return read(path)


class ProfileJob:
    """One profile on its way through: what became of it."""

    def __init__(
        self, path: str, place: str, options: Namespace, format: str, folder: str | None, writers: ThreadPoolExecutor
    ) -> None:
        self.path, self.place, self.options, self.format, self.folder = path, place, options, format, folder
        self._writers, self._writes = writers, deque[Future[None]]()
        self.output = ""
        self.seconds = 0.0
        self.error: WhenceError | OSError | MemoryError | None = None
        self.report: Report | None = None
        self.files: list[Named] = []
        self.notes: list[str] = []  # what its reader has to say of it
        self.under = False  # fewer frames have names than --fail-under asks

    def take(self, found: Future[Profile], binaries: Binaries) -> None:
        """Name the profile and have it written; what fails is kept as `error`."""
        began = time.monotonic()
        try:
            profile = found.result()
            choose_type(profile, self.options.sample_type)
            self.files = name(
                profile, binaries, overwrite=self.options.overwrite, demangle=not self.options.no_demangle
            )
            self.notes = skipped_lines(profile) + profile.notes
            self._write(profile.timed() if self.options.times else profile)
            self._judge(profile)
        except (WhenceError, OSError, MemoryError) as error:
            self.error = error
        self.seconds = time.monotonic() - began

    def finish(self) -> None:
        """Wait until the files are written, and say what became of the profile."""
        began = time.monotonic()
        for write in self._writes:
            try:
                write.result()
            except (WhenceError, OSError, MemoryError) as error:
                self.error = self.error or error
        self._writes.clear()
        self.seconds += time.monotonic() - began
        self.show()

    def _write(self, profile: Profile) -> None:
        options = self.options
        if self.folder is not None:
            format = self.format or formats.format_for(profile, self.place)
            self.output = os.path.join(self.folder, formats.renamed(self.place, format))
            self._put(profile, self.output, format)
        if options.flamegraph:
            self._put(
                profile, os.path.join(options.flamegraph, formats.renamed(self.place, formats.PAGE)), formats.PAGE
            )

    def _put(self, profile: Profile, path: str, format: str) -> None:
        if os.path.exists(path) and os.path.exists(self.path) and os.path.samefile(path, self.path):
            raise WrongUse(f"{path} is the profile itself: give another folder")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        title = os.path.basename(self.place)
        data = formats.to_bytes(profile, format, title, rows=self.options.top, sort=self.options.sort)
        data = formats.packed(data, format, path)
        self._writes.append(self._writers.submit(formats.save, path, data))

    def _judge(self, profile: Profile) -> None:
        """Keep the coverage, where it is asked for."""
        options = self.options
        if options.coverage or options.fail_under is not None:
            self.report = Report(profile, self.files)
            _ = self.report.rows  # which weigh the samples, as long as there are some

    def as_json(self) -> dict[str, object]:
        """The line of JSON: locations that have names and that have none, and why most of those have none."""
        named = sum(one.named for one in self.files)
        missing: Counter[str] = Counter()
        for one in self.files:
            for why, count in one.missing.items():
                missing[str(why)] += count
        most = next((why for why, _ in missing.most_common(1)), "")
        return {
            "file": self.path,
            "output": "" if self.error is not None else self.output,
            "named": named,
            "unnamed": sum(one.locations for one in self.files) - named,
            "seconds": round(self.seconds, 4),
            "reason": most if self.error is None else message_of(self.error),
            "notes": self.notes,
            "error": getattr(self.error, "code", "unreadable") if self.error is not None else "",
        }

    def show(self) -> None:
        """A line of JSON on stdout; or what went wrong on stderr, and the coverage that was asked for."""
        if self.options.json:
            print(json.dumps(self.as_json()), flush=True)
        else:
            report_notes(self.notes, self.path)
            if self.error is not None:
                print(f"whence profile: {plain(message_of(self.error))}", file=sys.stderr)
            elif self.report is not None and self.options.coverage:
                print(f"{plain(self.path)}:\n{self.report}")
        if self.report is not None:
            self.under = report_shortfall(self.report, self.options, self.path)
