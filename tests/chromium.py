"""Pages in a headless Chromium, at the size of a desk's or a phone's window."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium here (make browser installs it)")

DESK, PHONE = (1280, 800), (390, 844)

# A window of chromium has at least 500 pixels across, a frame in it can be of any size.
FRAME = """<!doctype html><meta charset="utf-8">
<style>body {{ margin: 0 }} iframe {{ border: 0; display: block }}</style>
<iframe id="page" width="{width}" height="{height}" src="{page}{hash}"></iframe>
<script>
document.getElementById("page").onload = async (event) => {{
  const page = event.target.contentWindow;
  const document = page.document;
  const out = {{}};
  {script}
  const result = window.document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(out);
  window.document.body.append(result);
}};
</script>"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a script found in a page, and what the page wrote to the console or tried to fetch."""

    out: Any
    console: list[str]


def run(
    page: str, script: str, folder: Path, size: tuple[int, int] = DESK, hash: str = "", screenshot: Path | None = None
) -> Seen:
    """Open a page and run a script that fills `out`; `page` and `document` are the page's. Draws it, if asked."""
    file, frame = folder / "page.html", folder / "frame.html"
    file.write_text(page)
    frame.write_text(
        FRAME.format(width=size[0], height=size[1], page=file.as_uri(), hash=html.escape(hash), script=script)
    )
    command = [
        str(CHROMIUM),
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files"),
        *("--enable-logging=stderr", "--virtual-time-budget=10000", f"--user-data-dir={folder / 'profile'}"),
        f"--window-size={max(size[0], 500)},{size[1] + 150}",
    ]
    what = f"--screenshot={screenshot}" if screenshot else "--dump-dom"
    done = subprocess.run([*command, what, frame.as_uri()], capture_output=True, text=True, timeout=120)
    console = re.findall(r"CONSOLE.*", done.stderr)
    if screenshot:
        return Seen({}, console)
    text = done.stdout.partition('<pre id="result">')[2].partition("</pre>")[0]
    assert text, (console, done.stderr[-2000:])
    return Seen(json.loads(html.unescape(text)), console)
