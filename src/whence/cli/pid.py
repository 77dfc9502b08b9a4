"""`whence pid PID [ADDRESS...]`: frames of runtime addresses; without addresses, of each thread's program counter.

`--stop` stops the threads for a moment and prints their stacks. `--every` takes a profile. `--save-snapshot OUT` stores
the mappings, so that `whence addr --snapshot OUT` can name addresses later.
"""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction, Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.answers import ThreadPlace, addresses_from, executable_mappings, show, show_threads
from whence.cli.goroutines import add_goroutine_options, check_goroutine_options, show_goroutines
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, add_name_options, symbolizer_of
from whence.cli.process_names import pid_of
from whence.cli.profile_output import (
    add_profile_output,
    choose_type,
    format_asked,
    prepare_page,
    refuse_binary_on_terminal,
    write_profile,
)
from whence.cli.stacks import About, add_stack_options, selected_tids, show_stacks
from whence.cli.tasks import add_task_options, check_task_options, show_tasks
from whence.procmap.reader import with_plain_errors
from whence.procmap.threads import Thread
from whence.symbolize import Process, Snapshot, Symbolizer

if TYPE_CHECKING:
    from whence.cli.parser import Parser

INTERMIXED = True
DEFAULT_EVERY = 0.01
RUNNING = "running"


def configure(parser: Parser) -> None:
    parser.add_argument("pid", type=pid_of, metavar="PID", help="a live process: its pid, or its command's name")
    parser.add_argument(
        "addresses", nargs="*", default=[], metavar="ADDRESS", help='runtime addresses in hex; "-" reads stdin'
    )
    parser.add_argument("--return-addresses", action="store_true", help="addresses are return addresses")
    parser.add_argument("--save-snapshot", metavar="OUT", help='write mappings and build-ids as JSON ("-": to stdout)')
    parser.add_argument("--stop", action="store_true", help="stop the threads for a moment and print their stacks")
    add_stack_options(parser)
    add_goroutine_options(parser)
    add_task_options(parser)
    parser.add_argument(
        "--every", type=seconds, metavar="SECONDS", help="take a profile: interval between samples (0.01)"
    )
    parser.add_argument(
        "--for",
        dest="duration",
        type=seconds,
        metavar="SECONDS",
        help="duration of the profile (default: until the process ends, or Ctrl-C)",
    )
    parser.add_argument("--gil", action="store_true", help="profile only threads that hold Python's GIL")
    parser.add_argument(
        "--idle",
        action=BooleanOptionalAction,
        default=True,
        help="profile threads that are not running, too (the default)",
    )
    parser.add_argument("--children", action="store_true", help="profile child processes, too")
    add_profile_output(parser, "pprof")
    add_json_option(parser)
    add_name_options(parser)
    add_locator_options(parser)
    parser.examples(
        "whence pid 4711 --stop                                       the stack of every thread",
        "whence pid 4711 --stop --locals                              with arguments and local variables",
        "whence pid redis-server --stop                               the only process of that name",
        "whence pid 4711 0x55d0c0de1170                               name an address",
        "whence pid 4711 --every 0.01 --for 10 --flamegraph cpu.html  a profile",
        "whence pid 4711 --stop --python-only                         like a traceback of each thread of Python",
        "whence pid 4711 --for 10 --gil --flamegraph gil.html         what runs under Python's GIL",
        "whence pid 4711 --stop --async                               what each task of asyncio awaits",
        "whence pid 4711 --stop --goroutines",
    )


def run(options: Namespace) -> int:
    check_goroutine_options(options)
    check_task_options(options)
    try:
        addresses = addresses_from(options.addresses)
    except ValueError as error:
        complain(error, "whence pid")
        return WRONG_USE
    if options.every is not None or options.duration is not None:
        if options.goroutines:
            raise WrongUse("--goroutines can't be used with --every or --for: a profile samples threads")
        if options.tasks:
            raise WrongUse("--async can't be used with --every or --for: a profile samples threads")
        return sample_profile(options)
    if options.gil or options.children or not options.idle:
        raise WrongUse("--gil, --no-idle and --children need a profile: add --every or --for")
    if options.output is not None or options.flamegraph or options.open or options.format or options.top is not None:
        raise WrongUse("-o, --flamegraph, --open, --format and --top need a profile: add --every or --for")
    if options.locals and not options.stop:
        raise WrongUse("--locals needs --stop: the threads are stopped while their stacks are copied")
    if options.goroutines and not options.stop:
        raise WrongUse("--goroutines needs --stop: the threads are stopped while they are copied")
    if options.tasks and not options.stop:
        raise WrongUse("--async needs --stop: the threads are stopped while tasks are read")
    with symbolizer_of(options) as symbolizer:
        process = Process(options.pid, resolver=symbolizer.resolver)
        if options.stop:
            return show_live_stacks(options, process, symbolizer)
        executable_mappings(process)  # raises one error instead of a reason for each address
        if options.save_snapshot:
            return save_snapshot(process.snapshot(), options.save_snapshot)
        if options.addresses:
            answers = symbolizer.symbolize(process, addresses, return_address=options.return_addresses)
            return show(answers, options.json)
        places = thread_places(symbolizer, process)
        if any(place.why == RUNNING for place in places):
            complain("running threads are read with --stop, which stops them for a moment", "whence pid")
        return show_threads(places, options.json)


def show_live_stacks(options: Namespace, process: Process, symbolizer: Symbolizer) -> int:
    """Stop the threads and print their stacks. Return the exit code."""
    listed = with_plain_errors(process.pid, process.threads)
    tids = selected_tids("pid", options.thread, [thread.tid for thread in listed], f"process {process.pid}")
    if tids == []:
        return WRONG_USE
    if options.goroutines:
        about = About.process(process.pid, process.directory)
        goroutines = process.goroutines(symbolizer, system=options.system)
        return show_goroutines(about, goroutines, as_json=options.json, system=options.system, is_live=True)
    if options.tasks:
        about = About.process(process.pid, process.directory)
        return show_tasks(about, process.tasks(symbolizer, tids=tids), as_json=options.json)
    stacks = process.stacks(
        symbolizer,
        tids=tids,
        scan=options.scan,
        variables=options.locals,
        interpreters=options.shown != "native",
    )
    for problem in process.interpreter_problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    about = About.process(process.pid, process.directory)._replace(interpreters=process.interpreter_titles)
    return show_stacks(
        about, stacks, as_json=options.json, style=options.style, registers=options.registers, shown=options.shown
    )


def seconds(word: str) -> float:
    """Parse a time in seconds. argparse reports a ValueError."""
    time = float(word)
    if not SHORTEST <= time < 1e9:
        raise ValueError(word)
    return time


seconds.__name__ = "time in seconds"  # in argparse's messages
SHORTEST = 0.0001


def sample_profile(options: Namespace) -> int:
    """Sample the stacks and write the profile. Return the exit code."""
    from whence.cli.record import interruptible
    from whence.profiles import Profile, sample

    prepare_page(options)
    format = format_asked(options) or "pprof"
    if options.output is None and not options.flamegraph:
        options.output = "-"
    refuse_binary_on_terminal(options, format, Profile())
    with symbolizer_of(options) as symbolizer, interruptible() as stop:
        process = Process(options.pid, resolver=symbolizer.resolver)
        executable_mappings(process)
        if options.duration is None:
            complain(f"sampling process {options.pid} until it ends (Ctrl-C ends it)")
        every = DEFAULT_EVERY if options.every is None else options.every
        profile = sample(
            process, every=every, seconds=options.duration, symbolizer=symbolizer, stop=stop,
            interpreters=options.shown != "native", gil=options.gil, idle=options.idle, children=options.children,
        )  # fmt: skip
    for note in profile.notes:
        complain(note)
    choose_type(profile, options.sample_type)
    write_profile(profile, options, format, f"process {options.pid}")
    samples = sum(profile.samples.values[0]) if profile.samples.values else 0
    print(f"{samples} samples in {profile.duration_ns / 1e9:.1f} s", file=sys.stderr)
    return ANSWERED if samples else SOME_UNKNOWN


def save_snapshot(snapshot: Snapshot, out: str) -> int:
    """Write a snapshot as JSON to a file, or to stdout for "-". Return the exit code."""
    if out == "-":
        print(snapshot.to_json())
    else:
        snapshot.save(out)
    return ANSWERED


def thread_places(symbolizer: Symbolizer, process: Process) -> list[ThreadPlace]:
    """Return the location of every thread."""
    threads = process.threads()
    stopped = [thread for thread in threads if thread.pc is not None]
    answers = symbolizer.symbolize(process, [thread.pc or 0 for thread in stopped])
    answer_of = {thread.tid: answer for thread, answer in zip(stopped, answers, strict=True)}
    return [
        ThreadPlace(
            {"tid": thread.tid, "name": thread.name, "state": thread.state, "syscall": thread.syscall},
            f"thread {thread.tid} {plain(thread.name)} ({thread.state})",
            answer_of.get(thread.tid),
            why_unlocated(thread),
        )
        for thread in threads
    ]


def why_unlocated(thread: Thread) -> str:
    """Return why a thread has no program counter."""
    if thread.denied:
        return "permission-denied"
    if thread.has_ended:
        return "ended"
    return RUNNING if thread.state == "R" else "kernel-thread"
