"""Mutated bodies of every kind that the server reads: each is answered or refused, none is a 500 or ends the process.

WHENCE_MUTATIONS says how many of each kind there are, WHENCE_LAST_BODY where to leave the path and the body that was
sent last, for a process that crashes.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forge.mutations import mutated
from tests.helpers.naming import ARROW, debug_id, job, lines, offset_of
from tests.helpers.profiles import program_profile
from tests.helpers.serving import TestClient
from tests.helpers.stores import Files
from whence.profiles.formats import registry as formats
from whence.samples import wire
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.server.uploads import CONNECT_JSON, PROTO, PYROSCOPE
from whence.store import Store

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

COUNT = int(os.environ.get("WHENCE_MUTATIONS", "60"))
LAST = os.environ.get("WHENCE_LAST_BODY", "")
WITH_CAUSE = {501, 502, 503, 507}
PUNCTUATION = b'0123456789-+.eE"\\[]{},:ntfax\n '
OTLP = "/v1development/profiles"
Asked = tuple[str, str, bytes, dict[str, str]]  # method, path, body, headers


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def client(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    location = tmp_path_factory.mktemp("server") / "store"
    with Store(location) as store:
        store.add(files.stripped, files.debug)
    with TestClient(make_app(ServerSettings(store=str(location))), raise_server_exceptions=False) as client:
        yield client


def json_bodies(files: Files) -> list[Asked]:
    stacks = json.dumps(job(files, [[0, offset_of(files)], [1, 16], [-1, 16], [0, -1]], [])).encode()
    jobs = json.dumps({"jobs": [job(files, [[0, 1]]), job(files, [[2, 5]])]}).encode()
    source = {"debugName": "program", "debugId": debug_id(files.build_id), "moduleOffset": "0x1139", "file": "a.c"}
    asked = lines({"build_id": files.build_id, "address": files.vaddr}, {"build_id": "ab" * 20, "address": "0x10"}, {})
    profiles: list[Asked] = [
        ("POST", "/profile", formats.to_bytes(program_profile(files.whole), each, "profile"), {})
        for each in ("firefox", "speedscope", "otlp-json")
    ]
    return [
        ("POST", "/symbolicate/v5", stacks, {}),
        ("POST", "/symbolicate/v5", jobs, {}),
        ("POST", "/source/v1", json.dumps(source).encode(), {}),
        ("POST", "/symbolize", asked, {}),
        ("POST", "/symbolize", gzip.compress(asked), {"Content-Encoding": "gzip"}),
        *profiles,
    ]


def otlp_in_protobuf(files: Files) -> list[Asked]:
    body = formats.to_bytes(program_profile(files.whole), "otlp", "profile")
    kind = {"Content-Type": "application/x-protobuf"}
    pprof = formats.to_bytes(program_profile(files.whole), "pprof", "profile")
    return [
        ("POST", OTLP, body, kind),
        ("POST", OTLP, gzip.compress(body), kind | {"Content-Encoding": "gzip"}),
        ("POST", "/profile", gzip.decompress(pprof), {}),
    ]


def otlp_in_json(files: Files) -> list[Asked]:
    body = formats.to_bytes(program_profile(files.whole), "otlp-json", "profile")
    kind = {"Content-Type": "application/json"}
    return [("POST", OTLP, body, kind), ("POST", OTLP, gzip.compress(body), kind)]


def connect_messages(files: Files) -> list[Asked]:
    name = wire.text(1, files.build_id) + wire.text(4, "program") + wire.number(5, 1)
    message = bytes([0x0A, len(name)]) + name
    fields = {"gnuBuildId": files.build_id, "name": "program", "type": "TYPE_EXECUTABLE_FULL"}
    start, end = f"{PYROSCOPE}/ShouldInitiateUpload", f"{PYROSCOPE}/UploadFinished"
    multipart = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(20) + b"\r\n--x--"
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    return [
        ("POST", start, message, {"Content-Type": PROTO}),
        ("POST", start, json.dumps({"file": fields}).encode(), {"Content-Type": CONNECT_JSON}),
        ("POST", end, wire.text(1, files.build_id), {"Content-Type": PROTO}),
        ("POST", end, json.dumps({"gnuBuildId": files.build_id}).encode(), {"Content-Type": CONNECT_JSON}),
        ("POST", f"{PYROSCOPE}/Upload/{files.build_id}", multipart, form),
        ("POST", "/profile", multipart, form),
    ]


def uploads(files: Files) -> list[Asked]:
    multipart = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%s\r\n--x--\r\n'
    debug = files.debug.read_bytes()
    return [
        ("PUT", "/upload", files.whole.read_bytes(), {}),
        ("PUT", "/upload", multipart % debug, {"Content-Type": "multipart/form-data; boundary=x"}),
        ("PUT", f"/buildid/{files.build_id}/debuginfo", debug, {}),
    ]


def arrow_streams(files: Files) -> list[Asked]:
    ids, rows = [files.build_id, "ab" * 20, None, files.build_id], 4
    numbers = pa.array([files.vaddr, 1, 5, None], pa.uint64())
    indexes = pa.array([0, 1, 1, 0], pa.int32())
    other = {
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, rows], pa.int32()), pa.array(["a", "b"])),
        "words": pa.DictionaryArray.from_arrays(indexes, pa.array(["one", "two"])),
        "views": pa.array(["a", "a text that is longer than twelve", None, ""], pa.string_view()),
        "maps": pa.array([[("a", 1)], [], None, [("b", 2)]], pa.map_(pa.string(), pa.int64())),
        "lists": pa.array([[[1], []], None, [], [[2, 3]]], pa.list_(pa.large_list(pa.int16()))),
        "fixed": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        "dense": pa.UnionArray.from_dense(pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [
            pa.array([1, 2]), pa.array(["a", "b"]),
        ]),
        "sparse": pa.UnionArray.from_sparse(pa.array([0] * rows, pa.int8()), [pa.array([1, 2, 3, 4])]),
        "nothing": pa.nulls(rows),
        "truths": pa.array([True, None, False, True]),
        "struct": pa.array([{"a": 1, "b": b"x"}, None, {"a": 2, "b": b""}, {}]),
        "decimal": pa.array([1, 2, None, 4], pa.decimal128(20, 2)),
    }  # fmt: skip
    stacks = pa.array([[files.vaddr, 1], [], None, [5]], pa.list_(pa.uint64()))
    columns: list[dict[str, Any]] = [
        {"build_id": pa.array(ids), "address": numbers},
        {"build_id": pa.array(ids, pa.string_view()), "address": stacks},
        {"build_id": pa.DictionaryArray.from_arrays(indexes, pa.array(ids[:2])), "address": pa.array(["0x1"] * rows)},
        {"build_id": pa.array(ids), "file_offset": numbers.cast(pa.int64(), safe=False)},
        {"build_id": pa.array(ids), "address": numbers, "mapping_start": numbers, "mapping_offset": numbers},
        *({"build_id": pa.array(ids), "address": numbers, name: column} for name, column in other.items()),
        {"build_id": pa.array(ids), "address": numbers} | other,
    ]
    return [
        ("POST", f"/symbolize{query}", stream(each), {"Content-Type": ARROW})
        for each in columns for query in ("", "?leaf=1")
    ]  # fmt: skip


def stream(columns: dict[str, Any]) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(1, 2))
    made: bytes = sink.getvalue().to_pybytes()
    return made


def damaged(body: bytes, dice: random.Random) -> bytes:
    """The body with damages: often one or two that keep its length, so that most of what follows can be read."""
    if dice.random() < 0.3:
        return mutated(body, dice)
    out = bytearray(body)
    if body.isascii():
        for _ in range(dice.randint(1, 2)):
            out[dice.randrange(len(out))] = dice.choice(PUNCTUATION)
        return bytes(out)
    for _ in range(dice.randint(1, 2)):
        start = dice.randrange(len(out))
        width = dice.choice((1, 1, 4, 8))
        start -= start % width
        value = dice.choice((0, 1, 2, 0x7F, 0xFF, 1 << 16, (1 << 31) - 1, (1 << 63) - 1, (1 << 64) - 1, out[start] + 1))
        size = len(out[start : start + width])
        out[start : start + width] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        if dice.random() < 0.3:
            out[start] ^= 1 << dice.randrange(8)
    return bytes(out)


KINDS = [json_bodies, otlp_in_protobuf, otlp_in_json, connect_messages, uploads, arrow_streams]


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_bodies_are_answered_or_refused(
    client: Any, files: Files, kind: Callable[[Files], list[Asked]]
) -> None:
    dice = random.Random(2026)
    seeds = kind(files)
    for method, path, body, headers in seeds:
        answer = client.request(method, path, content=body, headers=headers)
        assert answer.status_code < 500, (path, answer.text)
    statuses: Counter[int] = Counter()
    for number in range(COUNT if kind is not uploads else min(COUNT, max(20, COUNT // 4))):
        method, path, body, headers = dice.choice(seeds)
        content = damaged(body, dice)
        if LAST:
            Path(LAST).write_bytes(path.encode() + b"\n" + content)
        answer = client.request(method, path, content=content, headers=headers)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500 or answer.status_code in WITH_CAUSE, (number, path, content, answer.text)
    print(f"\n{kind.__name__}: {dict(sorted(statuses.items()))}")
    assert any(status >= 400 for status in statuses)
