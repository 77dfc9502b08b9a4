"""Build-ids as profiles write them, and the form in which they are compared.

    hex digits                 the GNU build-id, in either case
    UUID with dashes           Apple's, in either case; Sentry's debug ids, which may end in a dash and an age
    33 hex digits              Breakpad's, Mozilla's and Microsoft's: a UUID or GUID and an age
    text of four parts         Go's own id (as `go tool buildid` prints it)
    about 166 hex digits       that text in hex, as Parca's agent writes Go's id
    anything else              compared unchanged, and never part of a path

>>> comparable("AB12CD34"), comparable("612f622f632f64")
('ab12cd34', 'a/b/c/d')
>>> comparable("5D3DAC6E-1C1D-DC8F-4C4C-44205044422E"), comparable("5D3DAC6E1C1DDC8F4C4C44205044422E1")
('5d3dac6e1c1ddc8f4c4c44205044422e', '5d3dac6e1c1ddc8f4c4c44205044422e')
>>> key("AB12CD34"), key("612f622f632f64"), key("../../etc/passwd")
('ab12cd34', '', '')
"""

from __future__ import annotations

from whence.objects.ids import GUID_DIGITS, DebugId, has_dashes

DIGITS = frozenset("0123456789abcdef")
KEY_DIGITS = range(4, 129)  # in file names of caches, debug folders and debuginfod servers
GO_PARTS = 4


def is_hex(text: str) -> bool:
    """Return True if a text consists of lowercase hex digits, at least one."""
    return bool(text) and DIGITS.issuperset(text)


def comparable(build_id: str) -> str:
    """Return the form of a build-id that is equal for all spellings of the id."""
    lower = build_id.lower()
    if has_dashes(lower) or (len(lower) % 2 and len(lower) > GUID_DIGITS):
        return DebugId.parse(lower).guid or build_id
    if not is_hex(lower):
        return build_id
    if len(lower) % 2 == 0:
        text = bytes.fromhex(lower)
        if text.isascii() and text.count(b"/") == GO_PARTS - 1 and text.decode().isprintable():
            return text.decode()
    return lower


def is_same(given: str, own: str) -> bool:
    """Return True if a given build-id is that of a file: all of it, or the 16 bytes that debug ids keep.

    These may be in the byte order of a GUID.

    >>> is_same("AB12", "ab12"), is_same("12" * 16, "12" * 20), is_same("12" * 15, "12" * 20)
    (True, True, False)
    """
    given, own = comparable(given), comparable(own)
    if given == own:
        return True
    if len(given) != GUID_DIGITS or not is_hex(given) or not is_hex(own) or len(own) < GUID_DIGITS:
        return False
    return own.startswith((given, DebugId(given).start_of_build_id or given))


def key(build_id: str) -> str:
    """Return a build-id as part of a file name, in hex digits; "" if it cannot be part of one."""
    name = comparable(build_id)
    return name if is_hex(name) and len(name) in KEY_DIGITS else ""
