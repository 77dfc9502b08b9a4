"""`whence profile A B C... -o DIR`: each profile named and written on its own, by processes that open a file once.

A file that can't be read costs only itself. The first profile is named by this process; then copies of it, which have
open what that one needed, share out the others. Where there is one core, or where a copy could not go on with what
other threads began, this process names them all. Files that name profiles stay open for the next one, up to a bound.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from whence._base import cores
from whence._base.child import Child, receive, send
from whence._base.errors import WhenceError, WrongUse
from whence._base.files import NotRegularError
from whence._base.records import NamedTuple
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, message_of
from whence.cli.options import locator_of
from whence.cli.profile_output import choose_type, format_asked, report_notes, report_shortfall, reports, skipped_lines
from whence.cli.progress import Progress
from whence.profiles import Profile, read
from whence.profiles.binaries import Binaries
from whence.profiles.coverage import Report
from whence.profiles.formats import registry as formats
from whence.profiles.naming import FileReport, name
from whence.profiles.symbol_lists import SymbolLists

OPEN_BYTES = 1 << 30  # what open files may take from one profile to the next, in all processes together
OPEN_FILES = 2_000
WRITERS = 2  # threads that write: most of the time they wait for the disk
WRITTEN_AT_ONCE = 4  # profiles
OPEN_PIPES = ("/dev/fd/", "/proc/")  # what a shell makes of <(...)
FEWEST = 8  # profiles that are worth a process
MOST_PROCESSES = 16
LONGEST = 1 << 30  # bytes of a message with an outcome
THREAD_SECONDS = 0.2  # that other threads have to end before processes are made
STOP_SECONDS = 0.5  # that processes have to end when this one does
LOOK_SECONDS = 0.005  # between two looks


class Outcome(NamedTuple):
    """What became of a profile: what is printed on stdout and stderr, and how it counts for the exit code."""

    output: str
    errors: str
    broken: bool
    under: bool


def run_files(options: Namespace) -> int:
    """Name and write every profile. Returns the exit code: the worst of all files."""
    folder = options.output
    if folder is None and not (reports(options) or options.flamegraph):
        raise WrongUse("of several profiles, -o is the folder they are written to; --merge makes one of them")
    if folder == "-" or (folder is not None and os.path.exists(folder) and not os.path.isdir(folder)):
        raise WrongUse(f"{folder} is no folder: of several profiles, -o is the folder they are written to")
    options.output = None  # its ending says nothing
    paths = options.profiles
    done = broken = under = 0
    began = time.monotonic()
    with (
        locator_of(options) as locator,
        Binaries(locator, symbol_lists=SymbolLists(options.perf_map, options.kallsyms), remember=True) as binaries,
        Progress("naming profiles", quiet=options.quiet) as progress,
    ):
        progress.share = lambda: (done, len(paths))
        namer = FilesNamer(options, folder, binaries)
        for outcome in outcomes(namer, paths, options.jobs or cores.available()):
            done += 1
            broken += outcome.broken
            under += outcome.under
            progress.what = f"naming {os.path.basename(paths[min(done, len(paths) - 1)])}"
            sys.stdout.write(outcome.output)
            sys.stdout.flush()
            sys.stderr.write(outcome.errors)
    if not options.json:
        left = f", {broken:,} of them could not be read or written" if broken else ""
        print(f"whence profile: {done:,} files{left}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return BROKEN_INPUT if broken else SOME_UNKNOWN if under else ANSWERED


def outcomes(namer: FilesNamer, paths: Sequence[str], most: int) -> Iterator[Outcome]:
    """What became of each profile, in order. At most so many processes name them."""
    yield from namer.outcomes(paths[:1])
    rest = paths[1:]
    count = min(most, MOST_PROCESSES, len(rest) // FEWEST)
    if count < 2 or not can_fork():
        yield from namer.outcomes(rest)
        return
    namer.binaries.locator.close()  # a connection serves one process
    namer.open_bytes //= count
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited: how processes end would be lost
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    workers: list[ProfileProcess] = []
    try:
        try:
            for first in range(count):
                workers.append(ProfileProcess(namer, rest[first::count], workers))
        except OSError:  # the system has no more processes, or descriptors
            stop(workers)
            yield from namer.outcomes(rest)
            return
        for index, path in enumerate(rest):
            worker = workers[index % count]
            outcome = worker.outcome()
            while outcome is None:
                how = stop([worker])
                lost = worker.is_alone and not worker.answered
                if lost:
                    outcome = namer.lost(path, how)
                else:  # one of several files, of which this is the first
                    namer.at_once = 0
                worker = workers[index % count] = ProfileProcess(namer, rest[index + count * lost :: count], workers)
                outcome = outcome or worker.outcome()
            yield outcome
    finally:
        stop(workers)


def can_fork() -> bool:
    """Whether a copy of this process can go on: on Linux, where no threads are at work but Python's own, which wait.

    Threads that have done their work take a moment to end.
    """
    if sys.platform != "linux":
        return False
    deadline = time.monotonic() + THREAD_SECONDS
    with suppress(OSError):
        while len(os.listdir("/proc/self/task")) > threading.active_count():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True
    return False


class ProfileProcess:
    """A copy of this process that names profiles and sends the outcome of each."""

    child: Child

    def __init__(self, namer: FilesNamer, paths: Sequence[str], others: Sequence[ProfileProcess]) -> None:
        self.is_alone = namer.at_once == 0  # the profile that ended the process is the next one
        self.answered = 0  # profiles
        self.child = Child.fork(lambda line: work(namer, paths, line), [other.child for other in others])

    def outcome(self) -> Outcome | None:
        """Return the outcome of the next profile; None if the process ended before."""
        try:
            message, _ = receive(self.child.line, LONGEST)
        except OSError:
            return None
        self.answered += 1
        return Outcome(**message)


def work(namer: FilesNamer, paths: Sequence[str], line: socket.socket) -> None:
    """Name profiles, send the outcome of each, and end this process."""
    sys.stdout = sys.stderr = io.StringIO()  # a thread of the parent may have held the locks of the others
    namer.binaries.locator.jobs = 1
    status = 1
    try:
        for outcome in namer.outcomes(paths):
            send(line, outcome._asdict())
        status = 0
    except (BrokenPipeError, KeyboardInterrupt):  # the parent ends
        pass
    except BaseException:  # a bug, which costs one profile: printed before the socket is closed
        os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
    os._exit(status)


def stop(workers: Sequence[ProfileProcess]) -> str:
    """End the processes, each of which removes its unfinished files; return how the last one ended."""
    code = 0
    deadline = time.monotonic() + STOP_SECONDS
    for worker in workers:
        worker.child.line.close()
        worker.child.kill(signal.SIGINT)
    for worker in workers:
        code = worker.child.reap(deadline - time.monotonic())
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


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


def read_path(path: str) -> Profile:
    """The profile of a path. A pipe that lies in a folder is refused: nobody may ever write to it."""
    if path == "-":
        return read(sys.stdin.buffer.read())
    if not path.startswith(OPEN_PIPES):
        mode = os.stat(path).st_mode
        if stat.S_ISFIFO(mode):
            error = NotRegularError(mode)
            error.filename = path
            raise error
    return read(path)


class FilesNamer:
    """Names profiles one after the other, and has them written meanwhile."""

    def __init__(self, options: Namespace, folder: str | None, binaries: Binaries) -> None:
        self.options, self.folder, self.binaries = options, folder, binaries
        self.format = format_asked(options)
        self.places = names_apart(options.profiles)
        self.open_bytes = OPEN_BYTES
        self.at_once = WRITTEN_AT_ONCE  # profiles that may wait to be written while the next one is named

    def outcomes(self, paths: Sequence[str]) -> Iterator[Outcome]:
        """What became of each, in order."""
        waiting: deque[ProfileJob] = deque()
        with ThreadPoolExecutor(WRITERS) as writers:
            for path in paths:
                job = self._job(path)
                job.take(self.binaries, writers)
                waiting.append(job)
                self.binaries.trim(self.open_bytes, OPEN_FILES)
                if len(waiting) > self.at_once:
                    yield waiting.popleft().outcome()
            while waiting:
                yield waiting.popleft().outcome()

    def lost(self, path: str, how: str) -> Outcome:
        """The outcome of a profile whose process ended so."""
        job = self._job(path)
        job.error = OSError(f"{path}: the process for it {how}")
        return job.outcome()

    def _job(self, path: str) -> ProfileJob:
        return ProfileJob(path, self.places[path], self.options, self.format, self.folder)


class ProfileJob:
    """One profile on its way through: what became of it."""

    def __init__(self, path: str, place: str, options: Namespace, format: str, folder: str | None) -> None:
        self.path, self.place, self.options, self.format, self.folder = path, place, options, format, folder
        self._writes: list[Future[None]] = []
        self.output = ""
        self.seconds = 0.0
        self.error: WhenceError | OSError | MemoryError | None = None
        self.report: Report | None = None
        self.files: list[FileReport] = []
        self.notes: list[str] = []  # what its reader has to say of it
        self.under = False  # fewer frames have names than --fail-under asks

    def take(self, binaries: Binaries, writers: ThreadPoolExecutor) -> None:
        """Read the profile, name it and have it written; what fails is kept as `error`."""
        began = time.monotonic()
        try:
            profile = read_path(self.path)
            choose_type(profile, self.options.sample_type)
            self.files = name(
                profile, binaries, overwrite=self.options.overwrite, demangle=not self.options.no_demangle
            )
            self.notes = skipped_lines(profile) + profile.notes
            self._write(profile.timed() if self.options.times else profile, writers)
            self._judge(profile)
        except (WhenceError, OSError, MemoryError) as error:
            self.error = error
        self.seconds = time.monotonic() - began

    def outcome(self) -> Outcome:
        """What became of the profile, when its files are written."""
        began = time.monotonic()
        for write in self._writes:
            try:
                write.result()
            except (WhenceError, OSError, MemoryError) as error:
                self.error = self.error or error
        self._writes.clear()
        self.seconds += time.monotonic() - began
        output, errors = io.StringIO(), io.StringIO()
        self._show(output, errors)
        return Outcome(output.getvalue(), errors.getvalue(), self.error is not None, self.under)

    def _write(self, profile: Profile, writers: ThreadPoolExecutor) -> None:
        options = self.options
        if self.folder is not None:
            format = self.format or formats.format_for(profile, self.place)
            self.output = os.path.join(self.folder, formats.renamed(self.place, format))
            self._put(profile, self.output, format, writers)
        if options.flamegraph:
            page = os.path.join(options.flamegraph, formats.renamed(self.place, formats.PAGE))
            self._put(profile, page, formats.PAGE, writers)

    def _put(self, profile: Profile, path: str, format: str, writers: ThreadPoolExecutor) -> None:
        if os.path.exists(path) and os.path.exists(self.path) and os.path.samefile(path, self.path):
            raise WrongUse(f"{path} is the profile itself: give another folder")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        title = os.path.basename(self.place)
        data = formats.to_bytes(profile, format, title, rows=self.options.top, sort=self.options.sort)
        data = formats.packed(data, format, path)
        try:
            self._writes.append(writers.submit(formats.save, path, data))
        except RuntimeError:  # the system refuses a thread
            formats.save(path, data)

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

    def _show(self, output: io.StringIO, errors: io.StringIO) -> None:
        """Print a line of JSON; or what went wrong, and the coverage that was asked for."""
        if self.options.json:
            print(json.dumps(self.as_json()), file=output)
        else:
            report_notes(self.notes, self.path, errors)
            if self.error is not None:
                print(f"whence profile: {plain(message_of(self.error))}", file=errors)
            elif self.report is not None and self.options.coverage:
                print(f"{plain(self.path)}:\n{self.report}", file=output)
        if self.report is not None:
            self.under = report_shortfall(self.report, self.options, self.path, errors)
