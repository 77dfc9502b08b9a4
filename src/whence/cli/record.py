"""`whence record -- COMMAND...` and `whence record --pid PID`: a named profile and its flame graph.

perf records if it is installed and permitted, else the sampler of whence.profiles does. Ctrl-C ends the recording; what
was recorded is written.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import REMAINDER, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import WhenceError, WrongUse
from whence._base.streams import complain
from whence.cli.answers import executable_mappings
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_locator_options, add_name_options, locator_of, symbolizer_of
from whence.cli.process_names import pid_of
from whence.cli.profile_output import format_asked, put, report_notes, rows, table_options, write_profile
from whence.cli.progress import Progress
from whence.symbolize import Process

if TYPE_CHECKING:
    from threading import Event

    from whence.cli.parser import Parser
    from whence.profiles import Profile

OUTPUT = "record.pb.gz"
PERF_RATE, SAMPLER_RATE = 997, 100  # samples per second
MAX_RATE = 10_000  # the sampler's limit, and more than perf is permitted by default
TOP = 10
START_SECONDS, POLL_SECONDS = 30.0, 0.01  # for perf to start a command
GRACE_SECONDS = 5.0  # for a command to end after SIGTERM


def configure(parser: Parser) -> None:
    parser.usage = "whence record [options] -- COMMAND...\n       whence record [options] --pid PID"
    parser.add_argument(
        "words", nargs=REMAINDER, metavar="COMMAND", help="the command to run and record, with its arguments"
    )
    parser.add_argument("-p", "--pid", type=pid_of, metavar="PID", help="record a live process: its pid, or its name")
    parser.add_argument(
        "-o",
        "--output",
        default=OUTPUT,
        metavar="OUT",
        help=f"the profile; its flame graph is written beside it, with the ending .html ({OUTPUT})",
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        metavar="SECONDS",
        help="record for at most this long; a COMMAND is then ended (default: until the process ends)",
    )
    parser.add_argument(
        "--rate", type=rate, metavar="HZ", help=f"samples per second ({PERF_RATE} by perf, else {SAMPLER_RATE})"
    )
    parser.add_argument(
        "--by",
        dest="recorder",
        choices=("perf", "whence"),
        help="the recorder (default: perf if it is installed and permitted)",
    )
    parser.add_argument(
        "--call-graph",
        choices=("fp", "dwarf"),
        default="fp",
        help="perf's stacks: by frame pointers (the default), or from copied stacks for programs without them",
    )
    parser.add_argument("--top", type=rows, default=TOP, metavar="N", help=f"functions to print ({TOP}; 0: all)")
    parser.add_argument("--open", action="store_true", help="open the flame graph in the browser")
    add_name_options(parser)
    add_locator_options(parser)
    parser.examples(
        "whence record -- ./app 2                     record.pb.gz and record.html",
        "whence record --open -- python3 app.py",
        "whence record --pid 4711 --for 10 -o cpu.pb.gz",
        "whence record --call-graph dwarf -- ./app    programs built without frame pointers",
    )


def duration(word: str) -> float:
    """Parse a time in seconds. argparse reports a ValueError."""
    length = float(word)
    if not 0 < length < 1e9:
        raise ValueError(word)
    return length


def rate(word: str) -> float:
    """Parse a number of samples per second. argparse reports a ValueError."""
    number = float(word)
    if not 0.1 <= number <= MAX_RATE:
        raise ValueError(word)
    return number


duration.__name__, rate.__name__ = "time in seconds", "number of samples per second"  # in argparse's messages


class Target(NamedTuple):
    """The target of a recording: a command to start, or a live process."""

    command: tuple[str, ...]
    pid: int

    @property
    def title(self) -> str:
        return os.path.basename(self.command[0]) if self.command else f"process {self.pid}"


def run(options: Namespace) -> int:
    """Record, name and write the profile. Return 1 if it has no samples."""
    target = target_of(options)
    profile_path, page = outputs(options.output)
    options.output, options.flamegraph = profile_path, page
    options.format = options.sample_type = options.by = None
    options.sort = "self"
    top, options.top = options.top, None
    format = format_asked(options) or "pprof"
    for path in (profile_path, page):
        check_writable(path)
    profile = record(target, options)
    count = sum(profile.samples.values[0]) if profile.samples.values else 0
    if not count:
        complain("no samples: the process ended too soon or did nothing; try a higher --rate")
        return SOME_UNKNOWN
    write_profile(profile, options, format, target.title)
    from whence.profiles.formats.registry import to_bytes

    options.top, options.output = top, "-"
    put("-", to_bytes(profile, "top", target.title, table=table_options(options)))
    print(f"wrote {profile_path} and its flame graph {page}", file=sys.stderr)
    return ANSWERED


def target_of(options: Namespace) -> Target:
    """Return what to record. Raises WrongUse."""
    command = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    if bool(command) == (options.pid is not None):
        raise WrongUse("record: give either -- COMMAND... or --pid PID")
    if command and shutil.which(command[0]) is None:
        raise WrongUse(f"record: {command[0]}: {command_problem(command[0])}")
    if not command and os.path.isdir("/proc/self") and not os.path.isdir(f"/proc/{options.pid}"):
        raise ProcessLookupError(errno.ESRCH, f"there is no process {options.pid}")
    return Target(command, options.pid or 0)


def command_problem(command: str) -> str:
    """Return why a command can't be run, and what to do."""
    if os.path.isdir(command):
        return "a folder, not a command"
    if os.path.dirname(command) and os.path.exists(command):
        return "not executable (see chmod +x)"
    return "no such command" + (f": did you mean ./{command}?" if os.access(command, os.X_OK) else "")


def check_writable(path: str) -> None:
    """Raise OSError if a file can't be written, before time is spent on a recording."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def outputs(path: str) -> tuple[str, str]:
    """Return the paths of the profile and of its page.

    >>> outputs("cpu.pb.gz"), outputs("cpu.html"), outputs("cpu")
    (('cpu.pb.gz', 'cpu.html'), ('cpu.pb.gz', 'cpu.html'), ('cpu', 'cpu.html'))
    """
    from whence.profiles.formats.registry import renamed
    from whence.profiles.formats.written import PAGE, PAGE_ENDINGS

    is_page = path.endswith(tuple(ending for ending, _ in PAGE_ENDINGS))
    return (renamed(path, "pprof"), path) if is_page else (path, renamed(path, PAGE))


def record(target: Target, options: Namespace) -> Profile:
    """Record by perf if possible, else by the sampler, and say which."""
    problem = "--by whence" if options.recorder == "whence" else perf_problem(target, options)
    until = f"for {options.duration:g} s" if options.duration else "until the process ends"
    if not problem:
        print(f"whence: recording {target.title} with perf {until} (Ctrl-C ends it)", file=sys.stderr)
        return by_perf(target, options)
    if options.recorder == "perf":
        raise WhenceError(f"perf can't record: {problem}").with_hint("leave out --by perf to use whence's sampler")
    print(
        f"whence: recording {target.title} with whence's sampler {until} (Ctrl-C ends it): {problem}", file=sys.stderr
    )
    return by_sampler(target, options)


def perf_words(target: Target, options: Namespace, output: str) -> list[str]:
    """Return the command line of `perf record` without what it runs."""
    words = ["perf", "record", "-q", "-o", output, "-F", f"{options.rate or PERF_RATE:.0f}", "--call-graph"]
    return [*words, options.call_graph, *(() if target.command else ("-p", str(target.pid)))]


def perf_problem(target: Target, options: Namespace) -> str:
    """Return why perf can't record the target, "" if it can."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory(prefix="whence-record-") as folder:
        output = os.path.join(folder, "perf.data")
        words = [*perf_words(target, options, output), "--", "true"]
        tried = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        if tried.returncode == 0 and os.path.getsize(output):
            return ""
    lines = [line.strip() for line in tried.stderr.splitlines() if line.strip(" \t:")]
    return f"a test run of perf failed: {' '.join(lines[:2]) or f'exit code {tried.returncode}'}"


def by_perf(target: Target, options: Namespace) -> Profile:
    """Record by perf, and read and name what it wrote."""
    from whence.cli.profile import shown_on
    from whence.profiles import read
    from whence.profiles.binaries import Binaries
    from whence.profiles.naming import name
    from whence.profiles.symbol_lists import SymbolLists

    with tempfile.TemporaryDirectory(prefix="whence-record-") as folder:
        output = os.path.join(folder, "perf.data")
        words = perf_words(target, options, output)
        # of a process, perf records as long as its command runs
        workload = target.command or (("sleep", f"{options.duration:g}") if options.duration else ())
        limit = options.duration if target.command else None
        with subprocess.Popen([*words, *(("--", *workload) if workload else ())]) as perf:
            status = wait_interrupted(perf, limit)
        if not os.path.exists(output) or not os.path.getsize(output):
            raise WhenceError(f"perf wrote no recording (exit code {status})").with_hint("try --by whence")
        if target.command and limit is None:
            report_status(target, status)
        with Progress("reading perf.data"):
            profile = read(output)
        with (
            locator_of(options) as locator,
            Binaries(locator, symbol_lists=SymbolLists([], None), once=True) as binaries,
            Progress("naming") as progress,
        ):
            name(profile, binaries, demangle=not options.no_demangle, progress=shown_on(progress))
        report_notes(profile.notes, target.title)
    return profile


def wait_interrupted(process: subprocess.Popen[bytes], limit: float | None) -> int:
    """Wait for perf, and pass on Ctrl-C and the end of the time `limit` as SIGINT. Return its exit code, 0 if stopped.

    perf then writes its file and ends the command it runs.
    """
    stopped = False
    while True:
        try:
            if limit and not stopped:
                wait_started(process)
            status = process.wait(None if stopped else limit)
            return 0 if stopped else status
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            stopped = True
            process.send_signal(signal.SIGINT)


def wait_started(perf: subprocess.Popen[bytes]) -> None:
    """Wait until perf has started its command, which is when the time of --for begins."""
    end = time.monotonic() + START_SECONDS
    try:
        executable = os.readlink(f"/proc/{perf.pid}/exe")
        while perf.poll() is None and time.monotonic() < end:
            with open(f"/proc/{perf.pid}/task/{perf.pid}/children") as children:
                if any(os.readlink(f"/proc/{child}/exe") != executable for child in children.read().split()):
                    return
            time.sleep(POLL_SECONDS)
    except OSError:  # the command has ended, or the kernel does not list children
        return


def by_sampler(target: Target, options: Namespace) -> Profile:
    """Record by the sampler of whence.profiles, which names the frames."""
    from whence.profiles import sample

    every = 1 / (options.rate or SAMPLER_RATE)
    with symbolizer_of(options) as symbolizer, interruptible() as stop:
        if not target.command:
            process = Process(target.pid, resolver=symbolizer.resolver)
            executable_mappings(process)
            profile = sample(process, every=every, seconds=options.duration, symbolizer=symbolizer, stop=stop)
        else:
            child = subprocess.Popen(target.command)
            try:
                profile = sample(child.pid, every=every, seconds=options.duration, symbolizer=symbolizer, stop=stop)
            finally:
                status = ended(child)
            if status is not None:
                report_status(target, status)
    totals = [sum(column) for column in profile.samples.values]
    kinds = [kind.type for kind in profile.sample_types]
    if totals and totals[kinds.index("cpu")]:
        profile.default_type = kinds.index("cpu")  # as perf: time of the processor
    return profile


@contextmanager
def interruptible() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets, instead of raising KeyboardInterrupt."""
    from threading import Event

    stop = Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def ended(child: subprocess.Popen[bytes]) -> int | None:
    """End a command if it is still running. Return its exit code if it ended by itself."""
    status = child.poll()
    if status is None:
        child.terminate()
        try:
            child.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return status


def report_status(target: Target, status: int) -> None:
    """Report a command that failed or was ended by a signal."""
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        names = {each.value: each.name for each in signal.Signals}
        complain(f"{target.title} was ended by {names.get(number, f'signal {number}')}")
    elif status:
        complain(f"{target.title} exited with {status}")
