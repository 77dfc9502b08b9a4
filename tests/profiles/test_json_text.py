"""JSON written in pieces is the JSON that would be written at once."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whence.profiles.formats.json_text import CHUNK, SHORT_LIST, encoded

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=SHORT_LIST + 4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)


@given(st.recursive(LEAVES, wider, max_leaves=60))
def test_encodes_the_same_text_as_the_json_module(value: Any) -> None:
    assert encoded(value) == json.dumps(value, separators=(",", ":"))


def test_encodes_long_lists_completely() -> None:
    for count in (CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK):
        value = {"a": [{"b": n} for n in range(count)]}
        assert encoded(value) == json.dumps(value, separators=(",", ":"))
