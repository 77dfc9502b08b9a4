"""A store for programs that run on asyncio: the methods of Store, each on a thread, awaited.

async with AsyncStore("s3://symbols") as store:
    meta = await store.find(build_id)
    async for chunk in store.chunks(build_id, "debuginfo"):
        ...
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from whence.store.store import Store
from whence.store.writer import WAIT_SECONDS

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import SupportsRead

    from whence.binary import Binary
    from whence.store.index import IndexRow
    from whence.store.meta import Meta
    from whence.store.objects import Objects
    from whence.store.outcomes import Added, Outcomes
    from whence.store.wanted import MissedId


class AsyncStore:
    """A Store whose methods are coroutines.

    `store` is the underlying Store; the arguments and errors are those of Store. A call that is cancelled continues on
    its thread: what it writes is written entirely or not at all.
    """

    def __init__(self, location: str | os.PathLike[str] | Objects | Store, **options: Any) -> None:
        self.store = location if isinstance(location, Store) else Store(location, **options)

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
        """Return the description of a build-id; None if the store has no file of it."""
        return await asyncio.to_thread(self.store.find, build_id)

    async def list(self) -> list[IndexRow]:
        """Return a row for each build-id, in order."""
        return await asyncio.to_thread(self.store.list)

    async def open(self, build_id: str, *, demangle: bool | Callable[[str], str] = False) -> Binary:
        """Open the archive of a build-id, or its object files if there is no archive."""
        return await asyncio.to_thread(self.store.open, build_id, demangle=demangle)

    async def add(self, *paths: str | os.PathLike[str], **options: Any) -> Outcomes:
        """Add files, folders and packages; `report` is called on other threads."""
        return await asyncio.to_thread(self.store.add, *paths, **options)

    async def put(
        self,
        build_id: str,
        kind: str,
        file: SupportsRead[bytes],
        *,
        origin: str = "",
        limit: int = 0,
        wait: float = 0.0,
    ) -> Added:
        """Put one file, such as the body of an upload, and return its outcome."""
        return await asyncio.to_thread(self.store.put, build_id, kind, file, origin=origin, limit=limit, wait=wait)

    async def chunks(self, build_id: str, kind: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes [start, end) of a file in chunks. Raises FileNotFoundError."""
        content = await asyncio.to_thread(self.store.open_bytes, build_id, kind)
        if content is None:
            raise FileNotFoundError(2, f"the store has no {kind} of {build_id}")
        try:
            chunks = content.chunks(start, end)
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
        finally:
            await asyncio.to_thread(content.close)

    async def wanted(self) -> Iterable[MissedId]:
        """Return the build-ids that were requested and are missing, most requested first."""
        return await asyncio.to_thread(self.store.wanted)

    async def remove(self, build_id: str, *, wait: float = WAIT_SECONDS) -> int:
        """Remove all files of a build-id, and return the number of bytes that this frees."""
        return await asyncio.to_thread(self.store.remove, build_id, wait=wait)
