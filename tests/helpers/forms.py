"""The two forms of an archive, documented and compact, compared."""

from __future__ import annotations

import random
from array import array

from whence import lidia
from whence.lidia.render import render_many


def edges(table: lidia.Table) -> array[int]:
    """Addresses around where each range begins and ends."""
    found = {0, (1 << 64) - 1}
    for one in table:
        found |= {place + step for place in (one.vaddr, one.end) for step in (-1, 0, 1)}
    return array("Q", [vaddr for vaddr in sorted(found) if 0 <= vaddr < 1 << 64])


def assert_equal_answers(documented: bytes, small: bytes, vaddrs: array[int] | None = None) -> None:
    """All ways of asking have equal answers, and both archives are whole."""
    with lidia.from_bytes(documented, crc=True) as one, lidia.from_bytes(small, crc=True) as other:
        assert (one.header.compact, other.header.compact) == (False, True)
        assert (one.verify(), other.verify()) == ([], [])
        asked = edges(one) if vaddrs is None else vaddrs
        assert other.vaddrs() == one.vaddrs()
        some = range(len(one)) if len(one) < 2000 else random.Random(1).sample(range(len(one)), 500)
        assert [other[place] for place in some] == [one[place] for place in some]
        assert [other.source_columns(place) for place in some] == [one.source_columns(place) for place in some]
        assert other.lookup_many(asked) == one.lookup_many(asked)
        assert [other.lookup(vaddr) for vaddr in asked[:5000]] == [one.lookup(vaddr) for vaddr in asked[:5000]]
        for style in ("llvm", "gnu", "json"):
            assert render_many(other, asked, style, demangle=str.upper) == render_many(
                one, asked, style, demangle=str.upper
            )
        assert other.about == one.about
        facts, want = other.info(), one.info()
        for name in ("ranges", "functions", "inlined", "strings", "line_entries", "sources", "starts", "deepest"):
            assert getattr(facts, name) == getattr(want, name)
