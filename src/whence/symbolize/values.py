"""Arguments and local variables of the frames of cores and live processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.options import DEFAULTS
from whence.demangle import demangle
from whence.locate.debug_files import Completion
from whence.producers import Producers
from whence.types.frames import ProcessValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence._base.window import ByteOrder
    from whence.dwarf.info import DebugInfo
    from whence.locator.locator import Locator
    from whence.objects.interface import ObjectFile
    from whence.types.decoding import Limits
    from whence.unwind.memory import Memory
    from whence.unwind.modules import CoreCode, Module
    from whence.unwind.registers import Machine


class OpenedValues(Closing):
    """A reader of variables (`values`) with the debug files that it opens; `close` closes these."""

    def __init__(
        self, machine: Machine, order: ByteOrder, code: CoreCode, memory: Memory, locator: Locator, *,
        stored: int = 0, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self._locator = locator
        self._producers: list[Producers] = []
        self.values = ProcessValues(
            machine, order, code, memory, self._debug_info, stored=stored, limits=limits, demangle=demangle
        )

    def __repr__(self) -> str:
        return f"<OpenedValues: {len(self._producers)} files open>"

    def _debug_info(self, module: Module) -> tuple[DebugInfo | None, Sequence[ObjectFile]]:
        """Return the debug info of a mapped file, and the files with its symbols."""
        if module.elf is None:
            return None, ()
        files = self._locator.debug_files.for_file(module.file.path)
        producers = Producers(module.elf, complete=Completion(files), options=DEFAULTS)
        self._producers.append(producers)
        return producers.dwarf, tuple(dict.fromkeys((producers.debug_elf, module.elf)))

    def close(self) -> None:
        for producers in self._producers:
            producers.close()
        self._producers.clear()
