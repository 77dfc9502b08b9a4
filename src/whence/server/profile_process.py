"""Read, name and write a profile in a confined process, which gets files from the server by build-id alone.

The profile's paths are never opened: no file at a mapped path, no jitdump, no symbol list of this machine. A request
for a file is the message {"find": build-id, "kinds": [...], "skip": n}; the answer describes the n-th candidate that
the server's locator has, with its descriptor, or is {} if there are no more.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whence import lidia
from whence._base.child import LONGEST, receive, send
from whence._base.errors import Unsupported, WhenceError
from whence.binary import Binary
from whence.locate.identity import comparable, key
from whence.locate.search import FileKind, FileQuery, Outcome, Tried
from whence.locate.sources import Candidate, of_elf
from whence.locator.answers import RemoteArchive
from whence.locator.locator import Locator
from whence.objects.interface import ObjectFile
from whence.objects.opening import object_of_bytes
from whence.profiles import page_code
from whence.profiles.binaries import Binaries
from whence.profiles.formats import registry as formats
from whence.profiles.formats import written
from whence.profiles.naming import FileReport, find_functions
from whence.profiles.naming import name as name_profile

MISSED_BYTES = LONGEST // 2  # of the list of files without names, as JSON


class ServerFiles:
    """The server's files, as a source of the Locator."""

    how = "server"

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._fetched: dict[str, ObjectFile] = {}

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        """Yield the server's candidates for a build-id; a damaged one is noted in `tried`."""
        kinds = [str(kind) for kind in query.kinds]
        for skip in itertools.count() if query.key else ():
            answer, descriptor = self._request(query.key, kinds, skip)
            if descriptor is None:
                break
            try:
                yield candidate_of(answer, descriptor, query.key)
            except WhenceError as error:
                tried.append(Tried("", self.how, Outcome.BROKEN, error.message))
        tried.append(Tried("", self.how, Outcome.ABSENT, "no other file of this build-id"))

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """Return a name for `open_elf` of a file with debug info; None if the server has none."""
        for candidate in self.find(FileQuery(build_id, kinds=(FileKind(kind),)), []):
            if candidate.is_archive:
                continue
            elf = candidate.elf()
            if elf.has_debug_info:
                name = f"/{key(build_id)}/{kind}"
                self._fetched[name] = elf
                return Path(name)
            elf.close()
        return None

    def open_elf(self, name: str) -> ObjectFile:
        """Return a fetched file. Raises FileNotFoundError for every other name."""
        try:
            return self._fetched.pop(name)
        except KeyError:
            raise FileNotFoundError(2, "not a file of the server") from None

    def _request(self, build_id: str, kinds: list[str], skip: int) -> tuple[dict[str, Any], int | None]:
        with self._lock:
            send(self._line, {"find": build_id, "kinds": kinds, "skip": skip})
            answer, descriptors = receive(self._line)
        return answer, descriptors[0] if descriptors else None


class ConfinedLocator(Locator):
    """A Locator whose only files are the server's."""

    def __init__(self, files: ServerFiles) -> None:
        self._server_files = files
        super().__init__(dirs=(), local=False, sources=[files], jobs=1)

    def _open_elf(self, path: str) -> ObjectFile:
        return self._server_files.open_elf(path)


def candidate_of(answer: dict[str, Any], descriptor: int, build_id: str) -> Candidate:
    """Return an open file as a candidate, and close its descriptor. Raises ElfError."""
    try:
        if not os.fstat(descriptor).st_size:
            return of_elf(object_of_bytes(b""), ServerFiles.how)
        mapping = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
    if not answer.get("archive"):
        return of_elf(object_of_bytes(mapping, f"/{build_id}"), ServerFiles.how)

    def open_archive(demangle: Any) -> Binary:
        return Binary(table=lidia.from_bytes(mapping, demangle=demangle), path=f"/{build_id}")

    return RemoteArchive(f"/{build_id}", ServerFiles.how, build_id, open_archive)


def name_and_write(line: socket.socket, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    """Name the profile in the first file and write it to the second; return what the server reports about it.

    Raises WhenceError.
    """
    given, out = descriptors
    with open(os.dup(given), "rb") as file:
        profile = formats.from_bytes(file.read(), local=False)
    with ConfinedLocator(ServerFiles(line)) as locator, Binaries(locator, once=True, local=False) as binaries:
        reports = name_profile(profile, binaries, demangle=True)
        format = message["format"] or formats.format_for(profile, "")
        if format in (written.PAGE, "firefox"):
            find_functions(profile, binaries)
    try:
        if format == written.PAGE:
            data = page_code.page(profile, message["title"], None, page_code.PageCodeOptions(server=True))
        else:
            data = formats.to_bytes(profile, format, message["title"])
    except ImportError as error:
        raise Unsupported(str(error)) from None
    if len(data) > message["answer_bytes"]:
        raise Unsupported(f"the answer has more than {message['answer_bytes']} bytes: request another format")
    with open(os.dup(out), "wb") as file:
        file.write(data)
    return {
        "format": format,
        "locations": sum(report.locations for report in reports),
        "named": sum(report.named for report in reports),
        "missed": missed_files(reports),
    }


def missed_files(reports: list[FileReport]) -> list[tuple[str, str]]:
    """Return build-id and path of the files that lack names, limited to the size of a message."""
    missed: list[tuple[str, str]] = []
    size = 0
    for report in reports:
        if report.named < report.locations and report.build_id:
            row = comparable(report.build_id), report.path
            size += len(json.dumps(row))
            if size > MISSED_BYTES:
                break
            missed.append(row)
    return missed
