"""The access log: a JSON object for each answer, written a few at a time.

Its lines go to the logger `whence.access`; those of the last BEHIND_SECONDS are one record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from json.encoder import encode_basestring_ascii as quoted

LOG = logging.getLogger("whence.access")
BEHIND_SECONDS = 0.2
AT_MOST = 1000  # lines that wait
LONGEST_AGENT, LONGEST_PATH, LONGEST_FORWARDED = 200, 2000, 400  # letters


class AccessLog:
    """What was asked, by whom, and what became of it. Called by the event loop alone."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._second, self._stamp = 0, ""

    def note(
        self, client: str, forwarded: str, who: str, method: str, path: str, status: int, size: int,
        milliseconds: float, agent: str,
    ) -> None:  # fmt: skip
        """A line; every text of a stranger is in JSON's quotes, where no control character stays one."""
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
            asyncio.get_running_loop().call_later(BEHIND_SECONDS, self.flush)
        elif len(self._lines) >= AT_MOST:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._lines:
            LOG.info("%s", "\n".join(self._lines))
            self._lines.clear()
