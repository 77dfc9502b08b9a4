"""Flame graphs: one self-contained HTML file that a browser shows without a network.

    tree.py         stacks merged into a tree, as flat columns; kernels/tree.py does the work
    entries.py      the values of the tree by thread and time
    packages.py     the package, namespace, crate or folder of a function
    data.py         tree and names as JSON for the page, of limited size
    page.html       the page, with placeholders for style, script and data
    page.css        the style, dark and light
    page.js         grouping, ranges of time, drawing, search, zoom, keyboard
    code.js         the pane with source lines and instructions, before page.js in the script of the page

Each binary has a hue; in a binary with most of the profile, each package has one. Frames without a name are hatched,
and their tooltip has the reason.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable

from whence.flamegraph.data import encoded, json_object
from whence.flamegraph.entries import entries as entries_of
from whence.flamegraph.tree import NODES, TYPES, Tree, tree
from whence.samples.difference import both
from whence.samples.model import ProfileData

__all__ = ["SCRIPT", "page", "page_bytes", "tree"]

PLACEHOLDER = re.compile(rb"\{\{(\w+)\}\}")


def part(name: str) -> bytes:
    """Return the bytes of a file of this package."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


PAGE, STYLE, SCRIPT = part("page.html"), part("page.css"), part("code.js") + part("page.js")
"""Read on import: a sandboxed process can't open files later."""


def page(profile: ProfileData, title: str = "", *, nodes: int = NODES) -> str:
    """Return the flame graph of a profile as HTML text.

    The text has less than 64 MB for any profile, and less than a tenth of that for most.

    Args:
        profile: the profile, or a difference of two profiles.
        title: the title of the page.
        nodes: the number of nodes; the heaviest are shown.
    """
    return page_bytes(profile, title, nodes=nodes).decode("utf-8")


def page_bytes(
    profile: ProfileData,
    title: str = "",
    *,
    nodes: int = NODES,
    code: Callable[[Tree], dict[str, object]] | None = None,
) -> bytes:
    """Return the flame graph of a profile as an HTML file, like `page`, in UTF-8; invalid characters become "?".

    `code` returns what the page has of source lines and instructions: `whence.profiles.page_code` describes it.
    """
    shown, compared = profile, 0
    if profile.samples.base:
        shown = both(profile, TYPES // 2)
        compared = len(shown.sample_types) // 2
    drawn = tree(shown, nodes)
    parts = {
        b"title": html.escape(title or "profile").encode("utf-8", "replace"),
        b"style": STYLE,
        b"script": SCRIPT,
        b"data": encoded(drawn, entries_of(shown, drawn), compared),
        b"code": b"null" if code is None or compared else json_object(code(drawn)),
    }
    # one pass: the inserted texts may contain placeholders, too
    return PLACEHOLDER.sub(lambda match: parts[match[1]], PAGE)
