"""Cores that systemd-coredump, apport and the kernel keep in a folder: what they are, and their signatures.

    systemd     core.COMMAND.UID.BOOT.PID.MICROSECONDS, plain or .zst, .lz4, .xz; attributes user.coredump.*
    apport      NAME.crash, with the core inside
    others      cores and minidumps of any name, also compressed ones

A damaged file has a `problem`; it does not stop the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from whence._base.errors import MapsError, WhenceError
from whence._base.files import open_input
from whence._base.records import Record, replaced
from whence.crashes.signature import CrashSignature, program_of, signature_of
from whence.dumps.apport import FIRST_KEY, read_apport
from whence.dumps.minidump import MAGICS as MINIDUMP_MAGICS
from whence.dumps.packed import packing_of
from whence.dumps.signals import signal_name
from whence.dumps.unpacked import is_core_head
from whence.symbolize import Core

if TYPE_CHECKING:
    from whence.symbolize import Symbolizer

SYSTEMD_FOLDER, APPORT_FOLDER = "/var/lib/systemd/coredump", "/var/crash"
SYSTEMD_NAME = re.compile(r"core\.(.*)\.(\d+)\.([0-9a-f]{32})\.(\d+)\.(\d+)(?:\.(?:zst|lz4|xz))?")
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
ATTRIBUTES = ("pid", "uid", "signal", "timestamp", "comm", "exe")  # user.coredump.*
ATTRIBUTE_SIZE = 4096
MICROSECONDS = 10**6
LATEST = 1 << 40  # seconds; times after it are in microseconds
FILES_LIMIT = 10_000
DEPTH = 2  # folders below a given one
HEAD = 20  # bytes that tell a core
ELF_MAGIC = b"\x7fELF"
SYSTEMD, APPORT, CORE, MINIDUMP = "systemd", "apport", "core", "minidump"


class CollectedCore(Record, frozen=True):
    """A core in a folder: its file, what the collector says of the process, and its signature.

    `size` is in bytes as stored, `packing` how it is compressed, `written` in seconds since 1970. `problem` says what
    the core lacks, or why it has no `signature`.
    """

    path: str
    kind: str
    size: int
    packing: str = ""
    written: float = 0.0
    pid: int = 0
    uid: int | None = None
    command: str = ""
    executable: str = ""
    signal: str = ""
    signature: CrashSignature | None = None
    problem: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "path": self.path,
            "kind": self.kind,
            "size": self.size,
            "packing": self.packing,
            "written": self.written,
            "pid": self.pid,
            "uid": self.uid,
            "command": self.command,
            "executable": self.executable,
            "signal": self.signal,
            "problem": self.problem,
        }


class SignatureGroup(Record, frozen=True):
    """The crashes with one signature, oldest first."""

    signature: CrashSignature
    cores: tuple[CollectedCore, ...]

    @property
    def first(self) -> float:
        return self.cores[0].written

    @property
    def last(self) -> float:
        return self.cores[-1].written

    @property
    def signals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(core.signal for core in self.cores if core.signal))


class CoreCollection(Record, frozen=True):
    """Crashes by signature, the most frequent first, and cores without a signature. `left_out` files were too many."""

    groups: tuple[SignatureGroup, ...]
    unreadable: tuple[CollectedCore, ...]
    left_out: int = 0


def crashes_in(
    folders: Iterable[str | os.PathLike[str]], symbolizer: Symbolizer, *, except_in: str | os.PathLike[str] = ""
) -> CoreCollection:
    """Return the crashes whose cores are in folders, and in folders below them, but not in `except_in`.

    At most FILES_LIMIT cores are read, the newest. Raises OSError if a folder cannot be read.
    """
    excluded = os.path.join(os.path.realpath(except_in), "") if except_in else None
    paths = [path for folder in folders for path in _files(os.fspath(folder), DEPTH)]
    if excluded is not None:
        paths = [path for path in paths if not os.path.realpath(path).startswith(excluded)]
    newest = sorted(set(paths), key=_modified, reverse=True)
    entries = [core for path in newest[:FILES_LIMIT] if (core := read_collected(path, symbolizer)) is not None]
    by_signature: dict[CrashSignature, list[CollectedCore]] = {}
    for core in entries:
        if core.signature is not None:
            by_signature.setdefault(core.signature, []).append(core)
    groups = [
        SignatureGroup(signature, tuple(sorted(cores, key=lambda core: (core.written, core.path))))
        for signature, cores in by_signature.items()
    ]
    groups.sort(key=lambda group: (-len(group.cores), -group.last, group.signature.text))
    unreadable = tuple(core for core in entries if core.signature is None)
    return CoreCollection(tuple(groups), unreadable, max(0, len(newest) - FILES_LIMIT))


def read_collected(path: str, symbolizer: Symbolizer) -> CollectedCore | None:
    """Return a core with its signature; None if the file is not a core."""
    described = None
    try:
        described = describe(path)
        if described is None:
            return None
        core = Core(path)
        missing = f"{core.missing:,} bytes are missing at its end" if core.missing else ""
        return _with_signature(described, core, symbolizer, core.fault or missing)
    except (WhenceError, OSError) as error:
        collected = described or CollectedCore(path, CORE, 0)
        fault = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return replaced(collected, problem=fault.removeprefix(f"{path}: "))


def describe(path: str) -> CollectedCore | None:
    """Return what the name, the attributes and the head of a file say; None if it is not a core. Raises OSError."""
    status = os.lstat(path)
    with open_input(path, MapsError) as file:
        head = file.read(HEAD)
        packing = packing_of(head)
        name = os.path.basename(path)
        match = SYSTEMD_NAME.fullmatch(name)
        core = CollectedCore(path, CORE, status.st_size, packing, status.st_mtime)
        if match is not None:
            return _of_systemd(core, match, path)
        if head.startswith(FIRST_KEY):
            file.seek(0)
            report = read_apport(file)
            if report.core_offset < 0:
                return None
            return replaced(
                core,
                kind=APPORT,
                written=report.written or status.st_mtime,
                pid=report.pid,
                executable=report.executable,
                command=os.path.basename(report.executable),
                signal=signal_name(report.signal) if report.signal else "",
            )
    if head[:4] in MINIDUMP_MAGICS:
        return replaced(core, kind=MINIDUMP)
    if head.startswith(ELF_MAGIC):
        return core if is_core_head(head) else None
    return core if packing and "core" in name else None


def _of_systemd(core: CollectedCore, match: re.Match[str], path: str) -> CollectedCore:
    """Return a core of systemd-coredump by its attributes and, where these are missing, by its name."""
    command, uid, _, pid, time = match.groups()
    values = {
        "comm": ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), command), "uid": uid, "pid": pid, "timestamp": time,
    }  # fmt: skip
    if hasattr(os, "getxattr"):
        for name in ATTRIBUTES:
            with suppress(OSError):
                value = os.getxattr(path, f"user.coredump.{name}", follow_symlinks=False)[:ATTRIBUTE_SIZE]
                values[name] = value.decode("utf-8", "surrogateescape")
    signal = _number(values.get("signal", ""))
    seconds = float(_number(values["timestamp"]))
    return replaced(
        core,
        kind=SYSTEMD,
        written=(seconds / MICROSECONDS if seconds > LATEST else seconds) or core.written,
        pid=_number(values["pid"]),
        uid=_number(values["uid"]),
        command=values["comm"],
        executable=values.get("exe", ""),
        signal=signal_name(signal) if signal else "",
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _with_signature(described: CollectedCore, core: Core, symbolizer: Symbolizer, problem: str) -> CollectedCore:
    first = [thread.tid for thread in core.threads[:1]]
    stacks = core.stacks(symbolizer, tids=first) if first else []
    stack = stacks[0] if stacks else None
    signal = "" if stack is None or stack.signal is None else stack.signal.name
    if stack is None:
        return replaced(described, problem="the core has no threads")
    return replaced(
        described,
        pid=described.pid or core.pid,
        written=core.written if described.kind == MINIDUMP and core.written else described.written,
        command=described.command or core.command,
        executable=described.executable or core.executable,
        signal=described.signal or signal,
        signature=signature_of(stack, program_of(core)),
        problem=problem,
    )


def _files(folder: str, depth: int) -> Iterator[str]:
    """Yield the regular files of a folder and of folders below it; links are not followed."""
    with os.scandir(folder) as entries:
        sorted_entries = sorted(entries, key=lambda entry: entry.name)
    for entry in sorted_entries:
        if entry.is_file(follow_symlinks=False):
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                yield from _files(entry.path, depth - 1)


def _modified(path: str) -> float:
    with suppress(OSError):
        return os.lstat(path).st_mtime
    return 0.0


def folders_of(given: Sequence[str], *, systemd: bool, apport: bool) -> list[str]:
    """Return the folders to list."""
    return [*given, *([SYSTEMD_FOLDER] if systemd else []), *([APPORT_FOLDER] if apport else [])]
