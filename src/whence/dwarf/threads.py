"""Work on several threads: each takes the next piece when it is done with one.

concurrent.futures would do, but importing it costs a quarter of what answering one address may take.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Tool = TypeVar("Tool")
    Piece = TypeVar("Piece")


def share(tools: Sequence[Tool], pieces: Iterable[Piece], work: Callable[[Tool, Piece], None]) -> None:
    """Call work(tool, piece) for every piece, on a thread per tool (the first tool's is this one).

    The first error stops all and is raised.
    """
    waiting = iter(pieces)
    lock = threading.Lock()
    errors: list[BaseException] = []
    nothing = object()

    def run(tool: Tool) -> None:
        try:
            while not errors:
                with lock:
                    piece = next(waiting, nothing)
                if piece is nothing:
                    return
                work(tool, piece)  # type: ignore[arg-type]
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=run, args=(tool,), daemon=True) for tool in tools[1:]]
    for thread in others:
        thread.start()
    run(tools[0])
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
