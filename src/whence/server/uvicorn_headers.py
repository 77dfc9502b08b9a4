"""What uvicorn lacks: a time and a size that the headers of a request may take."""

from __future__ import annotations

import asyncio
from typing import Any

from whence.server.stalls import cut_stalled


def protocol(seconds: float, most: int, stalled: float) -> type[asyncio.Protocol]:
    """uvicorn's own HTTP protocol, which closes a connection whose headers are not whole after `seconds` or `most`
    bytes, or that reads nothing for `stalled` seconds."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class Bounded(base):  # type: ignore[misc]
        """Each request is an object `cycle`, made when its headers are whole."""

        _timer: asyncio.TimerHandle | None = None
        _read = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            line = transport.get_extra_info("socket")
            if line is not None:
                cut_stalled(line, stalled)
            self._begin()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self._timer is None and (before is None or before.response_complete):
                self._begin()
            self._read += len(data)
            super().data_received(data)
            if self.cycle is not before:
                self._end()
            elif self._timer is not None and self._read > most:
                self._cut()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._read = 0
            self._timer = self.loop.call_later(seconds, self._cut)

        def _end(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _cut(self) -> None:
            self._end()
            if not self.transport.is_closing():
                self.transport.close()

    return Bounded
