"""Colours and links for a terminal: of frames and of the coverage, never of what programs read (JSON, other styles).

Colours are printed when stdout is a terminal. NO_COLOR, set to anything, turns them off (no-color.org); FORCE_COLOR
turns them on where stdout is none (force-color.org); a terminal of TERM=dumb has none. File names link to the files
where the terminal is known to take links (OSC 8).
"""

from __future__ import annotations

import os
import sys

from whence._base.streams import unguarded

FUNCTION, FILE, DIM, UNKNOWN, ALL, SOME = "1", "36", "2", "33", "32", "33"  # SGR parameters, ECMA-48 8.3.117
LINKING = ("VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION")
LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty")


def wanted() -> bool:
    """Whether stdout gets colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def print_line(line: str) -> None:
    """Print a line of text and of what this module made. The text went through `plain`: stdout escapes nothing here."""
    unguarded(sys.stdout).write(f"{line}\n")


def painted(text: str, colour: str) -> str:
    """Text without control characters, in a colour if colours are wanted."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and wanted() else text


def linked(text: str, path: str) -> str:
    """Text that leads to a file, where the terminal takes links and the path is absolute."""
    takes = any(map(os.environ.get, LINKING)) or os.environ.get("TERM_PROGRAM") in LINKING_PROGRAMS
    if not (takes and os.path.isabs(path) and wanted()):
        return text
    from urllib.parse import quote

    return f"\x1b]8;;file://{quote(host())}{quote(os.fsencode(path))}\x1b\\{text}\x1b]8;;\x1b\\"


def host() -> str:
    """This machine's name, which a link to a file has (the terminal may be another machine's); "" where unknown."""
    return os.uname().nodename if hasattr(os, "uname") else ""


def share(text: str, percent: float) -> str:
    """A percentage: green where it is all, yellow where some is missing."""
    return painted(text, ALL if percent >= 100 else SOME)
