"""AsyncStore."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from tests.helpers.stores import Files
from whence.store import AsyncStore, Store


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def test_every_call_has_an_awaited_form(tmp_path: Path, files: Files) -> None:
    async def work() -> None:
        async with AsyncStore(tmp_path / "store") as store:
            assert [each.outcome for each in await store.add(files.stripped)] == ["added"]
            content = files.debug.read_bytes()
            added = await store.put(files.build_id, "debuginfo", io.BytesIO(content))
            assert added.outcome == "added"
            expected = await store.find(files.build_id)
            assert expected is not None
            assert [row.build_id for row in await store.list()] == [files.build_id]
            with await store.open(files.build_id) as binary:
                assert binary.lookup(files.vaddr)[-1].line
            assert b"".join([piece async for piece in store.chunks(files.build_id, "debuginfo", 7)]) == content[7:]
            with pytest.raises(FileNotFoundError):
                async for _ in store.chunks("ab" * 20, "debuginfo"):
                    pass
            assert list(await store.wanted()) == []
            assert await store.remove(files.build_id)
            assert AsyncStore(Store(tmp_path / "store")).store.list() == []

    asyncio.run(work())


def test_many_uploads_at_once_keep_the_best(tmp_path: Path, files: Files) -> None:
    async def work() -> None:
        async with AsyncStore(tmp_path / "store") as store:
            paths = [files.stripped, files.whole, files.symbols, files.debug] * 3
            calls = (store.put("", "", io.BytesIO(path.read_bytes()), wait=60) for path in paths)
            done = await asyncio.gather(*calls)
            assert {each.outcome for each in done} <= {"added", "better", "same", "poorer"}
            content = [piece async for piece in store.chunks(files.build_id, "executable")]
            assert b"".join(content) == files.whole.read_bytes()

    asyncio.run(work())
