"""A progress line on stderr for work that takes longer than a second, erased at the end.

Nothing is shown if stderr is not a terminal.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from whence._base import streams
from whence._base.words import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event, Thread
    from types import TracebackType
    from typing import Self

PATIENCE_SECONDS = 1.0
INTERVAL_SECONDS = 0.2
CLEAR = "\r\x1b[K"  # return to the start of the line and erase it


class Progress:
    """A context manager around long work. `what` may change meanwhile, and `share` may return (done, total)."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self.what = what
        self.share: Callable[[], tuple[int, int]] | None = None
        self._quiet = quiet or not sys.stderr.isatty()
        self._done: Event | None = None  # set at the end
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        if not self._quiet:
            from threading import Event, Thread

            done = Event()
            thread = Thread(target=self._run, args=(time.monotonic(), done), daemon=True)
            with suppress(RuntimeError):
                thread.start()
                self._thread, self._done = thread, done
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None and self._done is not None:
            self._done.set()
            self._thread.join()

    def _run(self, began: float, done: Event) -> None:
        if done.wait(PATIENCE_SECONDS):
            return
        terminal = streams.unguarded(sys.stderr)
        while True:
            terminal.write(CLEAR + self.line(time.monotonic() - began, columns()))
            terminal.flush()
            if done.wait(INTERVAL_SECONDS):
                break
        terminal.write(CLEAR)
        terminal.flush()

    def line(self, seconds: float, width: int) -> str:
        """Return the line shown after `seconds` on a terminal of `width` columns.

        >>> progress = Progress("archiving app")
        >>> progress.line(65, 80)
        'archiving app  1:05'
        >>> progress.share = lambda: (1, 3)
        >>> progress.line(65, 80)
        'archiving app   33 %  1:05'
        """
        done, total = self.share() if self.share is not None else (0, 0)
        percent = f"  {min(100, 100 * done // total):3} %" if total else ""
        clock = f"  {int(seconds) // 60}:{int(seconds) % 60:02}"
        available = max(0, width - 1 - len(percent) - len(clock))
        return plain(self.what)[:available] + percent + clock


def columns() -> int:
    """Return the width of the terminal at stderr."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
