"""Where a profile goes: options, formats and files of the commands that write one."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, TextIO

from whence._base.errors import WrongUse
from whence._base.streams import by_ending, byte_stream, refuse_terminal
from whence._base.words import plain
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from whence.profiles.coverage import Report
    from whence.samples.model import ProfileData


def add_profile_output(parser: ArgumentParser, otherwise: str) -> None:
    """-o, --format, --sample-type and --flamegraph; `otherwise` says what is written where no ending says it."""
    from whence.profiles.formats.registry import WRITTEN

    parser.add_argument("-o", "--output", metavar="OUT", help='where the profile goes; "-" is stdout')
    parser.add_argument("--format", choices=WRITTEN, help=f"what to write (default: by OUT's ending, else {otherwise})")
    parser.add_argument(
        "--sample-type",
        metavar="TYPE",
        help="which of the profile's values folded stacks have, and other forms show first (default: the profile says)",
    )
    parser.add_argument(
        "--top", type=rows, metavar="N", help="the N functions that have most, as a table (0: all; --format top has 30)"
    )
    parser.add_argument("--sort", choices=("self", "total"), default="self", help="order of the table (self)")
    parser.add_argument("--flamegraph", metavar="HTML", help="draw a flame graph, one file that needs nothing else")


def rows(word: str) -> int:
    """A number of rows. Raises ValueError, which argparse words."""
    number = int(word)
    if number < 0:
        raise ValueError(word)
    return number


rows.__name__ = "number of functions"  # as argparse calls it


def format_asked(options: Namespace) -> str:
    """The format that --format or OUT's ending asks for; "" where neither does. Raises WrongUse."""
    from whence.profiles.formats.registry import ENDINGS, PAGE_ENDINGS

    if (options.output or "").endswith(tuple(ending for ending, _ in PAGE_ENDINGS)):
        raise WrongUse(f"-o writes a profile; for a flame graph give --flamegraph {options.output}")
    by_ending(options.flamegraph or "", PAGE_ENDINGS, "a page")
    if options.top is not None and options.format not in (None, "top"):
        raise WrongUse(f"--top prints a table: it goes with --format top, not with {options.format}")
    if options.format or options.top is not None:
        asked: str = options.format or "top"
    else:
        asked = by_ending(options.output or "", ENDINGS, "a profile", "; or give --format")
    if asked == "arrow":
        from importlib.util import find_spec

        if find_spec("pyarrow") is None:
            raise WrongUse("--format arrow needs pyarrow, which is not installed: pip install 'whence[arrow]'")
    return asked


def refuse_binary_on_terminal(options: Namespace, format: str, profile: ProfileData) -> None:
    """Raise WrongUse where what is no text would go to a terminal."""
    from whence.profiles.formats.registry import is_binary

    if options.output is not None and is_binary(profile, format, options.output):
        refuse_terminal(options.output, f"{'an' if format[0] in 'ao' else 'a'} {format} profile")


def choose_type(profile: ProfileData, wanted: str | None) -> None:
    """Show the sample type of a name first. Raises WrongUse where the profile has none of the name."""
    if wanted is None:
        return
    names = [one.type for one in profile.sample_types]
    if wanted not in names:
        raise WrongUse(f"--sample-type: the profile has {', '.join(map(plain, names)) or 'none'}, not {plain(wanted)}")
    profile.default_type = names.index(wanted)


def write_profile(profile: ProfileData, options: Namespace, format: str, title: str, *, quiet: bool = False) -> None:
    """Write the profile to OUT (None: nowhere), and its flame graph where one was asked for."""
    from whence.profiles.formats.registry import PAGE, packed, to_bytes

    if options.output is not None:
        with Progress(f"writing {format}", quiet=quiet):
            json = options.output.endswith(".json") or None
            data = to_bytes(profile, format, title, json=json, rows=options.top, sort=options.sort)
            data = packed(data, format, options.output)
        put(options.output, data)
    if options.flamegraph:
        with Progress("drawing", quiet=quiet):
            drawn = to_bytes(profile, PAGE, title)
        put(options.flamegraph, drawn)


def put(path: str, data: bytes) -> None:
    """The whole of some output, to a file or to stdout."""
    if path == "-":
        out = byte_stream()
        out.write(data)
        out.flush()
        return
    from whence.profiles.formats.registry import save

    save(path, data)


def skipped_lines(profile: ProfileData) -> list[str]:
    """How many lines of text could not be read, and the first of them, as a note; none where all were read."""
    from whence._base.errors import shown

    if profile.first_skipped is None:
        return []
    part, expected, line = profile.first_skipped
    lines = "1 line was" if profile.skipped == 1 else f"{profile.skipped:,} lines were"
    first = ": " if profile.skipped == 1 else "; the first is "
    return [f"{lines} not understood and left out{first}{part}: expected {expected}, found {shown(line)}"]


def report_notes(notes: list[str], title: str, errors: TextIO | None = None) -> None:
    """Print on stderr (or `errors`) what a reader has to say of what it read."""
    for note in notes:
        print(f"whence profile: {plain(title)}: {plain(note)}", file=errors or sys.stderr)


def reports(options: Namespace) -> bool:
    """Whether the coverage is asked for: to be printed, or to be judged."""
    return bool(options.coverage or options.json or options.fail_under is not None)


def report_shortfall(report: Report, options: Namespace, path: str = "", errors: TextIO | None = None) -> bool:
    """Whether fewer frames have names than --fail-under asks, which is printed on stderr (or `errors`)."""
    if options.fail_under is None or report.reaches(options.fail_under):
        return False
    from whence.profiles.coverage import shown

    file = f"{plain(path)}: " if path else ""
    named = f"{shown(report.named_percent)} named"
    print(f"whence profile: {file}{named}, under {options.fail_under:g} %", file=errors or sys.stderr)
    return True
