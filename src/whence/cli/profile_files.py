"""`whence profile A B C... -o DIR`: name and write many profiles, with several processes that open each file once.

A broken profile affects only itself. This process names the first profile; forked copies, which inherit its open files,
share the rest. If there is one core or forking is unsafe, this process names all. Files stay open for the next profile,
up to a limit.
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
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, message_of
from whence.cli.options import locator_of
from whence.cli.profile_output import (
    choose_type,
    format_asked,
    report_notes,
    report_shortfall,
    reports,
    skipped_lines,
    table_options,
)
from whence.cli.progress import Progress
from whence.profiles import Profile, read
from whence.profiles.binaries import Binaries
from whence.profiles.coverage import Report
from whence.profiles.formats import registry as formats
from whence.profiles.formats import written
from whence.profiles.naming import FileReport, name
from whence.profiles.symbol_lists import SymbolLists

OPEN_BYTES = 1 << 30  # kept open between profiles, in all processes together
OPEN_FILES = 2_000
WRITERS = 2  # threads, which mostly wait for the disk
WRITTEN_AT_ONCE = 4  # profiles
OPEN_PIPES = ("/dev/fd/", "/proc/")  # of <(...) in a shell
FEWEST = 8  # profiles per process
MOST_PROCESSES = 16
LONGEST = 1 << 30  # bytes of a message
THREAD_SECONDS = 0.2  # for other threads to end before forking
STOP_SECONDS = 0.5  # for processes to end
LOOK_SECONDS = 0.005  # between two checks


class ProfileOutcome(NamedTuple):
    """The result for a profile: its text for stdout and stderr, and its effect on the exit code."""

    output: str
    errors: str
    broken: bool
    under: bool


def run_files(options: Namespace) -> int:
    """Name and write every profile. Return the worst exit code of all files."""
    folder = options.output
    if folder is None and not (reports(options) or options.flamegraph):
        raise WrongUse("several profiles need -o FOLDER, or --merge to combine them")
    if folder == "-" or (folder is not None and os.path.exists(folder) and not os.path.isdir(folder)):
        raise WrongUse(f"{folder}: not a folder: several profiles are written to the folder of -o")
    options.output = None  # a folder has no format
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
        failed = f", {broken:,} of them failed" if broken else ""
        print(f"whence profile: {counted(done, 'file')}{failed}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return BROKEN_INPUT if broken else SOME_UNKNOWN if under else ANSWERED


def outcomes(namer: FilesNamer, paths: Sequence[str], limit: int) -> Iterator[ProfileOutcome]:
    """Yield the outcome of each profile, in order, from at most `limit` processes."""
    yield from namer.outcomes(paths[:1])
    rest = paths[1:]
    count = min(limit, MOST_PROCESSES, len(rest) // FEWEST)
    if count < 2 or not can_fork():
        yield from namer.outcomes(rest)
        return
    namer.binaries.locator.close()  # connections cannot be shared by processes
    namer.open_bytes //= count
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited; exit codes of children would be lost
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
    """Return True if a copy of this process can continue: on Linux, without threads other than Python's own.

    Python's threads wait meanwhile. Threads that have done their work take a moment to end.
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

    def outcome(self) -> ProfileOutcome | None:
        """Return the outcome of the next profile; None if the process ended before."""
        try:
            message, _ = receive(self.child.line, LONGEST)
        except OSError:
            return None
        self.answered += 1
        return ProfileOutcome(**message)


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


def output_names(paths: list[str]) -> dict[str, str]:
    """Return the name of each file in the folder: its own, or with the differing folders if names are equal.

    >>> output_names(["a/x.pb", "b/x.pb"]), output_names(["a/x.pb", "b/y.pb"])
    ({'a/x.pb': 'a/x.pb', 'b/x.pb': 'b/x.pb'}, {'a/x.pb': 'x.pb', 'b/y.pb': 'y.pb'})
    """
    names = {path: os.path.basename(path) for path in paths}
    if len({*names.values()}) == len(names):
        return {path: "stdin" if path == "-" else name for path, name in names.items()}
    absolute = {path: os.path.realpath(path) for path in names}
    top = os.path.commonpath([os.path.dirname(path) for path in absolute.values()])
    return {path: os.path.relpath(full, top) for path, full in absolute.items()}


def read_path(path: str) -> Profile:
    """Read the profile of a path. A FIFO in a folder is refused, because it might never be written to."""
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
    """Names profiles one after the other while earlier ones are written."""

    def __init__(self, options: Namespace, folder: str | None, binaries: Binaries) -> None:
        self.options, self.folder, self.binaries = options, folder, binaries
        self.format = format_asked(options)
        self.names = output_names(options.profiles)
        self.open_bytes = OPEN_BYTES
        self.at_once = WRITTEN_AT_ONCE  # profiles being written while the next is named

    def outcomes(self, paths: Sequence[str]) -> Iterator[ProfileOutcome]:
        """Yield the outcome of each, in order."""
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

    def lost(self, path: str, how: str) -> ProfileOutcome:
        """Return the outcome of a profile whose process ended."""
        job = self._job(path)
        job.error = OSError(f"{path}: the process for it {how}")
        return job.outcome()

    def _job(self, path: str) -> ProfileJob:
        return ProfileJob(path, self.names[path], self.options, self.format, self.folder)


class ProfileJob:
    """A profile that is read, named and written."""

    def __init__(self, path: str, name: str, options: Namespace, format: str, folder: str | None) -> None:
        self.path, self.name, self.options, self.format, self.folder = path, name, options, format, folder
        self._writes: list[Future[None]] = []
        self.output = ""
        self.seconds = 0.0
        self.error: WhenceError | OSError | MemoryError | None = None
        self.report: Report | None = None
        self.files: list[FileReport] = []
        self.notes: list[str] = []  # of the reader
        self.under = False  # fewer frames have names than --fail-under

    def take(self, binaries: Binaries, writers: ThreadPoolExecutor) -> None:
        """Read and name the profile, and start writing it. Failures are stored in `error`."""
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

    def outcome(self) -> ProfileOutcome:
        """Wait until the files are written, and return the outcome."""
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
        return ProfileOutcome(output.getvalue(), errors.getvalue(), self.error is not None, self.under)

    def _write(self, profile: Profile, writers: ThreadPoolExecutor) -> None:
        options = self.options
        if self.folder is not None:
            format = self.format or formats.format_for(profile, self.name)
            self.output = os.path.join(self.folder, formats.renamed(self.name, format))
            self._put(profile, self.output, format, writers)
        if options.flamegraph:
            page = os.path.join(options.flamegraph, formats.renamed(self.name, written.PAGE))
            self._put(profile, page, written.PAGE, writers)

    def _put(self, profile: Profile, path: str, format: str, writers: ThreadPoolExecutor) -> None:
        if os.path.exists(path) and os.path.exists(self.path) and os.path.samefile(path, self.path):
            raise WrongUse(f"{path} is the profile itself: give another folder")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        title = os.path.basename(self.name)
        data = formats.to_bytes(profile, format, title, table=table_options(self.options))
        data = formats.packed(data, format, path)
        try:
            self._writes.append(writers.submit(formats.save, path, data))
        except RuntimeError:  # no thread could be started
            formats.save(path, data)

    def _judge(self, profile: Profile) -> None:
        """Compute the coverage if it is requested."""
        options = self.options
        if options.coverage or options.fail_under is not None:
            self.report = Report(profile, self.files)
            _ = self.report.rows  # computed while the samples are in memory

    def as_json(self) -> dict[str, object]:
        """Return the JSON object: numbers of locations with and without names, and the main reason."""
        named = sum(file.named for file in self.files)
        missing: Counter[str] = Counter()
        for file in self.files:
            for why, count in file.missing.items():
                missing[str(why)] += count
        most = next((why for why, _ in missing.most_common(1)), "")
        return {
            "file": self.path,
            "output": "" if self.error is not None else self.output,
            "named": named,
            "unnamed": sum(file.locations for file in self.files) - named,
            "seconds": round(self.seconds, 4),
            "reason": most if self.error is None else message_of(self.error),
            "notes": self.notes,
            "error": getattr(self.error, "code", "unreadable") if self.error is not None else "",
        }

    def _show(self, output: io.StringIO, errors: io.StringIO) -> None:
        """Print the JSON object, or the error and the coverage."""
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
