"""Shell patterns as debuginfod matches them: fnmatch(3) with FNM_PATHNAME, where only `/` matches `/`.

Collating symbols (`[.a.]`) and equivalence classes (`[=a=]`) are read as the letters they consist of.
"""

from __future__ import annotations

import re

CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\0-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
NOTHING = "(?!)"


def compiled(glob: str) -> re.Pattern[str]:
    """Return the expression for a pattern; a malformed one matches nothing.

    >>> bool(compiled("/usr/*/l[!a]").fullmatch("/usr/bin/ls")), bool(compiled("/usr/*").fullmatch("/usr/bin/ls"))
    (True, False)
    """
    parts = [""]  # what follows each run of stars
    at = 0
    while at < len(glob):
        letter = glob[at]
        at += 1
        if letter == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif letter == "?":
            parts[-1] += "[^/]"
        elif letter == "[":
            text, at = bracket(glob, at)
            parts[-1] += text
        elif letter == "\\":
            parts[-1] += re.escape(glob[at]) if at < len(glob) else NOTHING
            at += 1
        else:
            parts[-1] += re.escape(letter)
    first, *others = parts
    # a star takes as little as it can, for good: what follows fits there if it fits anywhere, but for the last
    last = f"[^/]*{others.pop()}" if others else ""
    kept = "".join(f"(?=(?P<s{i}>[^/]*?{part}))(?P=s{i})" for i, part in enumerate(others))
    return re.compile(first + kept + last, re.DOTALL)


def bracket(glob: str, begin: int) -> tuple[str, int]:
    """Return the expression for a bracket whose inside begins at `begin`, and its end; "[" itself if it has none."""
    at = begin
    negated = glob[at : at + 1] in ("!", "^")
    at += negated
    first, items = at, []
    while at < len(glob) and (glob[at] != "]" or at == first):
        if glob.startswith("[:", at) and (end := glob.find(":]", at + 2)) > 0 and glob[at + 2 : end] in CLASSES:
            items.append(CLASSES[glob[at + 2 : end]])
            at = end + 2
            continue
        low, at = letter_at(glob, at)
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            high, at = letter_at(glob, at + 1)
            items += [f"{re.escape(low)}-{re.escape(high)}"] if low <= high else []
        else:
            items.append(re.escape(low))
    if at >= len(glob):
        return re.escape("["), begin
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]", at + 1
    return (f"(?!/)[{inside}]" if inside else NOTHING), at + 1


def letter_at(glob: str, at: int) -> tuple[str, int]:
    """Return the letter at an offset, without the backslash before it, and where the next one is."""
    at += glob[at] == "\\" and at + 1 < len(glob)
    return glob[at], at + 1
