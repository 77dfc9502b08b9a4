"""Files of strangers are parsed in processes of their own, with limits: what crashes or hangs does so there.

A process that has imported all it needs (`python -m whence.server.parsing`, started with the first file) makes a copy
of itself for each file. The copy gets the open files, gives up everything else (sandbox.py), and answers questions,
each a JSON object: whether it is the whole file of a build-id (of an upstream's answer); what the file is, and then an
archive of it and of the files that complete it, written into a file that is open. The store believes it as far as it
would believe the file: nothing is parsed twice. Profiles of clients are read, named and written in such a copy, too
(profile_process.py); messages.py has the form of questions and answers.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from whence._base.errors import Mismatch, WhenceError, plain, without_file
from whence._base.options import ReadOptions
from whence.locate.cache import CutError, check_elf
from whence.locate.search import FileKind, Wanted
from whence.objects.elf import ElfFile
from whence.producers import Producers
from whence.profiles.formats import registry as formats
from whence.server.messages import receive, send
from whence.server.profile_process import name_and_write
from whence.server.sandbox import confine
from whence.store.archiving import Supplements, alt_in, archive_of, is_better_alone
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id
from whence.store.outcomes import MadeArchive
from whence.store.quality import Looked, Quality, looking_at

if TYPE_CHECKING:
    from pathlib import Path

    from whence.locate.sources import Candidate
    from whence.server.settings import RequestLimits
    from whence.store.keeper import Keeper
    from whence.store.meta import Meta

ENVIRONMENT = ("PATH", "PYTHON", "LD_LIBRARY_PATH", "LANG", "LC_")  # no secrets: what they begin with
ALT = "alt"
DEBUG_PATH, ALT_PATH = "/debug", "/alt"  # what files are called that have no path here
LOOK, ARCHIVE, CHECK, PROFILE = "look", "archive", "check", "profile"
LONGEST_NOTE = 1000
MOST_CANDIDATES = 16  # files of a build-id that a profile may be named by
FLAGS = ("lines", "pclntab", "symtab", "dynsym")  # of Quality, in its order
ROOMS = (
    "_base", "archive", "demangle", "dwarf", "flamegraph", "gopclntab", "gotrace", "kernels", "lidia", "locate",
    "locator", "objects", "perfdata", "procmap", "profiles", "ranges", "samples", "store", "symbolize", "unwind",
)  # fmt: skip


LIBRARIES = (
    "backports.zstd", "bz2", "compression.zstd", "ctypes", "google_crc32c", "gzip", "isal.isal_zlib", "lzma",
    "pyarrow", "pydemumble", "traceback", "zipfile", "zlib",
)  # fmt: skip
"""What a copy may need of others'; it can't open anything any more when it needs them."""


class NotParsed(WhenceError):
    """A file that could not be parsed within its limits."""


class NamedProfile(NamedTuple):
    """A named profile in a format, its counts, and the (build-id, path) of files that lack names."""

    data: bytes
    format: str
    locations: int
    named: int
    missed: list[tuple[str, str]]


# in the server


class ConfinedParser:
    """What a Store parses files by: one process a file, for both of its questions."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._mother: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._threads = threading.local()

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """A block in which this thread's questions about one file go to one process; outside each has its own."""
        self._threads.session = True
        try:
            yield
        finally:
            self._threads.session = False
            self._end()

    def look(self, path: Path) -> Looked:
        """What a file is (quality.look), found out by a new process. Raises WhenceError."""
        self._end()
        self._start()
        self._threads.path = path
        with open(path, "rb") as file, self._one():
            return looked_of(self._ask({"ask": LOOK}, [file.fileno()]))

    def check(self, path: Path, build_id: str, kind: str) -> None:
        """Raises WhenceError unless an ELF file is whole and has this build-id (locate.cache.check)."""
        self._end()
        self._start()
        with open(path, "rb") as file, self._one():
            answer = self._ask({"ask": CHECK, "build_id": build_id}, [file.fileno()])
        if answer.get("cut") is True:
            raise CutError("it is not the whole file")
        if answer.get("right") is not True:
            raise Mismatch(f"it has not build-id {build_id}")

    def archive(
        self, store: Keeper, known: Meta, files: Mapping[str, Path], output: BinaryIO, looked_at: Path | None,
    ) -> MadeArchive:  # fmt: skip
        """An archive of the files of a build-id (archiving.make_archive), by the process that looked at one of them.
        Raises WhenceError."""
        if self._line is None:
            self._start()
        with self._one(), contextlib.ExitStack() as stack:
            alt = alt_in(store, stack)(known.alt, "") if is_id(known.alt) else None
            given: dict[str, Path | None] = {**files, ALT: alt}
            opened = {kind: stack.enter_context(open(path, "rb")) for kind, path in given.items() if path}
            same = alt is None and looked_at is not None and looked_at == self._threads.path
            message = {
                "ask": ARCHIVE, "kinds": [*map(str, opened)], "alone": is_better_alone(known), "alt": known.alt,
                "same": same,
            }  # fmt: skip
            answer = self._ask(message, [*(one.fileno() for one in opened.values()), output.fileno()])
        try:
            return MadeArchive(
                int(answer["ranges"]), answer["alt_there"] is True, plain(str(answer["note"]))[:LONGEST_NOTE]
            )
        except (KeyError, TypeError, ValueError):
            raise NotParsed("parsing it failed: the answer is none") from None

    def name_profile(
        self, body: bytes, format: str, title: str, candidates: Callable[[Wanted], Iterator[Candidate]]
    ) -> NamedProfile:
        """Return a profile named by the files that `candidates` finds, in `format` ("": as it came).

        Raises WhenceError; OSError if the temporary folder is full.
        """
        most = self._limits.answer_bytes
        message: dict[str, Any] = {"ask": PROFILE, "format": format, "title": title, "answer_bytes": most}
        with TemporaryFile() as given, TemporaryFile() as out, self._copy() as line:
            given.write(body)
            given.seek(0)  # which flushes
            answer = self._exchange(line, message, [given.fileno(), out.fileno()])
            while "find" in answer:
                with contextlib.ExitStack() as stack:
                    answer = self._exchange(line, *file_for(answer, candidates, stack))
            out.seek(0)
            return named_of(answer, out.read(most + 1), most)

    @contextlib.contextmanager
    def _one(self) -> Iterator[None]:
        """One question; outside of a session the process has nothing to wait for after it."""
        try:
            yield
        finally:
            if not getattr(self._threads, "session", False):
                self._end()

    def close(self) -> None:
        with self._lock:
            if self._mother is not None:
                process, line = self._mother
                self._mother = None
                line.close()  # which ends it
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    @property
    def _line(self) -> socket.socket | None:
        """This thread's line to a copy."""
        return getattr(self._threads, "line", None)

    def _start(self) -> None:
        self._threads.line, self._threads.path = self._copy(), None

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        self._threads.line = None

    def _copy(self) -> socket.socket:
        """A line to a new copy of the process that waits. Raises OSError."""
        mine, its = socket.socketpair()
        with its, self._lock:
            for _ in range(2):  # one that has ended meanwhile is started anew
                if self._mother is not None and self._mother[0].poll() is not None:
                    self._mother[1].close()
                    self._mother = None
                self._mother = self._mother or start()
                limits = {"bytes": self._limits.parse_bytes, "seconds": self._limits.parse_seconds}
                try:
                    send(self._mother[1], limits, [its.fileno()])
                except OSError:
                    self._mother[0].kill()
                    self._mother[0].wait()
                    continue
                mine.settimeout(self._limits.parse_seconds + 1)
                return mine
        mine.close()
        raise NotParsed("no process to parse it could be started")

    def _ask(self, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        assert self._line is not None
        return self._exchange(self._line, message, descriptors)

    def _exchange(self, line: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Send a message and return the answer. Raises NotParsed."""
        try:
            send(line, message, descriptors)
            answer, _ = receive(line)
        except TimeoutError:
            raise NotParsed(f"it was not parsed within {self._limits.parse_seconds:g} seconds") from None
        except (OSError, ValueError):
            raise NotParsed("parsing it failed: the process has ended") from None
        if "fault" in answer:
            raise NotParsed(str(answer["fault"]))
        return answer


def start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process that copies itself, and the line to it. Raises OSError."""
    mine, its = socket.socketpair()
    with its:
        words = [sys.executable, "-m", __name__, str(its.fileno())]
        nothing = subprocess.DEVNULL
        given = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
        given["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # its own pool reserves 1 GiB, which counts against `parse_bytes`
        process = subprocess.Popen(words, stdin=nothing, stdout=nothing, pass_fds=[its.fileno()], env=given)
    return process, mine


def file_for(
    question: dict[str, Any], candidates: Callable[[Wanted], Iterator[Candidate]], stack: contextlib.ExitStack
) -> tuple[dict[str, Any], list[int]]:
    """Return the answer to a confined process that asks for a file, and the file, which `stack` closes.

    Raises NotParsed for a malformed question.
    """
    build_id, kinds, skip = question["find"], question.get("kinds"), question.get("skip")
    if not (isinstance(build_id, str) and isinstance(kinds, list) and isinstance(skip, int) and skip >= 0):
        raise NotParsed("parsing it failed: a malformed question")
    known = [kind for kind in FileKind if str(kind) in kinds]
    if not is_id(build_id):
        return {}, []
    wanted = Wanted(build_id, kinds=tuple(known), local=False)
    for number, candidate in enumerate(islice(candidates(wanted), MOST_CANDIDATES)):
        stack.callback(candidate.close)
        if number < skip:
            continue
        with contextlib.suppress(OSError):  # deleted meanwhile: the next candidate answers
            file = stack.enter_context(open(candidate.path, "rb"))  # noqa: SIM115 - closed with the stack
            return {"archive": candidate.is_archive}, [file.fileno()]
    return {}, []


def named_of(answer: dict[str, Any], data: bytes, most: int) -> NamedProfile:
    """Return the checked answer to PROFILE: the process may have been taken over. Raises NotParsed."""
    try:
        found = NamedProfile(
            data, str(answer["format"]), int(answer["locations"]), int(answer["named"]),
            [(str(build_id), plain(str(path))) for build_id, path in answer["missed"]],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise NotParsed("parsing it failed: a malformed answer") from None
    if len(data) > most or found.format not in (*formats.WRITTEN, formats.PAGE):
        raise NotParsed("parsing it failed: a malformed answer")
    return found


def looked_of(answer: dict[str, Any]) -> Looked:
    """What `look` was answered, checked: the process may have been taken over. Raises NotParsed."""
    try:
        quality = answer["quality"]
        found = Looked(
            str(answer["build_id"]), tuple(FileKind(one) for one in answer["kinds"]),
            Quality(int(quality["units"]), *(quality[name] is True for name in FLAGS)),
            str(answer["machine"])[:80], answer["little_endian"] is True, str(answer["alt"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise NotParsed("parsing it failed: the answer is none") from None
    if not found.kinds or any(one and not is_id(one) for one in (found.build_id, found.alt)):
        raise NotParsed("parsing it failed: the answer is none")
    return found


# in the process that copies itself, and in its copies


def main() -> int:
    line = socket.socket(fileno=int(sys.argv[1]))
    names = [*LIBRARIES, *modules_of("whence", deep=False)]
    for room in ROOMS:
        names += [f"whence.{room}", *modules_of(f"whence.{room}", deep=True)]
    for name in names:
        with contextlib.suppress(ImportError):  # of libraries that are not installed
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the server ends this process
    write_every_format()
    lines: dict[int, socket.socket] = {}  # by the copy's process
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
            bury(lines)
        if line not in ready:
            continue
        try:
            limits, (descriptor,) = receive(line)
        except (OSError, ValueError):  # the server has ended
            return 0
        its = socket.socket(fileno=descriptor)
        pid = os.fork()
        if pid == 0:
            for one in (line, ended, wakes, *lines.values()):
                one.close()
            serve_one(its, int(limits["bytes"]), float(limits["seconds"]))
        lines[pid] = its


def write_every_format() -> None:
    """Write a small profile in every format, so that what writers import when they run is here before the copies."""
    profile = formats.from_bytes(b"main;work 1\n")
    for format in (*formats.WRITTEN, formats.PAGE):
        with contextlib.suppress(ImportError):
            formats.to_bytes(profile, format)


def bury(lines: dict[int, socket.socket]) -> None:
    """Take note of the copies that have ended; to those who wait for an answer of one, how it ended is the answer."""
    with contextlib.suppress(ChildProcessError):
        while (done := os.waitpid(-1, os.WNOHANG))[0]:
            line = lines.pop(done[0])
            code = os.waitstatus_to_exitcode(done[1])
            if code:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                with contextlib.suppress(OSError):
                    line.setblocking(False)
                    send(line, {"fault": f"parsing it failed ({how})"})
            line.close()


def modules_of(name: str, *, deep: bool) -> list[str]:
    """The modules of a package, `deep` also those of packages in it."""
    path = getattr(importlib.import_module(name), "__path__", ())
    if deep:
        return [one.name for one in pkgutil.walk_packages(path, f"{name}.")]
    return [f"{name}.{one.name}" for one in pkgutil.iter_modules(path) if not one.ispkg and one.name != "__main__"]


def serve_one(line: socket.socket, most_bytes: int, seconds: float) -> None:
    """Answer the questions about one file, confined, and end."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)  # which ends it, and which it can't set again
        confine(most_bytes, seconds)
        asked = Asked(line)
        asked.answer()
        code = 0
    except (ConnectionError, KeyboardInterrupt):
        code = 0
    finally:
        os._exit(code)


class Asked:
    """What a copy is asked: `check`; or `look`, then `archive`."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._stack = contextlib.ExitStack()
        self._producers: Producers | None = None  # those of the file that was looked at

    def answer(self) -> None:
        work = {LOOK: self._look, ARCHIVE: self._archive, CHECK: self._check, PROFILE: self._profile}
        while True:
            message, descriptors = receive(self._line)
            try:
                answer = work[message["ask"]](message, descriptors)
            except WhenceError as error:
                answer = {"fault": without_file(error)}
            except MemoryError:
                answer = {"fault": "it takes more memory to parse than is allowed"}
            except RecursionError:
                answer = {"fault": "it is nested too deeply"}
            except Exception as error:  # whatever a reader stumbles over
                answer = {"fault": f"parsing it failed ({type(error).__name__}: {plain(str(error))[:LONGEST_NOTE]})"}
            for one in descriptors:
                os.close(one)
            send(self._line, answer)

    def _look(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        elf = self._stack.enter_context(mapped(descriptors[0]))
        looked, self._producers = self._stack.enter_context(looking_at(elf, Supplements(), 1))
        return {
            "build_id": looked.build_id, "kinds": [*map(str, looked.kinds)], "quality": looked.quality.as_json(),
            "machine": looked.machine, "little_endian": looked.little_endian, "alt": looked.alt,
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
            raise NotParsed("there is no file to archive")
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
            made = archive_of(producers, output)
        return {"ranges": made.ranges, "alt_there": made.alt_there, "note": made.note}


def mapped(descriptor: int | None) -> ElfFile:
    """An ELF file that is open. Raises ElfError."""
    assert descriptor is not None
    if not os.fstat(descriptor).st_size:
        return ElfFile.from_bytes(b"")
    return ElfFile.from_bytes(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))


if __name__ == "__main__":
    sys.exit(main())
