"""Build-ids as profiles write them, and the one form in which they are compared.

    hex digits                 the GNU build-id, in either case
    text of four parts         Go's own id (as `go tool buildid` prints it)
    166 hex digits, or so      the same text in hex: Parca's agent writes Go's id like that
    anything else              compared as it is, and no part of any path

>>> comparable("AB12CD34"), comparable("612f622f632f64")
('ab12cd34', 'a/b/c/d')
>>> key("AB12CD34"), key("612f622f632f64"), key("../../etc/passwd")
('ab12cd34', '', '')
"""

from __future__ import annotations

DIGITS = frozenset("0123456789abcdef")
KEY_DIGITS = range(4, 129)  # of what caches, debug folders and debuginfod servers name files by
GO_PARTS = 4
BREAKPAD_DIGITS = 32  # of a build-id that went through a debug id: it has the first 16 bytes


def is_hex(text: str) -> bool:
    """Whether a text is of lowercase hex digits, one or more."""
    return bool(text) and DIGITS.issuperset(text)


def comparable(build_id: str) -> str:
    """The form of a build-id that equals another's where both are of one file."""
    lower = build_id.lower()
    if not is_hex(lower):
        return build_id
    if len(lower) % 2 == 0:
        text = bytes.fromhex(lower)
        if text.isascii() and text.count(b"/") == GO_PARTS - 1 and text.decode().isprintable():
            return text.decode()
    return lower


def is_same(given: str, own: str) -> bool:
    """Whether a build-id as it was given is that of a file: all of it, or the 16 bytes that Breakpad keeps.

    >>> is_same("AB12", "ab12"), is_same("12" * 16, "12" * 20), is_same("12" * 15, "12" * 20)
    (True, True, False)
    """
    given, own = comparable(given), comparable(own)
    return given == own or (len(given) == BREAKPAD_DIGITS and own.startswith(given) and is_hex(own))


def key(build_id: str) -> str:
    """The build-id as part of a file's name: hex digits; "" for one that names no file."""
    found = comparable(build_id)
    return found if is_hex(found) and len(found) in KEY_DIGITS else ""
