"""POST /profile: profiles are named in a confined process, with the store's files only."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.forge.jitdump import Dump
from tests.forge.perfdata import USER, Forge
from tests.helpers.profiles import program_profile
from tests.helpers.serving import TestClient, children_of
from tests.helpers.stores import Files
from whence.perfdata.source import MemorySpool
from whence.profiles.binaries import Binaries
from whence.profiles.formats import registry as formats
from whence.profiles.formats import written
from whence.server import parsing
from whence.server.app import make_app
from whence.server.settings import RequestLimits, ServerSettings

CODE = 0x7F0000001000


def recorded(maps: list[tuple[int, int, str]], chain: list[int], pid: int = 7) -> bytes:
    """Return a perf.data of one process with these maps (address, size, name) and one stack."""
    forge = Forge()
    records = [forge.mmap2(pid, address, size, 0, name, 1 + i) for i, (address, size, name) in enumerate(maps)]
    records.append(forge.sample(pid, pid, 15, [USER, *chain]))
    return forge.file(records, [(forge.attribute(clock=1), [1])])


@pytest.mark.parametrize("format", [*written.WRITTEN, written.PAGE])
def test_every_format_is_written_confined(client: TestClient, files: Files, format: str) -> None:
    if format == "arrow":
        pytest.importorskip("pyarrow")
    body = formats.to_bytes(program_profile(files.whole), "pprof")
    answer = client.post("/profile", params={"format": format}, content=body)
    assert answer.status_code == 200, answer.text
    named = program_profile(files.whole)
    assert int(answer.headers["x-whence-locations"]) == len(named.address)
    assert answer.headers["x-whence-named"] == "3"


def test_a_perf_map_of_the_server_names_nothing(client: TestClient) -> None:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    body = recorded([(CODE, 0x1000, "//anon")], [CODE + 4], os.getpid())
    path.write_text(f"{CODE:x} 1000 secret_of_the_server\n")
    try:
        answer = client.post("/profile?format=json", content=body)
    finally:
        path.unlink()
    assert answer.status_code == 200, answer.text
    assert "secret_of_the_server" not in answer.text


def test_a_jitdump_of_the_server_names_nothing(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "jit-7.dump"
    path.write_bytes(Dump().load(1, CODE, 32, "secret_of_the_server", 1).data)
    body = recorded([(CODE, 0x1000, "//anon"), (0x10000, 0x1000, str(path))], [CODE + 4])
    assert "secret_of_the_server" in str(formats.from_bytes(body).frames)
    assert "secret_of_the_server" not in str(formats.from_bytes(body, local=False).frames)
    answer = client.post("/profile?format=json", content=body)
    assert answer.status_code == 200, answer.text
    assert "secret_of_the_server" not in answer.text


def test_a_program_of_the_server_names_nothing(files: Files, tmp_path: Path) -> None:
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        for build_id in (None, ""):
            body = formats.to_bytes(program_profile(files.whole, build_id), "pprof")
            answer = client.post("/profile?format=json", content=body)
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-whence-named"] == "0"


def test_without_local_files_there_are_no_kernel_symbols_of_this_machine() -> None:
    with Binaries(local=False) as binaries:
        assert not binaries.symbol_lists.local
        assert binaries.symbol_lists.folders == ()


def test_a_profile_that_takes_more_memory_than_allowed_is_422_and_the_next_is_answered(
    place: Path, files: Files
) -> None:
    settings = ServerSettings(store=str(place), limits=RequestLimits(parse_bytes=64 << 20))
    body = b"main;work 1\n" * (5 << 20)
    with TestClient(make_app(settings)) as client:
        answer = client.post("/profile?format=pprof", content=body)
        assert answer.status_code == 422
        assert "memory" in answer.text
        small = formats.to_bytes(program_profile(files.whole), "pprof")
        assert client.post("/profile", content=small).status_code == 200


def test_a_process_that_crashes_over_a_profile_is_422_and_the_next_is_answered(
    client: TestClient, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = formats.to_bytes(program_profile(files.whole), "pprof")
    exchange = parsing.ConfinedParser.exchange

    def crashing(parser: parsing.ConfinedParser, *words: object) -> dict[str, object]:
        assert parser._fork_server is not None
        for child in children_of(parser._fork_server.pid):
            os.kill(child, signal.SIGSEGV)
        return exchange(parser, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(parsing.ConfinedParser, "exchange", crashing)
    assert client.post("/profile", content=body).status_code == 422
    monkeypatch.undo()
    assert client.post("/profile", content=body).status_code == 200


@pytest.mark.parametrize(
    "question",
    [{"find": 1}, {"find": "ab" * 20}, {"find": "ab" * 20, "kinds": [], "skip": -1}],
)
def test_a_malformed_question_of_the_process_is_refused(question: dict[str, object]) -> None:
    import contextlib

    with contextlib.ExitStack() as stack, pytest.raises(parsing.ParseFailed, match="malformed"):
        parsing.file_for(question, lambda wanted: iter(()), stack)


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"format": "passwd", "locations": 1, "named": 1, "missed": []},
        {"format": "pprof", "locations": "x", "named": 1, "missed": []},
        {"format": "pprof", "locations": 1, "named": 1, "missed": [1]},
    ],
)  # fmt: skip
def test_a_malformed_answer_of_the_process_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(parsing.ParseFailed, match="malformed"):
        parsing.checked_profile(answer, b"", 1)


def test_decompressed_records_stay_in_memory_in_the_sandbox() -> None:
    spool = MemorySpool()
    assert (spool.append(b"abc"), spool.append(b"de")) == (0, 3)
    assert (spool.size, spool.read(2, 2), bytes(spool.view())) == (5, b"cd", b"abcde")
