"""Confined parsing: untrusted files are parsed in sandboxed child processes, so that a crash or a hang stays there.

A fork server (`python -m whence.server.parsing`, started with the first file) imports all modules and then forks a
confined process for each file. That process gets the open files, gives up everything else (sandbox.py), and answers
requests (_base/child.py):

    {"method": "check"}    whether the file is complete and has a build-id (the reply of an upstream server)
    {"method": "scan"}     what the file holds
    {"method": "archive"}  writes the archive of the scanned file, or of all files of its build-id, to an open file
    {"method": "profile"}  reads a client's profile, names it and writes it (profile_process.py)

The server checks each reply as it would check the file: the process may have been taken over.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import mmap
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from whence._base.child import Child, ending, parent, receive, send
from whence._base.errors import Mismatch, WhenceError, plain, without_file
from whence._base.options import ReadOptions
from whence.locate.cache import CutError, check_elf
from whence.locate.search import FileKind, FileQuery
from whence.objects.opening import object_of_bytes
from whence.producers import Producers
from whence.profiles.formats import registry as formats
from whence.profiles.formats import written
from whence.server.profile_process import name_and_write
from whence.server.sandbox import confine
from whence.store.archiving import Supplements, alt_in, archive_of, is_better_alone
from whence.store.names import CODE_ID, DEBUG_ID, DEBUGINFO, ELF_KINDS, EXECUTABLE, is_id
from whence.store.outcomes import MadeArchive
from whence.store.parser import FileParser, ParseSession, stored_files
from whence.store.quality import Quality, ScanResult, open_scan_of

if TYPE_CHECKING:
    from whence.locate.sources import Candidate
    from whence.objects.interface import ObjectFile
    from whence.server.settings import RequestLimits
    from whence.store.meta import Meta
    from whence.store.reader import StoreReader

ENVIRONMENT = ("PATH", "PYTHON", "LD_LIBRARY_PATH", "LANG", "LC_")  # prefixes of what the fork server gets: no secrets
ALT = "alt"
DEBUG_PATH, ALT_PATH = "/debug", "/alt"  # names of open files without a path
SCAN, ARCHIVE, CHECK, PROFILE = "scan", "archive", "check", "profile"
LONGEST_NOTE, LONGEST_NAME = 1000, 200
MAX_CANDIDATES = 16  # files of a build-id that may name a profile
PATIENCE_SECONDS = 5.0  # for the fork server, when this process ends
MALFORMED = "parsing failed: the worker sent a malformed reply"
FLAGS = ("lines", "pclntab", "symtab", "dynsym", "functions")  # of Quality, in its order
PACKAGES = (
    "_base", "archive", "demangle", "dwarf", "exchange", "flamegraph", "gopclntab", "gotrace", "kernels", "lidia",
    "locate", "locator", "objects", "pdb", "perfdata", "procmap", "profiles", "ranges", "samples", "store", "symbolize",
    "unwind",
)  # fmt: skip


LIBRARIES = (
    "backports.zstd", "bz2", "compression.zstd", "ctypes", "gzip", "isal.isal_zlib", "lzma",
    "pyarrow", "pydemumble", "traceback", "zipfile", "zlib",
)  # fmt: skip
"""Modules that a confined process may need; it can't import them any more."""


class ParseFailed(WhenceError):
    """A file that was not parsed within the limits."""


class NamedProfile(NamedTuple):
    """A named profile in a format, its counts, and the (build-id, path) of files that lack names."""

    data: bytes
    format: str
    locations: int
    named: int
    missed: list[tuple[str, str]]


# in the server


class ConfinedParser(FileParser):
    """Parses the files of a store in confined processes, one for each session."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._fork_server: Child | None = None

    @contextlib.contextmanager
    def session(
        self, store: StoreReader, jobs: int | None = 1, folders: Iterable[str] = ()
    ) -> Iterator[ConfinedSession]:
        """Open a block with a confined process for one file. Raises ParseFailed, OSError."""
        with contextlib.ExitStack() as stack:
            yield ConfinedSession(stack, store, self)

    def check(self, path: Path, build_id: str, kind: str) -> None:
        """Raise WhenceError unless an ELF file is complete and has this build-id (locate.cache.check)."""
        with open(path, "rb") as file, self.start() as line:
            reply = self.exchange(line, {"method": CHECK, "build_id": build_id}, [file.fileno()])
        if reply.get("cut") is True:
            raise CutError("the file is cut off")
        if reply.get("right") is not True:
            raise Mismatch(f"build-id mismatch: expected {build_id}")

    def name_profile(
        self, body: bytes, format: str, title: str, candidates: Callable[[FileQuery], Iterator[Candidate]]
    ) -> NamedProfile:
        """Return a profile named by the files that `candidates` finds, in `format` ("": its own).

        Raises WhenceError; OSError if the temporary folder is full.
        """
        limit = self._limits.answer_bytes
        message: dict[str, Any] = {"method": PROFILE, "format": format, "title": title, "answer_bytes": limit}
        with TemporaryFile() as given, TemporaryFile() as out, self.start() as line:
            given.write(body)
            given.seek(0)  # which flushes
            reply = self.exchange(line, message, [given.fileno(), out.fileno()])
            while "find" in reply:
                with contextlib.ExitStack() as stack:
                    reply = self.exchange(line, *file_for(reply, candidates, stack))
            out.seek(0)
            return checked_profile(reply, out.read(limit + 1), limit)

    def close(self) -> None:
        """End the fork server."""
        with self._lock:
            if self._fork_server is not None:
                self._fork_server.reap(PATIENCE_SECONDS)
                self._fork_server = None

    def start(self) -> socket.socket:
        """Return the socket to a new confined process. Raises ParseFailed, OSError."""
        line, theirs = socket.socketpair()
        limits = {"bytes": self._limits.parse_bytes, "seconds": self._limits.parse_seconds}
        with theirs, self._lock:
            for _ in range(2):  # a fork server that has ended is started again
                if self._fork_server is not None and self._fork_server.poll() is not None:
                    self._fork_server.reap()
                    self._fork_server = None
                self._fork_server = self._fork_server or start_fork_server()
                try:
                    send(self._fork_server.line, limits, [theirs.fileno()])
                except OSError:
                    self._fork_server.kill()
                    self._fork_server.reap()
                    continue
                line.settimeout(self._limits.parse_seconds + 1)
                return line
        line.close()
        raise ParseFailed("parsing failed: no process could be started")

    def exchange(self, line: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Send a request and return the reply. Raises ParseFailed."""
        try:
            send(line, message, descriptors)
            reply, _ = receive(line)
        except TimeoutError:
            raise ParseFailed(f"parsing took more than {self._limits.parse_seconds:g} seconds") from None
        except (OSError, ValueError):
            raise ParseFailed("parsing failed: the worker has ended") from None
        if "fault" in reply:
            raise ParseFailed(str(reply["fault"]))
        return reply


class ConfinedSession(ParseSession):
    """Scans a file and archives it in one confined process."""

    def __init__(self, stack: contextlib.ExitStack, store: StoreReader, parser: ConfinedParser) -> None:
        super().__init__(stack, store)
        self._parser = parser
        self._line: socket.socket | None = None
        self._scanned = False

    def _ask(self, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if self._line is None:
            self._line = self._stack.enter_context(self._parser.start())
        return self._parser.exchange(self._line, message, descriptors)

    def scan(self, path: Path) -> ScanResult:
        """Return what a file holds. Raises WhenceError, OSError."""
        with open(path, "rb") as file:
            reply = self._ask({"method": SCAN}, [file.fileno()])
        self._scanned = True
        return checked_scan(reply)

    def archive(self, described: Meta, output: BinaryIO, *, scanned: bool, kind: str = FileKind.ARCHIVE) -> MadeArchive:
        """Write an archive or symbol file of the files of a build-id. Raises WhenceError, OSError."""
        with contextlib.ExitStack() as stack:
            paths: dict[str, Path] = stored_files(self._store, described, stack)
            alt = alt_in(self._store, stack)(described.alt, "") if is_id(described.alt) else None
            if alt is not None:
                paths[ALT] = alt
            files = {kind: stack.enter_context(open(path, "rb")) for kind, path in paths.items()}
            message = {
                "method": ARCHIVE, "kinds": [*map(str, files)], "alone": is_better_alone(described),
                "alt": described.alt, "same": scanned and self._scanned and alt is None, "kind": str(kind),
                "name": described.name,
            }  # fmt: skip
            reply = self._ask(message, [*(file.fileno() for file in files.values()), output.fileno()])
        try:
            note = plain(str(reply["note"]))[:LONGEST_NOTE]
            return MadeArchive(int(reply["ranges"]), reply["alt_there"] is True, note)
        except (KeyError, TypeError, ValueError):
            raise ParseFailed(MALFORMED) from None


def start_fork_server() -> Child:
    """Start the process that forks confined processes. Raises OSError."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # Arrow's own reserves 1 GiB, which counts as `parse_bytes`
    return Child.spawn([sys.executable, "-m", __name__], environment)


def file_for(
    request: dict[str, Any], candidates: Callable[[FileQuery], Iterator[Candidate]], stack: contextlib.ExitStack
) -> tuple[dict[str, Any], list[int]]:
    """Return the reply to a confined process that requests a file, with the file, which `stack` closes.

    Raises ParseFailed for a malformed request.
    """
    build_id, kinds, skip = request["find"], request.get("kinds"), request.get("skip")
    if not (isinstance(build_id, str) and isinstance(kinds, list) and isinstance(skip, int) and skip >= 0):
        raise ParseFailed("parsing failed: the worker sent a malformed request")
    if not is_id(build_id):
        return {}, []
    wanted = FileQuery(build_id, kinds=tuple(kind for kind in FileKind if str(kind) in kinds), local=False)
    for number, candidate in enumerate(islice(candidates(wanted), MAX_CANDIDATES)):
        stack.callback(candidate.close)
        if number < skip:
            continue
        with contextlib.suppress(OSError):  # deleted meanwhile: the next candidate answers
            file = stack.enter_context(open(candidate.path, "rb"))  # noqa: SIM115 - closed with the stack
            return {"archive": candidate.is_archive}, [file.fileno()]
    return {}, []


def checked_profile(reply: dict[str, Any], data: bytes, limit: int) -> NamedProfile:
    """Return a named profile of at most `limit` bytes. Raises ParseFailed for a malformed reply."""
    try:
        profile = NamedProfile(
            data, str(reply["format"]), int(reply["locations"]), int(reply["named"]),
            [(str(build_id), plain(str(path))) for build_id, path in reply["missed"]],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise ParseFailed(MALFORMED) from None
    if len(data) > limit or profile.format not in (*written.WRITTEN, written.PAGE):
        raise ParseFailed(MALFORMED)
    return profile


def checked_scan(reply: dict[str, Any]) -> ScanResult:
    """Return the result of a scan. Raises ParseFailed for a malformed reply."""
    try:
        quality = reply["quality"]
        result = ScanResult(
            str(reply["build_id"]), tuple(FileKind(kind) for kind in reply["kinds"]),
            Quality(int(quality["units"]), *(quality[name] is True for name in FLAGS)),
            str(reply["machine"])[:80], str(reply["debug_id"]), str(reply["alt"]),
            plain(str(reply["name"]))[:LONGEST_NAME], str(reply["code_id"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise ParseFailed(MALFORMED) from None
    if not result.kinds or any(build_id and not is_id(build_id) for build_id in (result.build_id, result.alt)):
        raise ParseFailed(MALFORMED)
    if (result.debug_id and not DEBUG_ID.fullmatch(result.debug_id)) or not set(result.kinds) <= {*ELF_KINDS}:
        raise ParseFailed(MALFORMED)
    if result.code_id and not CODE_ID.fullmatch(result.code_id):
        raise ParseFailed(MALFORMED)
    return result


# in the fork server


def main() -> int:
    """Fork a confined process for each message, until the parent closes the socket."""
    line = parent()
    names = [*LIBRARIES, *modules_of("whence", deep=False)]
    for package in PACKAGES:
        names += [f"whence.{package}", *modules_of(f"whence.{package}", deep=True)]
    for name in names:
        with contextlib.suppress(ImportError):  # optional libraries
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the server ends this process
    write_every_format()
    gc.collect()
    gc.freeze()  # else a collection in a child visits, and so copies, every page with objects
    children: list[Child] = []
    ended, wakes = socket.socketpair()
    ended.setblocking(False)
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([line, ended], [], [])
        if ended in ready:
            with contextlib.suppress(BlockingIOError):
                ended.recv(4096)
            children = [child for child in children if not report_end(child)]
        if line not in ready:
            continue
        try:
            limits, (descriptor,) = receive(line)
        except (OSError, ValueError):  # the server has ended
            return 0
        theirs = socket.socket(fileno=descriptor)
        pid = os.fork()
        if pid == 0:
            for other in (line, ended, wakes, *(child.line for child in children)):
                other.close()
            serve_confined(theirs, int(limits["bytes"]), float(limits["seconds"]))
        children.append(Child(pid, theirs))


def write_every_format() -> None:
    """Write a small profile in every format: writers import modules when they run."""
    profile = formats.from_bytes(b"main;work 1\n")
    for format in (*written.WRITTEN, written.PAGE):
        with contextlib.suppress(ImportError):
            formats.to_bytes(profile, format)


def report_end(child: Child) -> bool:
    """Return True if a confined process has ended; if it failed, its client gets the reason as the reply."""
    code = child.poll()
    if code is None:
        return False
    if code:
        with contextlib.suppress(OSError):
            child.line.setblocking(False)
            send(child.line, {"fault": f"parsing failed: the worker ended with {ending(code)}"})
    child.line.close()
    return True


def modules_of(name: str, *, deep: bool) -> list[str]:
    """Return the names of the modules of a package; with `deep` those of its subpackages, too."""
    path = getattr(importlib.import_module(name), "__path__", ())
    if deep:
        return [module.name for module in pkgutil.walk_packages(path, f"{name}.")]
    modules = pkgutil.iter_modules(path)
    return [f"{name}.{module.name}" for module in modules if not module.ispkg and module.name != "__main__"]


# in a confined process


def serve_confined(line: socket.socket, memory: int, seconds: float) -> None:
    """Confine this process, answer the requests about one file, and end."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)  # ends the process, which can't change it any more
        confine(memory, seconds)
        ConfinedService(line).run()
        code = 0
    except (ConnectionError, KeyboardInterrupt):
        code = 0
    finally:
        os._exit(code)


class ConfinedService:
    """Answers the requests about one file."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._stack = contextlib.ExitStack()
        self._producers: Producers | None = None  # of the scanned file

    def run(self) -> None:
        """Answer requests. Raises ConnectionError when the server closes the socket."""
        methods = {SCAN: self._scan, ARCHIVE: self._archive, CHECK: self._check, PROFILE: self._profile}
        while True:
            message, descriptors = receive(self._line)
            try:
                reply = methods[message["method"]](message, descriptors)
            except WhenceError as error:
                reply = {"fault": without_file(error)}
            except MemoryError:
                reply = {"fault": "parsing the file takes more memory than is allowed"}
            except RecursionError:
                reply = {"fault": "the file is nested too deeply"}
            except Exception as error:  # a bug in a reader
                reply = {"fault": f"parsing failed ({type(error).__name__}: {plain(str(error))[:LONGEST_NOTE]})"}
            for descriptor in descriptors:
                os.close(descriptor)
            send(self._line, reply)

    def _scan(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        elf = self._stack.enter_context(mapped(descriptors[0]))
        result, self._producers = self._stack.enter_context(open_scan_of(elf, Supplements(), 1))
        return {
            "build_id": result.build_id, "kinds": [*map(str, result.kinds)], "quality": result.quality.as_json(),
            "machine": result.machine, "debug_id": result.debug_id, "alt": result.alt,
            "name": result.name, "code_id": result.code_id,
        }  # fmt: skip

    def _check(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        with mapped(descriptors[0]) as elf:
            try:
                check_elf(elf, str(message["build_id"]))
            except CutError:
                return {"cut": True}
            except Mismatch:
                return {"right": False}
        return {"right": True}

    def _profile(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        return name_and_write(self._line, message, descriptors)

    def _archive(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        *given, out = descriptors
        files = dict(zip(message["kinds"], given, strict=True))
        main, debug = files.get(EXECUTABLE), files.get(DEBUGINFO)
        if main is None or message["alone"]:
            main, debug = debug, None
        if main is None:
            raise ParseFailed("there is no file to archive")
        with open(os.dup(out), "w+b") as output, contextlib.ExitStack() as stack:
            producers = self._producers
            if producers is None or not message["same"]:
                opened = {DEBUG_PATH: debug, ALT_PATH: files.get(ALT)}
                finder = Supplements(
                    DEBUG_PATH if debug is not None else None,
                    lambda build_id, name: ALT_PATH if build_id == message["alt"] and ALT in files else None,
                    open_elf=lambda name: mapped(opened[name]),
                )
                elf = stack.enter_context(mapped(main))
                producers = stack.enter_context(Producers(elf, complete=finder.complete, options=ReadOptions(jobs=1)))
            archive = archive_of(producers, output, FileKind(message["kind"]), str(message["name"]))
        return {"ranges": archive.ranges, "alt_there": archive.alt_there, "note": archive.note}


def mapped(descriptor: int | None) -> ObjectFile:
    """Open an object file by its descriptor. Raises ObjectError."""
    assert descriptor is not None
    if not os.fstat(descriptor).st_size:
        return object_of_bytes(b"")
    return object_of_bytes(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))


if __name__ == "__main__":
    sys.exit(main())
