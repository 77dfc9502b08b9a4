"""Archives of a store: stored by gzip, opened from the cache."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.helpers.stores import Files
from whence.cli.main import main
from whence.locate.cache import Cache
from whence.locator.locator import Locator
from whence.store import Store, names
from whence.store.meta import Meta
from whence.store.verify import verify


def as_earlier_versions(store: Store, build_id: str) -> Path:
    """Store the archive as earlier versions did, without compression; returns its path."""
    expected = store.find(build_id)
    packed = store.objects.path(names.file_key(build_id, names.ARCHIVE, packed=True))
    assert isinstance(expected, Meta)
    assert packed is not None
    plain = packed.with_name("lidia")
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    said = expected.as_json()
    kept = said["files"]["lidia"]  # type: ignore[index]
    del kept["packing"], kept["stored"]
    store.objects.put(names.meta_key(build_id), json.dumps(said).encode())
    return plain


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def store(tmp_path: Path, files: Files) -> Store:
    made = Store(tmp_path / "store", cache=tmp_path / "cache")
    made.add(files.whole)
    return made


def test_an_archive_is_stored_compressed_with_both_sizes(store: Store, files: Files, tmp_path: Path) -> None:
    path = tmp_path / "store" / "buildid" / files.build_id / "lidia.gz"
    expected = store.find(files.build_id)
    assert expected is not None
    kept = expected.files["lidia"]
    assert (kept.packing, kept.stored) == ("gzip", path.stat().st_size)
    assert kept.size == len(gzip.decompress(path.read_bytes())) > kept.stored
    assert not list(verify(store))


def test_an_archive_is_decompressed_into_the_cache_once(store: Store, files: Files, tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with Store(store.url, cache=tmp_path / "cache") as again, again.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line
            seen.append((binary.path, Path(binary.path).stat().st_mtime_ns))
    assert seen[0] == seen[1]
    assert Path(seen[0][0]).is_relative_to(tmp_path / "cache")
    with Locator(dirs=(), local=False, cache=Cache(tmp_path / "cache"), sources=[store.source()]) as locator:
        assert locator.open(build_id=files.build_id).path == seen[0][0]


def test_a_better_file_replaces_the_archive_in_the_cache_at_once(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store", cache=tmp_path / "cache") as store:
        lines = []
        for path in (files.symbols, files.whole):
            store.add(path)
            with store.open(files.build_id) as binary:
                lines.append(binary.lookup(files.vaddr)[-1].line)
    assert lines[0] == 0 < lines[1]


def test_without_a_cache_a_compressed_archive_answers(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.whole)
        with store.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line


def test_a_store_of_an_earlier_version_answers_and_its_archives_are_replaced(store: Store, files: Files) -> None:
    plain = as_earlier_versions(store, files.build_id)
    assert not list(verify(store))
    with store.open(files.build_id) as binary:
        assert binary.path == str(plain)
        assert binary.lookup(files.vaddr)[-1].line
    expected = store.find(files.build_id)
    assert expected is not None
    expected.made_of = ()
    store.objects.put(names.meta_key(files.build_id), expected.to_bytes())
    store.finish(files.build_id)
    assert not plain.exists()
    assert plain.with_name("lidia.gz").exists()
    assert not list(verify(store))


def test_removing_a_build_id_removes_its_compressed_archive(store: Store, files: Files, tmp_path: Path) -> None:
    assert store.remove(files.build_id) > 0
    assert not [*tmp_path.glob("store/buildid/*/*")]


def test_gc_counts_the_bytes_that_are_stored(store: Store, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["store", "gc", store.url, "--max-size", "0"]) == 0
    assert store.find(files.build_id) is None
    assert files.build_id in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["cut", "flipped", "bomb"])
def test_verify_reports_a_damaged_archive(damage: str, store: Store, files: Files, tmp_path: Path) -> None:
    path = tmp_path / "store" / "buildid" / files.build_id / "lidia.gz"
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-20])
    elif damage == "flipped":
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    else:
        path.write_bytes(gzip.compress(bytes(64 << 20)))
    problems = [each for each in verify(store) if each.kind == "lidia"]
    assert len(problems) == 1
    with Locator(dirs=(), local=False, sources=[store.source()]) as locator:
        assert locator.open(build_id=files.build_id).lookup(files.vaddr)  # from the debug file


def test_a_copy_for_pyroscope_and_an_export_are_not_compressed(store: Store, files: Files, tmp_path: Path) -> None:
    store.finish(files.build_id, layouts=["pyroscope/t"])
    copy = tmp_path / "store" / "symbolizer" / "t" / files.build_id
    exported = store.export(files.build_id, tmp_path / "out", ["pyroscope/t"])
    assert copy.read_bytes()[:4] == b".dia"
    assert exported[0].read_bytes() == copy.read_bytes()
