"""`whence profile IN...`: name the addresses of profiles; convert, draw, check, merge and compare them."""

from __future__ import annotations

import os
import re
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse, naming
from whence._base.words import plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.profile_output import (
    add_profile_output,
    choose_type,
    format_asked,
    prepare_page,
    refuse_binary_on_terminal,
    report_notes,
    report_shortfall,
    reports,
    rows,
    skipped_lines,
    write_profile,
)
from whence.cli.progress import Progress
from whence.cli.source_options import add_assembly_options, add_source_options, need_capstone, sources_of

REMEDIES = 3  # files whose remedy is printed after a table or a page

if TYPE_CHECKING:
    from typing import TextIO

    from whence.cli.parser import Parser
    from whence.locator.locator import Locator
    from whence.profiles import Profile
    from whence.profiles.binaries import Binaries
    from whence.profiles.coverage import Report
    from whence.profiles.naming import FileReport


def configure(parser: Parser) -> None:
    parser.add_argument(
        "profiles",
        nargs="+",
        metavar="IN",
        help='a profile of any format; "-" is stdin; several are written separately to the folder OUT',
    )
    add_profile_output(parser, "the input's format; folded stacks for text")
    parser.add_argument(
        "--embed-source",
        action="store_true",
        help="with --flamegraph: embed source files, and show the cost of each line",
    )
    parser.add_argument(
        "--embed-code", action="store_true", help="with --flamegraph: embed instructions, and show the cost of each"
    )
    parser.add_argument("--list", metavar="REGEX", help="print the lines of matching functions with their cost")
    parser.add_argument(
        "--annotate", metavar="REGEX", help="print the instructions of matching functions with their cost"
    )
    parser.add_argument("--callers", metavar="REGEX", help="print the callers and callees of matching functions")
    parser.add_argument(
        "--skid",
        type=rows,
        default=0,
        metavar="N",
        help="with --annotate: move costs N instructions back, as many processors report a later instruction (0)",
    )
    parser.add_argument("--merge", action="store_true", help="merge all profiles into one")
    parser.add_argument("--base", metavar="OLD", help="write the difference from the profile OLD, by function and file")
    parser.add_argument("--normalize", action="store_true", help="with --base: scale OLD so that both sums are equal")
    parser.add_argument("--times", action="store_true", help="keep the time of each sample as a label")
    parser.add_argument("--overwrite", action="store_true", help="also name locations that have names already")
    parser.add_argument(
        "--coverage", action="store_true", help="print for each binary what got names and why the rest did not"
    )
    add_json_option(parser, "print the coverage as JSON; with --list, --annotate, --callers, an object per function")
    parser.add_argument("--fail-under", type=share, metavar="PERCENT", help="exit with 1 if fewer frames have names")
    parser.epilog = (
        "exit codes: 0 done, even if some addresses have no names; 1 fewer names than --fail-under;\n"
        "2 wrong use; 3 unreadable input"
    )
    add_assembly_options(parser)
    add_source_options(parser)
    add_name_options(parser)
    add_locator_options(parser)
    more = parser.add_argument_group("names of generated code and the kernel")
    more.add_argument(
        "--perf-map",
        action="append",
        default=[],
        metavar="FILE",
        help="the perf map of a JIT compiler (default: /tmp/perf-PID.map of the processes in the profile)",
    )
    more.add_argument(
        "--kallsyms", metavar="FILE", help="symbols of the kernel (default: /proc/kallsyms, if it is the same kernel)"
    )
    parser.add_argument("--quiet", action="store_true", help=SUPPRESS)
    parser.examples(
        "whence profile perf.data --top 20",
        "whence profile cpu.pb.gz -o named.pb.gz --store /srv/symbols",
        "whence profile perf.data --flamegraph cpu.html --open",
        "whence profile perf.data --flamegraph cpu.html --embed-source --embed-code",
        "whence profile perf.data --list 'parse|render'       lines with their cost",
        "whence profile perf.data --annotate '^parse$' --att  instructions with their cost",
        "whence profile perf.data --callers malloc            who calls it, and what it calls",
        "whence profile new.pb.gz --base old.pb.gz --top 20",
        "whence profile *.pb.gz -o named/",
    )


def share(word: str) -> float:
    """Parse a percentage. argparse reports a ValueError."""
    percent = float(word.removesuffix("%"))
    if not 0 <= percent <= 100:
        raise ValueError(word)
    return percent


share.__name__ = "percentage"  # in argparse's messages


def run(options: Namespace) -> int:
    """Run the command. Return 1 if fewer frames have names than --fail-under. Raises errors of readers and writers."""
    check_use(options)
    prepare_page(options)
    if not options.merge and (len(options.profiles) > 1 or os.path.isdir(options.output or "")):
        from whence.cli.profile_files import run_files

        return run_files(options)
    from whence.kernels.memory import share_heap
    from whence.profiles.formats import registry as formats

    format = format_asked(options)
    title = "profile" if options.profiles[0] == "-" else os.path.basename(options.profiles[0])
    share_heap()  # threads reuse memory of files that were read
    profile = read_all(options)
    if listing_option(options):
        from whence.cli.profile_listing import run_listing

        return run_listing(options, profile)
    choose_type(profile, options.sample_type)
    format = format or formats.format_for(profile, options.output or "")
    if options.output is None and not (reports(options) or options.flamegraph):
        options.output = "-"
    refuse_binary_on_terminal(options, format, profile)
    notes = len(profile.notes)
    shown, files = named(profile, options, format)
    report_notes(profile.notes[notes:], title)
    draw = partial(page_with_code, shown, options) if options.embed_source or options.embed_code else None
    write_profile(shown.timed() if options.times else shown, options, format, title, quiet=options.quiet, draw=draw)
    from whence.profiles.coverage import Report

    report = Report(profile, files)
    if not options.coverage and not options.json and not options.quiet and (format == "top" or options.flamegraph):
        report_remedies(report, title)
    if not reports(options):
        return ANSWERED
    print_report(report, options, sys.stdout if options.output != "-" else sys.stderr)
    return SOME_UNKNOWN if report_shortfall(report, options) else ANSWERED


def check_use(options: Namespace) -> None:
    """Raise WrongUse for options that cannot be combined."""
    if listing_option(options):
        check_listing_use(options)
    elif options.skid:
        raise WrongUse("--skid moves the costs of instructions: give --annotate REGEX")
    check_embedding(options)
    if options.normalize and not options.base:
        raise WrongUse("--normalize compares two profiles: give the older one with --base")
    if options.base and len(options.profiles) > 1 and not options.merge:
        raise WrongUse("--base compares one profile: give one, or merge several with --merge")
    if options.open and len(options.profiles) > 1 and not options.merge:
        raise WrongUse("--open shows one profile: give one, or merge several with --merge")
    if options.profiles.count("-") + (options.base == "-") > 1:
        raise WrongUse('"-" can be given only once: stdin has one profile')


def check_embedding(options: Namespace) -> None:
    """Raise WrongUse for options that --embed-source and --embed-code cannot be combined with."""
    option = "--embed-source" if options.embed_source else "--embed-code"
    if not (options.embed_source or options.embed_code):
        return
    if not (options.flamegraph or options.open):
        raise WrongUse(f"{option} is for the page of a flame graph: give --flamegraph HTML or --open")
    if options.base:
        raise WrongUse(f"{option} cannot be used with --base: a difference has no lines")
    if len(options.profiles) > 1 and not options.merge:
        raise WrongUse(f"{option} is for one page: give one profile, or merge several with --merge")
    if options.embed_code:
        need_capstone()


def listing_option(options: Namespace) -> str:
    """Return the first of the options that print single functions, "" if none is given."""
    given = [word for word in ("list", "annotate", "callers") if getattr(options, word) is not None]
    return f"--{given[0]}" if given else ""


def check_listing_use(options: Namespace) -> None:
    """Raise WrongUse for options that --list, --annotate and --callers cannot be combined with."""
    option = listing_option(options)
    if len(options.profiles) > 1 and not options.merge:
        raise WrongUse(f"{option} prints one profile: give one, or merge several with --merge")
    if options.skid and options.annotate is None:
        raise WrongUse("--skid moves the costs of instructions: give --annotate REGEX")
    others = "output format embed_source embed_code top by flamegraph open base times coverage fail_under"
    used = [
        "--" + name.replace("_", "-")
        for name in others.split()
        if getattr(options, name) is not None and getattr(options, name) is not False
    ]
    if used:
        what = "functions" if option == "--callers" else "lines or instructions"
        raise WrongUse(f"{option} prints {what} and cannot be used with {used[0]}: run whence twice")


def named(profile: Profile, options: Namespace, format: str) -> tuple[Profile, list[FileReport]]:
    """Name a profile that is written in a format.

    Return the profile to show (the difference with --base) and the files that named it.
    """
    from whence.profiles.binaries import Binaries
    from whence.profiles.naming import find_functions, name
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
        if options.embed_code or format == "firefox":
            find_functions(profile, binaries)
        return (profile if not options.base else compared(profile, options, binaries)), files


def page_with_code(profile: Profile, options: Namespace, title: str) -> bytes:
    """Return the page of the flame graph with the code that the options request."""
    from whence.profiles.binaries import Binaries
    from whence.profiles.page_code import PageCodeOptions, page

    with locator_of(options) as locator, Binaries(locator) as binaries, sources_of(options) as sources:
        embed = PageCodeOptions(options.embed_source, options.embed_code, sources=sources, syntax=options.syntax)
        return page(profile, title, binaries, embed)


def read_one(path: str, options: Namespace) -> Profile:
    """Read the profile of a path or of stdin, and report skipped lines."""
    from whence.profiles import read

    if path == "-":
        profile = standard_input(options)
    else:
        with Progress(f"reading {os.path.basename(path)}", quiet=options.quiet):
            profile = read(path)
    report_notes(skipped_lines(profile) + profile.notes, "profile" if path == "-" else os.path.basename(path))
    return profile


def read_all(options: Namespace) -> Profile:
    """Read the profile, or all of them merged."""
    from whence.profiles import merge

    if len(options.profiles) == 1:
        return read_one(options.profiles[0], options)
    with locator_of(options) as locator:
        return merge(unwound(path, options, locator) for path in options.profiles)


def unwound(path: str, options: Namespace, locator: Locator) -> Profile:
    """Read the profile of a path and unwind its stacks, so that copied stacks are released before merging."""
    profile = read_one(path, options)
    unwinding, profile.unwinding = profile.unwinding, None
    if unwinding is not None:
        notes = len(profile.notes)
        unwinding.unwind(profile, locator)
        report_notes(profile.notes[notes:], os.path.basename(path))
    return profile


def compared(profile: Profile, options: Namespace, binaries: Binaries) -> Profile:
    """Return the difference from the base, which is named with the same files."""
    from whence.profiles.naming import name

    base = read_one(options.base, options)
    name(base, binaries, overwrite=options.overwrite, demangle=not options.no_demangle)
    return profile.diff(base, normalize=options.normalize)


def report_remedies(report: Report, title: str) -> None:
    """Print on stderr what would name the rest of the files that have most samples without a name."""
    rows = [row for row in report if row.path and row.missing and row.named < row.samples]
    rows.sort(key=lambda row: row.named - row.samples)
    for row in rows[:REMEDIES]:
        missing, count = row.missing[0]
        what = f"{count:,} without a name ({missing.reason.word})"
        print(
            f"whence profile: {plain(title)}: {plain(row.name)}: {what}: {plain(row.remedy(missing))}", file=sys.stderr
        )
    if len(rows) > REMEDIES:
        print(f"whence profile: {plain(title)}: {len(rows) - REMEDIES} more files: see --coverage", file=sys.stderr)


def print_report(report: Report, options: Namespace, stream: TextIO) -> None:
    """Print the coverage if requested: as JSON, else as a table, in colors on stdout."""
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
    """Return the coverage with colored percentages: green for 100, yellow for less."""
    from whence.cli import colour

    def paint(match: re.Match[str]) -> str:
        return colour.share(match[0], float(match[1]))

    return re.sub(r"(?<![^ \n])(\d+\.\d) %(?=  | of the frames)", paint, str(report))


def standard_input(options: Namespace) -> Profile:
    from whence.profiles import read

    with naming("<stdin>"), Progress("reading", quiet=options.quiet):
        return read(sys.stdin.buffer)


def shown_on(progress: Progress) -> Callable[[str, int, int], None]:
    """Return a callback that shows the file being read and the number of files done."""

    def report(path: str, done: int, count: int) -> None:
        progress.what = f"naming {os.path.basename(path)}" if path else "naming"
        progress.share = lambda: (done, count)

    return report
