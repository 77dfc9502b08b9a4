"""The access log: a JSON object for each response, written in batches.

The logger is `whence.access`; the lines of BATCH_SECONDS are one record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from json.encoder import encode_basestring_ascii as quoted

LOG = logging.getLogger("whence.access")
BATCH_SECONDS = 0.2
CAPACITY = 1000  # lines of a batch
LONGEST_AGENT, LONGEST_PATH, LONGEST_FORWARDED = 200, 2000, 400  # characters


class AccessLog:
    """Writes a line for each response. Called on the event loop only."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._second, self._stamp = 0, ""

    def note(
        self, client: str, forwarded: str, who: str, method: str, path: str, status: int, size: int,
        milliseconds: float, agent: str,
    ) -> None:  # fmt: skip
        """Add a line. Texts of clients are quoted as JSON strings, which escapes control characters."""
        if not LOG.isEnabledFor(logging.INFO):
            return
        now = time.time()
        if int(now) != self._second:
            self._second, self._stamp = int(now), time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        self._lines.append(
            f'{{"time": "{self._stamp}.{int(now % 1 * 1000):03}Z", "client": {quoted(client)}, '
            f'"forwarded": {quoted(forwarded[:LONGEST_FORWARDED])}, "who": {quoted(who)}, "method": {quoted(method)}, '
            f'"path": {quoted(path[:LONGEST_PATH])}, "status": {status}, "bytes": {size}, '
            f'"milliseconds": {milliseconds:.1f}, "agent": {quoted(agent[:LONGEST_AGENT])}}}'
        )
        if len(self._lines) == 1:
            asyncio.get_running_loop().call_later(BATCH_SECONDS, self.flush)
        elif len(self._lines) >= CAPACITY:
            self.flush()

    def flush(self) -> None:
        """Write the current batch."""
        if self._lines:
            LOG.info("%s", "\n".join(self._lines))
            self._lines.clear()
