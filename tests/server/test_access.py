"""Authorization: tokens and scopes, and settings with which a server refuses to start."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.helpers.live import until
from tests.helpers.serving import HOSTS, TestClient, needs, running
from tests.helpers.stores import Files, free_port
from whence._base.errors import WrongUse
from whence.server.access import make_token
from whence.server.app import make_app
from whence.server.run import claimed_port
from whence.server.settings import ServerSettings


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[str, dict[str, str]]:
    """Return a token file, and a token for each scope."""
    made = {scope: make_token(scope, f"who-{scope}") for scope in ("read", "upload", "admin")}
    file = tmp_path / "tokens"
    file.write_text("# who may do what\n\n" + "\n".join(line for _, line in made.values()) + "\n")
    return str(file), {scope: token for scope, (token, _) in made.items()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_each_scope_allows_its_requests(place: Path, files: Files, tokens: tuple[str, dict[str, str]]) -> None:
    file, given = tokens
    path = f"/buildid/{files.build_id}/debuginfo"
    settings = ServerSettings(store=str(place), token_file=file, open_read=False)
    with TestClient(make_app(settings)) as client:
        body = files.debug.read_bytes()
        for token, get, put in (
            ("", 401, 401), ("wrong", 401, 401), (given["read"], 200, 403), (given["upload"], 403, 200),
            (given["admin"], 200, 200),
        ):  # fmt: skip
            headers = bearer(token) if token else {}
            assert client.get(path, headers=headers).status_code == get, token
            assert client.put(path, content=body, headers=headers).status_code == put, token
        assert client.get(path).headers["www-authenticate"] == "Bearer"
        for probe in ("/healthz", "/readyz"):
            assert client.get(probe).status_code == 200


def test_with_open_read_everyone_reads_and_tokens_upload(
    place: Path, files: Files, tokens: tuple[str, dict[str, str]]
) -> None:
    file, given = tokens
    path = f"/buildid/{files.build_id}/debuginfo"
    with TestClient(make_app(ServerSettings(store=str(place), token_file=file, open_read=True))) as client:
        assert client.get(path).status_code == 200
        assert client.put(path, content=b"").status_code == 401
        assert client.put(path, content=files.debug.read_bytes(), headers=bearer(given["upload"])).status_code == 200


def whence(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "whence", *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_reachable_server_needs_tokens_or_open_read(tmp_path: Path) -> None:
    done = whence("serve", str(tmp_path), "--host", "0.0.0.0", "--port", "8125")
    assert done.returncode == 2
    assert "--token-file" in done.stderr
    assert "http://" not in done.stderr


@pytest.mark.parametrize("by", HOSTS)
def test_a_second_server_on_a_port_is_refused(tmp_path: Path, by: str) -> None:
    with running(tmp_path / "first", by=by) as server:
        port = server.url.rpartition(":")[2]
        (tmp_path / "second").mkdir()
        done = whence("serve", str(tmp_path / "second"), "--port", port, "--by", by)
    assert done.returncode == 2
    assert f"port {port} is taken by another process" in done.stderr
    assert "http://" not in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_port_0_is_a_free_port(host: str) -> None:
    with claimed_port(host, 0) as port:
        assert 1024 <= port < 1 << 16
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("by", HOSTS)
def test_a_server_on_port_0_prints_its_port(tmp_path: Path, by: str) -> None:
    words = [sys.executable, "-m", "whence", "serve", str(tmp_path), "--port", "0", "--by", by]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = server.stderr.readline().split()[-1]
        try:
            assert until(lambda: answers(url + "healthz"))
        finally:
            server.terminate()
            server.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the abstract socket namespace")
def test_a_second_server_is_refused_before_the_first_listens() -> None:
    port = free_port()
    with claimed_port("127.0.0.1", port), pytest.raises(WrongUse, match="taken"), claimed_port("127.0.0.1", port):
        pass
    with claimed_port("127.0.0.1", port):
        pass


def test_a_store_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing, file = tmp_path / "nosuch", tmp_path / "file"
    file.write_text("")
    for words in (["serve"], ["store", "ls"], ["store", "wanted"], ["store", "verify"]):
        done = whence(*words, str(missing))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"the store {missing} does not exist" in done.stderr
        assert f"{file} is not a folder" in whence(*words, str(file)).stderr
    assert not missing.exists()
    added = whence("store", "add", str(missing), sys.executable)
    assert f"whence: new store {missing}\n" in added.stderr
    assert missing.is_dir()
    assert "new store" not in whence("store", "ls", str(missing)).stderr


def test_a_token_is_made_with_its_line(tmp_path: Path) -> None:
    done = whence("serve", "--make-token", "read,upload")
    assert done.returncode == 0
    token, line = (each.split(":", 1)[1].strip() for each in done.stdout.splitlines())
    assert token not in line
    assert "read,upload" in line
    assert whence("serve", "--make-token", "everything").returncode == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "abc read who\n", "0" * 64 + " write who\n", "0" * 64 + "\n"])
def test_a_token_file_with_a_wrong_line_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    done = whence("serve", str(tmp_path), "--token-file", str(file), "--port", "1")
    assert done.returncode == 2, done.stderr
    assert f"{file}" in done.stderr


@pytest.mark.parametrize("by", HOSTS)
def test_a_server_speaks_tls(place: Path, tmp_path: Path, by: str) -> None:
    needs("openssl")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    trust = ssl.create_default_context(cafile=certificate)
    with running(place, "--tls-cert", str(certificate), "--tls-key", str(key), by=by, tls=trust) as server:
        assert server.url.startswith("https:")
        with urllib.request.urlopen(f"{server.url}/healthz", context=trust, timeout=30) as answer:
            assert answer.read() == b"ok\n"
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(server.url.replace("https", "http") + "/healthz", timeout=30)


def test_a_certificate_without_its_key_is_wrong_use(tmp_path: Path) -> None:
    done = whence("serve", str(tmp_path), "--tls-cert", "cert.pem", "--port", "1")
    assert (done.returncode, "must be given together" in done.stderr) == (2, True)
