"""Where PDB files of programs are found: beside them, in folders, on symbol servers; and which ones are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import whence
from tests.forge import pdb, pe
from tests.forge import server as behave
from tests.forge.minidump import Dump, context, rsds
from tests.forge.minidump import Module as DumpedModule
from tests.forge.minidump import Thread as DumpedThread
from tests.forge.server import serving
from whence._base.errors import WrongUse
from whence.locate.cache import Cache
from whence.locate.debug_files import DebugFiles
from whence.locate.debuginfod import Limits, allowing
from whence.locate.pdb import pdb_request
from whence.locate.search import Search
from whence.locate.symbol_server import SymbolServer
from whence.objects.ids import DebugId
from whence.objects.opening import open_object
from whence.objects.pe import PeFile
from whence.objects.pe.layout import DEBUG
from whence.symbolize import Core, Symbolizer

VADDR = pe.BASE + pe.PAGE + 0x20
ID = "232221202524272628292A2B2C2D2E2F" + "1"
PATH = f"app.pdb/{ID}/app.pdb"


def program(tmp_path: Path, path: bytes = b"Z:\\build\\app.pdb", age: int = 1) -> Path:
    record = pe.codeview(2 * pe.PAGE, pe.PAGE + 0x1000, path, age)
    sections = [pe.Section(".text", b"\xcc" * 0x1000, pe.CODE), pe.Section(".rdata", record)]
    directories = {DEBUG: (2 * pe.PAGE, 28)}
    made = tmp_path / "program.exe"
    made.write_bytes(pe.forge(sections, directories=directories))
    return made


def search(program: Path, debug_files: DebugFiles) -> Search:
    with open_object(program) as file:
        result = debug_files.debug_file(file)
        if result.elf is not None:
            result.elf.close()
        return result


def put(path: Path, *, age: int = 1, guid: bytes = pdb.GUID) -> Path:
    made = pdb.program()
    made.age, made.guid = age, guid
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.forge())
    return path


def test_a_pdb_file_next_to_the_program_names_its_addresses(tmp_path: Path) -> None:
    for name in ("app.pdb", "program.pdb"):
        path = put(tmp_path / name)
        with whence.open(program(tmp_path)) as binary:
            assert [frame.function for frame in binary.lookup(VADDR)] == ["ns::low", "ns::C::get", "ns::run"]
        path.unlink()
    with whence.open(program(tmp_path)) as binary:
        assert binary.lookup(VADDR) == ()


def test_the_path_of_the_codeview_record_is_tried(tmp_path: Path) -> None:
    path = put(tmp_path / "elsewhere" / "built.pdb")
    result = search(program(tmp_path, str(path).encode()), DebugFiles(()))
    assert (result.path, result.how) == (str(path), "CodeView path")


@pytest.mark.parametrize("name", ["app.pdb", PATH, "deep/er/other.pdb"])
def test_debug_folders_are_searched_by_name_by_id_and_below(tmp_path: Path, name: str) -> None:
    put(tmp_path / "symbols" / name)
    assert search(program(tmp_path), DebugFiles([tmp_path / "symbols"])).path == str(tmp_path / "symbols" / name)


def test_a_pdb_file_of_another_guid_or_age_is_not_used(tmp_path: Path) -> None:
    for age, guid, fault in ((2, pdb.GUID, "the age is 2, expected 1"), (1, bytes(range(16)), "the build-id is")):
        path = put(tmp_path / "app.pdb", age=age, guid=guid)
        result = search(program(tmp_path), DebugFiles(()))
        assert not result
        assert any(tried.path == str(path) and fault in tried.detail for tried in result.tried), result.tried


def test_a_cabinet_is_reported_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "symbols" / f"app.pdb/{ID}/app.pd_"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"MSCF" + bytes(100))
    result = search(program(tmp_path), DebugFiles([tmp_path / "symbols"]))
    assert not result
    assert any(tried.path == str(path) and "a cabinet" in tried.detail for tried in result.tried)


def test_names_that_lead_out_of_a_folder_are_not_used(tmp_path: Path) -> None:
    for name in (b"..", b"", b"a\\..", b"x/.."):
        with open_object(program(tmp_path, name)) as file:
            assert pdb_request(file) is None
    with open_object(program(tmp_path, b"C:\\a\\..\\app.pdb")) as file:
        request = pdb_request(file)
        assert request is not None
        assert request.path == PATH
        assert request.packed_path == PATH[:-1] + "_"


def test_a_symbol_server_is_asked_once_for_name_guid_and_age(tmp_path: Path) -> None:
    data = pdb.program().forge()
    said: list[str] = []
    path = program(tmp_path)
    with serving(behave.whole(data)) as server:
        client = SymbolServer([server.url], Cache(tmp_path / "cache"), log=said.append)
        for _ in range(2):
            result = search(path, DebugFiles((), fetchers=[("symbol server", client)]))
            assert result.how == "symbol server"
            assert Path(result.path).read_bytes() == data
        client.close()
    assert server.seen == [(f"/{PATH}", "")]
    assert said[0] == f"symbol server: GET {server.url}/{PATH}"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (pdb.Pdb(guid=bytes(range(16))).forge(), "invalid"),
        (b"MSCF" + bytes(1000), "invalid"),
        (pdb.program().forge()[:2000], "invalid"),
        (bytes(1 << 21), "limit"),
    ],
)
def test_another_answer_of_a_symbol_server_is_not_kept(tmp_path: Path, body: bytes, fault: str) -> None:
    said: list[str] = []
    with serving(behave.whole(body)) as server:
        limits = Limits(size=1 << 20, tries=1)
        client = SymbolServer([server.url], Cache(tmp_path / "cache"), limits=limits, log=said.append)
        assert client.fetch_pdb("app.pdb", DebugId.parse(ID)) is None
        client.close()
    assert any(fault in line for line in said), said
    assert not list((tmp_path / "cache").rglob("*.debuginfo"))


def test_no_server_is_asked_unless_the_option_says_so(tmp_path: Path) -> None:
    path = program(tmp_path)
    with serving(behave.whole(pdb.program().forge())) as server:
        with whence.open(path, cache=str(tmp_path / "cache")) as binary:
            assert binary.lookup(VADDR) == ()
        assert not server.seen
        with whence.open(path, cache=str(tmp_path / "cache"), symbol_server=server.url) as binary:
            assert len(binary.lookup(VADDR)) == 3
    denied = SymbolServer(["http://localhost:1"], Cache(tmp_path / "other"), allow=allowing(["/elsewhere/*"]))
    assert denied.fetch_pdb("app.pdb", DebugId.parse(ID), str(path)) is None


def test_an_invalid_server_is_refused() -> None:
    with pytest.raises(WrongUse, match="invalid symbol server 'ftp://x'"):
        SymbolServer(["ftp://x"], Cache("/nonexistent"))


def test_a_given_pdb_file_completes_the_program(tmp_path: Path) -> None:
    given = put(tmp_path / "given" / "x.pdb")
    with whence.open(program(tmp_path), binaries=str(given)) as binary:
        assert len(binary.lookup(VADDR)) == 3
    shutil.rmtree(given.parent)


def test_a_module_of_a_minidump_is_fetched_by_its_time_and_size_and_its_pdb_file_by_its_guid(tmp_path: Path) -> None:
    path = program(tmp_path)
    with open_object(path) as file:
        assert isinstance(file, PeFile)
        time, size, code_id = file.header.time, file.header.image_size, file.code_id
    module = DumpedModule(0x50000, size, "C:\\bin\\app.exe", rsds("Z:\\build\\app.pdb", pdb.GUID), time)
    thread = DumpedThread(1, context({"rip": 0x50000 + pe.PAGE + 0x20, "rsp": 0x7000}), 0x7000, bytes(16))
    (tmp_path / "app.dmp").write_bytes(Dump([module], [thread], platform=2).build())
    core = Core(tmp_path / "app.dmp")
    with serving(behave.whole(path.read_bytes()), behave.whole(pdb.program().forge())) as server:
        for _ in range(2):
            with Symbolizer(cache=str(tmp_path / "cache"), symbol_server=server.url) as symbolizer:
                (stack,) = core.stacks(symbolizer)
            names = [frame.function for frame in stack.frames[0].place.frames]
            assert names == ["ns::low", "ns::C::get", "ns::run"]
        assert server.seen == [(f"/app.exe/{code_id}/app.exe", ""), (f"/{PATH}", "")]


def test_the_pdb_file_alone_names_a_module_whose_program_no_server_has(tmp_path: Path) -> None:
    module = DumpedModule(0x50000, 0x9000, "C:\\bin\\app.exe", rsds("app.pdb", pdb.GUID))
    thread = DumpedThread(1, context({"rip": 0x50000 + pe.PAGE + 0x20, "rsp": 0x7000}), 0x7000, bytes(16))
    (tmp_path / "app.dmp").write_bytes(Dump([module], [thread], platform=2).build())
    with serving(behave.status(404), behave.whole(pdb.program().forge())) as server:
        with Symbolizer(cache=str(tmp_path / "cache"), symbol_server=server.url) as symbolizer:
            (stack,) = Core(tmp_path / "app.dmp").stacks(symbolizer)
        assert [frame.function for frame in stack.frames[0].place.frames] == ["ns::low", "ns::C::get", "ns::run"]
        assert server.seen[-1] == (f"/{PATH}", "")
    with Symbolizer() as symbolizer:  # no server is used without the option
        (stack,) = Core(tmp_path / "app.dmp").stacks(symbolizer)
    assert stack.frames[0].place.frames == ()
