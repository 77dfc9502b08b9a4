"""Profiles of programs in other formats than ELF, in the JSON of Firefox and samply: found by UUID and GUID."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forge import macho, pe
from tests.helpers.macho import dsym_of
from whence import profiles
from whence.objects.ids import DebugId
from whence.objects.pe import layout

MAC, WINDOWS = {"platform": "Macintosh", "oscpu": "Intel Mac OS X 13.4"}, {"oscpu": "Windows NT 10.0; Win64; x64"}
GUID = "23222120252427262829" + "2a2b2c2d2e2f"


def document(lib: dict[str, Any], addresses: list[int], meta: dict[str, Any]) -> dict[str, Any]:
    """A profile as samply writes it: an unnamed frame for each address, relative to the image of the library."""
    count = len(addresses)
    nothing, zeros, rows = [None] * count, [0] * count, list(range(count))
    thread = {
        "name": "t", "pid": "1", "tid": 1, "processType": "default", "registerTime": 0,
        "samples": {"length": count, "stack": rows, "time": [float(row) for row in rows], "weightType": "samples",
                    "weight": None},
        "stackTable": {"length": count, "frame": rows, "prefix": nothing, "category": zeros},
        "frameTable": {"length": count, "address": addresses, "inlineDepth": zeros, "category": zeros, "func": rows,
                       "nativeSymbol": nothing, "line": nothing, "column": nothing},
        "funcTable": {"length": count, "name": zeros, "isJS": [False] * count, "resource": zeros, "fileName": nothing,
                      "lineNumber": nothing, "columnNumber": nothing},
        "resourceTable": {"length": 1, "lib": [0], "name": [0], "host": [None], "type": [1]},
        "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
        "stringArray": ["0x1"],
    }  # fmt: skip
    head = {"interval": 1, "startTime": 0, "version": 29, "preprocessedProfileVersion": 50, **meta}
    return {"meta": head, "libs": [lib], "threads": [thread]}


def windows_program() -> bytes:
    record = pe.codeview(2 * pe.PAGE, pe.PAGE + 0x200, b"a.pdb", age=2)
    sections = [pe.Section(".text", bytes(0x80), pe.CODE), pe.Section(".buildid", record)]
    symbols = [pe.Symbol("f", 0), pe.Symbol("g", 0x40)]
    return pe.forge(sections, symbols=symbols, directories={layout.DEBUG: (2 * pe.PAGE, 28)})


def named(path: Path, folder: Path) -> list[list[str]]:
    """The functions of each sample, innermost first."""
    profile = profiles.read(path)
    profile.symbolize(binaries=folder)
    return [[frame.function for frame in frames] for frames in profile.frames]


@pytest.mark.parametrize("code_id", [None, macho.UUID.hex().upper()])
def test_a_dsym_names_a_profile_of_macos(tmp_path: Path, code_id: str | None) -> None:
    (tmp_path / "symbols").mkdir()
    (tmp_path / "symbols" / "any").write_bytes(dsym_of())
    lib = {"name": "app", "path": "/Users/a/app", "breakpadId": DebugId(macho.UUID.hex()).breakpad, "codeId": code_id}
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document(lib, [8, 0x30], MAC)))
    assert named(path, tmp_path / "symbols") == [["inner", "outer"], ["outer"]]


@pytest.mark.parametrize("meta", [WINDOWS, {}])
def test_a_program_of_windows_is_found_by_its_guid_and_addresses_count_from_the_image(
    tmp_path: Path, meta: dict[str, Any]
) -> None:
    (tmp_path / "symbols").mkdir()
    (tmp_path / "symbols" / "any.exe").write_bytes(windows_program())
    identity = DebugId(GUID, 2).breakpad
    lib = {"name": "a.exe", "path": "C:\\x\\a.exe", "breakpadId": identity, "codeId": "5F0000003000"}
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document(lib, [pe.PAGE + 4, pe.PAGE + 0x44], meta)))
    assert named(path, tmp_path / "symbols") == [["f"], ["g"]]
