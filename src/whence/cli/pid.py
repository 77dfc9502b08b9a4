"""`whence pid PID [ADDRESS...]`: frames of runtime addresses of a process; without addresses, of every thread's pc.

`--snapshot OUT` writes down the mappings instead, so that `whence addr --snapshot OUT` can answer later.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from whence.cli.answers import as_lines, as_object, demangled, executable_mappings, tell_remedies
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.words import address, plain
from whence.procmap import Resolver
from whence.procmap.threads import Thread, threads
from whence.symbolize import Answer, Symbolizer, opener_with

INTERMIXED = True
ENDED = "ZXx"  # states of threads that are no more: zombie, dead


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("pid", type=int, metavar="PID")
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help='runtime addresses in hex; "-": from stdin')
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--return-addresses", action="store_true", help="addresses are one past a call")
    parser.add_argument("--debug-dir", action="append", metavar="DIR", help="search here for debug files (repeatable)")
    parser.add_argument("--no-demangle", action="store_true", help="names as the linker has them")
    parser.add_argument("--snapshot", metavar="OUT", help='write mappings and build-ids as JSON ("-": to stdout)')


def run(options: Namespace) -> int:
    if options.snapshot:
        return snapshot(options.pid, options.snapshot)
    words = sys.stdin.read().split() if options.addresses == ["-"] else options.addresses
    try:
        addresses = [address(word) for word in words]
    except ValueError as error:
        print(f"whence pid: {error}", file=sys.stderr)
        return WRONG_USE
    with Symbolizer(opener=opener_with(options.debug_dir)) as symbolizer:
        # no process, no right: an error, rather than one reason an address
        executable_mappings(symbolizer.resolver, options.pid)
        if options.addresses:
            answers = symbolizer.lookup_many(options.pid, addresses, return_addresses=options.return_addresses)
            return show(answers, options.json, not options.no_demangle)
        return show_threads(symbolizer, options)


def snapshot(pid: int, out: str) -> int:
    from whence.procmap.snapshot import Snapshot

    with Resolver() as resolver:
        executable_mappings(resolver, pid)  # no process, no right: an error with a remedy
        text = Snapshot.take(pid, resolver).to_json()
    if out == "-":
        print(text)
    else:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return ANSWERED


def show(answers: list[Answer], as_json: bool, readable: bool) -> int:
    """Print answers (their names demangled if `readable`), remedies on stderr; gives the exit code."""
    answers = demangled(answers) if readable else answers
    for answer in answers:
        print(json.dumps(as_object(answer)) if as_json else "\n".join(as_lines(answer)))
    tell_remedies(answers)
    return ANSWERED if all(answer.frames for answer in answers) else SOME_UNKNOWN


def show_threads(symbolizer: Symbolizer, options: Namespace) -> int:
    found = threads(symbolizer.resolver.directory(options.pid))
    stopped = [thread for thread in found if thread.pc is not None]
    answers = symbolizer.lookup_many(options.pid, [thread.pc or 0 for thread in stopped])
    if not options.no_demangle:
        answers = demangled(answers)
    answer_of = {thread.tid: answer for thread, answer in zip(stopped, answers, strict=True)}
    for thread in found:
        answer = answer_of.get(thread.tid)
        if options.json:
            said = as_object(answer) if answer is not None else {"frames": [], "reason": unseen(thread)}
            head = {"tid": thread.tid, "name": thread.name, "state": thread.state, "syscall": thread.syscall}
            print(json.dumps({**head, **said}))
            continue
        print(f"thread {thread.tid} {plain(thread.name)} ({thread.state})")
        for line in as_lines(answer) if answer is not None else [f"?? {unseen(thread)}"]:
            print(f"  {line}")
    tell_remedies(answers)
    return ANSWERED if len(stopped) == len(found) and all(answers) else SOME_UNKNOWN


def unseen(thread: Thread) -> str:
    """Why a thread has no pc."""
    if thread.denied:
        return "permission-denied"
    if thread.state in ENDED:
        return "ended"
    return "running" if thread.state == "R" else "kernel-thread"
