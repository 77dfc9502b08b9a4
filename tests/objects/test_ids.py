"""IDs of object files and their spellings."""

from __future__ import annotations

import pytest

from whence.objects.ids import NO_DEBUG_ID, DebugId, same_id

GUID = "5d3dac6e1c1ddc8f4c4c44205044422e"


@pytest.mark.parametrize(
    ("build_id", "debug_id"),
    [
        ("04a4564439753cf113ec8a9a8a0b8c3c2f2f2f2f", "4456A4047539F13C13EC8A9A8A0B8C3C0"),
        ("ab", "000000AB000000000000000000000000" + "0"),
        ("", "0" * 33),
        ("go/id", "0" * 33),
    ],
)
def test_a_build_id_has_a_debug_id(build_id: str, debug_id: str) -> None:
    identity = DebugId.of_build_id(build_id)
    assert identity.breakpad == debug_id
    assert DebugId.parse(debug_id) == DebugId(debug_id[:32].lower(), 0)
    assert identity.start_of_build_id in ("", build_id[:32].ljust(32, "0"))


def test_a_big_endian_build_id_is_the_guid_as_it_is() -> None:
    assert DebugId.of_build_id("04a4564439753cf113ec8a9a8a0b8c3c", little_endian=False).guid.startswith("04a45644")


@pytest.mark.parametrize(
    "text",
    [
        f"{GUID.upper()}1f",
        "5d3dac6e-1c1d-dc8f-4c4c-44205044422e-1f",
        "5D3DAC6E-1C1D-DC8F-4C4C-44205044422E1F",
        f"{GUID}0000001F",
    ],
)
def test_every_spelling_of_a_debug_id_is_read(text: str) -> None:
    identity = DebugId.parse(text)
    assert identity == DebugId(GUID, 31)
    assert identity.breakpad == f"{GUID.upper()}1f"
    assert identity.sentry == "5d3dac6e-1c1d-dc8f-4c4c-44205044422e-1f"
    assert identity.uuid == "5D3DAC6E-1C1D-DC8F-4C4C-44205044422E"


@pytest.mark.parametrize("text", ["", "5d3d", "x" * 33, GUID + "123456789", GUID[:31] + "-", "../" + GUID, GUID + "-x"])
def test_other_texts_are_no_debug_id(text: str) -> None:
    assert DebugId.parse(text) == NO_DEBUG_ID
    assert not DebugId.parse(text)


def test_an_id_of_zeros_matches_nothing() -> None:
    assert not DebugId.parse("0" * 33)


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ("5D3DAC6E-1C1D-DC8F-4C4C-44205044422E", GUID),
        ("04A4", "04a4"),
        ("a-b", "a-b"),
        ("Go/Id", "Go/Id"),
        ("", ""),
    ],
)
def test_an_id_is_read_in_the_spelling_of_people(given: str, same: str) -> None:
    assert same_id(given) == same
