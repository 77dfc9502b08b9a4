"""The answer of the symbolizer for an address."""

from __future__ import annotations

from typing import NamedTuple

from whence._base.errors import plain
from whence._base.model import Frames
from whence._base.reasons import Reason
from whence.procmap.mapping import Mapping


class Symbolized(NamedTuple):
    """Frames of a runtime address, or the reason why it has none. True if there are frames.

    `file_offset` and `vaddr` are known if the mapping has a file and a segment of it contains the address; `detail` is
    an error's message, if there was one.
    """

    address: int
    frames: Frames = ()
    reason: Reason | None = None
    mapping: Mapping | None = None
    file_offset: int | None = None
    vaddr: int | None = None
    detail: str = ""

    def after(self) -> Symbolized:
        """Return the answer as that for the return address after the byte."""
        offset, vaddr = self.file_offset, self.vaddr
        return self._replace(
            address=self.address + 1,
            file_offset=None if offset is None else offset + 1,
            vaddr=None if vaddr is None else vaddr + 1,
        )

    def __repr__(self) -> str:
        frame = self.frames[0] if self.frames else None
        answer = self.reason.word if self.reason is not None else "no frames"
        if frame is not None:
            more = f" and {len(self.frames) - 1} more" if len(self.frames) > 1 else ""
            answer = f"{frame.function or '??'} {frame.file or '??'}:{frame.line}{more}"
        return f"<whence.Symbolized {self.address:#x}: {plain(answer)}>"

    def __bool__(self) -> bool:
        """Return True if there are frames."""
        return bool(self.frames)

    @property
    def remedy(self) -> str:
        """The remedy if there is a reason; "" if there are frames."""
        return self.reason.remedy if self.reason is not None else ""
