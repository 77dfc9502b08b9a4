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
    parts = [""]  # the expressions between runs of stars
    offset = 0
    while offset < len(glob):
        letter = glob[offset]
        offset += 1
        if letter == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif letter == "?":
            parts[-1] += "[^/]"
        elif letter == "[":
            text, offset = bracket(glob, offset)
            parts[-1] += text
        elif letter == "\\":
            parts[-1] += re.escape(glob[offset]) if offset < len(glob) else NOTHING
            offset += 1
        else:
            parts[-1] += re.escape(letter)
    first, *others = parts
    # each star except the last matches as little as possible, without backtracking
    last = f"[^/]*{others.pop()}" if others else ""
    middle = "".join(f"(?=(?P<s{i}>[^/]*?{part}))(?P=s{i})" for i, part in enumerate(others))
    return re.compile(first + middle + last, re.DOTALL)


def bracket(glob: str, begin: int) -> tuple[str, int]:
    """Return the expression for a bracket whose inside begins at `begin`, and its end; "[" itself if it has none."""
    offset = begin
    negated = glob[offset : offset + 1] in ("!", "^")
    offset += negated
    first, items = offset, []
    while offset < len(glob) and (glob[offset] != "]" or offset == first):
        end = glob.find(":]", offset + 2) if glob.startswith("[:", offset) else -1
        if end > 0 and glob[offset + 2 : end] in CLASSES:
            items.append(CLASSES[glob[offset + 2 : end]])
            offset = end + 2
            continue
        low, offset = read_letter(glob, offset)
        if glob[offset : offset + 1] == "-" and glob[offset + 1 : offset + 2] not in ("", "]"):
            high, offset = read_letter(glob, offset + 1)
            items += [f"{re.escape(low)}-{re.escape(high)}"] if low <= high else []
        else:
            items.append(re.escape(low))
    if offset >= len(glob):
        return re.escape("["), begin
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]", offset + 1
    return (f"(?!/)[{inside}]" if inside else NOTHING), offset + 1


def read_letter(glob: str, offset: int) -> tuple[str, int]:
    """Return the letter at an offset, without a backslash before it, and the offset of the next letter."""
    offset += glob[offset] == "\\" and offset + 1 < len(glob)
    return glob[offset], offset + 1
