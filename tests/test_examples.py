"""The programs of examples/ do what they say."""

import base64
import ctypes
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import whence
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
    expected, unknown = example.symbolize(example.Question(addresses=[hex(address_of("sum")), "0x10"]))
    assert expected[0]["function"] == "sum"
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
    assert [(each.ticks, each.goroutine) for each in blocks] == [(500, 5)]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a library that has debug info."""
    compiled()  # skips without a compiler
    (tmp_path / "fast.c").write_text(
        "int twice(int x) { return x * 2; }\nint main_like(int x) { return twice(x) + 1; }\n"
    )
    flags = ["-g", "-O1", "-fno-inline", "-shared", "-fPIC", "-Wl,--build-id"]
    subprocess.run(["gcc", *flags, "fast.c", "-o", "fast.so"], cwd=tmp_path, check=True)
    path = tmp_path / "fast-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "fast.so", "pkg/fast.so")
        archive.writestr("pkg/__init__.py", "")
        archive.writestr("fast-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("fast-1.0.dist-info/RECORD", "")
    return path


def test_a_wheel_gets_archives_that_name_its_stripped_modules(wheel: Path, tmp_path: Path) -> None:
    example = loaded("wheel_archives")
    assert example.add_archives(wheel, tmp_path / "debug") == ["pkg/fast.so"]
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        record = {
            row.split(",")[0]: row.split(",")[1:] for row in archive.read("fast-1.0.dist-info/RECORD").decode().split()
        }
        for name in archive.namelist():
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            expected = (
                ["", ""] if name.endswith("RECORD") else [f"sha256={digest}", str(archive.getinfo(name).file_size)]
            )
            assert record[name] == expected
        archive.extractall(installed)
    module = installed / "pkg" / "fast.so"
    with ElfFile.open(module) as elf:
        assert not elf.has_debug_info
        assert (tmp_path / "debug" / ".build-id" / elf.build_id[:2] / f"{elf.build_id[2:]}.debug").exists()
    function = ctypes.CDLL(str(module)).twice
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    with whence.Symbolizer() as symbolizer:
        (named,) = symbolizer.symbolize(os.getpid(), [address])
    assert [(frame.function, frame.line) for frame in named.frames] == [("twice", 1)]
    assert example.add_archives(wheel) == []  # nothing left to strip


def test_an_archive_of_another_build_is_not_used(wheel: Path, tmp_path: Path) -> None:
    module = tmp_path / "fast.so"
    whence.lidia.create(compiled(), f"{module}.lidia")
    subprocess.run(["strip", module], check=True)
    with ElfFile.open(module) as elf:
        build_id = elf.build_id
    with whence.Locator() as locator:
        search = locator.find(build_id=build_id, path=str(module))
    assert search.path == str(module)
    assert any("the build-id is" in str(tried) for tried in search.tried)
