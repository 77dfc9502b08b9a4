"""The Locator: one order of sources for everyone, each step with a code, and nothing opened twice."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whence
from tests.helpers.live import running
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence._base.reasons import Reason
from whence.archive.create import create
from whence.locate.cache import Cache
from whence.locate.search import FileKind, FileQuery, Outcome, Tried
from whence.locate.sources import Candidate, identify
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.profiles.naming import name

OTHER = "ab" * 20


@pytest.fixture
def build_id() -> str:
    with ElfFile.open(compiled()) as elf:
        return elf.build_id


class OneServer:
    """A debuginfod client that has one file of each kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        result = self.folder / kind
        return result if result.exists() else None


class Shelf:
    """A source of one's own, as a store is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, wanted: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        if wanted.key and self.path.exists():
            yield identify(self.path, "shelf")
        tried.append(Tried(str(self.path), "shelf", Outcome.ABSENT))


def test_the_sources_are_asked_in_the_documented_order(tmp_path: Path, build_id: str) -> None:
    """Every source has a file of the build-id: each search uses the first, which is then removed."""
    program = tmp_path / "program"
    shutil.copy(compiled(), program)
    for folder in ("archives", "server", f"debug/.build-id/{build_id[:2]}"):
        (tmp_path / folder).mkdir(parents=True)
    archive, shelf = tmp_path / "archives" / f"{build_id}.lidia", tmp_path / "shelf"
    create(program, archive)
    cache = Cache(tmp_path / "cache")
    cached = cache.put(f"{build_id}.lidia", lambda file: file.write(archive.read_bytes()))
    debug = tmp_path / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    given, served = tmp_path / "given", tmp_path / "server" / "debuginfo"
    for copy in (given, shelf, debug, served):
        shutil.copy(program, copy)
    order = [
        ("given", given), ("archive folder", archive), ("cache", cached), ("shelf", shelf), ("own path", program),
        ("debug folder", debug), ("debuginfod debuginfo", served),
    ]  # fmt: skip
    for how, path in order:
        with Locator(
            files=[given] if given.exists() else [],
            archive_dirs=[tmp_path / "archives"],
            cache=cache,
            dirs=[tmp_path / "debug"],
            debuginfod=OneServer(tmp_path / "server"),
            sources=[Shelf(shelf)],
        ) as locator:
            search = locator.find(build_id=build_id, path=str(program))
            assert (search.how, search.path, search.build_id) == (how, str(path), build_id)
            assert search.tried[-1].outcome is Outcome.TAKEN
            assert search.kind is (FileKind.ARCHIVE if "archive" in how or how == "cache" else FileKind.DEBUGINFO)
            with locator.open(build_id=build_id) if how != "own path" else locator.open(program) as binary:
                assert binary.build_id == build_id
        path.unlink()
    with Locator(dirs=[tmp_path / "debug"]) as locator:
        search = locator.find(build_id=build_id, path=str(program))
        assert not search
        assert search.missing is not None
        assert search.missing.reason is Reason.NO_FILE
        assert [(each.how, each.outcome.code) for each in search.tried] == [
            ("own path", "absent"),
            ("debug folder", "absent"),
        ]
        with pytest.raises(FileNotFoundError, match="does not exist"):
            locator.open(build_id=build_id)


@pytest.mark.parametrize(
    ("content", "wanted_id", "outcome", "reason"),
    [
        ("another", OTHER, Outcome.REPLACED, Reason.BUILD_ID_MISMATCH),
        ("text", OTHER, Outcome.BROKEN, Reason.BROKEN_FILE),
        ("nothing", OTHER, Outcome.ABSENT, Reason.NO_FILE),
        ("deleted", "", Outcome.UNVERIFIED, Reason.NO_FILE),
    ],
)
def test_why_nothing_was_found_has_a_code_and_a_reason(
    tmp_path: Path, content: str, wanted_id: str, outcome: Outcome, reason: Reason
) -> None:
    path = tmp_path / "program"
    if content == "text":
        path.write_text("#!/bin/sh")
    elif content != "nothing":
        shutil.copy(compiled(), path)
    search = Locator().find(build_id=wanted_id, path=f"{path} (deleted)" if content == "deleted" else str(path))
    assert search.missing is not None
    assert search.missing.reason is reason
    assert search.tried[0].outcome is outcome
    assert search.tried[0].as_json()["outcome"] == outcome.code


def test_the_kinds_that_will_do_can_be_said(tmp_path: Path, build_id: str) -> None:
    debug, archive = tmp_path / "program.debug", tmp_path / "a.lidia"
    subprocess.run(["objcopy", "--only-keep-debug", compiled(), debug], check=True)
    create(compiled(), archive)
    with Locator(files=[debug, archive, compiled()], local=False) as locator:
        for kind, path in (("lidia", archive), ("debuginfo", debug), ("executable", compiled())):
            assert locator.find(build_id=build_id, kinds=[kind]).path == str(path)
    with Locator(files=[debug], local=False) as locator:
        search = locator.find(build_id=build_id, kinds=["executable"])
        assert not search
        assert search.tried[0].outcome is Outcome.EMPTY
    with pytest.raises(ValueError, match="source"):
        Locator().find(build_id=build_id, kinds=["source"])


def test_paths_and_debug_folders_are_looked_for_below_a_root(tmp_path: Path, build_id: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "bin", outside, root / "usr/lib/debug/.build-id" / build_id[:2]):
        folder.mkdir(parents=True)
    shutil.copy(compiled(), root / "bin" / "program")
    shutil.copy(compiled(), outside / "program")
    (root / "away").symlink_to(outside)
    (root / "link").symlink_to("/bin")
    debug = root / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    shutil.copy(compiled(), debug)
    locator = Locator(root=root)
    assert locator.find(build_id=build_id, path="/bin/program").path == str(root / "bin" / "program")
    assert locator.find(build_id=build_id, path="/link/program").path == str(root / "bin" / "program")
    assert locator.find(build_id=build_id, path="/away/program").path == str(debug), "a link does not lead out of it"


def test_a_given_file_that_can_not_be_read_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(whence.WhenceError, match="text: not an ELF file"):
        Locator(files=[tmp_path / "text"])
    with pytest.raises(FileNotFoundError):
        Locator(files=[tmp_path / "missing"])


def test_servers_need_a_cache_to_keep_their_files_in() -> None:
    with pytest.raises(whence.WhenceError, match="need a cache"):
        Locator(debuginfod="http://127.0.0.1:9")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was read as an ELF file."""
    counts: Counter[str] = Counter()
    init: Callable[..., None] = ElfFile.__init__

    def counting(self: ElfFile, data: object, path: str = "", *rest: object) -> None:
        counts[os.path.realpath(path)] += 1
        init(self, data, path, *rest)

    monkeypatch.setattr(ElfFile, "__init__", counting)
    return counts


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("where", ["own path", "given"])
def test_a_profile_opens_each_elf_file_once(where: str, many: bool, tmp_path: Path, opened: Counter[str]) -> None:
    """Archived files, and files whose debug info is in another file, are found, too."""
    stripped, debug = tmp_path / "program", tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", compiled(), debug], check=True)
    subprocess.run(["objcopy", "--strip-all", compiled(), stripped], check=True)
    profile = program_profile(compiled(), file=str(stripped) if where == "own path" else "/not/here")
    for _ in range(100 if many else 0):
        profile.location(0, profile.address[1])
    opened.clear()
    files = [debug] if where == "own path" else [debug, stripped]
    with Locator(files=files, cache=tmp_path / "cache") as locator:
        name(profile, locator)
    assert [frames[-1].function for frames in profile.frames[:2]] == ["main", "sum"]
    assert {path: opened[str(path)] for path in (stripped, debug)} == {stripped: 1, debug: 1}
    assert any((tmp_path / "cache").glob("*/*.lidia")) == many


def test_a_live_process_s_file_is_opened_once(tmp_path: Path, opened: Counter[str]) -> None:
    from tests.helpers import live

    path = live.compiled(tmp_path)
    with running([path]) as (pid, words), whence.Symbolizer() as symbolizer:
        for _ in range(2):
            answers = symbolizer.symbolize(pid, [int(word, 16) for word in words])
            assert [answer.frames[0].function for answer in answers] == ["marker", "other"]
    assert opened[str(path)] == 1
