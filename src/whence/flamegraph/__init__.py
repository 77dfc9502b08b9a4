"""A flame graph: one HTML file that needs nothing else, for a person with a browser and perhaps no network.

    tree.py         equal stacks merged into a tree, as flat columns; tree_kernel.py does the work
    packages.py     the package, namespace, crate or folder of a function
    data.py         tree and names as the page reads them, in a bounded number of bytes
    page.html       the page, with places for the style, the script and the data
    page.css        its looks, dark and light
    page.js         drawing, search, zoom, keyboard

Each binary has a hue, and in a binary that has most of the profile each package. Frames without a name are hatched and
say why on hover.
"""

from __future__ import annotations

import html
import os
import re

from whence.flamegraph.data import encoded
from whence.flamegraph.tree import NODES, TYPES, tree
from whence.samples.difference import both
from whence.samples.model import ProfileData

__all__ = ["page", "page_bytes", "tree"]

PLACE = re.compile(rb"\{\{(\w+)\}\}")


def part(name: str) -> bytes:
    """A file of this package."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


PAGE, STYLE, SCRIPT = map(part, ("page.html", "page.css", "page.js"))
"""Read on import: a confined process can open no files later."""


def page(profile: ProfileData, title: str = "", *, nodes: int = NODES) -> str:
    """The HTML file's text, with the `nodes` heaviest nodes of the tree.

    It has less than 64 MB, whatever the profile is, and less than a tenth of that for most of them.
    """
    return page_bytes(profile, title, nodes=nodes).decode("utf-8")


def page_bytes(profile: ProfileData, title: str = "", *, nodes: int = NODES) -> bytes:
    """The HTML file, in UTF-8; bytes of a name that are no UTF-8 show as ?."""
    shown, compared = profile, 0
    if profile.samples.base:
        shown = both(profile, TYPES // 2)
        compared = len(shown.sample_types) // 2
    parts = {
        b"title": html.escape(title or "profile").encode("utf-8", "replace"),
        b"style": STYLE,
        b"script": SCRIPT,
        b"data": encoded(tree(shown, nodes), compared),
    }
    # in one pass: what is put in is not looked through for places again
    return PLACE.sub(lambda place: parts[place[1]], PAGE)
