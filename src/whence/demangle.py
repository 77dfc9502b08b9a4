"""Linkage names to readable ones: C++ (Itanium), Rust (legacy and v0), Swift.

    >>> demangle("_ZN6whence4openEPKc")
    'whence::open(char const*)'
    >>> demangle("main")
    'main'

The text is LLVM's, but for legacy Rust names, which LLVM prints as if they were C++: here they lose their hash
(`core::fmt::Formatter::pad`). A suffix a tool put behind a name (`@plt`, `@@GLIBC_2.2.5`) stays behind it. What cannot
be demangled is given back as it is, and so is what would be unwise to demangle.

The demangler runs compiled code over names from untrusted files. Names longer than 4096 bytes can crash it, and names
of 255 bytes can make it write a gigabyte, because a name may refer back to its own parts, which refer back to others.
So a name goes in only when its text is bounded first: k references make text at most 3^(k/3) times as long; a name
with more of them is walked through (`expansion`), counting for each reference the longest part there was before it.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_NAME = 4096
MAX_TEXT = 1 << 26  # characters, as estimated; one character of a name can stand for some twenty of text
CACHED = 1 << 16

MANGLED = re.compile(r"_{1,4}Z|_{1,2}R|_?\$[sS]|_T[0t]")
REFERENCES = {"Z": re.compile(r"S[0-9A-Z]*_|T[0-9L_]*_|Dp|sp"), "R": re.compile(r"B[0-9a-zA-Z]*_")}
SWIFT_REFERENCES = re.compile(r"A[a-z0-9]*[A-Z_]|x|q")

TOKEN = re.compile(
    r"(?P<size>[0-9]+)"  # a name's length; the name follows
    r"|L[a-z]n?[0-9]*E|A[0-9]*_|[CD][0-9]"  # a number, an array bound, a constructor
    r"|(?P<reference>S[0-9A-Z]*_|T(?:L[0-9]*_)?[0-9]*_)"
    r"|(?P<pack>Dp|sp)"
    r"|(?P<open>[INFXJL]|Ul|DT|Dt|DO|Dw)"
    r"|(?P<close>E)"
    r"|S[a-z]|.",
    re.DOTALL,
)


@lru_cache(CACHED)
def demangle(name: str) -> str:
    """The readable form of a linkage name; the name itself when there is none. Remembers the last 65,536 names."""
    if not MANGLED.match(name) or len(name) > MAX_NAME:
        return name
    base, at, version = name.partition("@")
    if not bounded(base):
        return name
    from pydemumble import demangle as text_of

    try:
        text: str = text_of(base)
    except TypeError:  # not UTF-8
        return name
    return text + at + version if text else name


def bounded(name: str) -> bool:
    """Whether the text of a mangled name is sure to be of a reasonable size."""
    scheme = name.lstrip("_")[:1]
    references = len(REFERENCES.get(scheme, SWIFT_REFERENCES).findall(name))
    if len(name) * 3 ** (references / 3) <= MAX_TEXT:
        return True
    return scheme == "Z" and expansion(name.lstrip("_")[1:]) <= MAX_TEXT


def expansion(name: str) -> int:
    """More characters than a C++ name's own characters and the parts it refers to can add up to.

    A reference counts as the longest part that was complete before it; a pack expansion repeats what is around it as
    often as the longest pack has members.
    """
    size = longest = item = 0
    members = 1
    groups: list[list[int]] = []  # where a bracket starts in the text, how often it is repeated, its members
    nested: list[bool] = []
    at = 0
    while at < len(name) and size <= MAX_TEXT:
        token = TOKEN.match(name, at)
        assert token is not None
        at = token.end()
        kind = token.lastgroup
        if kind == "size":
            length = min(int(token[0][:9]), len(name) - at)
            item, size, at = size, size + length, at + length
            longest = max(longest, length)
        elif kind == "reference":
            item, size = size, size + max(longest, 32)
        elif kind == "pack":
            if groups:
                groups[-1][1] *= members
            else:
                size *= members
        elif kind == "open":
            if token[0] == "I":
                longest = max([longest, *(size - group[0] for group, is_name in zip(groups, nested) if is_name)])
            groups.append([item if token[0] == "I" else size, 1, 0])
            nested.append(token[0] == "N")
        elif kind == "close":
            if groups:
                start, repeated, count = groups.pop()
                nested.pop()
                size = start + (size - start) * repeated
                longest = max(longest, size - start)
                members = max(members, count)
                item = start
        else:
            size += len(token[0])
        if groups:
            groups[-1][2] += 1
    return size
