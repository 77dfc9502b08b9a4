"""debuginfod's requests: files, sections, sources, headers and refusals, compared with Debian's server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.helpers.live import until
from tests.helpers.serving import HOSTS, TestClient, debuginfod, fetched, started, wait_until_there
from tests.helpers.stores import Files
from whence.server.app import make_app
from whence.server.settings import RequestLimits, ServerSettings
from whence.store import Store

MISSING = "ab" * 20


def test_a_debug_file_and_an_executable_are_answered_whole_with_debuginfod_s_headers(
    client: TestClient, files: Files
) -> None:
    for kind, path in (("debuginfo", files.debug), ("executable", files.stripped)):
        answer = client.get(f"/buildid/{files.build_id}/{kind}")
        assert answer.status_code == 200, answer.text
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-debuginfod-size"] == answer.headers["content-length"] == str(path.stat().st_size)
        assert answer.headers["x-debuginfod-file"]
        assert answer.headers["cache-control"] == "public"
        assert answer.headers["last-modified"].endswith("GMT")
        assert answer.headers["etag"].startswith('"')


def test_an_id_in_capital_letters_is_the_same_id(client: TestClient, files: Files) -> None:
    assert client.get(f"/buildid/{files.build_id.upper()}/debuginfo").content == files.debug.read_bytes()


def test_head_has_the_headers_of_get_and_no_body(client: TestClient, files: Files, source: str) -> None:
    for path in ("debuginfo", "executable", "section/.text", f"source{source}"):
        get, head = (client.request(method, f"/buildid/{files.build_id}/{path}") for method in ("GET", "HEAD"))
        assert head.status_code == 200
        assert head.content == b""
        assert dict(get.headers) == dict(head.headers)


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-99", 0, 100), ("bytes=100-", 100, None), ("bytes=-50", -50, None), ("bytes=10-999999999", 10, None)],
)
@pytest.mark.parametrize("what", ["debuginfo", "section/.debug_info"])
def test_a_range_is_answered_206_with_content_range(
    client: TestClient, files: Files, what: str, asked: str, start: int, end: int | None
) -> None:
    full = client.get(f"/buildid/{files.build_id}/{what}").content
    answer = client.get(f"/buildid/{files.build_id}/{what}", headers={"Range": asked})
    assert answer.status_code == 206
    assert answer.content == full[start:end]
    first = start % len(full)
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(answer.content) - 1}/{len(full)}"


@pytest.mark.parametrize("asked", ["bytes=9-1", "bytes=0-1,4-5", "lines=1-2", "bytes=", "bytes=-", "bytes=a-b"])
def test_an_invalid_range_is_answered_with_the_whole_file(client: TestClient, files: Files, asked: str) -> None:
    answer = client.get(f"/buildid/{files.build_id}/debuginfo", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (200, files.debug.read_bytes())


def test_a_range_past_the_end_is_416_with_the_size(client: TestClient, files: Files) -> None:
    size = files.debug.stat().st_size
    for asked in (f"bytes={size}-", "bytes=-0"):
        answer = client.get(f"/buildid/{files.build_id}/debuginfo", headers={"Range": asked})
        assert answer.status_code == 416
        assert answer.headers["content-range"] == f"bytes */{size}"


def test_a_range_of_another_version_is_answered_with_the_whole_file(client: TestClient, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    tag = client.head(path).headers["etag"]
    assert client.get(path, headers={"Range": "bytes=0-9", "If-Range": tag}).status_code == 206
    assert client.get(path, headers={"Range": "bytes=0-9", "If-Range": '"other"'}).status_code == 200


def test_a_client_with_a_current_copy_gets_304(client: TestClient, files: Files, source: str) -> None:
    for what in ("debuginfo", "section/.text", f"source{source}"):
        path = f"/buildid/{files.build_id}/{what}"
        tag = client.head(path).headers["etag"]
        for match in (tag, f'"x", W/{tag}', "*"):
            answer = client.get(path, headers={"If-None-Match": match})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    date = client.head(f"/buildid/{files.build_id}/debuginfo").headers["last-modified"]
    assert client.get(f"/buildid/{files.build_id}/debuginfo", headers={"If-Modified-Since": date}).status_code == 304


def test_a_section_equals_the_output_of_objcopy(client: TestClient, files: Files, tmp_path: Path) -> None:
    for name, file in ((".debug_info", files.debug), (".text", files.stripped), (".debug_line", files.debug)):
        out = tmp_path / "section"
        subprocess.run(["objcopy", "-O", "binary", "--only-section", name, file, out], check=True)
        subprocess.run(["objcopy", "--dump-section", f"{name}={out}", file, "/dev/null"], check=True)
        answer = client.get(f"/buildid/{files.build_id}/section/{name}")
        assert (answer.status_code, answer.content) == (200, out.read_bytes())
        assert answer.headers["x-debuginfod-size"] == str(out.stat().st_size)


def test_a_section_may_have_any_name(files: Files, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    (tmp_path / "content").write_bytes(b"odd content")
    name = ".p+r%o$g"
    subprocess.run(["objcopy", "--add-section", f"{name}={tmp_path / 'content'}", files.whole, odd], check=True)
    location = tmp_path / "store"
    with Store(location) as store:
        store.add(odd)
    with TestClient(make_app(ServerSettings(store=str(location)))) as client:
        assert client.get(f"/buildid/{files.build_id}/section/{quote(name)}").content == b"odd content"


def test_a_source_file_is_answered_by_its_path_with_dots_or_without(
    client: TestClient, files: Files, source: str
) -> None:
    path = Path(source)
    for asked in (str(path), f"{path.parent}/./{path.name}", f"{path.parent}//{path.name}"):
        answer = client.get(f"/buildid/{files.build_id}/source{quote(asked)}")
        assert (answer.status_code, answer.content) == (200, path.read_bytes()), asked
    assert client.get(f"/buildid/{files.build_id}/source/etc/passwd").status_code == 404


def test_a_file_above_the_limit_of_the_client_is_406(client: TestClient, files: Files, source: str) -> None:
    for what in ("debuginfo", "section/.debug_info", f"source{source}"):
        path = f"/buildid/{files.build_id}/{what}"
        size = int(client.head(path).headers["x-debuginfod-size"])
        refused = client.get(path, headers={"X-DEBUGINFOD-MAXSIZE": str(size - 1)})
        assert (refused.status_code, refused.headers["x-debuginfod-size"]) == (406, str(size))
        assert client.get(path, headers={"X-DEBUGINFOD-MAXSIZE": str(size)}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/buildid/abc/debuginfo", 400),
        ("/buildid/zz/debuginfo", 400),
        (f"/buildid/{'ab' * 65}/debuginfo", 400),
        ("/buildid/..%2f..%2fetc/debuginfo", 404),
        ("/buildid/%00/debuginfo", 400),
        (f"/buildid/{MISSING}/debuginfo", 404),
        (f"/buildid/{MISSING}/executable", 404),
        (f"/buildid/{MISSING}/section/.text", 404),
        (f"/buildid/{MISSING}/source/a/b.c", 404),
        (f"/buildid/{MISSING}/other", 404),
        (f"/buildid/{MISSING}", 404),
        (f"/buildid/{MISSING}/debuginfo/", 404),
        ("/nothing", 404),
        ("/metadata", 400),
        ("/metadata?key=file", 400),
        ("/metadata?key=other&value=1", 400),
    ],
)
def test_malformed_requests_are_400_and_missing_files_404_with_a_message(
    client: TestClient, path: str, status: int
) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_a_section_that_is_not_there_is_404(client: TestClient, files: Files) -> None:
    for name in (".nothing", ".bss", "", "%ff%fe", "a/b"):
        assert client.get(f"/buildid/{files.build_id}/section/{name}").status_code == 404


def test_a_method_that_a_path_does_not_have_is_405(client: TestClient, files: Files) -> None:
    assert client.delete(f"/buildid/{files.build_id}/debuginfo").status_code == 405
    assert client.get("/symbolize").status_code == 405
    assert client.post("/metrics").status_code == 405


def test_preflights_are_answered_with_what_is_allowed(client: TestClient) -> None:
    headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-one"}
    answer = client.options("/symbolicate/v5", headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "POST, GET, OPTIONS"
    assert answer.headers["access-control-allow-headers"] == "x-one"
    assert answer.headers["access-control-max-age"] == "86400"


def test_a_request_forwarded_by_eight_servers_is_404(client: TestClient, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    assert client.get(path, headers={"X-Forwarded-For": ", ".join(["10.0.0.1"] * 7)}).status_code == 200
    assert client.get(path, headers={"X-Forwarded-For": ", ".join(["10.0.0.1"] * 8)}).status_code == 404


def test_metadata_finds_by_name_pattern_and_id(client: TestClient, files: Files) -> None:
    name = client.get("/metadata", params={"key": "buildid", "value": files.build_id}).json()["results"][0]["file"]
    for key, value in (("file", name), ("glob", name[:2] + "*"), ("buildid", files.build_id)):
        answer = client.get("/metadata", params={"key": key, "value": value}).json()
        assert answer["complete"] is True
        assert {each["type"] for each in answer["results"]} == {"executable", "debuginfo"}
        assert {each["buildid"] for each in answer["results"]} == {files.build_id}
    assert client.get("/metadata", params={"key": "glob", "value": "/no*"}).json()["results"] == []


def test_a_miss_is_recorded_with_its_count(tmp_path: Path) -> None:
    location = tmp_path / "store"
    with TestClient(make_app(ServerSettings(store=str(location)))) as client:
        for _ in range(3):
            client.get(f"/buildid/{MISSING}/debuginfo")

        def wanted() -> list[tuple[str, int]]:
            with Store(location) as store:
                return [(each.build_id, each.count) for each in store.wanted()]

        assert until(lambda: wanted() == [(MISSING, 3)])


def test_metrics_have_debuginfods_names_and_no_text_of_clients(client: TestClient, files: Files) -> None:
    client.get(f"/buildid/{files.build_id}/debuginfo")
    client.get(f"/buildid/{files.build_id}/made-up-kind")
    text = client.get("/metrics").text
    for name in (
        "http_requests_total{type=", "http_responses_total{result=", "http_responses_transfer_bytes_sum{",
        "http_responses_transfer_bytes_count{", "http_responses_duration_milliseconds_sum{",
        "http_responses_after_you_milliseconds_count", "found_debuginfo_total{", "thread_busy{role=", "error_count ",
        "thread_work_total{role=", "thread_work_pending{role=", "groom{statistic=", "filesys_free_ratio{purpose=",
        "scanned_files_total", "scanned_bytes_total", "ready 1.0",
    ):  # fmt: skip
        assert name in text, name
    assert "made-up-kind" not in text


def test_limits_are_returned(place: Path) -> None:
    limits = RequestLimits(body_bytes=5)
    with TestClient(make_app(ServerSettings(store=str(place), limits=limits))) as client:
        assert client.get("/limits").json()["body_bytes"] == 5
        assert client.post("/symbolize", content=b"123456").status_code == 413


# the real server


@pytest.mark.parametrize("by", HOSTS)
def test_granian_and_uvicorn_answer_as_debian_s_debuginfod_does(
    files: Files, place: Path, tmp_path: Path, by: str, source: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for each in (files.debug, files.stripped):
        (folder / each.name).write_bytes(each.read_bytes())
    with started(place, by=by) as url, debuginfod(folder, tmp_path) as other:
        wait_until_there(other, files.build_id)
        for what in ("debuginfo", "executable", "section/.text", "section/.debug_info", f"source{source}"):
            path = f"/buildid/{files.build_id}/{what}"
            (status, mine, body), (their_status, theirs, their_body) = (fetched(each, path) for each in (url, other))
            assert (status, body) == (their_status, their_body) == (200, their_body), what
            for name in ("content-type", "x-debuginfod-size", "cache-control", "content-length"):
                assert mine[name] == theirs[name], (what, name)
            for name in ("x-debuginfod-file", "date"):
                assert name in mine
                assert name in theirs
        for path in (f"/buildid/{MISSING}/debuginfo", f"/buildid/{MISSING}/section/.text"):
            assert fetched(url, path)[0] == fetched(other, path)[0] == 404
        assert fetched(url, f"/buildid/{files.build_id}/debuginfo", {"X-DEBUGINFOD-MAXSIZE": "10"})[0] == 406
        assert fetched(other, f"/buildid/{files.build_id}/debuginfo", {"X-DEBUGINFOD-MAXSIZE": "10"})[0] == 406


@pytest.mark.parametrize("by", HOSTS)
def test_granian_and_uvicorn_support_ranges_head_and_304(files: Files, place: Path, by: str) -> None:
    full = files.debug.read_bytes()
    path = f"/buildid/{files.build_id}/debuginfo"
    with started(place, by=by) as url:
        status, headers, body = fetched(url, path, {"Range": "bytes=5-14"})
        assert (status, body, headers["content-range"]) == (206, full[5:15], f"bytes 5-14/{len(full)}")
        assert fetched(url, path, {"Range": "bytes=0-1,3-4"})[::2] == (200, full)
        status, headers, body = fetched(url, path, method="HEAD")
        assert (status, body, headers["content-length"]) == (200, b"", str(len(full)))
        assert fetched(url, path, {"If-None-Match": headers["etag"]})[::2] == (304, b"")
        assert fetched(url, path.replace("debuginfo", "section/.text"), method="HEAD")[::2] == (200, b"")
        assert fetched(url, path.replace("debuginfo", "section/.te%2578t"))[0] == 404
        assert fetched(url, "/buildid/zz/debuginfo")[0] == 400


@pytest.mark.parametrize(
    "what",
    ["section/.text", "section/.none", "section/.debug_info", "debuginfo", "executable", "section/.note.gnu.build-id"],
)
@pytest.mark.parametrize("there", [True, False])
def test_quick_answers_are_those_of_the_endpoints(client: TestClient, files: Files, what: str, there: bool) -> None:
    path = f"/buildid/{files.build_id if there else MISSING}/{what}"
    for _ in range(2):  # the second time tables and sections are remembered
        quick = client.get(path)
        plain = client.get(path, headers={"X-Forwarded-For": "192.0.2.1"})  # those go the long way
        assert (quick.status_code, quick.content) == (plain.status_code, plain.content)
        assert sorted(quick.headers.items()) == sorted(plain.headers.items())


def test_a_cached_section_is_dropped_when_the_file_is_replaced(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("quick", "state"):  # each request looks anew, however quickly the files are added
        monkeypatch.setattr(f"whence.server.{module}.FRESH_SECONDS", -1.0)
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        path = f"/buildid/{files.build_id}/section/.comment"
        with Store(tmp_path / "store") as store:
            store.add(files.stripped)
        before = [client.get(path) for _ in range(3)][-1]
        assert before.headers["x-debuginfod-file"].endswith("executable")
        with Store(tmp_path / "store") as store:
            store.add(files.whole)
        after = [client.get(path) for _ in range(3)][-1]
        assert after.headers["x-debuginfod-file"].endswith("debuginfo")
        assert after.headers["etag"] != before.headers["etag"]


def test_a_cached_section_is_revalidated_after_a_moment(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "store"
    with Store(location) as store:
        store.add(files.whole)
    path = f"/buildid/{files.build_id}/section/.text"
    with TestClient(make_app(ServerSettings(store=str(location)))) as client:
        monkeypatch.setattr("whence.server.quick.FRESH_SECONDS", 3600.0)
        for _ in range(3):  # of the first the sections are not known yet
            assert client.get(path).status_code == 200
        shutil.rmtree(location / "buildid" / files.build_id)
        assert client.get(path).status_code == 200
        monkeypatch.setattr("whence.server.quick.FRESH_SECONDS", -1.0)
        assert client.get(path).status_code == 404


@pytest.mark.parametrize("value", ["[.{-***]", "[.*]", "[", "[]", "\\"])
def test_a_pattern_of_any_letters_is_answered(client: TestClient, value: str) -> None:
    assert client.get("/metadata", params={"key": "glob", "value": value}).status_code == 200
