"""How long the text of a mangled name can become, for names with many references. Imported when one comes along.

A name of 255 bytes can stand for a gigabyte of text: its parts refer back to other parts, which refer back to others.
k references make text at most 3^(k/3) times as long; where that says nothing, a C++ name is walked through.
"""

from __future__ import annotations

import re

MAX_TEXT = 1 << 26  # characters, as estimated; one character of a name can stand for some twenty of text

REFERENCES = {
    "Z": re.compile(r"S[0-9A-Z]*_|T[0-9L_]*_|Dp|sp"),
    "R": re.compile(r"B[0-9a-zA-Z]*_"),
    "$": re.compile(r"A[a-z0-9]*[A-Z_]|x|q"),
}
TOKEN = re.compile(
    r"(?P<size>[0-9]+)"  # a name's length; the name follows
    r"|L[a-z]n?[0-9]*E|A[0-9]*_|[CD][0-9]|[TG][A-Z](?![0-9]*_)"  # a number, an array bound, a constructor, a vtable
    r"|(?P<substitution>S[0-9A-Z]*_)|(?P<parameter>T(?:L[0-9]*_)?[0-9]*_)"
    r"|(?P<pack>Dp|sp)"
    r"|(?P<open>[INFXJLZ]|Ul|DT|Dt|DO|Dw)|(?P<close>E)"
    r"|(?P<tag>B(?=[0-9]))"
    r"|(?P<standard>S[absiod])"  # std::allocator, std::string and others, which may be printed with their arguments
    r"|St|.",
    re.DOTALL,
)
PLAIN = frozenset("INFJ")  # brackets in which every part that ends can be referred to


def bounded(name: str, most: int = MAX_TEXT) -> bool:
    """Whether the text of a mangled name is sure to have at most so many characters."""
    start = name.lstrip("_")
    references = len(REFERENCES.get(start[:1], REFERENCES["$"]).findall(name))
    if len(name) * 3 ** (references / 3) <= most:
        return True
    return start[:1] == "Z" and expansion(start[1:]) <= most


class Group:
    """An open bracket: where it starts in the text, how often a pack repeats it, its members so far, its letter."""

    __slots__ = ("kind", "members", "repeated", "start")

    def __init__(self, start: int, repeated: int, members: int, kind: str) -> None:
        self.start, self.repeated, self.members, self.kind = start, repeated, members, kind


def expansion(name: str) -> int:
    """More characters than a C++ name's own characters and the parts it refers to add up to, within a factor of three.

    The name is not parsed, only bracketed. The j-th substitution counts as the longest part there was when surely j
    parts had ended; a template parameter as the longest argument before it; a pack repeats what is around it as often
    as the longest pack has members. So the sum errs upwards.
    """
    size = longest = argument = item = 0
    members = 1
    groups: list[Group] = []
    uncounted = lists = 0  # how many groups are not plain; how many are lists of arguments
    scopes: list[int] = []  # where the groups of nested names start
    ended: list[int] = []  # the longest part, at the end of the j-th part that can be referred to
    named = tagged = False  # whether the token before was a name, or says that the next name is no part (an ABI tag)
    offset = 0
    while offset < len(name) and size <= MAX_TEXT:
        token = TOKEN.match(name, offset)
        assert token is not None
        offset = token.end()
        kind, text = token.lastgroup, token[0]
        counted = not uncounted
        after_name, named = named, False
        if kind == "size":
            length = min(int(text[:9]), len(name) - offset)
            if after_name and counted and not tagged and groups and groups[-1].kind == "N":
                ended.append(max(longest, size - groups[-1].start))
            item, size, offset = size, size + length, offset + length
            longest, argument = max(longest, length), max(argument, length)
            named = not tagged
        elif kind == "standard":
            item, size = size, size + 64
        elif kind == "substitution":
            index = int(text[1:-1], 36) + 1 if len(text) > 2 else 0
            item, size = size, size + max(ended[index] if index < len(ended) else longest, 32)
        elif kind == "parameter":
            item, size = size, size + max(argument, 32)
        elif kind == "pack":
            if groups:
                groups[-1].repeated *= members
            else:
                size *= members
        elif kind == "open":
            if text == "I":
                if scopes:
                    longest = max(longest, size - scopes[0])
                if after_name and counted:
                    ended.append(longest)
                lists += 1
            elif text == "N":
                scopes.append(size)
            uncounted += text not in PLAIN
            groups.append(Group(item if text == "I" else size, 1, 0, text))
        elif kind == "close" and groups:
            group = groups.pop()
            uncounted -= group.kind not in PLAIN
            lists -= group.kind == "I"
            if group.kind == "N":
                scopes.pop()
            size = group.start + (size - group.start) * group.repeated
            item = group.start
            longest = max(longest, size - item)
            if lists or group.kind == "J":
                argument = max(argument, size - item)
            if lists and group.kind == "I" and not uncounted:
                ended.append(longest)
            if group.kind == "J":
                members = max(members, group.members)
        elif kind != "close":
            size += len(text)
        tagged = kind == "tag"
        if groups:
            groups[-1].members += 1
    return size
