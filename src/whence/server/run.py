"""Run the application by granian, or by uvicorn."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from whence._base.errors import WrongUse
from whence.locate.debuginfod import checked_server
from whence.server.access import Access, is_loopback
from whence.server.settings import RequestLimits, ServerSettings

APP = "whence.server.app:from_environment"
HOSTS = ("granian", "uvicorn")
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def chosen_host(name: str) -> str:
    """Return the HTTP server to run: `name`, or the first that is installed if that is "". Raises WrongUse."""
    for candidate in [name] if name else HOSTS:
        if importlib.util.find_spec(candidate) is not None:
            return candidate
    raise WrongUse(f"{name or 'an HTTP server'} is not installed").with_hint("pip install 'whence[server]'")


def serve(
    settings: ServerSettings,
    *,
    host: str,
    port: int,
    by: str = "",
    tls: tuple[str, str] | None = None,
    workers: int = 1,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal ends the process; requests in progress are finished.

    Args:
        settings: The settings.
        host: The address to listen at.
        port: The port; 0 for any free port.
        by: "granian" or "uvicorn"; "" for the first that is installed.
        tls: The paths of a certificate and its key.
        workers: The number of processes.
        announce: Called with the server's address, once the arguments are checked and the port is claimed.

    Raises:
        WrongUse: A setting is invalid, or another process listens on the port.
        OSError: A file can't be read.
    """
    if not is_loopback(host) and not settings.token_file and not settings.open_read:
        raise WrongUse(f"{host} is reachable from other machines: give --token-file, or --open-read to let all read")
    if port and not 0 < port < 1 << 16:
        raise WrongUse(f"a port is a number from 1 to 65535, not {port}")
    Access(settings.token_file)
    for upstream in settings.upstreams:
        checked_server(upstream)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("whence.access").setLevel(logging.INFO)
    settings.to_environment()
    http_server = chosen_host(by)
    with claimed_port(host, port) as port, shared_metrics(workers):
        announce(f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/")
        if http_server == "granian":
            _by_granian(host, port, tls, workers, settings.limits)
        else:
            _by_uvicorn(host, port, tls, workers, settings.limits)


@contextmanager
def claimed_port(host: str, port: int) -> Iterator[int]:
    """Open a block in which this process may listen on a port, the returned one. 0 is any free port.

    Raises WrongUse if another process listens on the port.

    Granian's workers share their port by SO_REUSEPORT, and would share it with another server, too. So the port is
    bound here first without that option, and released. A name in Linux's abstract socket namespace is held during the
    block: it refuses a second server that starts before the workers of the first one listen.
    """
    with socket.socket(getattr(socket, "AF_UNIX", socket.AF_INET)) as claim:
        try:
            if sys.platform == "linux" and port:
                claim.bind(f"\0whence-serve-{host}-{port}")
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family) as probe:
                if sys.platform != "win32":  # there it would allow to share the port
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
                port = port or probe.getsockname()[1]
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise WrongUse(f"port {port} is taken by another process").with_hint("choose one by --port N") from None
            raise WrongUse(f"can't listen on {host} port {port}: {error.strerror}") from None
        yield port


@contextmanager
def shared_metrics(workers: int) -> Iterator[None]:
    """Open a block in which the metrics of several worker processes are added up.

    The variable has to be set before prometheus_client is imported, which this module does not do.
    """
    if workers < 2 or METRICS_FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="whence-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[METRICS_FOLDER]


def _by_granian(host: str, port: int, tls: tuple[str, str] | None, workers: int, limits: RequestLimits) -> None:
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    certificate, key = tls or (None, None)
    Granian(
        APP, factory=True, address=host, port=port, interface=Interfaces.ASGI, workers=workers,
        log_access=False, log_level="warning",  # type: ignore[arg-type]
        http=HTTPModes.http1,  # the only mode with a time limit for headers
        http1_settings=HTTP1Settings(
            header_read_timeout=int(1000 * limits.header_seconds), max_buffer_size=limits.header_bytes,
        ),
        ssl_cert=Path(certificate) if certificate else None, ssl_key=Path(key) if key else None,
        workers_kill_timeout=int(limits.stop_seconds), websockets=False,
    ).serve()  # fmt: skip


def _by_uvicorn(host: str, port: int, tls: tuple[str, str] | None, workers: int, limits: RequestLimits) -> None:
    import uvicorn

    from whence.server.uvicorn_headers import BoundedProtocol

    certificate, key = tls or (None, None)
    uvicorn.run(
        APP, factory=True, host=host, port=port, workers=workers, access_log=False, log_level="warning",
        ssl_certfile=certificate, ssl_keyfile=key, server_header=False, log_config=None, ws="none",
        timeout_graceful_shutdown=int(limits.stop_seconds), h11_max_incomplete_event_size=limits.header_bytes,
        http=BoundedProtocol,
    )  # fmt: skip
