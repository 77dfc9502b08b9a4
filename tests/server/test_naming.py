"""/symbolize, /symbolicate/v5, /source/v1, /profile and OTLP, and their refusals."""

from __future__ import annotations

import gzip
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.helpers.live import until
from tests.helpers.naming import ARROW, arrow, debug_id, job, lines, offset_of
from tests.helpers.programs import compiled
from tests.helpers.schemas import conforms
from tests.helpers.serving import TestClient
from tests.helpers.stores import Files
from whence.server.access import make_token
from whence.server.app import make_app
from whence.server.settings import RequestLimits, ServerSettings
from whence.stack_token import token_of
from whence.store import Store

MISSING = "ab" * 20


def test_lines_of_addresses_are_answered_by_frames_or_reasons_in_order(
    client: TestClient, files: Files, source: str
) -> None:
    asked = lines(
        {"build_id": files.build_id, "address": files.vaddr},
        {"build_id": MISSING, "address": 1},
        {"build_id": files.build_id.upper(), "address": hex(files.vaddr)},
        {"build_id": files.build_id, "address": 1 << 60},
        {"address": 5},
        {"build_id": files.build_id, "address": -1},
    )
    answer = client.post("/symbolize", content=asked)
    assert answer.status_code == 200
    out = [json.loads(line) for line in answer.text.splitlines()]
    assert [each["frames"][-1]["function"] if each["frames"] else each["reason"] for each in out] == [
        "sum", "no-file", "sum", out[3]["reason"], "not-an-address", "not-an-address",
    ]  # fmt: skip
    assert out[0]["frames"][-1]["file"] == source
    assert out[3]["reason"]
    for item in out:
        conforms("served", item)


def rows_of(answer: bytes) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.ipc.open_stream(answer).read_all().to_pylist()
    return rows


def test_an_arrow_stream_comes_back_with_names(client: TestClient, files: Files) -> None:
    body = arrow([files.build_id, MISSING], [files.vaddr, 1])
    answer = client.post("/symbolize", content=body, headers={"Content-Type": ARROW})
    assert answer.status_code == 200, answer.text
    assert [[frame["function"] for frame in row["frames"]] for row in rows_of(answer.content)] == [["sum"], []]


def test_a_long_arrow_stream_is_answered_row_by_row(client: TestClient, files: Files) -> None:
    body = arrow([files.build_id] * 40_000, [files.vaddr, 1] * 20_000)
    answer = client.post("/symbolize", content=body, headers={"Content-Type": ARROW})
    assert [bool(row["frames"]) for row in rows_of(answer.content)] == [True, False] * 20_000


def test_a_compressed_arrow_stream_is_refused(place: Path, files: Files) -> None:
    kind = {"Content-Type": ARROW}
    with TestClient(make_app(ServerSettings(store=str(place), limits=RequestLimits(addresses=100)))) as client:
        for packing in ("zstd", "lz4"):
            packed = arrow([files.build_id] * 50, [files.vaddr] * 50, packing)
            assert client.post("/symbolize", content=packed, headers=kind).status_code == 415
        many = arrow([files.build_id] * 101, [files.vaddr] * 101)
        assert client.post("/symbolize", content=many, headers=kind).status_code == 413
        some = arrow([files.build_id] * 100, [files.vaddr] * 100)
        assert client.post("/symbolize", content=some, headers=kind).status_code == 200


def test_an_answer_of_more_bytes_than_allowed_is_413(place: Path, files: Files) -> None:
    with TestClient(make_app(ServerSettings(store=str(place), limits=RequestLimits(answer_bytes=2000)))) as client:
        few, many = (lines(*[{"build_id": files.build_id, "address": files.vaddr}] * count) for count in (2, 100))
        assert client.post("/symbolize", content=few).status_code == 200
        assert client.post("/symbolize", content=many).status_code == 413
        stream = arrow([files.build_id] * 100, [files.vaddr] * 100)
        assert client.post("/symbolize", content=stream, headers={"Content-Type": ARROW}).status_code == 413
        asked = job(files, [[0, offset_of(files)]] * 100)
        assert client.post("/symbolicate/v5", content=json.dumps(asked)).status_code == 413


@pytest.mark.parametrize("headers", [{"Content-Encoding": "br"}, {"Content-Type": "image/png"}])
def test_a_body_of_another_kind_is_415(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/symbolize", content=b"{}", headers=headers)
    assert answer.status_code == 415
    conforms("error", answer.json())


def test_a_malformed_arrow_stream_is_400_and_a_stream_without_columns_422(client: TestClient) -> None:
    pa = pytest.importorskip("pyarrow")
    for damaged in (b"", b"nothing", b"\xff" * 100):
        assert client.post("/symbolize", content=damaged, headers={"Content-Type": ARROW}).status_code == 400
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("other", pa.int8())])):
        pass
    answer = client.post("/symbolize", content=sink.getvalue().to_pybytes(), headers={"Content-Type": ARROW})
    assert answer.status_code == 422


def test_a_body_may_be_gzip_but_not_a_gzip_bomb(client: TestClient, files: Files) -> None:
    asked = lines({"build_id": files.build_id, "address": files.vaddr})
    packed = {"Content-Encoding": "gzip"}
    assert "sum" in client.post("/symbolize", content=gzip.compress(asked), headers=packed).text
    assert client.post("/symbolize", content=gzip.compress(asked)[:-9], headers=packed).status_code == 400
    assert client.post("/symbolize", content=b"no gzip", headers=packed).status_code == 400
    assert client.post("/symbolize", content=gzip.compress(bytes(60 << 20)), headers=packed).status_code == 413


def test_more_lines_than_the_limit_are_413(place: Path) -> None:
    with TestClient(make_app(ServerSettings(store=str(place), limits=RequestLimits(addresses=3)))) as client:
        assert client.post("/symbolize", content=b"{}\n" * 4).status_code == 413


def test_a_file_put_after_a_miss_is_found(files: Files, tmp_path: Path) -> None:
    asked = lines({"build_id": files.build_id, "address": files.vaddr})
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        assert "no-file" in client.post("/symbolize", content=asked).text
        put = client.put(f"/buildid/{files.build_id}/debuginfo", content=files.debug.read_bytes())
        assert put.status_code == 201
        assert "sum" in client.post("/symbolize", content=asked).text


def test_a_file_put_by_another_process_is_found_by_all_endpoints(files: Files, tmp_path: Path) -> None:
    asked = lines({"build_id": files.build_id, "address": files.vaddr})
    stream, kind = arrow([files.build_id], [files.vaddr]), {"Content-Type": ARROW}
    stacks = json.dumps(job(files, [[0, offset_of(files)]]))
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:

        def named() -> list[bool]:
            return [
                "sum" in client.post("/symbolize", content=asked).text,
                bool(rows_of(client.post("/symbolize", content=stream, headers=kind).content)[0]["frames"]),
                "sum" in client.post("/symbolicate/v5", content=stacks).text,
                "<b>sum</b>" in client.get(f"/binary/{files.build_id}?address={files.vaddr:x}").text,
            ]

        assert named() == [False] * 4
        with Store(tmp_path / "store") as other:
            other.add(files.symbols)
        assert until(lambda: named() == [True] * 4)
        assert "program.c" not in client.post("/symbolize", content=asked).text
        with Store(tmp_path / "store") as other:
            other.add(files.debug)
        assert until(lambda: "program.c" in client.post("/symbolize", content=asked).text)
        assert named() == [True] * 4
        assert rows_of(client.post("/symbolize", content=stream, headers=kind).content)[0]["frames"][0]["line"]


# Mozilla's API


def test_stacks_are_named_by_debug_id_and_offset(client: TestClient, files: Files, source: str) -> None:
    offset = offset_of(files)
    asked = job(files, [[0, offset + 1], [1, 16], [-1, 16], [0, -1]])
    answer = client.post("/symbolicate/v5", content=json.dumps(asked), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    first, second, third, fourth = result["stacks"][0]
    assert first["function"] == "sum"
    assert first["frame"] == 0
    assert (first["module"], first["module_offset"]) == ("program", hex(offset + 1))
    assert first["function_offset"] == "0x1"
    assert int(first["function_size"], 16) > 1
    assert first["file"] == source
    assert first["line"] > 0
    assert second == {"frame": 1, "module": "other", "module_offset": "0x10"}
    assert third["frame"] == 2
    assert "function" not in fourth
    key = f"program/{debug_id(files.build_id)}"
    assert result["found_modules"] == {key: True, f"other/{'1' * 33}": False, f"unused/{'2' * 33}": None}


def test_an_inlined_call_is_in_inlines_innermost_first(client: TestClient, files: Files, place: Path) -> None:
    with Store(place) as store, store.open(files.build_id) as binary:
        chains = [(vaddr, binary.lookup(vaddr)) for vaddr in range(files.vaddr, files.vaddr + 64)]
    vaddr, chain = max(chains, key=lambda each: len(each[1]))
    assert len(chain) > 1
    offset = offset_of(files) + vaddr - files.vaddr
    answer = client.post("/symbolicate/v5", content=json.dumps({"jobs": [job(files, [[0, offset]])]}))
    frame = answer.json()["results"][0]["stacks"][0][0]
    assert [each["function"] for each in frame["inlines"]] == [each.function for each in chain[:-1]]
    assert frame["function"] == chain[-1].function


def test_an_id_of_zeros_matches_nothing(client: TestClient) -> None:
    asked = {"memoryMap": [["a", "0" * 33]], "stacks": [[[0, 1]]]}
    result = client.post("/symbolicate/v5", json=asked).json()["results"][0]["found_modules"]
    assert result == {f"a/{'0' * 33}": False}


@pytest.mark.parametrize(
    "asked",
    [
        b"", b"[]", b"nothing", b"[" * 100_000, b"{}", {"jobs": 1}, {"jobs": [{}] * 11}, {"jobs": [{}]},
        {"memoryMap": [], "stacks": [[[0, 1]]]}, {"memoryMap": [["a", "b" * 33]], "stacks": [[[0]]]},
        {"memoryMap": [["a", "b" * 33]], "stacks": [[[0, 1.5]]]}, {"memoryMap": [["a/\u0000", "b" * 33]], "stacks": []},
        {"memoryMap": [["a", "not hex"]], "stacks": []}, {"memoryMap": [["\ud800", "ab"]], "stacks": []},
        {"memoryMap": [["a", "b" * 33]], "stacks": [[[0, -2]]]}, {"memoryMap": "ab", "stacks": []},
    ],
)  # fmt: skip
def test_a_malformed_job_is_400_with_a_title(client: TestClient, asked: Any) -> None:
    content = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    answer = client.post("/symbolicate/v5", content=content)
    assert answer.status_code == 400, answer.text
    assert answer.json()["title"]


def test_a_source_file_is_found_by_an_offset_in_it(client: TestClient, files: Files, source: str) -> None:
    asked = {
        "debugName": "program", "debugId": debug_id(files.build_id), "moduleOffset": hex(offset_of(files)),
        "file": source,
    }  # fmt: skip
    answer = client.post("/source/v1", json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.json()["source"] == Path(source).read_text()
    assert client.post("/source/v1", json=asked | {"file": "/etc/passwd"}).status_code == 404
    assert client.post("/source/v1", json=asked | {"moduleOffset": "0xfffffffff"}).status_code == 404
    assert client.post("/source/v1", json=asked | {"moduleOffset": "5"}).status_code == 400
    assert client.post("/source/v1", json={"debugName": 1}).status_code == 400


def test_instructions_have_their_frames_if_these_are_requested(client: TestClient, files: Files) -> None:
    pytest.importorskip("capstone")
    asked = {"debugId": debug_id(files.build_id), "startAddress": hex(offset_of(files)), "size": "0x30"}
    plain = client.post("/asm/v1", json=asked).json()
    answer = client.post("/asm/v1", json=asked | {"frames": True}).json()
    assert "chains" not in plain
    assert [row[:2] for row in answer["instructions"]] == plain["instructions"]
    assert answer["vaddr"] == hex(files.vaddr)
    with whence.open(files.whole) as binary:
        for offset, _, chain in answer["instructions"]:
            frames = binary.lookup(files.vaddr + offset)
            assert answer["chains"][chain] == [[each.function, each.file, each.line] for each in reversed(frames)]


def test_names_that_are_not_utf_8_are_escaped_in_json(client: TestClient, tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    program = tmp_path / "program"
    shutil.copy(compiled(), program)
    content = program.read_bytes()
    program.write_bytes(content.replace(b"program.c\0", b"progr\xe4m.c\0"))
    assert program.read_bytes() != content
    with Store(tmp_path / "own") as store, whence.open(program) as binary:
        store.add(program)
        ((function, *_),) = binary.parts("sum")
        build_id = binary.build_id
    asked = {"debugId": debug_id(build_id), "startAddress": hex(function.vaddr), "size": "0x8", "frames": True}
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "own")))) as own:
        answer = own.post("/asm/v1", json=asked)
        assert answer.status_code == 200, answer.text
        assert r"progr\udce4m.c" in answer.text
        token = token_of([(build_id, function.vaddr)])
        for accept, name in (("application/json", r"\udce4m.c"), ("text/plain", r"\xe4m.c"), ("text/html", r"\xe4m.c")):
            answer = own.get(f"/stack/{token}", headers={"Accept": accept})
            assert (answer.status_code, name in answer.text) == (200, True), answer.text
    answer = client.post("/asm/v1", content=rb'{"debugId":"\ud800","startAddress":"0x1","size":"0x1"}')
    assert answer.json() == {"error": "the store has no file with the debug id \ud800"}


def test_instructions_are_those_of_the_executable(client: TestClient, files: Files) -> None:
    pytest.importorskip("capstone")
    asked = {
        "debugName": "program", "debugId": debug_id(files.build_id), "name": "sum", "codeId": files.build_id,
        "startAddress": hex(offset_of(files)), "size": "0x8", "continueUntilFunctionEnd": True,
    }  # fmt: skip
    with whence.open(files.whole, demangle=True) as binary:
        (function,) = binary.parts(files.vaddr)[0]
        expected = binary.listing(files.vaddr).instructions
    answer = client.post("/asm/v1", json=asked).json()
    assert (answer["startAddress"], answer["size"]) == (asked["startAddress"], hex(function.length))
    assert (answer["arch"], answer["syntax"]) == ("x86_64", ["Intel"])
    assert answer["instructions"] == [[each.vaddr - files.vaddr, each.text] for each in expected]
    short = client.post("/asm/v1", json=asked | {"continueUntilFunctionEnd": False}).json()
    assert short["size"] == "0x8"
    assert "debug id" in client.post("/asm/v1", json=asked | {"debugId": "1" * 33}).json()["error"]
    assert "error" in client.post("/asm/v1", json=asked | {"startAddress": "0xffffffffffffffff"}).json()
    malformed: list[Any] = [{}, [], asked | {"size": 8}, asked | {"startAddress": "12"}]
    for body in malformed:
        assert client.post("/asm/v1", json=body).status_code == 400


# profiles


def profile_in(files: Files, format: str) -> bytes:
    """Return a profile with one stack of two addresses in the program."""
    from tests.helpers.profiles import program_profile
    from whence.profiles.formats import registry as formats

    return formats.to_bytes(program_profile(files.whole), format, "profile")


@contextmanager
def backend(status: int = 200) -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    """Run a server that records requests; yield its address and the requests."""
    came: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.send_header("X-Backend", "yes")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()


def test_a_profile_is_returned_named_in_the_requested_format(client: TestClient, files: Files) -> None:
    body = profile_in(files, "pprof")
    answer = client.post("/profile", content=body)
    assert answer.status_code == 200, answer.text
    assert b"sum" in gzip.decompress(answer.content)
    assert answer.headers["x-whence-named"] == answer.headers["x-whence-locations"]
    for format in ("folded", "speedscope", "firefox", "flamegraph", "otlp", "top"):
        named = client.post("/profile", params={"format": format}, content=body)
        assert named.status_code == 200, (format, named.text)
        assert b"sum" in named.content, format
    assert client.post("/profile?format=other", content=body).status_code == 400
    assert client.post("/profile", content=b"\x1f\x8bdamaged").status_code in (400, 422)


@pytest.mark.parametrize(("kind", "format"), [("application/x-protobuf", "otlp"), ("application/json", "otlp-json")])
@pytest.mark.parametrize("packed", [False, True])
def test_otlp_is_returned_named(client: TestClient, files: Files, kind: str, format: str, packed: bool) -> None:
    body = profile_in(files, format)
    headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
    answer = client.post("/v1development/profiles", content=gzip.compress(body) if packed else body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == kind
    assert b"sum" in answer.content
    assert b"sum" not in body


def test_otlp_of_another_kind_is_415_and_damaged_422(client: TestClient) -> None:
    path = "/v1development/profiles"
    assert client.post(path, content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    damaged = client.post(path, content=b"\xff" * 9, headers={"Content-Type": "application/x-protobuf"})
    assert damaged.status_code == 422


def test_otlp_is_forwarded_named_with_the_headers_of_the_request(place: Path, files: Files) -> None:
    body = profile_in(files, "otlp")
    headers = {"Content-Type": "application/x-protobuf", "Authorization": "Bearer x", "X-Scope-OrgID": "team"}
    with backend(202) as (url, came):
        with TestClient(make_app(ServerSettings(store=str(place), forward=url))) as client:
            answer = client.post("/v1development/profiles", content=body, headers=headers)
        ((path, told, sent),) = came
    assert (answer.status_code, answer.content, answer.headers["x-backend"]) == (202, b"ok", "yes")
    assert path == "/v1development/profiles"
    assert told["authorization"] == "Bearer x"
    assert told["x-scope-orgid"] == "team"
    assert told["content-length"] == str(len(sent))
    assert b"sum" in sent
    with TestClient(make_app(ServerSettings(store=str(place), forward=url))) as client:
        assert client.post("/v1development/profiles", content=body, headers=headers).status_code == 502


def test_a_token_of_this_server_is_not_forwarded(place: Path, files: Files, tmp_path: Path) -> None:
    token, line = make_token("read", "ci")
    (tmp_path / "tokens").write_text(line + "\n")
    body = profile_in(files, "otlp")
    with backend() as (url, came):
        settings = ServerSettings(store=str(place), forward=url, token_file=str(tmp_path / "tokens"))
        with TestClient(make_app(settings)) as client:
            for value in (f"Bearer {token}", f"bearer  {token} ", "Bearer of-the-backend"):
                headers = {"Content-Type": "application/x-protobuf", "Authorization": value}
                assert client.post("/v1development/profiles", content=body, headers=headers).status_code == 200
        forwarded = [headers.get("authorization") for _, headers, _ in came]
    assert forwarded == [None, None, "Bearer of-the-backend"]
