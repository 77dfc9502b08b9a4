"""Archives compressed by gzip and zstd."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.helpers.programs import compiled
from whence import lidia
from whence._base.errors import LidiaError, Unsupported
from whence.lidia import compressed
from whence.locator.locator import Locator

ZSTD = compressed.zstd_module()
PACK = {".gz": gzip.compress, ".zst": ZSTD.compress}
BUILD_ID = "ab" * 20


def archive(functions: int = 20) -> bytes:
    builder = lidia.Builder(build_id=BUILD_ID)
    for row in range(functions):
        builder.add(vaddr=0x1000 + 16 * row, length=16, function=f"f{row}", file="a.c", line_table=[(0, row + 1)])
    return builder.to_bytes()


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "whence", *map(str, words)], capture_output=True, text=True)


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_archive_gives_equal_answers_under_any_name(suffix: str, tmp_path: Path) -> None:
    plain, path = tmp_path / "plain", tmp_path / "any name"
    plain.write_bytes(archive())
    path.write_bytes(PACK[suffix](archive()))
    with lidia.open(plain) as each, lidia.open(path, crc=True) as other, whence.open(path) as binary:
        assert list(other) == list(each)
        assert (other.about, other.verify()) == (each.about, [])
        assert binary.is_archive
        assert binary.lookup(0x1000) == each.lookup(0x1000) != ()
    with lidia.from_bytes(path.read_bytes()) as table:
        assert len(table) == 20
    for words in (("addr", "1000"), ("lidia verify",), ("lidia dump",)):
        command = words[0].split()
        answers = [run(*command, name, *words[1:]).stdout.replace(str(name), "") for name in (plain, path)]
        assert answers[0] == answers[1] != ""


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", [BUILD_ID, f"{BUILD_ID[:2]}/{BUILD_ID[2:]}", "app"])
def test_a_folder_of_archives_may_contain_compressed_archives(suffix: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.lidia{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(PACK[suffix](archive()))
    with Locator(dirs=(), local=False, archive_dirs=[tmp_path]) as locator:
        result = locator.open(build_id=BUILD_ID)
        assert result.lookup(0x1000)[0].function == "f0"


@pytest.mark.parametrize("suffix", PACK)
def test_create_compresses_by_the_name_of_the_output_and_is_reproducible(suffix: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain.lidia"
    assert run("lidia", "create", compiled(), "-o", plain).returncode == 0
    written = []
    for name in ("one", "two"):
        out = tmp_path / f"{name}.lidia{suffix}"
        done = run("lidia", "create", compiled(), "-o", out)
        assert done.stdout.startswith(f"{out}: {out.stat().st_size:,} bytes, ")
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) < plain.stat().st_size
    unpacked = gzip.decompress(written[0]) if suffix == ".gz" else ZSTD.decompress(written[0])
    assert unpacked == plain.read_bytes()


def test_a_gzip_archive_stores_neither_time_nor_name(tmp_path: Path) -> None:
    out = tmp_path / "x.lidia.gz"
    lidia.create(compiled(), out)
    assert out.read_bytes()[3:8] == bytes(5)  # flags and time


@pytest.mark.parametrize("suffix", PACK)
def test_members_and_frames_are_read_as_one_archive(suffix: str, tmp_path: Path) -> None:
    data, path = archive(), tmp_path / "x"
    path.write_bytes(b"".join(PACK[suffix](data[offset : offset + 200]) for offset in range(0, len(data), 200)))
    with lidia.open(path, crc=True) as table:
        assert len(table) == 20


@pytest.mark.parametrize("suffix", PACK)
def test_a_cut_archive_is_an_error_at_every_byte(suffix: str, tmp_path: Path) -> None:
    data, path = PACK[suffix](archive(3)), tmp_path / "x"
    for size in range(4, len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(LidiaError, match="data is cut off"):
            lidia.open(path)


@pytest.mark.parametrize("suffix", PACK)
def test_a_damaged_byte_is_an_error_or_changes_no_answer(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    errors: list[str] = []
    data = compress(archive(3), suffix)
    for index in range(4, len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 0x10]) + data[index + 1 :])
        try:
            with lidia.open(path, crc=True) as table:
                assert [each.function for each in table] == ["f0", "f1", "f2"]
        except LidiaError as error:
            errors.append(str(error))
    assert len(errors) > len(data) // 2
    assert all(error.startswith(str(path)) for error in errors)


def compress(data: bytes, suffix: str) -> bytes:
    import io

    out = io.BytesIO()
    with compressed.compressed(out, compressed.codec_named(suffix)) as file:
        file.write(data)
    return out.getvalue()


def test_other_compressed_files_are_not_taken_for_archives(tmp_path: Path) -> None:
    path = tmp_path / "module.ko.gz"
    path.write_bytes(gzip.compress(compiled().read_bytes()))
    with pytest.raises(LidiaError, match="not an archive"):
        lidia.open(path)
    with pytest.raises(whence.WhenceError, match="neither an object file nor an archive"):
        whence.open(path)


def test_without_zstd_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.lidia.zst"
    path.write_bytes(ZSTD.compress(archive()))
    for name in ("compression", "backports", "backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    asks: list[Any] = [lambda: lidia.open(path), lambda: whence.open(path)]
    asks.append(lambda: lidia.create(compiled(), tmp_path / "y.lidia.zst"))
    for ask in asks:
        with pytest.raises(Unsupported, match=r"needs Python 3.14 or the package backports.zstd"):
            ask()
    assert not (tmp_path / "y.lidia.zst").exists()


def test_a_file_that_only_begins_like_gzip_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x1f\x8b\x08\0" + bytes(40))
    with pytest.raises(LidiaError, match=r"the gzip data is (damaged|cut off)"):
        lidia.open(path)
