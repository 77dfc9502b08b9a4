"""`whence profile IN...`: name the addresses of profiles; write, draw, judge, merge and compare them."""

from __future__ import annotations

import os
import re
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse, naming
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.profile_output import (
    add_profile_output,
    choose_type,
    format_asked,
    refuse_binary_on_terminal,
    report_notes,
    report_shortfall,
    reports,
    skipped_lines,
    write_profile,
)
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from typing import TextIO

    from whence.locator.locator import Locator
    from whence.profiles import Profile
    from whence.profiles.binaries import Binaries
    from whence.profiles.coverage import Report
    from whence.profiles.naming import FileReport


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "profiles",
        nargs="+",
        metavar="IN",
        help='a profile of any format that is read; "-" is stdin. Of several, each is written into the folder OUT',
    )
    add_profile_output(parser, "as it came; text comes out as folded stacks")
    parser.add_argument("--merge", action="store_true", help="make one profile of all, written to OUT")
    parser.add_argument("--base", metavar="OLD", help="write what changed since the profile OLD, by function and file")
    parser.add_argument("--normalize", action="store_true", help="with --base: as if both had as much of each type")
    parser.add_argument("--times", action="store_true", help="keep when each sample was taken, as a label of its own")
    parser.add_argument("--overwrite", action="store_true", help="name locations again that have names already")
    parser.add_argument(
        "--coverage", action="store_true", help="print what got names for each binary, and what did not"
    )
    add_json_option(parser, "print the coverage as JSON")
    parser.add_argument("--fail-under", type=share, metavar="PERCENT", help="exit 1 when fewer frames have names")
    parser.epilog = (
        "Exit codes: 0 done, also when some addresses have no names; 1 fewer have names than --fail-under asks; "
        "2 wrong use; 3 an input that can't be read."
    )
    add_name_options(parser)
    add_locator_options(parser)
    more = parser.add_argument_group("names of code that is in no file")
    more.add_argument(
        "--perf-map",
        action="append",
        default=[],
        metavar="FILE",
        help="a JIT compiler's list of names (default: /tmp/perf-PID.map of the processes in the profile)",
    )
    more.add_argument(
        "--kallsyms", metavar="FILE", help="the kernel's names (default: /proc/kallsyms, if it is the same kernel)"
    )
    parser.add_argument("--quiet", action="store_true", help=SUPPRESS)


def share(word: str) -> float:
    """A percentage. Raises ValueError, which argparse words."""
    found = float(word.removesuffix("%"))
    if not 0 <= found <= 100:
        raise ValueError(word)
    return found


share.__name__ = "percentage"  # as argparse calls it


def run(options: Namespace) -> int:
    """0; 1 when fewer frames have names than --fail-under asks. Raises what the profiles' readers and writers do."""
    check_use(options)
    if not options.merge and (len(options.profiles) > 1 or os.path.isdir(options.output or "")):
        from whence.cli.profile_files import run_files

        return run_files(options)
    from whence.kernels.memory import share_heap
    from whence.profiles.formats import registry as formats

    format = format_asked(options)
    title = "profile" if options.profiles[0] == "-" else os.path.basename(options.profiles[0])
    share_heap()  # each file takes memory while it is read
    profile = read_all(options)
    choose_type(profile, options.sample_type)
    format = format or formats.format_for(profile, options.output or "")
    if options.output is None and not (reports(options) or options.flamegraph):
        options.output = "-"
    refuse_binary_on_terminal(options, format, profile)
    notes = len(profile.notes)
    shown, files = named(profile, options)
    report_notes(profile.notes[notes:], title)
    write_profile(shown.timed() if options.times else shown, options, format, title, quiet=options.quiet)
    if not reports(options):
        return ANSWERED
    from whence.profiles.coverage import Report

    report = Report(profile, files)
    print_report(report, options, sys.stdout if options.output != "-" else sys.stderr)
    return SOME_UNKNOWN if report_shortfall(report, options) else ANSWERED


def check_use(options: Namespace) -> None:
    """Raises WrongUse for options that make no sense together."""
    if options.normalize and not options.base:
        raise WrongUse("--normalize compares two profiles: give the older one with --base")
    if options.base and len(options.profiles) > 1 and not options.merge:
        raise WrongUse("--base takes one profile to compare, or --merge to make one of several")
    if options.profiles.count("-") + (options.base == "-") > 1:
        raise WrongUse("stdin holds one profile")


def named(profile: Profile, options: Namespace) -> tuple[Profile, list[FileReport]]:
    """Name a profile. Returns what is shown, the profile itself or what changed since --base, and what named it."""
    from whence.profiles.binaries import Binaries
    from whence.profiles.naming import name
    from whence.profiles.symbol_lists import SymbolLists

    lists = SymbolLists(options.perf_map, options.kallsyms)
    with (
        locator_of(options) as locator,
        Binaries(locator, symbol_lists=lists, once=not options.base) as binaries,
        Progress("naming", quiet=options.quiet) as progress,
    ):
        files = name(
            profile,
            binaries,
            overwrite=options.overwrite,
            demangle=not options.no_demangle,
            progress=shown_on(progress),
        )
        return (profile if not options.base else compared(profile, options, binaries)), files


def read_one(path: str, options: Namespace) -> Profile:
    """The profile of a path, or of stdin; lines that were left out are reported."""
    from whence.profiles import read

    if path == "-":
        profile = standard_input(options)
    else:
        with Progress(f"reading {os.path.basename(path)}", quiet=options.quiet):
            profile = read(path)
    report_notes(skipped_lines(profile) + profile.notes, "profile" if path == "-" else os.path.basename(path))
    return profile


def read_all(options: Namespace) -> Profile:
    """The profile that is asked for, or all of them as one."""
    from whence.profiles import merge

    if len(options.profiles) == 1:
        return read_one(options.profiles[0], options)
    with locator_of(options) as locator:
        return merge(unwound(path, options, locator) for path in options.profiles)


def unwound(path: str, options: Namespace, locator: Locator) -> Profile:
    """The profile of a path, its stacks whole: so that it needn't be kept beside the merged one until then."""
    profile = read_one(path, options)
    waiting, profile.unwinding = profile.unwinding, None
    if waiting is not None:
        notes = len(profile.notes)
        waiting.unwind(profile, locator)
        report_notes(profile.notes[notes:], os.path.basename(path))
    return profile


def compared(profile: Profile, options: Namespace, binaries: Binaries) -> Profile:
    """What changed since the base, which is named by the same files."""
    from whence.profiles.naming import name

    base = read_one(options.base, options)
    name(base, binaries, overwrite=options.overwrite, demangle=not options.no_demangle)
    return profile.diff(base, normalize=options.normalize)


def print_report(report: Report, options: Namespace, stream: TextIO) -> None:
    """Print the coverage where it is asked for: as JSON, else as a table, in colours on stdout."""
    if options.json:
        import json

        print(json.dumps(report.as_json()), file=stream)
    elif options.coverage:
        if stream is not sys.stdout:
            print(report, end="", file=stream)
            return
        from whence.cli import colour

        for line in coloured(report).removesuffix("\n").split("\n"):
            colour.print_line(line)


def coloured(report: Report) -> str:
    """The coverage, its percentages in colours: green for all, yellow where names are missing."""
    from whence.cli import colour

    def paint(found: re.Match[str]) -> str:
        return colour.share(found[0], float(found[1]))

    return re.sub(r"(?<![^ \n])(\d+\.\d) %(?=  | of the frames)", paint, str(report))


def standard_input(options: Namespace) -> Profile:
    from whence.profiles import read

    with naming("<stdin>"), Progress("reading", quiet=options.quiet):
        return read(sys.stdin.buffer)


def shown_on(progress: Progress) -> Callable[[str, int, int], None]:
    """What reports to the progress which file is being asked, and how many are done."""

    def report(path: str, done: int, count: int) -> None:
        progress.what = f"naming {os.path.basename(path)}" if path else "naming"
        progress.share = lambda: (done, count)

    return report
