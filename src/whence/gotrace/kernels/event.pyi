"""Types of event_kernel.py, for mypy and editors."""

from collections.abc import Iterable
from typing import Protocol, final

from whence.gotrace.kernels.layout import EventLayout
from whence.gotrace.specs import EventSpec, Version

@final
class Event:
    version: Version
    type: int
    data: bytes | None
    padding: bytes | None
    def __init__(
        self,
        version: Version,
        type: int | str,
        args: Iterable[int] = (),
        data: bytes | None = None,
        padding: bytes | None = None,
    ) -> None: ...
    @property
    def args(self) -> tuple[int, ...]: ...
    @property
    def spec(self) -> EventSpec: ...
    @property
    def name(self) -> str: ...
    @property
    def frames(self) -> tuple[tuple[int, int, int, int], ...]: ...
    def __getitem__(self, key: int | str) -> int: ...
    def encode(self) -> bytes: ...

def padded(value: int, extra: int) -> bytes: ...

class _Feed(Protocol):
    def window(self, used: int, cut: bool, /) -> tuple[bytearray | memoryview, int, int]: ...
    def fail(self, fault: int, where: int, kind: int, /) -> None: ...

@final
class Stream:
    version: Version
    def __init__(self, feed: _Feed, version: Version, layout: EventLayout, keep_padding: bool) -> None: ...
    @property
    def position(self) -> int: ...
    def __iter__(self) -> Stream: ...
    def __next__(self) -> Event: ...
