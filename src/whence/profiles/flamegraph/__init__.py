"""A flame graph: one HTML file that needs nothing else, for a person with a browser and perhaps no network.

    tree.py      equal stacks merged into a tree, as flat columns
    page.html    the page, with places for the style, the script and the data
    page.css     its looks, dark and light
    page.js      drawing, search, zoom, keyboard

Each binary has a hue. Frames without a name are hatched and say why on hover.
"""

from __future__ import annotations

import html
import json
from importlib import resources

from whence.profiles.flamegraph.tree import tree
from whence.profiles.model import Profile

__all__ = ["page", "tree"]


def page(profile: Profile, title: str = "") -> str:
    """The HTML file."""
    here = resources.files(__name__)

    def part(name: str) -> str:
        return here.joinpath(name).read_text("utf-8")

    data = json.dumps(tree(profile), separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    out = part("page.html").replace("{{title}}", html.escape(title or "profile"))
    for place, text in (("{{style}}", part("page.css")), ("{{script}}", part("page.js")), ("{{data}}", data)):
        before, _, after = out.partition(place)
        out = before + text + after
    return out
