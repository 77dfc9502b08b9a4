"""Processes by pid or by the name of their command, for the argument PID."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from contextlib import suppress
from pathlib import Path

SHOWN = 10  # pids in a message


def pid_of(word: str) -> int:
    """Parse a pid, or return that of the only process whose command has this name.

    argparse reports an ArgumentTypeError.
    """
    if word.isdecimal():
        return int(word)
    pids = pids_named(word)
    if not pids:
        raise ArgumentTypeError(f"no process is named {word!r}: give a pid or the name of a running command")
    if len(pids) > 1:
        shown = ", ".join(map(str, pids[:SHOWN])) + (", ..." if len(pids) > SHOWN else "")
        raise ArgumentTypeError(f"{len(pids)} processes are named {word!r}: give one of their pids: {shown}")
    return pids[0]


def pids_named(name: str) -> list[int]:
    """Return the pids of processes whose command, executable or first argument has a name, without this process."""
    pids = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        names = set()
        with suppress(OSError):
            names.add((folder / "comm").read_text(errors="replace").rstrip("\n"))
        with suppress(OSError):
            names.add(os.path.basename(os.readlink(folder / "exe")))
        with suppress(OSError):
            argument = (folder / "cmdline").read_bytes().partition(b"\0")[0]
            names.add(os.path.basename(os.fsdecode(argument)))
        if name in names:
            pids.append(int(folder.name))
    return sorted(pids)
