"""Confined parsing of untrusted files: the sandbox, limits and crashes."""

from __future__ import annotations

import os
import platform
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forge.elf import Section, Segment, Symbol, build_id_note, forge, packed
from tests.helpers.live import until
from tests.helpers.serving import TestClient, children_of, needs
from tests.helpers.stores import Files
from whence._base.errors import WhenceError
from whence.objects.elf import ElfFile
from whence.server import parsing
from whence.server.app import make_app
from whence.server.sandbox import CALLS
from whence.server.settings import RequestLimits, ServerSettings
from whence.store import Store

known_machine = pytest.mark.skipif(
    platform.machine() not in CALLS or not sys.platform.startswith("linux"),
    reason="the kernel's calls of this machine are not known",
)
ROOT = Path(__file__).parents[2]
CONFINED = """
import ctypes, fcntl, mmap, os, signal, socket, sys, threading
line, other = socket.socketpair()
call = ctypes.CDLL(None, use_errno=True).syscall
def raw(*arguments):
    if call(*map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
from whence.server.sandbox import confine
confine(1 << 30, 5)
try:
    {what}
except (OSError, MemoryError, RuntimeError) as error:
    print(type(error).__name__)
else:
    print("done")
"""


def confined(what: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CONFINED.format(what=what)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or str(done.returncode)


@known_machine
@pytest.mark.parametrize(
    "what",
    [
        "socket.socket()", "os.execv('/bin/true', ['true'])", "os.fork()", "os.kill(os.getppid(), 0)",
        "os.open('/etc/passwd', os.O_RDONLY)", "os.unlink('/tmp/nothing')", "os.listdir('/')",
        "os.readlink('/proc/self/exe')",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)", "signal.setitimer(signal.ITIMER_REAL, 0)",
        "os.pipe()", "os.chmod('/tmp', 0o700)", "os.setpriority(os.PRIO_PROCESS, 0, 1)",
        "line.connect('/run/socket')", "line.getsockname()", "os.memfd_create('code')", "os.symlink('a', '/tmp/link')",
        "fcntl.fcntl(line, fcntl.F_SETOWN, os.getppid())", "fcntl.fcntl(line, 10, signal.SIGKILL)",  # F_SETSIG
        "fcntl.fcntl(line, fcntl.F_SETFL, os.O_ASYNC)", "fcntl.fcntl(line, fcntl.F_SETLEASE, 1)",
        "mmap.mmap(-1, 4096)",  # shared: the limit of memory does not count it
    ],
)  # fmt: skip
def test_the_sandbox_refuses_other_system_calls(what: str) -> None:
    assert confined(what) in ("PermissionError", "itimer_error")


NUMBERS = {  # of x86-64
    "ptrace": 101, "init_module": 175, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "process_vm_readv": 310,
    "process_vm_writev": 311, "bpf": 321, "userfaultfd": 323, "pidfd_open": 434, "io_uring_setup": 425,
    "open_by_handle_at": 304, "setns": 308, "execveat": 322, "openat2": 437, "mount": 165, "prctl": 157, "seccomp": 317,
}  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the calls are those of x86-64")
@pytest.mark.parametrize("name", NUMBERS)
def test_calls_that_python_has_no_function_for_are_refused(name: str) -> None:
    """With EPERM: the filter refuses a call before its arguments are looked at."""
    assert confined(f"raw({NUMBERS[name]}, 0, 0, 0, 0, 0)") == "PermissionError"


def test_memory_is_limited_and_needed_system_calls_work() -> None:
    assert confined("bytearray(2 << 30)") == "MemoryError"
    private = "mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    for needed in (private, "os.dup(1)", "t = threading.Thread(target=print); t.start(); t.join()", "os.urandom(5)"):
        assert confined(needed) == "done"


@known_machine
def test_a_confined_process_learns_that_a_path_exists_and_no_more() -> None:
    """newfstatat, which the C library uses for fstat, also takes paths. SECURITY.md says so."""
    assert confined("os.stat('/etc/passwd')") == "done"
    assert confined("open('/etc/passwd')") == "PermissionError"
    text = " ".join((ROOT / "SECURITY.md").read_text().split())
    assert "`newfstatat` takes paths, too, so a confined process can learn that a path exists" in text


@pytest.fixture(scope="module")
def parser() -> Iterator[parsing.ConfinedParser]:
    made = parsing.ConfinedParser(RequestLimits())
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def archived(store: Store, build_id: str) -> bytes:
    with store.file(build_id, "lidia") as path:
        assert path is not None
        return path.read_bytes()


def put(store: Store, path: Path) -> str:
    with open(path, "rb") as file:
        return store.put("", "", file).outcome


def test_a_store_is_the_same_whether_its_files_are_parsed_here_or_confined(
    files: Files, tmp_path: Path, parser: parsing.ConfinedParser
) -> None:
    for number, order in enumerate(([files.whole], [files.stripped, files.debug], [files.debug, files.stripped])):
        with Store(tmp_path / f"{number}a") as current, Store(tmp_path / f"{number}b", parser=parser) as there:
            for path in order:
                assert put(current, path) == put(there, path) == "added"
            assert archived(current, files.build_id) == archived(there, files.build_id)
            expected, result = current.find(files.build_id), there.find(files.build_id)
            assert expected is not None
            assert result is not None
            assert (result.quality, result.machine, result.note) == (expected.quality, expected.machine, expected.note)


def test_dwz_s_shared_file_completes_what_is_parsed_confined(tmp_path: Path, parser: parsing.ConfinedParser) -> None:
    needs("dwz", "gcc")
    source = tmp_path / "program.c"
    source.write_text(
        "struct pair { int first, second; struct { long a, b, c; char name[40]; } inner; struct pair *next; };\n"
        "struct tree { struct pair pair; struct tree *left, *right; unsigned flags; };\n"
        "int sum(struct tree *t) { return t ? t->pair.first + sum(t->left) + sum(t->right) : 0; }\n"
        "int main(int n, char **v) { struct tree t = {{n, N}}; return sum(&t); }\n"
    )
    programs = [tmp_path / each for each in ("one", "two")]
    for number, program in enumerate(programs):
        subprocess.run(["gcc", "-g", "-Wl,--build-id", f"-DN={number}", source, "-o", program], check=True)
    shared = tmp_path / "shared.debug"
    done = subprocess.run(["dwz", "-m", shared, *programs], capture_output=True, check=False)
    if done.returncode or not shared.exists():
        pytest.skip("dwz shared nothing")
    program = programs[0]
    with Store(tmp_path / "a") as current, Store(tmp_path / "b", parser=parser) as there:
        for path in (shared, program):
            put(current, path)
            put(there, path)
        with ElfFile.open(program) as elf:
            build_id = elf.build_id
        assert archived(current, build_id) == archived(there, build_id)
        result = there.find(build_id)
        assert result is not None
        assert result.alt_there


def test_an_upload_is_parsed_once_and_not_in_this_process(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(*words: object, **named: object) -> object:
        raise AssertionError("parsed in this process")

    asked: list[dict[str, object]] = []
    ask = parsing.ConfinedSession._ask

    def noted(session: parsing.ConfinedSession, message: dict[str, object], files: list[int]) -> dict[str, object]:
        asked.append(message)
        return ask(session, message, files)

    monkeypatch.setattr(parsing.ConfinedSession, "_ask", noted)
    monkeypatch.setattr("whence.store.parser.open_scan", here)
    monkeypatch.setattr("whence.store.parser.make_archive", here)
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        assert client.put("/upload", content=files.whole.read_bytes()).status_code == 201
    assert [message["method"] for message in asked] == ["scan", "archive"]
    assert asked[1]["same"] is True


def test_a_file_that_crashes_its_process_is_422_and_the_next_is_kept(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServerSettings(store=str(tmp_path / "store"), limits=RequestLimits(parse_seconds=20))
    with TestClient(make_app(settings)) as client:
        server = client.app.server  # type: ignore[attr-defined]
        body = files.debug.read_bytes()
        start = parsing.ConfinedParser.start

        def start_and_kill(parser: parsing.ConfinedParser) -> socket.socket:
            line = start(parser)
            fork_server = parser._fork_server
            assert fork_server is not None
            assert until(lambda: bool(children_of(fork_server.pid)))
            for child in children_of(fork_server.pid):
                os.kill(child, signal.SIGSEGV)
            return line

        monkeypatch.setattr(parsing.ConfinedParser, "start", start_and_kill)
        answer = client.put(f"/buildid/{files.build_id}/debuginfo", content=body)
        assert answer.status_code == 422
        assert "parsing failed" in answer.json()["error"]
        monkeypatch.undo()
        assert client.get(f"/buildid/{files.build_id}/debuginfo").status_code == 404
        server._parser._fork_server.kill()  # it is started again
        assert until(lambda: server._parser._fork_server.poll() is not None)
        assert client.put(f"/buildid/{files.build_id}/debuginfo", content=body).status_code == 201


def test_parsing_has_a_time_limit(files: Files, store: Store) -> None:
    parser = parsing.ConfinedParser(RequestLimits(parse_seconds=-0.999))
    with parser.session(store) as session, pytest.raises(WhenceError, match=r"took more|failed"):
        session.scan(files.whole)
    parser.close()


def program(build_id: str, units: int) -> bytes:
    """Return a debug file with units of 1,000 bytes, compressed to 1/30; without units, a program with a symbol."""
    if not units:
        text = Section(".text", bytes(64), vaddr=0x401000, flags=6)
        main = Symbol("main", 0x401000, 64)
        return forge([text, build_id_note(build_id)], [Segment(of=".text")], symbols=[main])
    noise = random.Random(1).randbytes
    head = struct.pack("<IHIBB", 1000 - 4, 4, 0, 8, 0)  # DWARF 4, 8-byte addresses, no entry
    unit = b"".join(head + noise(20) + bytes(1000 - len(head) - 20) for _ in range(64))
    info = packed(Section(".debug_info", unit * (units // 64)), "zlib")
    return forge([info, Section(".debug_abbrev", b"\0"), build_id_note(build_id)])


def test_an_uploaded_file_that_takes_too_much_memory_is_422_and_the_next_is_kept(tmp_path: Path) -> None:
    large, small = program("ab" * 20, 1 << 14), program("cd" * 20, 0)
    settings = ServerSettings(store=str(tmp_path / "store"), limits=RequestLimits(parse_bytes=1 << 20))
    with TestClient(make_app(settings)) as client:
        answer = client.put("/upload", content=large)
        assert answer.status_code == 422
        assert "more memory" in answer.json()["error"]
        assert client.put("/upload", content=small).status_code == 201
    with TestClient(make_app(ServerSettings(store=settings.store))) as client:
        assert client.put("/upload", content=large).status_code == 201


def test_libraries_reserve_less_than_half_of_the_memory_for_parsing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(program("ab" * 20, 1 << 14))
    parser = parsing.ConfinedParser(RequestLimits(parse_bytes=1 << 30))
    with parser.session(Store(tmp_path / "store")) as session:
        assert session.scan(path).quality.units == 1 << 14
    parser.close()


def test_a_profile_that_takes_too_much_memory_is_refused_in_words() -> None:
    parser = parsing.ConfinedParser(RequestLimits(parse_bytes=1 << 20))
    with pytest.raises(WhenceError, match="memory"):
        parser.name_profile(b"main;work 1\n" * (4 << 20), "", "", lambda wanted: iter(()))
    parser.close()


def test_files_of_several_threads_are_parsed_at_the_same_time(
    files: Files, parser: parsing.ConfinedParser, store: Store
) -> None:
    result: list[str] = []

    def work() -> None:
        with parser.session(store) as session:
            result.append(session.scan(files.whole).build_id)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert result == [files.build_id] * 6


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"build_id": "../..", "kinds": ["debuginfo"], "quality": {}, "machine": "", "alt": ""},
        {"build_id": "ab", "kinds": ["passwd"]}, {"build_id": "ab", "kinds": [], "quality": {"units": "x"}},
    ],
)  # fmt: skip
def test_a_malformed_reply_of_the_parser_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(parsing.ParseFailed):
        parsing.checked_scan(answer)
