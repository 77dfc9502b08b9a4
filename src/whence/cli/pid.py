"""`whence pid PID [ADDRESS...]`: frames of runtime addresses of a process; without addresses, of every thread's pc.

`--save-snapshot OUT` writes down the mappings instead, so that `whence addr --snapshot OUT` can answer later.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence.cli.answers import (
    ThreadPlace,
    addresses_from,
    demangled,
    executable_mappings,
    show,
    show_threads,
)
from whence.cli.main import ANSWERED, WRONG_USE
from whence.cli.words import plain
from whence.files import atomic_write
from whence.procmap import Resolver
from whence.procmap.threads import Thread, threads
from whence.symbolize import Symbolizer, opener_with

INTERMIXED = True
ENDED = "ZXx"  # states of threads that are no more: zombie, dead


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("pid", type=int, metavar="PID")
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help='runtime addresses in hex; "-": from stdin')
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--return-addresses", action="store_true", help="addresses are one past a call")
    parser.add_argument("--debug-dir", action="append", metavar="DIR", help="search here for debug files (repeatable)")
    parser.add_argument("--no-demangle", action="store_true", help="names as the linker has them")
    parser.add_argument("--save-snapshot", metavar="OUT", help='write mappings and build-ids as JSON ("-": to stdout)')


def run(options: Namespace) -> int:
    if options.save_snapshot:
        return snapshot(options.pid, options.save_snapshot)
    try:
        addresses = addresses_from(options.addresses)
    except ValueError as error:
        print(f"whence pid: {plain(error)}", file=sys.stderr)
        return WRONG_USE
    with Symbolizer(opener=opener_with(options.debug_dir)) as symbolizer:
        # no process, no right: an error, rather than one reason an address
        executable_mappings(symbolizer.resolver, options.pid)
        if options.addresses:
            answers = symbolizer.lookup_many(options.pid, addresses, return_addresses=options.return_addresses)
            return show(answers, options.json, not options.no_demangle)
        return show_threads(thread_places(symbolizer, options), options.json)


def snapshot(pid: int, out: str) -> int:
    from whence.procmap.snapshot import Snapshot

    with Resolver() as resolver:
        executable_mappings(resolver, pid)  # no process, no right: an error with a remedy
        text = Snapshot.take(pid, resolver).to_json()
    return write_snapshot(text, out)


def write_snapshot(text: str, out: str) -> int:
    """Write a snapshot's JSON to a file, or "-" for stdout; gives the exit code."""
    if out == "-":
        print(text)
    else:
        with atomic_write(out) as file:
            file.write((text + "\n").encode())
    return ANSWERED


def thread_places(symbolizer: Symbolizer, options: Namespace) -> list[ThreadPlace]:
    """Where every thread of the process is."""
    found = threads(symbolizer.resolver.directory(options.pid))
    stopped = [thread for thread in found if thread.pc is not None]
    answers = symbolizer.lookup_many(options.pid, [thread.pc or 0 for thread in stopped])
    if not options.no_demangle:
        answers = demangled(answers)
    answer_of = {thread.tid: answer for thread, answer in zip(stopped, answers, strict=True)}
    return [
        ThreadPlace(
            {"tid": thread.tid, "name": thread.name, "state": thread.state, "syscall": thread.syscall},
            f"thread {thread.tid} {plain(thread.name)} ({thread.state})",
            answer_of.get(thread.tid),
            unseen(thread),
        )
        for thread in found
    ]


def unseen(thread: Thread) -> str:
    """Why a thread has no pc."""
    if thread.denied:
        return "permission-denied"
    if thread.state in ENDED:
        return "ended"
    return "running" if thread.state == "R" else "kernel-thread"
