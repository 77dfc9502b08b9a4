"""uvicorn's HTTP protocol with limits that it lacks: the time and size of a request's headers, and stalled clients.

Imported by the worker processes, too, which read the limits from their environment (settings.py).
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from whence.server.settings import RequestLimits, ServerSettings
from whence.server.stalls import cut_stalled

if TYPE_CHECKING:
    Base = Any
else:
    Base = AutoHTTPProtocol


@functools.cache
def limits() -> RequestLimits:
    """Return the limits of this server."""
    return ServerSettings.from_environment().limits


class BoundedProtocol(Base):  # type: ignore[misc]
    """Closes a connection whose headers take too long or are too large, or whose client does not read.

    Each request is an object `cycle`, made when its headers are complete.
    """

    _timer: asyncio.TimerHandle | None = None
    _received = 0

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        line = transport.get_extra_info("socket")
        if line is not None:
            cut_stalled(line, limits().stalled_seconds)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers."""
        before = self.cycle
        if self._timer is None and (before is None or before.response_complete):
            self._start()
        self._received += len(data)
        super().data_received(data)
        if self.cycle is not before:
            self._stop()
        elif self._timer is not None and self._received > limits().header_bytes:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self._received = 0
        self._timer = self.loop.call_later(limits().header_seconds, self._close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._stop()
        if not self.transport.is_closing():
            self.transport.close()
