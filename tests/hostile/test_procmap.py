"""Processes with many mappings, and the texts that name addresses outside of ELF files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forge.proc import Line, process
from tests.hostile import bounded
from whence.procmap import Resolver, kallsyms, maps, perfmap

MAPPINGS = 65_530  # vm.max_map_count, as Linux has it


def unmapped(root: str, addresses: int) -> int:
    """How many of so many addresses that nothing maps are answered."""
    with Resolver(root, query=False) as resolver:
        return sum(resolver.lookup(7, 8 + 0x1000 * place * 2) is not None for place in range(addresses))


def test_addresses_that_nothing_maps_do_not_read_the_text_again_and_again(tmp_path: Path) -> None:
    process(tmp_path, 7, [Line(0x1000 * (2 * n + 1), 0x1000 * (2 * n + 2), "/a") for n in range(MAPPINGS)])
    outcome = bounded(unmapped, str(tmp_path), 60_000, seconds=4, megabytes=150)
    assert outcome.answer == 0


def parsed(kind: str, path: str) -> int:
    data = Path(path).read_bytes()
    if kind == "maps":
        return len(maps.parse(data).mappings)
    return len(perfmap.parse(data) if kind == "perfmap" else kallsyms.KernelNames.parse(data))


SIZE = 2_000_000
TEXTS = {
    "blanks": b" " * SIZE,
    "newlines": b"\n" * SIZE,
    "digits": b"0" * SIZE,
    "a long name": b"1000 10 " + b"x" * SIZE,
    "blanks in a symbol": b"1000 t a" + b" " * SIZE + b"b",
    "blanks behind brackets": b"1000 t a [" * (SIZE // 10),
    "backslashes": b"1000-2000 r-xp 0 0:0 0 " + b"\\012" * (SIZE // 4) + b"\n",
    "one address": b"1000 10 x\n" * (SIZE // 10),
    "overlaps": b"".join(b"%x ffffffff f\n" % row for row in range(SIZE // 16)),
}


@pytest.mark.parametrize("kind", ["maps", "perfmap", "kallsyms"])
@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_any_shape_take_time_in_proportion(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(TEXTS[text])
    outcome = bounded(parsed, kind, str(path), seconds=2, megabytes=200)
    assert outcome.error == ""
