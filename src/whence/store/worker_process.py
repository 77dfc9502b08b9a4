"""The process that a Worker (workers.py) starts: takes ELF files into a store, as it is asked on stdin."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from whence._base.records import values_of
from whence.store.outcomes import Received
from whence.store.store import Store
from whence.store.taking import Taken, Taker, Terms


def main() -> None:
    """Answer the questions on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C the one that asks knows, too
    questions = sys.stdin.buffer
    with open(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # nothing else gets among the answers
        root, jobs, compress, by_hash, layouts, sources, folders, wait = json.loads(questions.readline())
        terms = Terms(by_hash, tuple(layouts), tuple(sources), tuple(folders), wait)
        with Store(root, jobs=jobs, compress=compress) as store:
            taker = Taker(store, terms)
            for line in questions:
                answers.write(json.dumps(_answer(taker, *json.loads(line))).encode() + b"\n")
                answers.flush()


def _answer(taker: Taker, what: str, *words: Any) -> dict[str, object]:
    try:
        if what == "file":
            taken = taker.file(*words)
        elif what == "received":
            (path, *rest), alone = words
            taken = taker.received(Received(Path(path), *rest), alone)
        else:
            taken = Taken(taker.finish(*words))
    except OSError as error:
        return {"failed": [error.errno, error.strerror or str(error), error.filename]}
    return {"outcomes": [values_of(one) for one in taken.outcomes], "due": taken.due}
