"""Colors and links on a terminal, for frames and coverage; never for JSON and other machine-readable styles.

Colors are used if stdout is a terminal and TERM is not dumb. NO_COLOR turns them off (no-color.org), FORCE_COLOR on
(force-color.org). File names become links (OSC 8) in terminals that are known to support them.
"""

from __future__ import annotations

import os
import sys

from whence._base.streams import unguarded

FUNCTION, FILE, DIM, UNKNOWN, ALL, SOME = "1", "36", "2", "33", "32", "33"  # SGR parameters, ECMA-48 8.3.117
LINKING = ("VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION")
LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty")


def wanted() -> bool:
    """Return True if stdout gets colors."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def print_line(line: str) -> None:
    """Print a line without escaping. Its text must have passed through `plain`."""
    unguarded(sys.stdout).write(f"{line}\n")


def painted(text: str, colour: str) -> str:
    """Return text in a color, if colors are used."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and wanted() else text


def linked(text: str, path: str) -> str:
    """Return text as a link to a file, if the terminal supports links and the path is absolute."""
    takes = any(map(os.environ.get, LINKING)) or os.environ.get("TERM_PROGRAM") in LINKING_PROGRAMS
    if not (takes and os.path.isabs(path) and wanted()):
        return text
    from urllib.parse import quote

    return f"\x1b]8;;file://{quote(host())}{quote(os.fsencode(path))}\x1b\\{text}\x1b]8;;\x1b\\"


def host() -> str:
    """Return this machine's name for links, which may be opened on another machine; "" if unknown."""
    return os.uname().nodename if hasattr(os, "uname") else ""


def share(text: str, percent: float) -> str:
    """Return a percentage in green if it is 100, else in yellow."""
    return painted(text, ALL if percent >= 100 else SOME)
