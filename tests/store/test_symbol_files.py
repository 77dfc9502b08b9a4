"""Symbol files of a store: made with archives, and served under the paths of symbol servers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import whence
from tests.forge import breakpad
from tests.helpers.formats import GUID, UUID, program, windows
from tests.helpers.programs import compiled
from tests.helpers.serving import TestClient
from whence._base.errors import WrongUse
from whence.cli import main
from whence.conversion import convert
from whence.objects.ids import DebugId
from whence.objects.opening import open_object
from whence.objects.pe import PeFile
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.store import Store
from whence.store.verify import verify


def id_of(path: Path) -> str:
    with open_object(path) as file:
        return file.build_id


def test_symbol_files_are_those_that_convert_writes(tmp_path: Path) -> None:
    path = compiled()
    convert(path, tmp_path / "program.gsym")
    convert(path, tmp_path / "program.sym")
    with Store(tmp_path / "store", also=("sym", "gsym")) as store:
        store.add(path)
        described = store.find(id_of(path))
        assert described is not None
        assert [*described.files] == ["debuginfo", "executable", "lidia", "gsym", "sym"]
        for kind in ("gsym", "sym"):
            with store.file(described.build_id, kind) as stored:
                assert stored is not None
                assert stored.read_bytes() == (tmp_path / f"program.{kind}").read_bytes()
        assert not list(verify(store))


def test_symbol_files_are_made_for_a_build_id_that_exists(tmp_path: Path) -> None:
    path = compiled()
    with Store(tmp_path / "store") as store:
        store.add(path)
        assert store.status(id_of(path), "sym") is None
    with Store(tmp_path / "store", also=("sym",)) as store:
        assert {outcome.outcome for outcome in store.add(path)} == {"same"}
        assert store.status(id_of(path), "sym") is not None
    with Store(tmp_path / "store") as store:  # a build-id that has some keeps them
        store.add(path)
        assert store.status(id_of(path), "sym") is not None
        store.remove(id_of(path))
        assert store.status(id_of(path), "sym") is None


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="gsym or sym, not 'pdb'"):
        Store(tmp_path / "store", also=("pdb",))


def test_the_command_makes_exports_and_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location, build_id = str(tmp_path / "store"), id_of(compiled())
    assert main(["store", "add", location, str(compiled()), "--also", "gsym,sym"]) == 0
    capsys.readouterr()
    assert main(["store", "show", location, build_id]) == 0
    shown = capsys.readouterr().out
    assert "\ngsym " in shown
    assert "\nsym " in shown
    assert main(["store", "export", location, build_id, "-o", str(tmp_path / "out")]) == 0
    with whence.open(tmp_path / "out" / "buildid" / build_id / "gsym") as binary:
        assert binary.build_id == build_id
    assert main(["store", "add", location, str(compiled()), "--also", "pdb"]) == 2


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "app").write_bytes(program())
    (tmp_path / "a.exe").write_bytes(windows())
    (tmp_path / "app.sym").write_bytes(breakpad.example())
    with Store(tmp_path / "store", also=("sym", "gsym")) as store:
        store.add(compiled(), tmp_path / "app", tmp_path / "a.exe")
    with Store(tmp_path / "store") as store:
        store.add(tmp_path / "app.sym")
    return TestClient(make_app(ServerSettings(str(tmp_path / "store"))))


def test_pe_files_are_served_by_their_code_id(client: TestClient, tmp_path: Path) -> None:
    code_id = PeFile.from_bytes(windows()).code_id
    for spelling in (code_id, code_id.lower(), code_id.upper()):
        assert client.get(f"/a.exe/{spelling}/a.exe").content == windows()
        assert client.get(f"/a.exe/{spelling}/a.sym").text.startswith(f"MODULE windows x86_64 {GUID.upper()}1b")
    assert client.get(f"/a.exe/{code_id[:8]}7777/a.exe").status_code == 404
    with Store(tmp_path / "store") as store:
        assert store.build_id_of_code(code_id) == GUID
        store.remove(GUID)
        assert store.build_id_of_code(code_id) == ""
        with pytest.raises(WrongUse):
            store.build_id_of_code("../../x")


def test_paths_of_breakpad_s_clients(client: TestClient) -> None:
    build_id = id_of(compiled())
    debug_id = DebugId.of_build_id(build_id)
    reply = client.get(f"/program/{debug_id.breakpad}/program.sym")
    assert reply.status_code == 200
    assert reply.text.startswith(f"MODULE Linux x86_64 {debug_id.breakpad} program\n")
    assert reply.headers["content-encoding"] == "gzip"
    assert client.head(f"/program/{debug_id.breakpad}/program.sym").status_code == 200
    plain = client.get(f"/program/{debug_id.breakpad}/program.sym", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == reply.content
    assert client.get(f"/any/{debug_id.breakpad.lower()}/any.sym").content == reply.content
    assert client.get(f"/app/{UUID.upper()}0/app.sym").text.startswith("MODULE mac arm64 ")
    windows_sym = client.get(f"/a.pdb/{GUID.upper()}1B/a.sym")
    assert windows_sym.text.startswith(f"MODULE windows x86_64 {GUID.upper()}1b a.pdb\n")


def test_a_symbol_file_that_was_added_is_served(client: TestClient) -> None:
    assert client.get(f"/app/{breakpad.DEBUG_ID}/app.sym").content == breakpad.example()


def test_paths_of_sentry_s_unified_layout(client: TestClient) -> None:
    build_id = id_of(compiled())
    for kind in ("debuginfo", "executable"):
        assert client.get(f"/{build_id[:2]}/{build_id[2:]}/{kind}").content == compiled().read_bytes()
    assert client.get(f"/{build_id[:2]}/{build_id[2:]}/breakpad").text.startswith("MODULE Linux")
    assert client.get(f"/{build_id[:2]}/{build_id[2:]}/gsym").content.startswith(b"MYSG")
    assert client.get(f"/{UUID[:2]}/{UUID[2:]}/executable").content == program()
    assert client.get(f"/{GUID[:2]}/{GUID[2:]}1b/executable").content == windows()
    assert client.get(f"/buildid/{build_id}/sym").text.startswith("MODULE Linux")


@pytest.mark.parametrize(
    "path",
    [
        f"/app/{'0' * 33}/app.sym",
        "/app/../app.sym",
        "/app/x/app.sym",
        f"/app/{'1' * 33}/app.sym",
        f"/{'1' * 2}/{'1' * 38}/breakpad",
        f"/{'1' * 2}/{'1' * 37}/breakpad",
        f"/app/{GUID}/app.txt",
    ],
)
def test_missing_files_are_404(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_cabinets_are_not_served_under_names_of_cabinets(client: TestClient) -> None:
    answer = client.get(f"/app.pdb/{'AB' * 16}1/app.pd_")
    assert answer.status_code == 404
    assert "cabinet" in answer.text


def test_a_missing_symbol_file_names_the_remedy(client: TestClient) -> None:
    reply = client.get(f"/app/{'1' * 33}/app.sym")
    assert "--also" in reply.text


def test_uploads_get_symbol_files(tmp_path: Path) -> None:
    settings = ServerSettings(str(tmp_path / "store"), also=("sym",))
    with TestClient(make_app(settings)) as client:
        reply = client.put("/upload/program", content=compiled().read_bytes())
        assert reply.status_code == 201, reply.text
        debug_id = DebugId.of_build_id(id_of(compiled())).breakpad
        assert client.get(f"/program/{debug_id}/program.sym").text.startswith("MODULE Linux")
        for data, identity in ((program(), UUID), (windows(), GUID), (breakpad.example(), breakpad.BUILD_ID)):
            reply = client.put("/upload", content=data)
            assert reply.status_code == 201, reply.text
            assert json.loads(reply.text)["build_id"] == identity


def test_modules_of_every_format_are_symbolicated(client: TestClient) -> None:
    modules = [["app", f"{UUID.upper()}0"], ["a.pdb", f"{GUID.upper()}1B"], ["app one", breakpad.DEBUG_ID]]
    body = {"memoryMap": modules, "stacks": [[[0, 4], [1, 0x1014], [2, 0x1010]]], "version": 5}
    reply = client.post("/symbolicate/v5", content=json.dumps(body)).json()
    (frames,) = reply["results"][0]["stacks"] if "results" in reply else reply["stacks"]
    assert [frame["function"] for frame in frames] == ["main", "main", "main(int, char**)"]


def test_symbol_files_are_stored_compressed(tmp_path: Path) -> None:
    with Store(tmp_path / "store", also=("sym",)) as store:
        store.add(compiled())
        stored = tmp_path / "store" / "buildid" / id_of(compiled()) / "sym.gz"
        assert gzip.decompress(stored.read_bytes()).startswith(b"MODULE ")
