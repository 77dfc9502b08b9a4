"""Running the application: by granian, or by uvicorn."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path

from whence._base.errors import WrongUse
from whence.locate.debuginfod import checked_server
from whence.server.access import Access, is_loopback
from whence.server.settings import RequestLimits, ServerSettings
from whence.server.uvicorn_headers import protocol

APP = "whence.server.app:from_environment"
HOSTS = ("granian", "uvicorn")


def chosen_host(asked: str) -> str:
    """The program that speaks HTTP: the one that was asked for, else the first that is installed. Raises WrongUse."""
    for name in [asked] if asked else HOSTS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise WrongUse(f"{asked or 'a server'} is not installed: pip install 'whence[server]'")


def serve(
    settings: ServerSettings,
    *,
    host: str,
    port: int,
    by: str = "",
    tls: tuple[str, str] | None = None,
    workers: int = 1,
) -> None:
    """Serve until a signal ends it. What is at work then is finished. Raises WrongUse, OSError."""
    if not is_loopback(host) and not settings.token_file and not settings.open_read:
        raise WrongUse(f"{host} can be reached from elsewhere: give --token-file, or --open-read for everyone to read")
    if port and not 0 < port < 1 << 16:
        raise WrongUse(f"{port} is no port")
    Access(settings.token_file)
    for upstream in settings.upstreams:
        checked_server(upstream)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("whence.access").setLevel(logging.INFO)
    settings.to_environment()
    if chosen_host(by) == "granian":
        _by_granian(host, port, tls, workers, settings.limits)
    else:
        _by_uvicorn(host, port, tls, workers, settings.limits)


def _by_granian(host: str, port: int, tls: tuple[str, str] | None, workers: int, limits: RequestLimits) -> None:

    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    certificate, key = tls or (None, None)
    Granian(
        APP, factory=True, address=host, port=port, interface=Interfaces.ASGI, workers=workers,
        log_access=False, log_level="warning",  # type: ignore[arg-type]
        http=HTTPModes.http1,  # the only one whose headers have a time limit there
        http1_settings=HTTP1Settings(
            header_read_timeout=int(1000 * limits.header_seconds), max_buffer_size=limits.header_bytes,
        ),
        ssl_cert=Path(certificate) if certificate else None, ssl_key=Path(key) if key else None,
        workers_kill_timeout=int(limits.stop_seconds), websockets=False,
    ).serve()  # fmt: skip


def _by_uvicorn(host: str, port: int, tls: tuple[str, str] | None, workers: int, limits: RequestLimits) -> None:
    import uvicorn

    certificate, key = tls or (None, None)
    uvicorn.run(
        APP, factory=True, host=host, port=port, workers=workers, access_log=False, log_level="warning",
        ssl_certfile=certificate, ssl_keyfile=key, server_header=False, log_config=None, ws="none",
        timeout_graceful_shutdown=int(limits.stop_seconds), h11_max_incomplete_event_size=limits.header_bytes,
        http=protocol(limits.header_seconds, limits.header_bytes, limits.stalled_seconds),
    )  # fmt: skip
