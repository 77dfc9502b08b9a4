"""Firefox Profiler's documents, as tests look at them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from time import sleep
from typing import Any
from uuid import uuid4

import pytest

from tests.helpers.profiles import program_profile
from whence.objects.elf import ElfFile
from whence.objects.ids import DebugId
from whence.profiles.formats import firefox

PEER = Path(__file__).parents[2] / ".cache" / "npm" / "node_modules" / ".bin" / "profiler-cli"


class FrontEnd:
    """A session of Firefox Profiler's own command line, which `make frontends` installs. A context manager."""

    def __init__(self) -> None:
        if not PEER.exists() or shutil.which("node") is None:
            pytest.skip("npm's @firefox-devtools/profiler-cli is not installed: make frontends")
        self._command = ["node", str(PEER)]
        self._session = f"whence{uuid4().hex}"

    def said(self, *words: str) -> str:
        """What a command prints."""
        for _ in range(20):
            run = subprocess.run(
                [*self._command, *words, "--session", self._session], capture_output=True, text=True, timeout=60
            )
            if "most likely still starting" not in run.stderr:
                break
            sleep(0.5)  # it gives itself half a second, which a busy machine has not
        assert run.returncode == 0 or "already running" in run.stderr, run.stderr
        return run.stdout

    def __enter__(self) -> FrontEnd:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._command, "stop", self._session], capture_output=True, timeout=60)


def stacks_of(document: dict[str, Any], thread: int = 0) -> list[list[str]]:
    """The stacks of a thread's samples, outermost first, as names; every index is checked on the way."""
    shared = document["shared"]
    strings, stacks, frames, functions = (
        shared["stringArray"], shared["stackTable"], shared["frameTable"], shared["funcTable"],
    )  # fmt: skip
    for table in (stacks, frames, functions, shared["resourceTable"], shared["sources"], shared["nativeSymbols"]):
        assert all(len(column) == table["length"] for column in table.values() if isinstance(column, list))
    assert all(above is None or 0 <= above < index for index, above in enumerate(stacks["prefix"]))
    assert all(each is None or 0 <= each < shared["sources"]["length"] for each in functions["source"])
    assert all(-1 <= each < shared["resourceTable"]["length"] for each in functions["resource"])
    assert all(each is None or 0 <= each < len(document["libs"]) for each in shared["resourceTable"]["lib"])
    assert all(0 <= each < len(document["meta"]["categories"]) for each in frames["category"])
    samples = document["threads"][thread]["samples"]
    assert len(samples["stack"]) == len(samples["time"]) == len(samples["weight"]) == samples["length"]
    assert samples["time"] == sorted(samples["time"])
    out = []
    for stack in samples["stack"]:
        names = []
        while stack is not None:
            names.append(strings[functions["name"][frames["func"][stacks["frame"][stack]]]])
            stack = stacks["prefix"][stack]
        out.append(names[::-1])
    return out


def samply_document(path: Path, *, code_id: bool = True) -> dict[str, Any]:
    """What samply writes: addresses in libraries, known by ids, with hex for names."""
    profile = program_profile(path)
    document: dict[str, Any] = json.loads(firefox.write(profile))
    shared = document["shared"]
    with ElfFile.open(path) as elf:
        code = next(segment for segment in elf.segments if segment.type == 1 and segment.executable)
        build_id = elf.build_id
    frames = shared["frameTable"]  # our own addresses count bytes of the file, samply's those of memory
    frames["address"] = [each - code.file_offset + code.vaddr for each in frames["address"]]
    functions = shared["funcTable"]
    for offset, address in zip(frames["func"], frames["address"], strict=True):
        shared["stringArray"].append(f"0x{address:x}")
        functions["name"][offset] = len(shared["stringArray"]) - 1
    (lib,) = document["libs"]
    lib |= {"breakpadId": DebugId.of_build_id(build_id).breakpad, "codeId": build_id if code_id else None}
    document["meta"] |= {"symbolicated": False}
    document["threads"][0]["markers"]["length"] = 1
    for name, value in {"data": {"type": "Text", "name": "x", "cause": {"stack": 0}}, "name": 0, "startTime": 0.5,
                        "endTime": None, "phase": 0, "category": 0}.items():  # fmt: skip
        document["threads"][0]["markers"][name] = [value]
    return document
