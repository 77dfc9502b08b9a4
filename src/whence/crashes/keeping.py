"""Small cores kept by signature, in a folder with a limit in number and in bytes.

    FOLDER/SIGNATURE/20261128T072413.125000Z-4711.core      time (UTC) and pid of the crash
    FOLDER/SIGNATURE/signature.json                         program and functions

FOLDER is a folder of its own, or `cores` in the folder of a store. Of each signature the newest cores are kept. If all
together are too large, the oldest core of the signature with the most cores is removed, until they fit; so the last
core of a signature is removed only when no signature has two.
"""

from __future__ import annotations

import json
import os
import re
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import gmtime, strftime, strptime
from typing import TYPE_CHECKING

from whence._base.errors import MapsError, WhenceError, without_file
from whence._base.files import atomic_write, lock, open_regular
from whence._base.records import Record
from whence.crashes.collected import MICROSECONDS, MINIDUMP, CollectedCore, CoreCollection
from whence.crashes.signature import CrashSignature
from whence.dumps.unpacked import opened_core
from whence.shrink import NEAR, shrink_core

if TYPE_CHECKING:
    from whence.locator.locator import Locator

NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+\.core")
FOLDER_NAME = re.compile(r"[0-9a-f]{12}")
LIMIT, BYTES = 3, 1 << 30  # cores of a signature; bytes of all
PRIVATE, PRIVATE_FILE = 0o700, 0o600  # cores have the data of processes
STORE_MARKER, STORE_FOLDER = "whence-store.json", "cores"  # of a store in a folder
ABOUT, ABOUT_SIZE = "signature.json", 1 << 16


class KeptCores(Record, frozen=True):
    """Paths that were added and removed, problems by path, and the number and bytes of all kept cores."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    problems: tuple[tuple[str, str], ...]
    count: int
    size: int


class KeptSignature(Record, frozen=True):
    """The kept cores of a signature by path, oldest first, their bytes, and when they crashed (seconds since 1970)."""

    signature: CrashSignature
    cores: tuple[str, ...]
    size: int
    first: float
    last: float

    def as_json(self) -> dict[str, object]:
        return {
            "signature": self.signature.text,
            "program": self.signature.program,
            "functions": self.signature.functions,
            "count": len(self.cores),
            "size": self.size,
            "first": self.first,
            "last": self.last,
            "cores": self.cores,
        }


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
        folder: created if it does not exist, readable by its owner only; or a store in a folder, which keeps them in
            its folder `cores`.
        locator: finds the files of the processes, whose tables unwinding reads.
        limit: cores of each signature.
        size: bytes of all cores.
        redact: zero what stacks do not need.

    Raises OSError if the folder cannot be written.
    """
    root = folder_of_cores(folder)
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
                    problems.append((names[name].path, without_file(error)))
                else:
                    kept[path] = os.stat(path).st_size
                    added.append(path)
            if os.path.isdir(target) and not os.path.exists(os.path.join(target, ABOUT)):
                _write_about(group.signature, target)
        removed += _remove(_surplus(kept, limit, size), kept)
    transient = {*added} & {*removed}
    return KeptCores(
        tuple(path for path in added if path not in transient),
        tuple(path for path in removed if path not in transient),
        tuple(problems),
        len(kept),
        sum(kept.values()),
    )


def folder_of_cores(folder: str | os.PathLike[str]) -> str:
    """Return the folder of the kept cores: a folder itself, or `cores` in it if it is a store."""
    root = os.fspath(folder)
    return os.path.join(root, STORE_FOLDER) if os.path.isfile(os.path.join(root, STORE_MARKER)) else root


def kept_signatures(folder: str | os.PathLike[str]) -> list[KeptSignature]:
    """Return what `keep_cores` keeps in a folder or store, the most frequent signature first. Raises OSError."""
    kept = _existing(folder_of_cores(folder))
    groups: dict[str, list[str]] = {}
    for path in sorted(kept, key=os.path.basename):
        groups.setdefault(os.path.dirname(path), []).append(path)
    signatures = [
        KeptSignature(
            _read_about(target), tuple(paths), sum(kept[path] for path in paths), time_of(paths[0]), time_of(paths[-1])
        )
        for target, paths in groups.items()
    ]
    return sorted(signatures, key=lambda each: (-len(each.cores), -each.last, each.signature.text))


def limit_cores(
    folder: str | os.PathLike[str],
    *,
    limit: int | None = None,
    size: int | None = None,
    only: str = "",
    dry_run: bool = False,
    report: Callable[[str, int], None] = lambda path, size: None,
) -> list[str]:
    """Remove kept cores until the limits are met, and return their paths.

    Args:
        folder: as `keep_cores` has it.
        limit, size: cores of each signature, bytes of all; None: any.
        only: remove all cores of this signature instead.
        dry_run: remove nothing.
        report: called with the path and the bytes of each removed core.

    Raises OSError.
    """
    root = folder_of_cores(folder)
    if not os.path.isdir(root):
        return []
    with _locked(root):
        kept = _existing(root)
        if only:
            surplus = [path for path in kept if os.path.basename(os.path.dirname(path)) == only]
        else:
            total = sum(kept.values())
            surplus = list(_surplus(kept, len(kept) if limit is None else limit, total if size is None else size))
        for path in surplus:
            report(path, kept[path])
        return surplus if dry_run else _remove(surplus, kept)


def _remove(paths: Iterable[str], kept: dict[str, int]) -> list[str]:
    """Remove cores, and the folders of signatures without cores."""
    removed = []
    for path in paths:
        os.unlink(path)
        kept.pop(path)
        removed.append(path)
        target = os.path.dirname(path)
        if os.listdir(target) in ([], [ABOUT]):
            with suppress(OSError):
                os.unlink(os.path.join(target, ABOUT))
            with suppress(OSError):
                os.rmdir(target)
    return removed


def _write_about(signature: CrashSignature, target: str) -> None:
    content = json.dumps({"program": signature.program, "functions": signature.functions}).encode()
    path = os.path.join(target, ABOUT)
    with atomic_write(path) as file:
        file.write(content)
    os.chmod(path, PRIVATE_FILE)


def _read_about(target: str) -> CrashSignature:
    """Return the signature of a folder, without program and functions if its description is missing or damaged."""
    program, functions = "", tuple[str, ...]()
    try:
        with open_regular(os.path.join(target, ABOUT), MapsError) as (descriptor, _):
            about = json.loads(os.read(descriptor, ABOUT_SIZE))
        program, functions = str(about["program"]), tuple(map(str, about["functions"]))
    except (OSError, MapsError, ValueError, LookupError, TypeError, RecursionError):
        pass
    return CrashSignature(os.path.basename(target), program, functions)


def time_of(path: str) -> float:
    """Return the time in the name of a kept core, in seconds since 1970.

    >>> time_of("19700101T000001.500000Z-7.core")
    1.5
    """
    seconds, _, rest = os.path.basename(path).partition("Z-")[0].partition(".")
    try:
        return timegm(strptime(seconds, "%Y%m%dT%H%M%S")) + int(rest) / MICROSECONDS
    except ValueError:
        return 0.0


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
