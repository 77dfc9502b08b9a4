"""What a minidump says of a process and its system, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.records import Record, field

if TYPE_CHECKING:
    from whence.dumps.crashpad import ModuleAnnotations
    from whence.dumps.minidump import Minidump, Module, Stream, UnloadedModule


class MinidumpFacts(Record, frozen=True):
    """The contents of a minidump other than stacks.

    `release` is Linux's distribution. `annotations` are those of Crashpad for the process, `module_annotations` those
    of modules, by index. `written` and `started` are in seconds since 1970, 0 if unknown.
    """

    system: str
    processor: str
    cpus: int
    written: int
    started: int
    modules: list[Module]
    unloaded: list[UnloadedModule]
    streams: list[Stream]
    release: str = ""
    assertion: str = ""
    comment: str = ""
    requesting_thread: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    auxiliary: dict[int, int] = field(default_factory=dict)
    report_id: str = ""
    client_id: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    module_annotations: list[ModuleAnnotations] = field(default_factory=list)

    @classmethod
    def of(cls, dump: Minidump) -> MinidumpFacts:
        """Return the facts of an open minidump."""
        system, crashpad = dump.system, dump.crashpad
        return cls(
            str(system), system.processor.name, system.cpus, dump.time, dump.started, dump.modules, dump.unloaded,
            list(dump.streams.values()), dump.release, dump.assertion, dump.comment, dump.requesting_thread,
            dump.environment, dump.auxiliary, crashpad.report_id, crashpad.client_id, crashpad.pairs, crashpad.modules,
        )  # fmt: skip
