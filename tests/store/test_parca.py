"""Uploads in a bucket of Parca, added to a store."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections import Counter
from errno import EACCES
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.helpers.programs import compiled
from tests.helpers.stores import Files
from whence._base.errors import WrongUse
from whence.cli import main
from whence.store import Store
from whence.store.folder import Folder
from whence.store.objects import Stat
from whence.store.packing import pack
from whence.store.parca import fault_of, is_parca, parca_objects

OTHER = "ab" * 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def metadata(build_id: str, state: str = "STATE_UPLOADED", **fields: object) -> str:
    """Parca's metadata: protobuf's JSON of parca.debuginfo.v1alpha1.Debuginfo."""
    upload = {"id": "8f", "hash": "5e", "state": state, "startedAt": "2026-10-01T08:15:30Z"}
    return json.dumps({"buildId": build_id, "source": "SOURCE_UPLOAD", "upload": upload, **fields}, indent=2)


def packed(content: bytes) -> bytes:
    out = io.BytesIO()
    pack(io.BytesIO(content), out)
    return out.getvalue()


def source_tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def bucket(files: Files, tmp_path: Path) -> Path:
    """A bucket with a complete upload, an unfinished one, one for another build-id, and one known from debuginfod."""
    root = tmp_path / "parca"
    own = root / "debuginfo" / files.build_id
    own.mkdir(parents=True)
    shutil.copy(files.debug, own / "debuginfo")
    (own / "metadata").write_text(metadata(files.build_id, quality={"hasDwarf": True}))
    shutil.copy(files.stripped, own / "executable")
    (own / "executable.metadata").write_text(metadata(files.build_id, type="DEBUGINFO_TYPE_EXECUTABLE"))
    source = compiled().parent / "program.c"
    (own / "sources").write_bytes(
        packed(source_tar({str(source).lstrip("/"): source.read_bytes(), "etc/passwd": b"secret"}))
    )
    (own / "sources.metadata").write_text(metadata(files.build_id, type="DEBUGINFO_TYPE_SOURCES"))
    for build_id, content in (
        ("cd" * 20, metadata("cd" * 20, "STATE_UPLOADING")),
        (OTHER, metadata(OTHER)),
        ("ef" * 20, metadata("ef" * 20, quality={"notValidElf": True})),
        ("12" * 20, json.dumps({"state": "METADATA_STATE_CORRUPTED"})),
    ):
        folder = root / "debuginfo" / build_id
        folder.mkdir()
        shutil.copy(files.debug, folder / "debuginfo")
        (folder / "metadata").write_text(content)
    expected = root / "debuginfo" / ("34" * 20)
    expected.mkdir()
    (expected / "metadata").write_text(json.dumps({"buildId": "34" * 20, "source": "SOURCE_DEBUGINFOD"}))
    (root / "blocks").mkdir()
    (root / "blocks" / "data").write_bytes(b"profiles")
    return root


def added(store: Path, source: str) -> dict[tuple[str, str], tuple[str, str]]:
    with Store(store) as opened:
        outcomes = opened.add(source)
    return {(outcome.build_id, outcome.kind): (outcome.outcome, outcome.why) for outcome in outcomes}


def check(outcomes: dict[tuple[str, str], tuple[str, str]], files: Files, store: Path) -> None:
    assert Counter(outcome for outcome, _ in outcomes.values()) == {"added": 3, "refused": 4}
    assert outcomes[files.build_id, "debuginfo"][0] == outcomes[files.build_id, "executable"][0] == "added"
    assert outcomes[files.build_id, "sources"][1].startswith("1 of ")
    assert "STATE_UPLOADING" in outcomes["cd" * 20, ""][1]
    assert f"the file has build-id {files.build_id}, but {OTHER} was uploaded" in outcomes[OTHER, ""][1]
    assert outcomes["ef" * 20, ""][1] == "not a valid ELF file by Parca's metadata"
    assert "METADATA_STATE_CORRUPTED" in outcomes["12" * 20, ""][1]
    with Store(store) as opened:
        assert [row.build_id for row in opened.list()] == [files.build_id]
        source = compiled().parent / "program.c"
        assert opened.read_source(files.build_id, str(source)) == source.read_bytes()
        assert opened.read_source(files.build_id, "/etc/passwd") is None


def test_uploads_in_a_folder_are_added(bucket: Path, files: Files, tmp_path: Path) -> None:
    check(added(tmp_path / "store", str(bucket)), files, tmp_path / "store")
    assert added(tmp_path / "store", str(bucket / "debuginfo"))[files.build_id, "debuginfo"][0] == "same"


def test_uploads_in_a_bucket_are_added(bucket: Path, files: Files, tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")
    from whence.store.bucket import bucket_at

    remote = bucket_at(f"memory://{tmp_path.name}/prod")
    for path in bucket.rglob("*"):
        if path.is_file():
            remote.put(str(path.relative_to(bucket)), path.read_bytes())
    check(added(tmp_path / "store", f"memory://{tmp_path.name}/prod"), files, tmp_path / "store")


def test_the_command_reports_each_upload(bucket: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "add", str(tmp_path / "store"), str(bucket), "--json"]) == 3
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert Counter(row["outcome"] for row in rows) == {"added": 3, "refused": 4}
    assert all(row["file"].startswith(f"{bucket}/debuginfo/") for row in rows)


def test_a_bucket_without_uploads_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")
    (outcome,) = added(tmp_path / "store", f"memory://{tmp_path.name}/empty").values()
    assert outcome == ("refused", "the bucket has no debuginfo/BUILD-ID/debuginfo of Parca")
    with pytest.raises(WrongUse, match="not 'ftp://x'"):
        added(tmp_path / "store", "ftp://x")


def test_old_uploads_without_metadata_are_read(files: Files, tmp_path: Path) -> None:
    own = tmp_path / "debuginfo" / files.build_id
    own.mkdir(parents=True)
    shutil.copy(files.debug, own / "debuginfo")
    (upload,) = parca_objects(Folder(tmp_path))
    assert (upload.build_id, upload.kind, upload.fault) == (files.build_id, "debuginfo", "")
    assert not is_parca(Folder(tmp_path))  # read like any folder
    assert added(tmp_path / "store", str(tmp_path / "debuginfo"))[files.build_id, "debuginfo"][0] == "added"


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, '"x"'])
def test_damaged_metadata_refuse_an_upload(tmp_path: Path, content: str) -> None:
    (tmp_path / "metadata").write_text(content)
    assert fault_of(Folder(tmp_path), "metadata") == "metadata is not metadata of Parca"


@pytest.mark.parametrize("content", [b"", b"no tar", source_tar({"/x.c": b"x"}), packed(b"\0" * (40 << 20))])
def test_sources_that_say_nothing_are_refused(bucket: Path, files: Files, tmp_path: Path, content: bytes) -> None:
    (bucket / "debuginfo" / files.build_id / "sources").write_bytes(content)
    outcomes = added(tmp_path / "store", str(bucket))
    assert outcomes[files.build_id, "debuginfo"][0] == "added"
    assert (files.build_id, "sources") not in outcomes
    assert outcomes[files.build_id, ""][0] == "refused"


@pytest.mark.parametrize("reads", ["metadata", "debuginfo", "sources", "removed"])
def test_an_upload_that_cannot_be_read_stops_no_other(
    bucket: Path, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    own = bucket / "debuginfo" / OTHER
    (own / "sources").write_bytes(source_tar({"/x.c": b"x"}))
    read, fetch = Folder.read, Folder.fetch

    def refused(key: str) -> None:
        if key == f"debuginfo/{OTHER}/{reads}":
            raise PermissionError(EACCES, "Permission denied", key)

    def checked_read(self: Folder, key: str, limit: int) -> tuple[bytes, Stat] | None:
        refused(key)
        return read(self, key, limit)

    def checked_fetch(self: Folder, key: str, file: BinaryIO) -> Stat | None:
        refused(key)
        return None if reads == "removed" and OTHER in key else fetch(self, key, file)

    monkeypatch.setattr(Folder, "read", checked_read)
    monkeypatch.setattr(Folder, "fetch", checked_fetch)
    with Store(tmp_path / "store") as store:
        rows = store.add(bucket)
    why = "removed meanwhile" if reads == "removed" else "Permission denied"
    assert any(row.build_id == OTHER and why in row.why for row in rows)
    assert any(row.build_id == files.build_id and row.outcome == "added" for row in rows)
