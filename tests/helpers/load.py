"""Many clients at one server: requests as bytes over raw connections, what they were answered, and what that took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

CUT = 0  # the status of a request whose connection was closed unanswered
SECONDS = 40.0  # that an answer may take
MOST = 1 << 26  # bytes of an answer


class Client:
    """One connection, opened anew when the server has closed it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._place = str(parts.hostname), int(parts.port or 0)
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes, *, again: bool = True) -> tuple[int, bytes]:
        """The status and body of an answer. A kept connection that the server has closed meanwhile is opened again."""
        kept = self._line is not None
        if self._line is None:
            self._line = await asyncio.open_connection(*self._place, limit=1 << 20)
        reader, writer = self._line
        try:
            writer.write(request)
            async with asyncio.timeout(SECONDS):
                with suppress(ConnectionError):  # it may have answered before it closed
                    await writer.drain()
                status, body, closes = await answer_of(reader, request.startswith(b"HEAD "))
        except (ConnectionError, asyncio.IncompleteReadError, ValueError, asyncio.LimitOverrunError):
            await self.close()
            return await self.ask(request, again=False) if kept and again else (CUT, b"")
        except BaseException:
            await self.close()
            raise
        if closes:
            await self.close()
        return status, body

    async def close(self) -> None:
        if self._line is not None:
            _, writer = self._line
            self._line = None
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def answer_of(reader: asyncio.StreamReader, is_head: bool) -> tuple[int, bytes, bool]:
    """Status and body of the next answer, and whether the connection ends with it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split()[1])
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    closes = headers.get("connection", "").lower() == "close"
    if is_head or status in (204, 304):
        return status, b"", closes
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = bytearray()
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
        return status, bytes(body), closes
    if "content-length" in headers:
        return status, await reader.readexactly(int(headers["content-length"])), closes
    return status, await reader.read(MOST), True


def request(
    method: str, path: str, body: bytes | None = None, kind: str = "", headers: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers)]
    if kind:
        lines.append(f"Content-Type: {kind}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + (body or b"")


async def many(
    url: str, clients: int, next_request: Callable[[], tuple[str, bytes] | None], until: float = float("inf")
) -> list[tuple[str, int, float]]:
    """The names, statuses and seconds of what clients asked, each one thing after the other, until there is no next
    request, or the clock says `until`."""
    done: list[tuple[str, int, float]] = []

    async def client() -> None:
        line = Client(url)
        while time.monotonic() < until:
            asked = next_request()
            if asked is None:
                break
            began = time.monotonic()
            try:
                status, _ = await line.ask(asked[1])
            except TimeoutError:
                status = -1
            done.append((asked[0], status, time.monotonic() - began))
        await line.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return done


def resident_bytes(pid: int) -> int:
    """The proportional set size of a process and its children: pages they share count once. A child that is about to
    end counts for nothing."""
    total, waiting = 0, [pid]
    while waiting:
        root = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError):
            lines = (root / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
            for task in (root / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def open_files(pid: int) -> int:
    """How many files a process and its children have open."""
    total, waiting = 0, [pid]
    while waiting:
        root = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError):
            total += len(list((root / "fd").iterdir()))
            for task in (root / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total
