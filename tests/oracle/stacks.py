"""Whole stacks as other tools have them: the pc of every frame of every thread, of core files and live processes.

Inlined calls are left out, for they have no frame of their own; so are the tail calls that gdb guesses from debug info.
None represents a frame that a signal handler returns to: tools place it differently.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

import whence

Frames = list[int | None]
Stacks = dict[int, Frames]  # by tid

GDB_SCRIPT = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    print("THREAD", thread.ptid[1] or thread.ptid[0])
    try:
        frame = gdb.newest_frame()
        while frame is not None:
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                print("FRAME", "-" if frame.type() == gdb.SIGTRAMP_FRAME else hex(frame.pc()))
            frame = frame.older()
    except gdb.error as error:
        print("ERROR", error)
"""
GDB_SETTINGS = (
    "debuginfod enabled off", "auto-load off", "backtrace past-main on", "backtrace past-entry on",
    "backtrace limit unlimited", "width 0",
)  # fmt: skip
EU_STACK_FRAME = re.compile(r"^#\d+\s+0x([0-9a-f]+)(?:\s+(\S+))?")
TRAMPOLINES = ("__restore_rt", "__restore", "__kernel_rt_sigreturn", "__kernel_sigreturn", "__restore_rt()")
SECONDS = 120
EU_STACK_FRAMES = 2000  # more of them are a loop that it never leaves


def by_gdb(program: Path, *where: str, gdb: str = "gdb") -> Stacks:
    """`where` is a core file, or -p and a pid."""
    if shutil.which(gdb) is None:
        pytest.skip(f"{gdb} is not on this machine")
    words = [word for each in GDB_SETTINGS for word in ("-iex", f"set {each}")]
    command = [gdb, "-batch", "-nx", *words, "-ex", f"python exec({GDB_SCRIPT!r})", *where]
    if where[0] != "-p":
        command[-1:] = [str(program), *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    result: Stacks = {}
    for line in done.stdout.splitlines():
        word, _, value = line.partition(" ")
        if word == "THREAD":
            result[int(value)] = []
        elif word == "FRAME":
            list(result.values())[-1].append(None if value == "-" else int(value, 16))
    # the parent of a vfork, which shares its memory, has threads that libthread_db tells of, and that the core has not
    return {tid: frames for tid, frames in result.items() if frames not in ([], [None])}


def by_eu_stack(program: Path, *where: str) -> Stacks:
    if shutil.which("eu-stack") is None:
        pytest.skip("eu-stack is not on this machine")
    words = where if where[0] == "-p" else ("--core", where[0], "--executable", str(program))
    command = ["eu-stack", "-n", str(EU_STACK_FRAMES), *words]
    env = {"PATH": "/usr/bin:/bin"}  # without DEBUGINFOD_URLS, of which it would ask for each file
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace", env=env)
    result: Stacks = {}
    for line in done.stdout.splitlines():
        if line.startswith("TID "):
            result[int(line[4:].rstrip(":"))] = []
        elif result and (match := EU_STACK_FRAME.match(line)) is not None:
            list(result.values())[-1].append(None if match[2] in TRAMPOLINES else int(match[1], 16))
    return result


def ours(stacks: Sequence[whence.Stack]) -> Stacks:
    return {each.tid: [None if frame.is_trampoline else frame.pc for frame in each.frames] for each in stacks}


class Difference(NamedTuple):
    """Where one thread's stack is another one in a tool: from frame `at` on."""

    tid: int
    at: int
    ours: Frames
    theirs: Frames

    @property
    def ends_early(self) -> bool:
        """Whether the tool has the same frames, but fewer."""
        return not self.theirs


def differences(found: Stacks, expected: Stacks) -> list[Difference]:
    result = []
    for tid in sorted({*found, *expected}):
        mine, theirs = found.get(tid, []), expected.get(tid, [])
        pairs = enumerate(zip_longest(mine, theirs, fillvalue=-1))
        offset = next((index for index, (each, other) in pairs if each != other), None)
        if offset is not None:
            result.append(Difference(tid, offset, mine[offset:], theirs[offset:]))
    return result
