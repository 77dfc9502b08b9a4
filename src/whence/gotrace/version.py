"""The versions of the trace format: which exist, how a file says which it is, which events each has."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from whence.errors import WRONG_KIND, TraceError, Unsupported, cut_off, empty_file, shown

if TYPE_CHECKING:
    from whence.gotrace.specs import SpecTable

HEADER_SIZE = 16
_HEADER = re.compile(rb"go 1\.(\d+) trace\0\0\0")
_TEXT_HEADER = re.compile(rb"Trace[\s\x85\xa0]+Go1\.(\d+)")


class Version(enum.IntEnum):
    """The format's version: the minor number of the Go release that introduced it, as in ``go 1.22 trace``.

    >>> Version.GO1_26.header
    b'go 1.26 trace\\x00\\x00\\x00'
    >>> Version.GO1_22.specs.by_name["UserLog"].args
    ('dt', 'task', 'key_string', 'value_string', 'stack')
    """

    GO1_11 = 11
    GO1_19 = 19
    GO1_21 = 21
    GO1_22 = 22
    GO1_23 = 23
    GO1_25 = 25
    GO1_26 = 26

    @property
    def header(self) -> bytes:
        """The 16 bytes a file of this version starts with."""
        return b"go 1.%d trace\0\0\0" % self

    @property
    def text_header(self) -> bytes:
        """The first line of this version's text form."""
        return b"Trace Go1.%d\n" % self

    @property
    def label(self) -> str:
        """For instance ``Go 1.22``."""
        return f"Go 1.{int(self)}"

    @property
    def specs(self) -> SpecTable:
        """The events of this version. Raises Unsupported for Go 1.11 to 1.21, whose events are another format."""
        from whence.gotrace.specs import spec_table

        return spec_table(self)


CURRENT = Version.GO1_26


def known(minor: int, part: str, offset: int) -> Version:
    """The version with this minor number; TraceError when the format has none."""
    try:
        return Version(minor)
    except ValueError:
        rule = f"the version is one of {', '.join(f'1.{v}' for v in Version)}"
        raise TraceError(part, offset, rule, f"1.{minor}") from None


def usable(version: Version) -> Version:
    """The version itself if its events can be read, else Unsupported."""
    if version < Version.GO1_22:
        raise Unsupported(f"events of {version.label} traces: this reads the format that Go 1.22 introduced")
    return version


def read_header(head: bytes) -> Version:
    """The version that the first 16 bytes of a trace declare."""
    match = _HEADER.match(head)
    if not head:
        raise empty_file(TraceError)
    if match is None:
        head = head[:HEADER_SIZE]
        if len(head) < HEADER_SIZE and (looks_like_wire(head) or b"go 1.".startswith(head)):
            raise cut_off(TraceError, "header", 0, HEADER_SIZE, len(head))
        rule = 'it starts with "go 1.N trace" and three zero bytes'
        fault = f"not the wire form of a Go execution trace: it starts with {shown(head)}"
        hint = "whence trace wire makes a wire trace of a text" if looks_like_text(head) else ""
        raise TraceError("header", 0, rule, head, fault=fault, code=WRONG_KIND).with_hint(hint)
    return known(int(match[1]), "header", 5)


def looks_like_wire(head: bytes) -> bool:
    """Whether bytes start as a wire trace does."""
    return head.startswith(b"go 1.")


def looks_like_text(head: bytes) -> bool:
    """Whether the first line that is neither empty nor a comment starts as a text trace's header does."""
    for line in head.split(b"\n"):
        line = line.strip()
        if line and not line.startswith(b"#"):
            return _TEXT_HEADER.match(line) is not None
    return False
