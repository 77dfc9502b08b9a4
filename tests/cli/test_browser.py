"""--open shows a page in the browser."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.live import until
from whence.cli import browser


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that a test uses as its browser: it writes the URL to a file beside it."""
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/url.part && mv {tmp_path}/url.part {tmp_path}/url\n")
    program.chmod(0o755)
    return program


def test_serve_opens_its_page_when_it_listens(tmp_path: Path, program: Path) -> None:
    pytest.importorskip("starlette")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "whence",
        "serve",
        str(tmp_path / "store"),
        "--create",
        "--port",
        str(port),
        "--open",
    ]
    env = {**os.environ, "BROWSER": f"{program} %s"}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE) as server:
        try:
            assert until((tmp_path / "url").exists)
        finally:
            server.terminate()
            server.communicate()
    assert (tmp_path / "url").read_text() == f"http://127.0.0.1:{port}/\n"


def test_a_server_that_never_listens_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(browser, "START_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    browser.open_when_listening(f"http://127.0.0.1:{port}/")
    assert opened == []
