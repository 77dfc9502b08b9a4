"""`whence profile --list`, `--annotate` and `--callers REGEX`: functions and their costs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import locator_of
from whence.cli.profile_output import choose_type, report_notes
from whence.cli.source_options import need_capstone, print_lines, sources_of
from whence.listing.model import ListingOptions
from whence.listing.text import annotated, listed
from whence.profiles.binaries import Binaries
from whence.profiles.callers import callers
from whence.profiles.code import compiled, instruction_listings, listings
from whence.profiles.naming import name
from whence.profiles.symbol_lists import SymbolLists

if TYPE_CHECKING:
    from whence.listing import Listing
    from whence.profiles import Profile
    from whence.profiles.callers import CallTable


def run_listing(options: Namespace, profile: Profile) -> int:
    """Print the functions that match. Return 1 if none does."""
    for pattern in filter(None, (options.list, options.annotate, options.callers)):
        try:
            compiled(pattern)
        except ValueError as error:
            raise WrongUse(str(error)) from None
    if options.annotate is not None:
        need_capstone()
    choose_type(profile, options.sample_type)
    notes = len(profile.notes)
    count = 0
    lists = SymbolLists(options.perf_map, options.kallsyms)
    with (
        locator_of(options) as locator,
        Binaries(locator, symbol_lists=lists) as binaries,
        sources_of(options) as sources,
    ):
        name(profile, binaries, overwrite=options.overwrite, demangle=not options.no_demangle)
        report_notes(profile.notes[notes:], "profile")
        if options.list is not None:
            for listing in listings(profile, options.list, sources=sources, binaries=binaries):
                show(listing, listed(listing), options, is_first=not count)
                count += 1
        if options.annotate is not None:
            how = ListingOptions(sources, syntax=options.syntax, skid=options.skid)
            for listing in instruction_listings(profile, options.annotate, binaries, options=how):
                show(listing, annotated(listing, raw_bytes=options.raw_bytes), options, is_first=not count)
                count += 1
        if options.callers is not None:
            count += show_callers(callers(profile, options.callers), options, is_first=not count)
    if not count:
        pattern = options.list or options.annotate or options.callers
        complain(f"no function with samples matches {pattern!r}", "whence profile")
    return ANSWERED if count else SOME_UNKNOWN


def show_callers(table: CallTable, options: Namespace, *, is_first: bool) -> int:
    """Print callers and callees, and return the number of functions."""
    if options.json:
        for row in table.rows:
            print(json.dumps(row.as_json()))
    elif table.rows:
        print(table if is_first else f"\n{table}")
    if table.functions > len(table.rows):
        complain(f"{table.functions - len(table.rows)} more functions match", "whence profile")
    return len(table.rows)


def show(listing: Listing, lines: Iterator[str], options: Namespace, *, is_first: bool) -> None:
    """Print a listing as JSON with --json, else its lines, with an empty line between listings."""
    if options.json:
        print(json.dumps(listing.as_json()))
        return
    if not is_first:
        print()
    print_lines(lines)
