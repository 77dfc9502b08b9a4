"""Goroutines as Go's own traceback prints them, equal ones as one, and as JSON."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from time import monotonic_ns

from whence._base.errors import WrongUse
from whence._base.model import Frame
from whence._base.words import plain
from whence.cli.answers import as_object
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.stacks import About
from whence.symbolize.goroutines import Goroutine, NamedGoroutines
from whence.unwind import End

MINUTE = 60_000_000_000
NUMBERS_SHOWN = 10  # of goroutines that are one group


def add_goroutine_options(parser: ArgumentParser) -> None:
    parser.add_argument("--goroutines", action="store_true", help="all goroutines of a Go program instead of threads")
    parser.add_argument(
        "--system", action="store_true", help="with --goroutines: the runtime's own goroutines and functions, too"
    )


def check_goroutine_options(options: Namespace) -> None:
    """Raise WrongUse for options that have no meaning with --goroutines, or none without it."""
    if options.system and not options.goroutines:
        raise WrongUse("--system needs --goroutines")
    given = {
        "--thread": options.thread != "all",
        "--registers": options.registers,
        "--scan": options.scan,
        "--style": options.style != "whence",
        "addresses": bool(options.addresses),
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if options.goroutines and wrong:
        raise WrongUse(f"--goroutines can't be used with {', '.join(wrong)}: it lists goroutines, not threads")


def show_goroutines(about: About, found: NamedGoroutines, *, as_json: bool, system: bool, is_live: bool) -> int:
    """Print them, problems on stderr; returns the exit code: whether all of them were read to their ends."""
    shown = found.shown(system=system)
    if as_json:
        for one in shown:
            print(json.dumps({**goroutine_object(one), "go": found.version, "process": about.as_object()}))
    else:
        print(f"{about}, {plain(found.version)}" if found.version else about)
        now = monotonic_ns() if is_live else 0
        groups: dict[tuple[object, ...], list[Goroutine]] = {}
        for one in shown:
            key = state_words(one, now), one.calls, one.created_by, one.end
            groups.setdefault(key, []).append(one)
        for group in groups.values():
            print("\n" + "\n".join(group_lines(group, now)))
    for problem in found.problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    whole = bool(shown) and not found.problems and all(one.end is End.COMPLETE for one in shown)
    return ANSWERED if whole else SOME_UNKNOWN


def state_words(one: Goroutine, now: int) -> str:
    """What stands in the brackets of Go's traceback; `now` is 0 where it is not known, as of a core."""
    minutes = (now - one.wait_since) // MINUTE if now and one.wait_since else 0
    waiting = f", {minutes} minutes" if minutes >= 1 else ""
    return one.state + waiting + (", locked to thread" if one.is_locked else "")


def group_lines(group: list[Goroutine], now: int) -> list[str]:
    """Goroutines that are equal but for their numbers."""
    first = group[0]
    state = state_words(first, now)
    if len(group) == 1:
        lines = [f"goroutine {first.goid} [{state}]:"]
    else:
        numbers = ", ".join(str(one.goid) for one in group[:NUMBERS_SHOWN])
        more = ", ..." if len(group) > NUMBERS_SHOWN else ""
        lines = [f"{len(group):,} goroutines [{state}]: {numbers}{more}"]
    for call in first.calls:
        lines += [f"{printed(call)}(...)", f"\t{plain(call.file)}:{call.line}"]
    if first.created_by is not None:
        parents = {one.parent for one in group}
        parent = f" in goroutine {first.parent}" if first.parent and len(parents) == 1 else ""
        lines += [
            f"created by {printed(first.created_by)}{parent}",
            f"\t{plain(first.created_by.file)}:{first.created_by.line}",
        ]
    if first.end is not End.COMPLETE:
        detail = f" ({plain(first.detail)})" if first.detail else ""
        lines.append(f"end: {first.end}: {first.end.sentence}{detail}")
    return lines


def printed(call: Frame) -> str:
    """A function's name as Go prints it: without type arguments."""
    before, bracket, rest = call.function.partition("[")
    return plain(f"{before}[...]{rest.rpartition(']')[2]}" if bracket and "]" in rest else call.function)


def goroutine_object(one: Goroutine) -> dict[str, object]:
    """A goroutine as JSON has it; `frames` are all, each with whether Go's traceback shows it."""
    shown = {id(call) for call in one.calls}
    frames: list[dict[str, object]] = []
    for frame in one.frames:
        place = as_object(frame.place)
        functions = place.pop("frames")
        assert isinstance(functions, list)
        for function, call in zip(functions, frame.place.frames, strict=True):
            head = {"found_by": str(frame.found_by), "sp": hex(frame.sp), "shown": id(call) in shown}
            frames.append({**function, **place, **head})
    made = one.created_by
    return {
        "goroutine": one.goid, "state": one.state, "locked_to_thread": one.is_locked, "system": one.is_system,
        "created_by": None if made is None else {"function": made.function, "file": made.file, "line": made.line},
        "created_in": one.parent, "frames": frames, "end": str(one.end), "detail": one.detail,
    }  # fmt: skip
