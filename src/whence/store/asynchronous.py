"""A store for programs that run on asyncio: the calls of Store, each in a thread of its own, awaited.

async with AsyncStore("s3://symbols") as store:
    known = await store.find(build_id)
    async for chunk in store.chunks(build_id, "debuginfo"):
        ...
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from whence.store.store import WAIT_SECONDS, Store

if TYPE_CHECKING:
    from types import TracebackType

    from whence.binary import Binary
    from whence.store.index import IndexRow
    from whence.store.keeper import Readable
    from whence.store.meta import Meta
    from whence.store.objects import Objects
    from whence.store.outcomes import Added, Outcomes
    from whence.store.wanted import MissedId


class AsyncStore:
    """A Store whose calls are awaited; `store` is the one behind it. The options and errors are those of Store.

    A call that is cancelled is waited for by nobody, and ends by itself: what it writes is whole or not at all.
    """

    def __init__(self, place: str | os.PathLike[str] | Objects | Store, **options: Any) -> None:
        self.store = place if isinstance(place, Store) else Store(place, **options)

    def __repr__(self) -> str:
        return f"<whence.store.AsyncStore {self.store.url}>"

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections. The store stays usable."""
        await asyncio.to_thread(self.store.close)

    async def find(self, build_id: str) -> Meta | None:
        """What is known of a build-id; None when nothing of it is there."""
        return await asyncio.to_thread(self.store.find, build_id)

    async def list(self) -> list[IndexRow]:
        """A row for each build-id, in order."""
        return await asyncio.to_thread(self.store.list)

    async def open(self, build_id: str, *, demangle: bool | Callable[[str], str] = False) -> Binary:
        """What names the addresses of a build-id."""
        return await asyncio.to_thread(self.store.open, build_id, demangle=demangle)

    async def add(self, *paths: str | os.PathLike[str], **options: Any) -> Outcomes:
        """Put files, folders and packages; `report` is called in other threads."""
        return await asyncio.to_thread(self.store.add, *paths, **options)

    async def put(
        self, build_id: str, kind: str, file: Readable, *, origin: str = "", limit: int = 0, wait: float = 0.0
    ) -> Added:
        """Put one file as it comes."""
        return await asyncio.to_thread(
            self.store.put, build_id, kind, file, origin=origin, limit=limit, wait=wait
        )  # fmt: skip

    async def chunks(self, build_id: str, kind: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a file, a piece at a time. FileNotFoundError when it is not there."""
        content = await asyncio.to_thread(self.store.open_bytes, build_id, kind)
        if content is None:
            raise FileNotFoundError(2, f"there is no {kind} of {build_id}")
        try:
            pieces = content.chunks(start, end)
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        finally:
            await asyncio.to_thread(content.close)

    async def wanted(self) -> Iterable[MissedId]:
        """Build-ids that were asked for and are not there."""
        return await asyncio.to_thread(self.store.wanted)

    async def remove(self, build_id: str, *, wait: float = WAIT_SECONDS) -> int:
        """Remove everything of a build-id; returns how many bytes that frees."""
        return await asyncio.to_thread(self.store.remove, build_id, wait=wait)
