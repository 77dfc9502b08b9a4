"""Requests for names that cost more than their bodies are worth: refused, or answered within bounds.

Each runs in a process with the application and no network, so that its memory is the server's.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.naming import ARROW, arrow, lines
from tests.helpers.serving import TestClient
from tests.hostile import bounded
from whence.locate.search import FileQuery
from whence.locator.locator import Locator
from whence.server.app import make_app
from whence.server.arrow import LONGEST_TEXT
from whence.server.bodies import Refusal, count_profile_values
from whence.server.settings import RequestLimits, ServerSettings
from whence.server.symbolication import SymbolicationEndpoints
from whence.store import Store, wanted

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

MEGABYTES = 130  # of the application and pyarrow, before a request
LONG_NAME = "n" * 1000


def post(store: str, path: str, body: bytes, headers: dict[str, str], limits: dict[str, int]) -> tuple[int, str]:
    """The status of an answer, and its text if it is an error."""
    settings = ServerSettings(store=store, limits=RequestLimits(**limits))
    with TestClient(make_app(settings), raise_server_exceptions=False) as client:
        answer = client.post(path, content=body, headers=headers)
    return answer.status_code, answer.text if answer.status_code != 200 else ""


def asked(
    place: Path,
    path: str,
    body: bytes,
    headers: dict[str, str] | None = None,
    *,
    seconds: float = 5.0,
    megabytes: float = 60.0,
    **limits: int,
) -> tuple[int, str]:
    """The answer of a process of its own; `megabytes` are those of the request, with its body."""
    run = bounded(
        post, str(place / "store"), path, body, headers or {}, limits,
        seconds=seconds, megabytes=MEGABYTES + megabytes, stored=len(body),
    )  # fmt: skip
    assert run.answer is not None, run.error
    status, text = run.answer
    return status, text


def asked_in_arrow(place: Path, columns: dict[str, Any], *, megabytes: float = 100.0) -> tuple[int, str]:
    return asked(place, "/symbolize", stream(columns), {"Content-Type": ARROW}, megabytes=megabytes)


def refused(place: Path, body: bytes, **limits: int) -> tuple[int, str]:
    """The answer of this process to an Arrow stream: for bodies that would cost little even without their bound."""
    return post(str(place / "store"), "/symbolize", body, {"Content-Type": ARROW}, limits)


def stream(columns: dict[str, Any]) -> bytes:
    """A stream of one batch."""
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def addresses(count: int) -> Any:
    return pa.array([0] * count, pa.uint64())


# The module's name in each frame


def long_names(frames: int) -> bytes:
    """A job whose answer repeats the name of its module for each frame."""
    stack = ",".join(["[0,1]"] * frames)
    return f'{{"memoryMap":[["{LONG_NAME}","{"1" * 33}"]],"stacks":[[{stack}]]}}'.encode()


def test_a_module_s_name_is_charged_for_each_frame(tmp_path: Path) -> None:
    status, text = asked(tmp_path, "/symbolicate/v5", long_names(200_000), answer_bytes=16 << 20)
    assert status == 413
    assert "16777216 bytes" in text


def streamed(store: str, body: bytes) -> tuple[int, int]:
    """The length that a large answer announces, and the bytes that are sent."""

    async def sent(response: Any) -> int:
        return sum([len(piece) async for piece in response.body_iterator])

    server = make_app(ServerSettings(store=store)).server
    response = SymbolicationEndpoints(server)._symbolicate(body)
    return int(response.headers["Content-Length"]), asyncio.run(sent(response))


def test_a_large_answer_is_sent_in_pieces(tmp_path: Path) -> None:
    body = long_names(100_000)
    run = bounded(streamed, str(tmp_path / "store"), body, seconds=5, megabytes=MEGABYTES + 40)
    announced, sent = run.answer
    assert announced == sent > 100 << 20


# Values of JSON


def test_a_body_of_empty_lists_is_refused_before_they_are_made(tmp_path: Path) -> None:
    body = b'{"memoryMap":[],"stacks":[' + b"[]," * 5_000_000 + b"[]]}"
    status, text = asked(tmp_path, "/symbolicate/v5", body)
    assert status == 413
    assert "more than 4000000 values" in text


EMPTY_LISTS = b' {"resourceProfiles":[' + b"[]," * 6_000_000 + b"[]]}"


@pytest.mark.parametrize("body", [EMPTY_LISTS, gzip.compress(EMPTY_LISTS)], ids=["plain", "gzip"])
def test_a_profile_of_empty_lists_is_refused(tmp_path: Path, body: bytes) -> None:
    status, text = asked(tmp_path, "/profile", body, megabytes=90)
    assert status == 413
    assert "more than 4000000 values" in text


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-protobuf"])
def test_otlp_of_more_values_than_allowed_is_refused(tmp_path: Path, kind: str, packed: bool) -> None:
    body = b' {"resourceProfiles":[' + b"[]," * 1000 + b"[]]}"
    body = gzip.compress(body) if packed else body
    path, headers = "/v1development/profiles", {"Content-Type": kind}
    status, text = post(str(tmp_path / "store"), path, body, headers, {"json_values": 1000})
    assert status == 413
    assert "more than 1000 values" in text


def test_a_profile_that_unpacks_to_more_than_a_body_may_have_is_refused(tmp_path: Path) -> None:
    status, text = asked(tmp_path, "/profile", gzip.compress(bytes(200 << 20)))
    assert status == 413
    assert "decompresses to more than the 67108864 bytes allowed" in text
    for content in (bytes(2 << 20), b"[" + b" " * (2 << 20)):
        body = gzip.compress(content)
        status, _ = post(str(tmp_path / "store"), "/profile", body, {}, {"body_bytes": 1 << 20})
        assert status == 413


def test_punctuation_in_texts_is_not_counted() -> None:
    plain = json.dumps({"a": ["[,{\\", '"[', "[[[" * 50_000, ["\\"], 'x\\"' * 30_000]}).encode()
    for body in (plain, b"\xef\xbb\xbf\n" + plain, gzip.compress(plain[:70_001]) + gzip.compress(plain[70_001:])):
        assert count_profile_values(body, 7, 1 << 20) == 7
        with pytest.raises(Refusal):
            count_profile_values(body, 6, 1 << 20)


def test_bodies_that_are_decoded_at_the_same_time_share_one_limit(tmp_path: Path) -> None:
    body = b'{"memoryMap":[],"stacks":[' + b"[]," * 99 + b"[]]}"
    settings = ServerSettings(store=str(tmp_path / "store"), limits=RequestLimits(json_values_at_once=300))
    with TestClient(make_app(settings)) as client:
        server: Any = client.app.server  # type: ignore[attr-defined]
        for _ in range(3):  # what a request takes is released
            assert client.post("/symbolicate/v5", content=body).status_code == 200
        with server.json_values.part() as other:
            other.take(200)
            refused = client.post("/symbolicate/v5", content=body)
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        assert client.post("/symbolicate/v5", content=body).status_code == 200
        assert server.json_values.used == 0


# Arrow


def overlapping(rows: int, length: int, values: Any) -> Any:
    """Lists that are all the same values."""
    return pa.ListViewArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([length] * rows, pa.int32()), values)


def test_list_views_of_addresses_are_refused(tmp_path: Path) -> None:
    """300 million addresses in 560 KB."""
    views = overlapping(5000, 60_000, addresses(60_000))
    status, text = asked_in_arrow(tmp_path, {"build_id": ["ab" * 20] * 5000, "address": views})
    assert status == 415
    assert "column address has list views" in text


def test_list_views_are_refused_inside_other_types(tmp_path: Path) -> None:
    views = overlapping(10, 100, addresses(100))
    inside = [
        pa.StructArray.from_arrays([pa.StructArray.from_arrays([views], ["inner"])], ["outer"]),
        pa.ListArray.from_arrays(pa.array(range(11), pa.int32()), views),
        pa.UnionArray.from_sparse(pa.array([0] * 10, pa.int8()), [views]),
        overlapping(10, 10, views),
    ]
    for column in inside:
        body = stream({"build_id": ["ab" * 20] * 10, "address": addresses(10), "other": column})
        status, text = refused(tmp_path, body)
        assert status == 415, column.type
        assert "column other has list views" in text


def test_views_that_share_a_long_text_are_refused(tmp_path: Path) -> None:
    view = pa.array(["x" * (1 << 20)], pa.string_view())
    rows = 20_000
    repeated = pa.Array.from_buffers(
        pa.string_view(), rows, [None, pa.py_buffer(view.buffers()[1].to_pybytes() * rows), view.buffers()[2]]
    )
    status, text = asked_in_arrow(
        tmp_path, {"build_id": ["ab" * 20] * rows, "address": addresses(rows), "note": repeated}
    )
    assert status == 413
    assert "text views" in text


@pytest.mark.parametrize("name", ["build_id", "address"])
def test_a_dictionary_s_long_text_is_refused_where_it_would_be_parsed_for_each_row(tmp_path: Path, name: str) -> None:
    for size, status in ((LONGEST_TEXT, 200), (LONGEST_TEXT + 1, 413)):
        text = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array(["a" * size]))
        columns = {"build_id": ["ab" * 20] * 100, "address": addresses(100)} | {name: text}
        answer = refused(tmp_path, stream(columns))
        assert answer[0] == status, answer
    assert f"column {name} has a text of {LONGEST_TEXT + 1} bytes, at most {LONGEST_TEXT} are allowed" in answer[1]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_addresses_in_lists_are_counted(tmp_path: Path, kind: Any) -> None:
    lists = pa.array([[0] * 600, [0] * 600], kind(pa.uint64()))
    body = stream({"build_id": ["ab" * 20] * 2, "address": lists})
    assert refused(tmp_path, body, addresses=1200) == (200, "")
    status, text = refused(tmp_path, body, addresses=1199)
    assert status == 413
    assert "the lists have more than 1199 addresses" in text


def test_addresses_in_tensors_are_counted(tmp_path: Path) -> None:
    lists = pa.array([[1] * 600] * 2, pa.list_(pa.int64(), 600))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [600]), lists)
    assert refused(tmp_path, stream({"build_id": ["ab" * 20] * 2, "address": tensors}), addresses=1199)[0] == 413


def test_fixed_size_lists_of_addresses_without_bytes_are_refused(tmp_path: Path) -> None:
    nulls = pa.Array.from_buffers(pa.list_(pa.null(), 1 << 30), 1, [None], children=[pa.nulls(1 << 30)])
    status, text = refused(tmp_path, stream({"build_id": ["ab" * 20], "address": nulls}))
    assert status == 413
    assert "the lists have more than 1000000 addresses" in text


def test_types_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    kind: Any = pa.uint64()
    for _ in range(500):
        kind = pa.struct([("s", kind)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("build_id", pa.string()), ("address", pa.uint64()), ("other", kind)])):
        pass
    status, text = refused(tmp_path, sink.getvalue().to_pybytes())
    assert status == 400
    assert "damaged Arrow stream" in text


def test_runs_and_dictionaries_in_other_columns_stay_as_small_as_they_are(tmp_path: Path) -> None:
    rows, text = 100_000, "x" * (1 << 20)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([text]))
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    columns = {"build_id": ["ab" * 20] * rows, "address": addresses(rows), "runs": runs, "words": words}
    assert asked_in_arrow(tmp_path, columns, megabytes=120)[0] == 200


def test_buffers_of_a_stream_that_overlap_are_refused(tmp_path: Path) -> None:
    """Every buffer of a batch is the same part of its body."""
    full = stream({"build_id": ["ab" * 20] * 64, "address": addresses(64), "other": addresses(64)})
    first = full.index((512).to_bytes(8, "little"))  # the lengths of two columns of 64 numbers
    second = full.index((512).to_bytes(8, "little"), first + 8)
    damaged = bytearray(full)
    damaged[second : second + 8] = (1 << 20).to_bytes(8, "little")
    status, text = refused(tmp_path, bytes(damaged))
    assert status == 400
    assert "overlap or extend past its end" in text


# Build-ids


def build_ids(count: int) -> list[str]:
    return [f"{number:040x}" for number in range(1, count + 1)]


def in_lines(names: list[str]) -> tuple[str, bytes, str]:
    return "/symbolize", lines(*({"build_id": each, "address": 1} for each in names)), ""


def in_arrow(names: list[str]) -> tuple[str, bytes, str]:
    return "/symbolize", arrow(names, [1] * len(names)), ARROW


def in_arrow_lists(names: list[str]) -> tuple[str, bytes, str]:
    """One stack, with a build-id for each address."""
    return "/symbolize", stream({"build_id": pa.array([names]), "address": pa.array([[1] * len(names)])}), ARROW


def in_arrow_dictionary(names: list[str]) -> tuple[str, bytes, str]:
    words = pa.array(names).dictionary_encode()
    return "/symbolize", stream({"build_id": words, "address": addresses(len(names))}), ARROW


def in_arrow_extension(names: list[str]) -> tuple[str, bytes, str]:
    raw = pa.array([bytes.fromhex(each)[-16:] for each in names], pa.binary(16))
    column = pa.ExtensionArray.from_storage(pa.uuid(), raw)
    return "/symbolize", stream({"build_id": column, "address": addresses(len(names))}), ARROW


def in_job(names: list[str]) -> tuple[str, bytes, str]:
    modules = [["program", f"{each[-32:].upper()}0"] for each in names]
    stacks = [[[index, 1] for index in range(len(names))]]
    return "/symbolicate/v5", json.dumps({"memoryMap": modules, "stacks": stacks}).encode(), ""


def in_profile(names: list[str]) -> tuple[str, bytes, str]:
    from whence.profiles.formats import registry as formats
    from whence.samples.model import Mapping, ProfileData, SampleType

    profile = ProfileData([SampleType("samples", "count")])
    for number, each in enumerate(names):
        start = 0x10000 * (number + 1)
        profile.mappings.append(Mapping(start, start + 0x1000, 0, f"/bin/{number}", each))
        profile.samples.add([profile.location(number, start + 16)], [1])
    return "/profile", formats.to_bytes(profile, "pprof", "profile"), ""


FORMS = [in_lines, in_arrow, in_arrow_lists, in_arrow_dictionary, in_arrow_extension, in_job, in_profile]
Form = Callable[[list[str]], tuple[str, bytes, str]]


@pytest.mark.parametrize("form", FORMS)
def test_more_build_ids_than_allowed_are_413_before_any_is_searched_for(
    tmp_path: Path, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[object] = []
    search = Locator.search

    def noted(self: Locator, *words: Any, **named: Any) -> Any:
        searched.append(words)
        return search(self, *words, **named)

    monkeypatch.setattr(Locator, "search", noted)
    settings = ServerSettings(store=str(tmp_path / "store"), limits=RequestLimits(build_ids=100))
    with TestClient(make_app(settings)) as client:
        for count, status in ((101, 413), (100, 200)):
            path, body, kind = form(build_ids(count))
            answer = client.post(path, content=body, headers={"Content-Type": kind})
            assert answer.status_code == status, answer.text
            if status == 413:
                assert "more than 100" in answer.json()["error"]
                assert not searched


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of requests: only a search for a build-id takes time, ten seconds."""
    clock = SimpleNamespace(now=1000.0, searches=0, keys=set())
    forged = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("whence.server.deadlines.time", forged)
    monkeypatch.setattr("whence.server.state.time", forged)
    search, candidates = Locator.search, Locator.candidates

    def slow(self: Locator, *words: Any, **named: Any) -> Any:
        clock.now += 10
        clock.searches += 1
        return search(self, *words, **named)

    def slow_candidates(self: Locator, wanted: FileQuery) -> Any:
        if wanted.key not in clock.keys:
            clock.now += 10
            clock.searches += 1
        clock.keys.add(wanted.key)
        return candidates(self, wanted)

    monkeypatch.setattr(Locator, "search", slow)
    monkeypatch.setattr(Locator, "candidates", slow_candidates)
    return clock


@pytest.mark.parametrize("form", [in_lines, in_arrow, in_profile])
def test_the_time_of_a_request_is_over_between_build_ids(tmp_path: Path, form: Form, clock: SimpleNamespace) -> None:
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        path, body, kind = form(build_ids(50))
        answer = client.post(path, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 503
        assert "within the time" in answer.json()["error"]
        assert clock.searches == 7


def test_answers_that_were_found_before_the_deadline_are_kept(tmp_path: Path, clock: SimpleNamespace) -> None:
    """Seven of fifty build-ids are searched for in the first request, the next seven in the second."""
    _, body, kind = in_arrow(build_ids(20))
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        statuses = [
            client.post("/symbolize", content=body, headers={"Content-Type": kind}).status_code for _ in range(3)
        ]
        assert statuses == [503, 503, 200]
        assert clock.searches == 20


# FileQuery


def test_wanted_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "CAPACITY", 20)
    monkeypatch.setattr(wanted, "NEW", 5)
    with Store(tmp_path / "store") as store:
        names = build_ids(100)
        for each in names:
            store.missed(each, "test")
        kept = {each.build_id for each in store.wanted()}
    assert 20 <= len(kept) <= 25
    assert kept == set(names[-len(kept) :])
