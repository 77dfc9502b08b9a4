"""The programs of examples/ do what they say."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence.gotrace import Event, Version
from whence.objects.elf import ElfFile
from whence.profiles.formats import pprof

EXAMPLES = Path(__file__).parent.parent / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def address_of(name: str) -> int:
    with ElfFile.open(compiled()) as elf:
        symbols = elf.symbols(".symtab")
        return {symbols.name(i): symbols.value[i] for i in range(len(symbols.value))}[name]


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpu.pb"
    path.write_bytes(pprof.write(program_profile(compiled())))
    monkeypatch.setenv("PROFILE", str(path))
    monkeypatch.setenv("BINARY", str(compiled()))
    return path


def test_a_table_of_addresses_gets_names() -> None:
    rows = loaded("name_table").named(str(compiled()), [address_of("sum"), 16])
    assert rows[0][1] == "sum"
    assert rows[0][3] > 0
    assert rows[1] == (16, "", "", 0)


@pytest.mark.skipif(sys.platform != "linux", reason="live processes are Linux's")
def test_a_process_is_watched() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        seen = loaded("watch_process").watch(sleeper.pid, 3, pause=0.05)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert sum(seen.values()) <= 3
    assert seen


def test_the_gate_passes_a_profile_with_names_and_fails_one_without(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = loaded("gate_test").test_the_profile_has_names
    gate()
    profile.write_bytes(pprof.write(program_profile(compiled(), build_id="00ff", file="/nowhere")))
    with pytest.raises(AssertionError, match="without a name"):
        gate()


def test_the_endpoint_answers(profile: Path) -> None:
    pytest.importorskip("fastapi", reason="the example takes fastapi")
    from fastapi import HTTPException

    example = loaded("fastapi_endpoint")
    assert "/symbolize" in {route.path for route in example.app.routes}
    known, unknown = example.symbolize(example.Question(addresses=[hex(address_of("sum")), "0x10"]))
    assert known[0]["function"] == "sum"
    assert unknown == []
    with pytest.raises(HTTPException) as refused:
        example.symbolize(example.Question(addresses=["sum"]))
    assert refused.value.status_code == 422


def test_the_cells_of_the_notebook_run_and_the_profile_draws_itself(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    cells = json.loads((EXAMPLES / "flame_graph.ipynb").read_text())["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], names)
    said = capsys.readouterr().out
    assert "of the frames in samples have names" in said
    assert "<" in names["profile"]._repr_html_()  # type: ignore[attr-defined]


def test_the_trace_of_a_goroutine_that_waits_shows_for_how_long(tmp_path: Path) -> None:
    version = Version.GO1_26
    events = [
        Event(version, "GoCreate", [10, 5, 0, 0]),
        Event(version, "GoStart", [10, 5, 1]),
        Event(version, "GoBlock", [30, 0, 0]),
        Event(version, "GoUnblock", [500, 5, 2, 0]),
        Event(version, "GoStart", [7, 5, 3]),
        Event(version, "GoDestroy", [3]),
    ]
    body = b"".join(event.encode() for event in events)
    batch = Event(version, "EventBatch", [1, 1, 7, len(body)]).encode() + body
    path = tmp_path / "trace"
    path.write_bytes(version.header + batch + Event(version, "EndOfGeneration", []).encode())
    spent, blocks = loaded("go_trace").states(os.fspath(path))
    assert spent == {"runnable": 17, "running": 33, "waiting": 500}
    assert [(one.ticks, one.goroutine) for one in blocks] == [(500, 5)]
