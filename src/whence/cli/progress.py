"""A sign of life on a terminal when something takes longer than a second. Nothing is imported or shown before that."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from whence.cli import streams

PATIENCE_SECONDS = 1.0


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a moving bar with `what` and the time, on stderr, once PATIENCE_SECONDS have gone by."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, done: threading.Event) -> None:
    if done.wait(PATIENCE_SECONDS):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=streams.unguarded(sys.stderr)), transient=True) as progress:
        progress.add_task(what, total=None)
        done.wait()
