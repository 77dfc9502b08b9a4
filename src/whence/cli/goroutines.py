"""Print goroutines as Go's traceback does, equal ones once, and as JSON."""

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
    parser.add_argument("--goroutines", action="store_true", help="print all goroutines of a Go program")
    parser.add_argument(
        "--system", action="store_true", help="with --goroutines: include the runtime's own goroutines and functions"
    )


def check_goroutine_options(options: Namespace) -> None:
    """Raise WrongUse for options that do not fit --goroutines."""
    if options.system and not options.goroutines:
        raise WrongUse("--system needs --goroutines")
    given = {
        "--thread": options.thread != "all",
        "--registers": options.registers,
        "--locals": options.locals,
        "--scan": options.scan,
        "--style": options.style != "whence",
        "addresses": bool(options.addresses),
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if options.goroutines and wrong:
        raise WrongUse(f"--goroutines can't be used with {', '.join(wrong)}: it lists goroutines, not threads")


def show_goroutines(about: About, goroutines: NamedGoroutines, *, as_json: bool, system: bool, is_live: bool) -> int:
    """Print goroutines, and problems on stderr. Return the exit code: 0 if all stacks are complete."""
    shown = goroutines.shown(system=system)
    if as_json:
        for goroutine in shown:
            print(json.dumps({**goroutine_object(goroutine), "go": goroutines.version, "process": about.as_object()}))
    else:
        print(f"{about}, {plain(goroutines.version)}" if goroutines.version else about)
        now = monotonic_ns() if is_live else 0
        groups: dict[tuple[object, ...], list[Goroutine]] = {}
        for goroutine in shown:
            key = state_words(goroutine, now), goroutine.calls, goroutine.created_by, goroutine.end
            groups.setdefault(key, []).append(goroutine)
        for group in groups.values():
            print("\n" + "\n".join(group_lines(group, now)))
    for problem in goroutines.problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    complete = all(goroutine.end is End.COMPLETE for goroutine in shown)
    return ANSWERED if shown and complete and not goroutines.problems else SOME_UNKNOWN


def state_words(goroutine: Goroutine, now: int) -> str:
    """Return the text in brackets of Go's traceback. `now` is 0 if unknown, as for a core."""
    minutes = (now - goroutine.wait_since) // MINUTE if now and goroutine.wait_since else 0
    waiting = f", {minutes} minutes" if minutes >= 1 else ""
    return goroutine.state + waiting + (", locked to thread" if goroutine.is_locked else "")


def group_lines(group: list[Goroutine], now: int) -> list[str]:
    """Return the lines of goroutines that differ only in their numbers."""
    first = group[0]
    state = state_words(first, now)
    if len(group) == 1:
        lines = [f"goroutine {first.goid} [{state}]:"]
    else:
        numbers = ", ".join(str(goroutine.goid) for goroutine in group[:NUMBERS_SHOWN])
        more = ", ..." if len(group) > NUMBERS_SHOWN else ""
        lines = [f"{len(group):,} goroutines [{state}]: {numbers}{more}"]
    for call in first.calls:
        lines += [f"{printed(call)}(...)", f"\t{plain(call.file)}:{call.line}"]
    if first.created_by is not None:
        parents = {goroutine.parent for goroutine in group}
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
    """Return a function's name as Go prints it, without type arguments."""
    before, bracket, rest = call.function.partition("[")
    return plain(f"{before}[...]{rest.rpartition(']')[2]}" if bracket and "]" in rest else call.function)


def goroutine_object(goroutine: Goroutine) -> dict[str, object]:
    """Return a goroutine as a JSON object. `frames` has all frames, each with whether Go's traceback shows it."""
    shown = {id(call) for call in goroutine.calls}
    frames: list[dict[str, object]] = []
    for frame in goroutine.frames:
        location = as_object(frame.place)
        functions = location.pop("frames")
        assert isinstance(functions, list)
        for function, call in zip(functions, frame.place.frames, strict=True):
            head = {"found_by": str(frame.found_by), "sp": hex(frame.sp), "shown": id(call) in shown}
            frames.append({**function, **location, **head})
    creator = goroutine.created_by
    return {
        "goroutine": goroutine.goid, "state": goroutine.state, "locked_to_thread": goroutine.is_locked,
        "system": goroutine.is_system,
        "created_by": None if creator is None else {
            "function": creator.function, "file": creator.file, "line": creator.line,
        },
        "created_in": goroutine.parent, "frames": frames, "end": str(goroutine.end), "detail": goroutine.detail,
    }  # fmt: skip
