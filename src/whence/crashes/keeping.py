"""Small cores kept by signature, in a folder with a limit in number and in bytes.

    FOLDER/SIGNATURE/20261128T072413.125000Z-4711.core      time (UTC) and pid of the crash

Of each signature the newest cores are kept. If all together are too large, the oldest core of the signature with the
most cores is removed, until they fit; so the last core of a signature is removed only when no signature has two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import gmtime, strftime
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.files import atomic_write, lock
from whence._base.records import Record
from whence.crashes.collected import MICROSECONDS, MINIDUMP, CollectedCore, CoreCollection
from whence.dumps.unpacked import opened_core
from whence.shrink import NEAR, shrink_core

if TYPE_CHECKING:
    from whence.locator.locator import Locator

NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+\.core")
FOLDER_NAME = re.compile(r"[0-9a-f]{12}")
LIMIT, BYTES = 3, 1 << 30  # cores of a signature; bytes of all
PRIVATE, PRIVATE_FILE = 0o700, 0o600  # cores have the data of processes


class KeptCores(Record, frozen=True):
    """What was done: paths added and removed, problems by path, and the number and bytes of all kept cores."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    problems: tuple[tuple[str, str], ...]
    count: int
    size: int


def keep_cores(
    collection: CoreCollection,
    folder: str | os.PathLike[str],
    locator: Locator | None = None,
    *,
    limit: int = LIMIT,
    size: int = BYTES,
    redact: bool = False,
) -> KeptCores:
    """Write small cores of a collection's crashes into a folder, and remove others until the limits are met.

    Args:
        collection: by `crashes_in`.
        folder: created if it does not exist, readable by its owner only.
        locator: finds the files of the processes, whose tables unwinding reads.
        limit: cores of each signature.
        size: bytes of all cores.
        redact: zero what stacks do not need.

    Raises OSError if the folder cannot be written.
    """
    root = os.fspath(folder)
    os.makedirs(root, PRIVATE, exist_ok=True)
    added, removed, problems = list[str](), list[str](), list[tuple[str, str]]()
    with _locked(root):
        kept = _existing(root)
        for group in collection.groups:
            names = {name_of(core): core for core in group.cores if core.kind != MINIDUMP}
            target = os.path.join(root, group.signature.text)
            own = {os.path.basename(path) for path in kept if os.path.dirname(path) == target}
            for name in sorted({*names, *own}, reverse=True)[:limit]:
                if name in own:
                    continue
                os.makedirs(target, PRIVATE, exist_ok=True)
                path = os.path.join(target, name)
                try:
                    _write_small(names[name], path, locator, redact=redact)
                except (WhenceError, OSError) as error:
                    problems.append((names[name].path, str(error)))
                else:
                    kept[path] = os.stat(path).st_size
                    added.append(path)
        for path in _surplus(kept, limit, size):
            os.unlink(path)
            kept.pop(path)
            removed.append(path)
            with suppress(OSError):  # not empty
                os.rmdir(os.path.dirname(path))
    transient = {*added} & {*removed}
    return KeptCores(
        tuple(path for path in added if path not in transient),
        tuple(path for path in removed if path not in transient),
        tuple(problems),
        len(kept),
        sum(kept.values()),
    )


def name_of(core: CollectedCore) -> str:
    """Return the name of a kept core.

    >>> name_of(CollectedCore("core", "core", 0, written=1.5, pid=7))
    '19700101T000001.500000Z-7.core'
    """
    seconds, rest = divmod(round(core.written * MICROSECONDS), MICROSECONDS)
    return f"{strftime('%Y%m%dT%H%M%S', gmtime(seconds))}.{rest:06}Z-{core.pid}.core"


@contextmanager
def _locked(root: str) -> Iterator[None]:
    """Wait until no other process changes the folder."""
    descriptor = os.open(os.path.join(root, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _existing(root: str) -> dict[str, int]:
    """Return the sizes of the kept cores by path."""
    sizes: dict[str, int] = {}
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        if FOLDER_NAME.fullmatch(name) and os.path.isdir(folder) and not os.path.islink(folder):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        sizes[entry.path] = entry.stat(follow_symlinks=False).st_size
    return sizes


def _write_small(core: CollectedCore, path: str, locator: Locator | None, *, redact: bool) -> None:
    with opened_core(core.path) as (elf, _), atomic_write(path) as file:
        shrink_core(elf, file, locator, near=0 if redact else NEAR, redact=redact)
    os.chmod(path, PRIVATE_FILE)
    modified = round(core.written * MICROSECONDS) * 1000
    os.utime(path, ns=(modified, modified))  # when the process ended


def _surplus(kept: dict[str, int], limit: int, size: int) -> Iterator[str]:
    """Yield the cores to remove, by the rules of the module."""
    groups: dict[str, list[str]] = {}
    for path in sorted(kept, key=os.path.basename):
        groups.setdefault(os.path.dirname(path), []).append(path)
    total = sum(kept.values())
    while groups:
        folder = min(groups, key=lambda name: (-len(groups[name]), os.path.basename(groups[name][0])))
        if len(groups[folder]) <= limit and total <= size:
            return
        path = groups[folder].pop(0)
        total -= kept[path]
        if not groups[folder]:
            del groups[folder]
        yield path
