"""Open a page in the browser, for --open."""

from __future__ import annotations

import socket
import time
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

from whence._base.streams import complain

START_SECONDS = 30.0  # for a server to listen
RETRY_SECONDS = 0.1


def open_page(page: str) -> None:
    """Open a file or a URL in the browser. If there is no browser, print what to open."""
    url = page if "://" in page else Path(page).resolve().as_uri()
    if not webbrowser.open(url):
        complain(f"no browser could be started: open {url}")


def open_when_listening(url: str) -> None:
    """Open the page of a server that is being started, as soon as it accepts connections."""
    parts = urlsplit(url)
    address = parts.hostname or "127.0.0.1", parts.port or 80
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(address, RETRY_SECONDS).close()
        except OSError:
            time.sleep(RETRY_SECONDS)
        else:
            open_page(url)
            return
