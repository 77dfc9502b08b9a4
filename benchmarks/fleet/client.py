"""An HTTP/1.1 client for load: a connection a host, requests one after the other."""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Self

ANSWER_SECONDS = 60


class Connection:
    """A connection to one of several ports of this machine; opened again, to any of them, after a failure."""

    def __init__(self, ports: list[int], dice: random.Random) -> None:
        self._ports, self._dice = ports, dice
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def request(self, method: str, path: str, body: bytes, port: int = 0, kind: str = "") -> tuple[int, bytes]:
        """Return the status and body of the answer; (0, b"") if the server failed. `port` is tried first."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._request(method, path, body, port, kind)
        except (OSError, EOFError, ValueError):  # TimeoutError is an OSError
            self.close()
            return 0, b""

    async def _request(self, method: str, path: str, body: bytes, port: int, kind: str) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await self._connect(port or self._dice.choice(self._ports))
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: fleet\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: {kind}\r\n\r\n" if kind else "\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        first = (await reader.readline()).split()
        if len(first) < 2:
            raise EOFError("the server closed the connection")
        status = int(first[1])
        length, chunked = 0, False
        while line := (await reader.readline()).strip().lower():
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
            chunked |= name == b"transfer-encoding"
        if not chunked:
            return status, await reader.readexactly(length)
        content = b""
        while size := int(await reader.readline(), 16):
            content += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return status, content

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return await asyncio.open_connection("127.0.0.1", self._dice.choice(self._ports))
