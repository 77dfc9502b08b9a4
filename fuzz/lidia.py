"""Archives: opening, checks, iteration, every way of asking; the two ways of finding a chain must agree."""

from __future__ import annotations

import pickle
from contextlib import suppress

from tests.forge.lidia import Forged, prefixed, terminated
from tests.hostile.inputs import lidia as hostile
from whence import lidia
from whence._base.errors import LidiaError
from whence._base.model import Frame
from whence.lidia.render import render_many

ADDRESSES = [*range(0xF0, 0x140, 3), 0, 1 << 32, (1 << 64) - 1]


def seeds() -> list[bytes]:
    builder = lidia.Builder()
    for location in range(12):
        builder.add(
            vaddr=0xF0 + 8 * location, length=8, function=f"f{location}", file="a.c", line_table=[(0, location), (4, 9)]
        )
        builder.add(
            vaddr=0xF2 + 8 * location, length=4, depth=1, function="_Z3foov", file="b.h", call_file="a.c", call_line=3
        )
    strings, offset = terminated(b"f", b"g")
    rows = [(0x100, 0x20, 0, offset[b"f"], 0, 0, 1, 0, 0), (0x108, 8, 1, offset[b"g"], 0, 0, 2, offset[b"f"], 9)]
    aliases, names = prefixed(b"one", b"two")
    twice = [(0x100, size, 0, names[name], *[0] * 5) for size, name in ((32, b"one"), (16, b"two"), (0, b"one"))]
    return [
        builder.to_bytes(),
        builder.to_bytes(strings="nul"),
        builder.to_bytes(compat="go"),
        Forged(rows, strings, [(0, 1), (2, 3)], 8, 8, 4).bytes(),
        Forged(twice, aliases).bytes(),
        hostile.shared_name(200, 4000),
        hostile.shared_lengths(200, 4000),
        hostile.shared_lines(100, 200),
        hostile.deep(),
    ]


def target(data: bytes) -> None:
    with lidia.from_bytes(data) as table:
        wrong = any("range" in line for line in table.verify())
        table.info()
        for location in range(min(len(table), 50)):
            with suppress(LidiaError):
                assert isinstance(table[location], lidia.Range)
        walked: list[tuple[Frame, ...] | None] = []
        for address in ADDRESSES:
            walked.append(None)
            with suppress(LidiaError):
                walked[-1] = table.lookup(address)
        answers = table.lookup_many(ADDRESSES)
        for each, other in zip(walked, answers, strict=True):
            assert each is None or each == other or wrong
        assert list(answers[::2]) == list(answers)[::2]
        assert pickle.loads(pickle.dumps(answers)) == answers
        for style in ("llvm", "gnu", "json"):
            render_many(table, ADDRESSES, style, demangle=str.upper)
