"""Messages, arguments and files that are sent to `whence mcp` to stop it, or to read other files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.mcp_client import answered, tools_for
from tests.helpers.profiles import profile_of
from whence._base.errors import WrongUse
from whence.cli import mcp_tools
from whence.profiles.formats import registry

CLIENT = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
START = json.dumps({"jsonrpc": "2.0", "id": "start", "method": "initialize", "params": CLIENT}).encode()
LIST = b'{"jsonrpc":"2.0","id":"list","method":"tools/list"}'
NO_MESSAGES = (
    (b"{", -32700), (b"\xff\xfe", -32700), (b"[" * 100_000, -32700), (b"[]", -32600), (b"null", -32600),
    (b'{"jsonrpc":"2.0"}', -32600), (b'{"jsonrpc":"2.0","id":80,"method":"tools/call","params":5}', -32600),
    (b'{"jsonrpc":"2.0","id":81,"method":"x","params":{"x":"\\ud800"}}', -32600), (b" " * (5 << 20) + b"1", -32600),
    (b'{"a":"' + b"b" * (9 << 20) + b'"}', -32600),
)  # fmt: skip


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "whence", "mcp", "--no-cache", "--root", str(folder)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has answered its first message."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command(tmp_path), **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(START + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == "start"
        yield process
        process.kill()


def test_each_line_that_is_no_message_gets_an_error_and_the_next_one_its_answer(
    server: subprocess.Popen[bytes],
) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b"\n".join([*(line for line, _ in NO_MESSAGES), LIST, b""]))
    server.stdin.flush()
    answers: list[dict[str, Any]] = [json.loads(server.stdout.readline()) for _ in (*NO_MESSAGES, LIST)]
    errors = [answer for answer in answers if "error" in answer]
    assert [error["error"]["code"] for error in errors] == [code for _, code in NO_MESSAGES]
    assert [error["id"] for error in errors if error["id"] is not None] == [80, 81]
    assert [answer["id"] for answer in answers if "error" not in answer] == ["list"]
    server.stdin.close()
    assert server.wait(60) == 0


def test_an_interrupt_ends_a_server_that_waits_for_stdin(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 130
    assert server.stderr is not None
    assert server.stderr.read().endswith(b"whence: interrupted\n")


def test_a_server_whose_answers_nobody_reads_ends(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdout.close()
    server.stdin.write(LIST + b"\n")
    server.stdin.flush()
    assert server.wait(60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_stdout_is_an_error(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(tmp_path), input=START + b"\n", stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 3
    assert done.stderr.endswith(b"whence: stdout: No space left on device\n")


def written(path: Path, *functions: str) -> None:
    path.write_bytes(registry.to_bytes(profile_of([([*functions], 1)]), "pprof"))


def test_a_pattern_that_needs_exponential_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_tools, "PATTERN_SECONDS", 0.5)
    written(tmp_path / "cpu.pb.gz", "main", "a" * 40 + "!")
    for tool in ("callers", "list"):
        failed, text = answered(tools_for(tmp_path), tool, {"path": "cpu.pb.gz", "function": "(a+)+$"})
        assert failed
        assert "give a simpler pattern" in text


@pytest.mark.parametrize("pattern", ["(" * 2000 + ")" * 2000, "a{99999999999}", "(?P<"])
def test_a_pattern_that_python_refuses_is_an_error(tmp_path: Path, pattern: str) -> None:
    written(tmp_path / "cpu.pb.gz", "main")
    failed, text = answered(tools_for(tmp_path), "callers", {"path": "cpu.pb.gz", "function": pattern})
    assert failed
    assert "invalid regular expression" in text


def test_answers_have_no_escapes_and_no_single_surrogates(tmp_path: Path) -> None:
    written(tmp_path / "cpu.pb.gz", "main", "a\x1b[2J\u202eb")
    assert "a\\x1b[2J\\u202eb" in answered(tools_for(tmp_path), "top", {"path": "cpu.pb.gz"})[1]
    assert mcp_tools.bounded(["\udcff\tb"]) == "\\udcff\tb"
    (tmp_path / "a\n\x1b[2J").touch()
    assert "a\\x0a\\x1b[2J: the file is empty" in answered(tools_for(tmp_path), "open", {"path": "a\n\x1b[2J"})[1]


def test_a_request_with_many_binaries_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "cpu.pb.gz", "main")
    with pytest.raises(WrongUse, match="5,000 binaries: a request may have 100"):
        tools_for(tmp_path).top("cpu.pb.gz", binaries=["cpu.pb.gz"] * 5000)
