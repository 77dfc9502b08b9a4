"""The bounded cache."""

import pytest

from whence._base.lru import Lru


def test_the_entry_used_least_recently_goes_first() -> None:
    evicted: list[str] = []
    cache: Lru[int, str] = Lru(2, evicted.append)
    cache[1], cache[2] = "one", "two"
    assert cache[1] == "one"
    cache[3] = "three"
    assert evicted == ["two"]
    assert list(cache) == [1, 3]
    assert cache.get(1) == "one"
    assert cache.get(2) is None
    assert cache.get(2, "none") == "none"
    cache[4] = "four"
    assert evicted == ["two", "three"]
    with pytest.raises(KeyError):
        cache[3]


def test_setting_a_key_again_uses_it_and_keeps_the_others() -> None:
    cache: Lru[str, int] = Lru(2)
    cache["a"], cache["b"], cache["a"] = 1, 2, 3
    assert list(cache.items()) == [("b", 2), ("a", 3)]


def test_closing_evicts_every_entry() -> None:
    evicted: list[int] = []
    cache: Lru[str, int] = Lru(3, evicted.append)
    cache["a"], cache["b"] = 1, 2
    cache.close()
    assert sorted(evicted) == [1, 2]
    assert not cache
