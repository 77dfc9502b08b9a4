"""Tables of chains keep the frames they were made from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence import Frame, Source
from whence._base.model import Frames
from whence.lidia.chains import NO_CHAIN, ChainTable

FRAMES = st.builds(
    Frame,
    st.sampled_from(["main", "f", "", "\udc80"]),
    st.sampled_from(["a.c", ""]),
    st.sampled_from([0, 7, (1 << 32) - 1]),
    st.booleans(),
    st.sampled_from(list(Source)),
    st.sampled_from([0, 3]),
    st.sampled_from([0, 9]),
    st.sampled_from([0, 2]),
)
CHAINS = st.lists(st.lists(FRAMES, max_size=3).map(tuple), max_size=5)


@given(CHAINS)
def test_a_table_has_the_chains_it_was_made_of(chains: list[Frames]) -> None:
    assert ChainTable.of(chains).chains() == [(), *chains]


@given(CHAINS, CHAINS, CHAINS)
def test_a_table_grows_by_the_chains_of_others(first: list[Frames], second: list[Frames], third: list[Frames]) -> None:
    table = ChainTable()
    assert table.add(ChainTable.of(first)) == 0
    made = table.chains()[:]
    bases = table.add(ChainTable.of(second)), table.add(ChainTable.of(third))
    assert bases == (len(first), len(first) + len(second))
    assert table.chains() == [(), *first, *second, *third]
    assert all(each is other for each, other in zip(made, table.chains(), strict=False))  # made once
    assert len(set(table.functions)) == len(table.functions)
    assert table.chains()[NO_CHAIN] == ()


def test_a_line_of_more_than_32_bits_becomes_unknown() -> None:
    chains: list[Frames] = [(Frame("f", line=1 << 32),), (Frame("f", line=-1),)]
    assert [chain[0].line for chain in ChainTable.of(chains).chains()[1:]] == [0, 0]
