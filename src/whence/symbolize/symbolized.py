"""What the symbolizer says about one address."""

from __future__ import annotations

from typing import NamedTuple

from whence._base.model import Frames
from whence._base.reasons import Reason
from whence.procmap.mapping import Mapping


class Symbolized(NamedTuple):
    """Frames, or the reason why there are none, and how far the way led.

    `address` is the runtime address asked for. `file_offset` and `vaddr` are known when the mapping has a file and a
    segment of it holds the address; `detail` is an error's words, where there was one. True when there are frames.
    """

    address: int
    frames: Frames = ()
    reason: Reason | None = None
    mapping: Mapping | None = None
    file_offset: int | None = None
    vaddr: int | None = None
    detail: str = ""

    def after(self) -> Symbolized:
        """The answer for a byte as that for the return address behind it."""
        offset, vaddr = self.file_offset, self.vaddr
        return self._replace(
            address=self.address + 1,
            file_offset=None if offset is None else offset + 1,
            vaddr=None if vaddr is None else vaddr + 1,
        )

    def __bool__(self) -> bool:
        """Whether there are frames."""
        return bool(self.frames)

    @property
    def remedy(self) -> str:
        """What may help where there is a reason; "" where there are frames."""
        return self.reason.remedy if self.reason is not None else ""
