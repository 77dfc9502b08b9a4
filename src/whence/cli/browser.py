"""Open a page in the browser, for --open."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from whence._base.streams import complain


def open_page(page: str) -> None:
    """Open a file or a URL in the browser. If there is no browser, print what to open."""
    url = page if "://" in page else Path(page).resolve().as_uri()
    if not webbrowser.open(url):
        complain(f"no browser could be started: open {url}")
