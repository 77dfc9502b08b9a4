"""Processes with many mappings, and the texts that name addresses outside of ELF files."""

from __future__ import annotations

from pathlib import Path

from tests.forge.proc import Line, process
from tests.hostile import bounded
from whence.procmap import Resolver

MAPPINGS = 65_530  # vm.max_map_count, as Linux has it


def unmapped(root: str, addresses: int) -> int:
    """Return how many of `count` unmapped addresses have an answer."""
    with Resolver(root, query=False) as resolver:
        return sum(resolver.lookup(7, 8 + 0x1000 * location * 2) is not None for location in range(addresses))


def test_addresses_that_nothing_maps_do_not_read_the_text_again_and_again(tmp_path: Path) -> None:
    process(tmp_path, 7, [Line(0x1000 * (2 * n + 1), 0x1000 * (2 * n + 2), "/a") for n in range(MAPPINGS)])
    outcome = bounded(unmapped, str(tmp_path), 60_000, seconds=4, megabytes=150)
    assert outcome.answer == 0
