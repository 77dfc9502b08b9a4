"""Forged packages, descriptions and leases: a store refuses what is not, and never leaves its folder."""

from __future__ import annotations

import io
import json
import os
import random
import stat
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.forge.elf import Section, build_id_note, forge
from whence._base.errors import WhenceError
from whence.store import Store, meta, names
from whence.store.index import rows_in
from whence.store.leases import Busy, Lease
from whence.store.packages import ALLOWANCE, AR_MAGIC
from whence.store.verify import verify

ID = "ab" * 20
PROGRAM = forge([Section(".text", b"\xc3" * 16, vaddr=0x1000, flags=6), build_id_note(ID)])


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def add_quickly(store: Store, path: Path) -> list[str]:
    began = time.process_time()
    result = store.add(path)
    assert time.process_time() - began < 20
    return [each.outcome for each in result]


@pytest.mark.parametrize("name", ["../../escaped", "absolute", "a/../../../escaped", "\x1b[2J", "a" * 5000])
def test_member_names_never_write_outside_the_store(tmp_path: Path, name: str) -> None:
    if name == "absolute":
        name = str(tmp_path / "escaped")
    (tmp_path / "in").mkdir()
    with tarfile.open(tmp_path / "in" / "a.tar", "w") as made:
        item = tarfile.TarInfo(name)
        item.size = len(PROGRAM)
        made.addfile(item, io.BytesIO(PROGRAM))
    with zipfile.ZipFile(tmp_path / "in" / "b.zip", "w") as package:
        package.writestr(name, PROGRAM)
    before = everything(tmp_path)
    with Store(tmp_path / "store") as store:
        result = store.add(tmp_path / "in")
        assert [item.outcome for item in result] == ["added", "same"]
        assert all("\x1b" not in item.origin for item in result)
        expected = store.find(ID)
        assert expected is not None
        assert "/" not in expected.name
    assert {item for item in everything(tmp_path) - before if not item.startswith("store")} == set()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE,
                                  tarfile.DIRTYPE])  # fmt: skip
def test_links_and_devices_in_packages_are_passed_over(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as made:
        item = tarfile.TarInfo("./program")
        item.type, item.linkname, item.devmajor, item.devminor = kind, "/etc/shadow", 1, 5
        made.addfile(item)
    with Store(tmp_path / "store") as store:
        assert store.add(tmp_path / "a.tar") == []
        assert not (tmp_path / "store" / "buildid").exists()


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz", "zip"])
def test_bombs_are_given_up_when_their_budget_is_spent(tmp_path: Path, packing: str) -> None:
    """A member that decompresses to far more than its package justifies; earlier members are kept."""
    size = 3 * ALLOWANCE
    path = tmp_path / ("bomb.zip" if packing == "zip" else f"bomb.tar.{packing}")

    class Zeros(io.RawIOBase):
        def __init__(self) -> None:
            self.left = size

        def readable(self) -> bool:
            return True

        def read(self, count: int = -1) -> bytes:
            count = min(self.left, count if count >= 0 else 1 << 20)
            self.left -= count
            return (b"\x7fELF" + bytes(count - 4)) if self.left + count == size and count >= 4 else bytes(count)

    if packing == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
            package.writestr("good", PROGRAM)
            with package.open("bomb", "w") as out:
                zeros = Zeros()
                while chunk := zeros.read(1 << 20):
                    out.write(chunk)
    else:
        quickly = {"preset": 0} if packing == "xz" else {"compresslevel": 1}
        with tarfile.open(path, f"w:{packing}", **quickly) as made:  # type: ignore[call-overload]
            for name, length, content in (("good", len(PROGRAM), io.BytesIO(PROGRAM)), ("bomb", size, Zeros())):
                item = tarfile.TarInfo(name)
                item.size = length
                made.addfile(item, content)
    assert path.stat().st_size < size / 100
    with Store(tmp_path / "store") as store:
        result = store.add(path)
        assert result[0].outcome == "added"
        assert {item.outcome for item in result[1:]} == {"refused"}
        assert any("64 times" in item.why for item in result[1:])
        left = [item for item in (tmp_path / "store").rglob("*") if item.is_file() and item.stat().st_size > 1 << 20]
        assert left == []


def test_a_sparse_member_is_not_unfolded(tmp_path: Path) -> None:
    head = tarfile.TarInfo("sparse")
    head.type, head.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(head.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"77777777777\0"  # its real size, in octal
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    (tmp_path / "a.tar").write_bytes(bytes(block) + bytes(512) + bytes(1024))
    with Store(tmp_path / "store") as store:
        assert "added" not in add_quickly(store, tmp_path / "a.tar")


@pytest.mark.parametrize("seed", range(4))
def test_packages_with_flipped_bytes_and_cut_ones_are_refused_or_read(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w:gz") as made:
        item = tarfile.TarInfo("program")
        item.size = len(PROGRAM)
        made.addfile(item, io.BytesIO(PROGRAM))
    tar = inside.getvalue()
    head = f"{'debian-binary':16}{0:<12}{0:<6}{0:<6}{100644:<8}{4:<10}`\n".encode() + b"2.0\n"
    data = f"{'data.tar.gz':16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(tar):<10}`\n".encode() + tar
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as package:
        package.writestr("program", PROGRAM)
    full = {"a.deb": AR_MAGIC + head + data, "a.tar.gz": tar, "a.zip": zipped.getvalue()}
    with Store(tmp_path / "store") as store:
        for name, content in full.items():
            for number in range(25):
                broken = bytearray(content)
                if number % 3 == 0:
                    del broken[pick.randrange(len(broken)) :]
                else:
                    for _ in range(1 + number % 4):
                        broken[pick.randrange(len(broken))] = pick.randrange(256)
                path = tmp_path / name
                path.write_bytes(broken)
                for one_added in store.add(path):
                    assert one_added.outcome in ("added", "same", "poorer", "better", "refused")
        assert {row.build_id for row in store.list()} <= {
            row.build_id for row in store.list() if names.is_id(row.build_id)
        }


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"version": 1, "build_id": 3}', b'{"version": 1, "files": []}',
     json.dumps({"version": 1, "build_id": ID, "files": {"debuginfo": {"size": -1}}}).encode(),
     json.dumps({"version": 1, "build_id": ID, "files": {"../../x": {"size": 1}}}).encode(),
     json.dumps({"version": 1, "build_id": ID, "files": {}, "copies": ["../../etc/passwd", 3]}).encode(),
     json.dumps({"version": 1, "build_id": "cd" * 20}).encode()],
)  # fmt: skip
def test_descriptions_that_no_store_wrote_count_as_missing(tmp_path: Path, content: bytes) -> None:
    with Store(tmp_path / "store") as store:
        (tmp_path / "program").write_bytes(PROGRAM)
        store.add(tmp_path / "program")
        path = tmp_path / "store" / "buildid" / ID / "meta.json"
        path.write_bytes(content)
        result = meta.read(content, ID)
        assert result is None or set(result.files) <= set(names.KINDS)
        assert rows_in(content) == []
        list(verify(store))
        assert {each.outcome for each in store.add(tmp_path / "program")} <= {"same", "added"}
        assert not list(verify(store))


def test_copies_that_a_forged_description_names_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(PROGRAM)
    with Store(tmp_path / "store") as store:
        store.add(tmp_path / "program")
        other = tmp_path / "store" / "buildid" / ("cd" * 20) / "debuginfo"
        other.parent.mkdir()
        other.write_bytes(b"another's")
        path = tmp_path / "store" / "buildid" / ID / "meta.json"
        expected = json.loads(path.read_text())
        expected["copies"] = [
            f"buildid/{'cd' * 20}/debuginfo",
            "../outside",
            f"symbolizer/../{ID}",
            "whence-store.json",
        ]
        expected["debug_id"] = "../../outside"
        path.write_text(json.dumps(expected))
        (tmp_path / "outside").write_text("mine")
        store.remove(ID)
        assert other.exists()
        assert (tmp_path / "outside").exists()
        assert (tmp_path / "store" / "whence-store.json").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 4000, b'{"until": 1e400}', b'{"until": "x", "pid": []}'])
def test_malformed_leases_expire_by_their_age(tmp_path: Path, content: bytes) -> None:
    with Store(tmp_path / "store") as store:
        path = tmp_path / "store" / "locks" / ID
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        with pytest.raises(Busy):
            Lease(store.objects, ID, 0)
        os.utime(path, (1, 1))
        with Lease(store.objects, ID, 0):
            pass


def test_links_and_pipes_in_a_stores_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "store" / "buildid" / ID
    folder.mkdir(parents=True)
    (folder / "debuginfo").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "executable")
    with Store(tmp_path / "store") as store:
        assert store.open_bytes(ID, "debuginfo") is None
        assert store.open_bytes(ID, "executable") is None
        assert store.find(ID) is None
        (tmp_path / "program").write_bytes(PROGRAM)
        store.add(tmp_path / "program")
        assert (tmp_path / "secret").read_text() == "secret"
        assert stat.S_ISREG(os.lstat(folder / "executable").st_mode)


def test_elf_files_with_flipped_bytes_are_refused_or_kept_whole(tmp_path: Path) -> None:
    pick = random.Random(5)
    with Store(tmp_path / "store") as store:
        for _ in range(60):
            broken = bytearray(PROGRAM)
            for _ in range(3):
                broken[pick.randrange(len(broken))] = pick.randrange(256)
            try:
                store.put("", "", io.BytesIO(bytes(broken)))
            except WhenceError:
                continue
        assert not list(verify(store))
        assert all(names.is_id(row.build_id) for row in store.list())
