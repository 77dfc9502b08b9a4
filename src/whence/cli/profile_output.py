"""Output options, formats and files of the commands that write a profile."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, TextIO

from whence._base.errors import WrongUse
from whence._base.streams import by_ending, byte_stream, refuse_terminal
from whence._base.words import plain
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.profiles.coverage import Report
    from whence.profiles.top import TableOptions
    from whence.samples.model import ProfileData


def add_profile_output(parser: ArgumentParser, otherwise: str) -> None:
    """Add -o, --format, --sample-type, --top, --by, --flamegraph and --open. `otherwise` names the default format."""
    from whence.profiles.formats.written import GROUPS, PAGE, SORTS, WRITTEN

    parser.add_argument("-o", "--output", metavar="OUT", help='the profile or page (.html) to write; "-" is stdout')
    parser.add_argument(
        "--format", choices=(*WRITTEN, PAGE), help=f"output format (default: by OUT's ending, else {otherwise})"
    )
    parser.add_argument(
        "--sample-type",
        metavar="TYPE",
        help="value of folded stacks and tables, shown first in other formats (default: the profile's own)",
    )
    parser.add_argument(
        "--top", type=rows, metavar="N", help="print a table of the N most expensive functions (0: all)"
    )
    parser.add_argument("--sort", choices=SORTS, default="self", help="order of the table (self)")
    parser.add_argument("--by", choices=GROUPS, help="what a row of the table is (function)")
    parser.add_argument("--flamegraph", metavar="HTML", help="draw a flame graph: one file that needs no network")
    parser.add_argument(
        "--open",
        action="store_true",
        help="open the flame graph in the browser (without --flamegraph: from a temporary file)",
    )


def prepare_page(options: Namespace) -> None:
    """With --open alone, draw the flame graph into a temporary file, which stays for the browser."""
    if options.open and options.flamegraph == "-":
        raise WrongUse("--open needs a file: give --flamegraph HTML, or leave it out")
    if options.open and not options.flamegraph:
        import tempfile

        descriptor, options.flamegraph = tempfile.mkstemp(prefix="whence-", suffix=".html")
        os.close(descriptor)


def rows(word: str) -> int:
    """Parse a number of rows. argparse reports a ValueError."""
    number = int(word)
    if number < 0:
        raise ValueError(word)
    return number


rows.__name__ = "number of functions"  # in argparse's messages


def format_asked(options: Namespace) -> str:
    """Return the format of --format or of OUT's ending, "" if neither decides. Raises WrongUse."""
    from whence.profiles.formats.written import ENDINGS, PAGE_ENDINGS

    by_ending(options.flamegraph or "", PAGE_ENDINGS, "a page")
    if options.top is not None and options.format not in (None, "top"):
        raise WrongUse(f"--top prints a table and cannot be used with --format {options.format}")
    if options.by and options.top is None and options.format != "top":
        raise WrongUse(f"--by {options.by} is for tables: give --top N")
    if options.format or options.top is not None:
        format: str = options.format or "top"
    else:
        format = by_ending(options.output or "", ENDINGS + PAGE_ENDINGS, "a profile", "; or give --format")
    if format == "arrow":
        from importlib.util import find_spec

        if find_spec("pyarrow") is None:
            raise WrongUse("--format arrow needs pyarrow, which is not installed: pip install 'whence[arrow]'")
    return format


def refuse_binary_on_terminal(options: Namespace, format: str, profile: ProfileData) -> None:
    """Raise WrongUse if binary output would be written to a terminal."""
    from whence.profiles.formats.registry import is_binary

    if options.output is not None and is_binary(profile, format, options.output):
        refuse_terminal(options.output, f"{'an' if format[0] in 'ao' else 'a'} {format} profile")


def choose_type(profile: ProfileData, name: str | None) -> None:
    """Make a sample type the default. Raises WrongUse if the profile does not have it."""
    if name is None:
        return
    names = [kind.type for kind in profile.sample_types]
    if name not in names:
        raise WrongUse(f"--sample-type: the profile has no {plain(name)}; its types: {', '.join(map(plain, names))}")
    profile.default_type = names.index(name)


def write_profile(
    profile: ProfileData,
    options: Namespace,
    format: str,
    title: str,
    *,
    quiet: bool = False,
    draw: Callable[[str], bytes] | None = None,
) -> None:
    """Write the profile to OUT (None: nowhere), and its flame graph if requested, which `draw` returns by its title."""
    from whence.profiles.formats.registry import packed, to_bytes
    from whence.profiles.formats.written import PAGE

    if options.output is not None:
        with Progress(f"writing {format}", quiet=quiet):
            json = options.output.endswith(".json") or None
            data = to_bytes(profile, format, title, json=json, table=table_options(options))
            data = packed(data, format, options.output)
        put(options.output, data)
    if options.flamegraph:
        with Progress("drawing", quiet=quiet):
            page = to_bytes(profile, PAGE, title) if draw is None else draw(title)
        put(options.flamegraph, page)
        if options.open:
            from whence.cli.browser import open_page

            open_page(options.flamegraph)


def table_options(options: Namespace) -> TableOptions:
    """Return how --top prints its table; it fits into the terminal if it is printed on one."""
    from whence.profiles.top import ROWS, TableOptions

    on_terminal = options.output == "-" and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 0
    return TableOptions(ROWS if options.top is None else options.top, options.sort, options.by or "function", width)


def put(path: str, data: bytes) -> None:
    """Write data to a file or to stdout."""
    if path == "-":
        out = byte_stream()
        out.write(data)
        out.flush()
        return
    from whence.profiles.formats.registry import save

    save(path, data)


def skipped_lines(profile: ProfileData) -> list[str]:
    """Return a note with the number of skipped lines and the first of them, or no note."""
    from whence._base.errors import shown

    if profile.first_skipped is None:
        return []
    part, expected, line = profile.first_skipped
    lines = "1 line" if profile.skipped == 1 else f"{profile.skipped:,} lines"
    first = ": " if profile.skipped == 1 else "; the first is "
    return [f"{lines} skipped{first}{part}: expected {expected}, found {shown(line)}"]


def report_notes(notes: list[str], title: str, errors: TextIO | None = None) -> None:
    """Print the notes of a reader on stderr (or `errors`)."""
    for note in notes:
        print(f"whence profile: {plain(title)}: {plain(note)}", file=errors or sys.stderr)


def reports(options: Namespace) -> bool:
    """Return True if the coverage is printed or checked."""
    return bool(options.coverage or options.json or options.fail_under is not None)


def report_shortfall(report: Report, options: Namespace, path: str = "", errors: TextIO | None = None) -> bool:
    """Return True if fewer frames have names than --fail-under, and print so on stderr (or `errors`)."""
    if options.fail_under is None or report.reaches(options.fail_under):
        return False
    from whence.profiles.coverage import shown

    file = f"{plain(path)}: " if path else ""
    named = f"{shown(report.named_percent)} named"
    print(f"whence profile: {file}{named}, under {options.fail_under:g} %", file=errors or sys.stderr)
    return True
