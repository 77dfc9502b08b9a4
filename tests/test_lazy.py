"""Public names that are imported when they are used."""

import sys

import pytest

import whence
from whence._base.lazy import attach


def test_a_name_is_that_of_its_module_under_its_name_there() -> None:
    load, names = attach("whence", {"Frame": "whence._base.model", "opened": "whence.locator.opening:open_binary"})
    assert load("Frame") is sys.modules["whence._base.model"].Frame
    assert load("opened") is whence.open
    assert names() == sorted(whence.__all__)


def test_a_name_may_be_a_module() -> None:
    load, _ = attach("whence", {"archives": "whence.lidia:"})
    assert load("archives") is sys.modules["whence.lidia"]


def test_another_name_is_an_attribute_error() -> None:
    load, _ = attach("whence", {})
    with pytest.raises(AttributeError, match="module 'whence' has no attribute 'Frame'"):
        load("Frame")
