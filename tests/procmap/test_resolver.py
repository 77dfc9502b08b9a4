"""The resolver over forged /proc trees: caching, invalidation, and build-ids."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.forge.elf import Section, Segment, build_id_note, forge
from tests.forge.proc import Line, process
from whence.procmap import Kind, Resolver

OLD, NEW = "aa" * 20, "bb" * 20


def program(path: Path, build_id: str) -> Path:
    code = Section(".text", b"\x90" * 64, vaddr=0x401000, flags=6)
    segments = [Segment(1, 5, of=".text"), Segment(4, 4, of=".note.gnu.build-id", align=4)]
    path.write_bytes(forge([code, build_id_note(build_id)], segments))
    return path


def test_lookup_gives_the_mapping_with_its_build_id(tmp_path: Path) -> None:
    path = program(tmp_path / "my app", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), 0x3000, of=path), Line(0x2000, 0x3000, permissions="rw-p")])
    with Resolver(tmp_path) as resolver:
        mapping = resolver.lookup(7, 0x1FFF)
        assert mapping is not None
        assert (mapping.path, mapping.build_id, mapping.file_offset_of(0x1010)) == (str(path), OLD, 0x3010)
        assert mapping.openable_path() == str(path)
        assert resolver.lookup(7, 0xFFF) is None
        assert resolver.lookup(7, 0x2000) is None
        assert resolver.mappings(7) == [mapping]
        assert resolver.mappings(7) is resolver.mappings(7)


def test_a_missing_process_has_no_mappings_and_is_tried_again(tmp_path: Path) -> None:
    with Resolver(tmp_path) as resolver:
        assert resolver.mappings(7) == []
        assert resolver.lookup(7, 0x1000) is None
        with pytest.raises(ProcessLookupError):
            resolver.require(7)
        path = program(tmp_path / "app", OLD)
        process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
        assert len(resolver.mappings(7)) == 1


def test_a_bad_line_is_reported_and_the_others_answer(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    process(tmp_path, 7, [b"what is this\n", Line(0x1000, 0x2000, str(path), of=path)])
    with Resolver(tmp_path) as resolver:
        assert len(resolver.mappings(7)) == 1
        (problem,) = resolver.problems(7)
        assert "what is this" in str(problem)


def test_a_replaced_file_never_gives_its_build_id_to_the_old_mapping(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    mapped = Line(0x1000, 0x2000, str(path), of=path).text()
    gone = Line(0x5000, 0x6000, f"{path} (deleted)", of=path).text()
    process(tmp_path, 7, [mapped, gone])
    program(tmp_path / "new", NEW).rename(path)
    with Resolver(tmp_path) as resolver:
        first, second = resolver.mappings(7)
        assert (first.build_id, second.build_id) == ("", "")
        assert (first.openable_path(), second.openable_path()) == ("", "")
        assert (second.kind, second.deleted) == (Kind.DELETED, True)
        assert resolver.build_id(path) == NEW


def test_a_file_that_is_not_regular_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(pipe), of=pipe)])
    with Resolver(tmp_path) as resolver:
        (mapping,) = resolver.mappings(7)
        assert (mapping.build_id, mapping.openable_path()) == ("", "")


def test_a_living_file_may_be_called_deleted(tmp_path: Path) -> None:
    path = program(tmp_path / "app (deleted)", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
    with Resolver(tmp_path) as resolver:
        assert resolver.mappings(7)[0].build_id == OLD


def test_map_files_leads_to_a_file_without_a_name(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    directory = process(tmp_path, 7, [Line(0x1000, 0x2000, f"{path} (deleted)", of=path)])
    (directory / "map_files").mkdir()
    path.rename(tmp_path / "elsewhere")
    (directory / "map_files" / "1000-2000").symlink_to(tmp_path / "elsewhere")
    with Resolver(tmp_path) as resolver:
        mapping = resolver.mappings(7)[0]
        assert mapping.map_files == f"{directory}/map_files/1000-2000"
        assert mapping.openable_path() == mapping.map_files
        assert mapping.build_id == OLD


def test_a_path_of_another_root_is_opened_through_the_process(tmp_path: Path) -> None:
    directory = process(tmp_path, 7, [])
    (directory / "root" / "opt").mkdir(parents=True)
    path = program(directory / "root" / "opt" / "app", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, "/opt/app", of=path)])
    with Resolver(tmp_path) as resolver:
        mapping = resolver.mappings(7)[0]
        assert mapping.openable_path() == str(path)
        assert mapping.build_id == OLD


def test_build_ids_are_kept_by_file_not_by_name(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    with Resolver(tmp_path) as resolver:
        assert resolver.build_id(path) == OLD
        program(tmp_path / "new", NEW).rename(path)
        assert resolver.build_id(path) == NEW
        path.unlink()
        assert resolver.build_id(path) == ""
        program(path, OLD)
        assert resolver.build_id(path) == OLD


def test_invalidate_addr_forgets_only_when_the_address_is_new(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
    with Resolver(tmp_path) as resolver:
        before = resolver.mappings(7)
        process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path), Line(0x5000, 0x6000, str(path), of=path)])
        resolver.invalidate_addr(7, 0x1800)
        assert resolver.mappings(7) is before
        resolver.invalidate_addr(7, 0x5800)
        assert len(resolver.mappings(7)) == 2
        resolver.invalidate_addr(8, 0)
        resolver.invalidate(7)
        resolver.invalidate(7)
        assert len(resolver.mappings(7)) == 2


def test_an_address_of_a_new_mapping_is_found_without_invalidation(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
    with Resolver(tmp_path) as resolver:
        assert resolver.mappings(7)
        process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path), Line(0x5000, 0x6000, str(path), of=path)])
        assert resolver.lookup(7, 0x5800) is not None


def test_a_reused_pid_clears_the_cache(tmp_path: Path) -> None:
    path, other = program(tmp_path / "app", OLD), program(tmp_path / "other", NEW)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)], start_time=100)
    with Resolver(tmp_path, recheck=0) as resolver:
        assert resolver.mappings(7)[0].build_id == OLD
        process(tmp_path, 7, [Line(0x1000, 0x2000, str(other), of=other)], start_time=200)
        mapping = resolver.lookup(7, 0x1000)
        assert mapping is not None
        assert mapping.build_id == NEW
        shutil.rmtree(tmp_path / "7")
        assert resolver.lookup(7, 0x1000) is None


def test_a_closed_resolver_is_usable(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
    resolver = Resolver(tmp_path)
    first = resolver.mappings(7)
    resolver.close()
    assert resolver.mappings(7) == first
    assert resolver.mappings(7) is not first


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_process_without_permission_has_no_mappings_and_is_tried_again(tmp_path: Path) -> None:
    directory = process(tmp_path, 7, [Line(0x1000, 0x2000)])
    (directory / "maps").chmod(0)
    with Resolver(tmp_path) as resolver:
        assert resolver.mappings(7) == []
        with pytest.raises(PermissionError):
            resolver.require(7)
        (directory / "maps").chmod(0o600)
        assert len(resolver.mappings(7)) == 1


def test_threads_look_up_and_invalidate_concurrently(tmp_path: Path) -> None:
    path = program(tmp_path / "app", OLD)
    lines = [Line(start, start + 0x1000, str(path), of=path) for start in range(0x1000, 0x40000, 0x2000)]
    for pid in range(5):
        process(tmp_path, pid, lines)
    wrong: list[object] = []
    with Resolver(tmp_path, recheck=0.001) as resolver:

        def ask(seed: int) -> None:
            for turn in range(300):
                pid, line = (seed + turn) % 5, lines[(seed * 7 + turn) % len(lines)]
                mapping = resolver.lookup(pid, line.start + 5)
                if mapping is None or mapping.start != line.start or mapping.build_id != OLD:
                    wrong.append((pid, line, mapping))
                if turn % 50 == 0:
                    resolver.invalidate(pid)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_mappings_are_read_again_after_the_refresh_time(tmp_path: Path) -> None:
    path, other = program(tmp_path / "app", OLD), program(tmp_path / "other", NEW)
    process(tmp_path, 7, [Line(0x1000, 0x2000, str(path), of=path)])
    with Resolver(tmp_path, refresh=0) as resolver, Resolver(tmp_path) as keeping:
        assert resolver.mappings(7)[0].build_id == keeping.mappings(7)[0].build_id == OLD
        process(tmp_path, 7, [Line(0x1000, 0x2000, str(other), of=other)])
        mapping, kept = resolver.lookup(7, 0x1000), keeping.lookup(7, 0x1000)
        assert mapping is not None
        assert kept is not None
        assert (mapping.build_id, kept.build_id) == (NEW, OLD)


def test_a_process_without_memory_exists_and_has_no_mappings(tmp_path: Path) -> None:
    kernel_thread = Path("/proc/2")
    if not kernel_thread.is_dir() or os.geteuid() != 0:
        pytest.skip("no kernel threads to be seen here")
    with Resolver() as resolver:
        assert resolver.require(2) == []
        assert resolver.find(2, 0x1000) is None
