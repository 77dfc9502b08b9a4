"""`whence profile IN`: name the addresses of a pprof, OTLP, perf or folded profile; write it, draw it, judge it."""

from __future__ import annotations

import json
import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.progress import Progress
from whence.cli.streams import by_ending, refuse_terminal
from whence.cli.words import plain
from whence.errors import WrongUse, naming

if TYPE_CHECKING:
    from whence.profiles import Profile
    from whence.profiles.coverage import Row


def configure(parser: ArgumentParser) -> None:
    from whence.profiles.formats import WRITTEN

    parser.add_argument("profile", metavar="IN", help='pprof, OTLP, perf script text or folded stacks; "-" is stdin')
    parser.add_argument("-o", "--output", metavar="OUT", help='where the named profile goes; "-" is stdout')
    parser.add_argument(
        "--format",
        choices=WRITTEN,
        help="what to write (default: by OUT's ending, else as it came; text comes out as folded stacks)",
    )
    parser.add_argument(
        "--sample-type",
        metavar="TYPE",
        help="which of the profile's values folded stacks have, and other forms show first (default: the profile says)",
    )
    parser.add_argument("--flamegraph", metavar="HTML", help="draw a flame graph, one file that needs nothing else")
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
    from whence.profiles import formats
    from whence.profiles.binaries import Binaries
    from whence.profiles.lists import Lists
    from whence.profiles.naming import name

    title = os.path.basename(options.profile) if options.profile != "-" else "profile"
    if (options.output or "").endswith((".html", ".htm")):
        raise WrongUse(f"-o writes a profile; for a flame graph give --flamegraph {options.output}")
    format = options.format or by_ending(options.output or "", formats.ENDINGS, "a profile", "; or give --format")
    reporting = options.coverage or options.json or options.fail_under is not None
    if options.profile == "-":
        profile = standard_input(options)
    else:
        with Progress(f"reading {title}", quiet=options.quiet):
            profile = formats.open_profile(options.profile)
    if options.sample_type is not None:
        profile.default_type = type_named(profile, options.sample_type)
    tell_skipped(profile, title)
    format = format or formats.format_for(profile, options.output or "")
    output = options.output or (None if reporting or options.flamegraph else "-")
    if output is not None and formats.is_binary(profile, format, output):
        refuse_terminal(output, f"an {format} profile" if format == "otlp" else f"a {format} profile")
    lists = Lists(options.perf_map, options.kallsyms)
    with (
        locator_of(options) as locator,
        Binaries(locator, lists=lists) as binaries,
        Progress("naming", quiet=options.quiet) as progress,
    ):
        reports = name(
            profile,
            binaries,
            overwrite=options.overwrite,
            demangle=not options.no_demangle,
            progress=shown_on(progress),
        )
    if output is not None:
        with Progress(f"writing {format}", quiet=options.quiet):
            data = formats.to_bytes(profile, format, title, json=output.endswith(".json") or None)
        put(output, data)
    if options.flamegraph:
        from whence.profiles.flamegraph import page_bytes

        with Progress("drawing", quiet=options.quiet):
            drawn = page_bytes(profile, title)
        put(options.flamegraph, drawn)
    if not reporting:
        return ANSWERED
    from whence.profiles.coverage import coverage, shown, total

    rows = coverage(profile, reports)
    tell(rows, options, sys.stdout if output != "-" else sys.stderr)
    if options.fail_under is not None and total(rows) < options.fail_under:
        print(f"whence profile: {shown(total(rows))} named, under {options.fail_under:g} %", file=sys.stderr)
        return SOME_UNKNOWN
    return ANSWERED


def type_named(profile: Profile, wanted: str) -> int:
    """The index of a sample type. Raises WrongUse where the profile has none of the name."""
    names = [one.type for one in profile.sample_types]
    if wanted not in names:
        raise WrongUse(f"--sample-type: the profile has {', '.join(map(plain, names)) or 'none'}, not {plain(wanted)}")
    return names.index(wanted)


def tell_skipped(profile: Profile, title: str) -> None:
    """How many lines of text could not be read, and the first of them."""
    from whence.errors import shown

    if profile.first_skipped is not None:
        part, rule, line = profile.first_skipped
        lines = "1 line was" if profile.skipped == 1 else f"{profile.skipped:,} lines were"
        first = "it is" if profile.skipped == 1 else "the first is"
        print(
            f"whence profile: {plain(title)}: {lines} not understood and left out; {first} {part} "
            f"({rule}; found {shown(line)})",
            file=sys.stderr,
        )


def put(path: str, data: bytes) -> None:
    """The whole of some output, to a file or to stdout."""
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    from whence.profiles.formats import save

    save(path, data)


def tell(rows: list[Row], options: Namespace, where: object) -> None:
    from whence.profiles.coverage import text, total

    if options.json:
        report = {"named_percent": round(total(rows), 2), "binaries": [row.as_json() for row in rows]}
        print(json.dumps(report), file=where)  # type: ignore[call-overload]
    elif options.coverage:
        print(text(rows), end="", file=where)  # type: ignore[call-overload]


def standard_input(options: Namespace) -> Profile:
    from whence.profiles import formats

    data = sys.stdin.buffer.read()
    with naming("<stdin>"), Progress("reading", quiet=options.quiet):
        return formats.from_bytes(data)


def shown_on(progress: Progress) -> Callable[[str, int, int], None]:
    """What tells the progress which file is being asked, and how many are done."""

    def report(path: str, done: int, count: int) -> None:
        progress.what = f"naming {os.path.basename(path)}" if path else "naming"
        progress.share = lambda: (done, count)

    return report
