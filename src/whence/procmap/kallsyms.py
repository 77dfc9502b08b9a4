"""/proc/kallsyms: the kernel's own names.

    ffffffff81000000 T _text
    ffffffffc0401000 t init_module	[loop]

Without CAP_SYSLOG (kernel.kptr_restrict) every address reads as zero: then nothing can be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from whence.procmap.names import NamedAddresses

# On 64-bit machines the kernel has the upper half; the [vsyscall] page there belongs to processes.
KERNEL_START = 1 << 63
LONGEST = 1 << 20  # bytes that the last function before a gap is taken to have at most
_LINE = re.compile(rb"^([0-9a-fA-F]{1,16}) [tTwW] (\S+)(?:[ \t]+\[(\S+)\])?[ \t]*$", re.MULTILINE)
_FIRST = re.compile(rb"^([0-9a-fA-F]{8,16}) [tT] (_text|_stext)$", re.MULTILINE)


class KernelNames(NamedAddresses):
    """Functions of a kernel and its modules; empty when addresses are hidden. `begins` says where _text and _stext lie,
    as far as that is told."""

    __slots__ = ("begins",)

    def __init__(self, ranges: Iterable[tuple[int, int, str]] = (), begins: dict[str, int] | None = None) -> None:
        super().__init__(ranges)
        self.begins = begins or {}

    @property
    def text_address(self) -> int | None:
        return self.begins.get("_text")

    @classmethod
    def read(cls, path: str = "/proc/kallsyms") -> KernelNames:
        """Raises OSError when the file can't be read."""
        with open(path, "rb") as file:
            return cls.parse(file.read())

    @classmethod
    def parse(cls, data: bytes) -> KernelNames:
        """A function reaches to the next one. Aliases of one address: the first counts, as the kernel prints it.

        >>> KernelNames.parse(b"ffffffff81000000 T a\\nffffffff81000010 t b\\t[mod]\\n").lookup(0xffffffff8100000f)
        'a'
        """
        first: dict[int, str] = {}
        for address, name, module in _LINE.findall(data):
            start = int(address, 16)
            if start and start not in first:
                text = name.decode("utf-8", "surrogateescape")
                first[start] = f"{text} [{module.decode('utf-8', 'surrogateescape')}]" if module else text
        starts = sorted(first)
        ends = [*starts[1:], min(starts[-1] + LONGEST, (1 << 64) - 1)] if starts else []
        begins = {name.decode(): at for text, name in _FIRST.findall(data) if (at := int(text, 16))}
        ranges = ((start, min(end, start + LONGEST), first[start]) for start, end in zip(starts, ends, strict=True))
        return cls(ranges, begins)
