"""What a crash report has, and its JSON, which docs/formats/crash-report.md describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record
from whence._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence._base.model import Frame
    from whence.crashes.fault import FaultPlace
    from whence.crashes.signature import CrashSignature
    from whence.listing import Instruction
    from whence.symbolize import NamedFrame, Stack
    from whence.types.model import Variable
    from whence.unwind import Signal

FORMAT, VERSION = "whence-crash-report", 1
FIRST_SHOWN, LAST_SHOWN = 64, 32  # functions of a long stack that text and pages show


class SourceExcerpt(NamedTuple):
    """Source lines around a line; `origin` says where the file was found."""

    origin: str
    first: int
    lines: tuple[str, ...]


class ReportFunction(NamedTuple):
    """A function of a stack, inlined or not, with its number, its variables (None: not read) and source lines."""

    number: int
    frame: NamedFrame
    function: Frame | None
    variables: tuple[Variable, ...] | None = None
    source: SourceExcerpt | None = None

    @property
    def name(self) -> str:
        if self.frame.is_trampoline:
            return "<signal handler called>"
        return self.function.function if self.function is not None and self.function.function else "??"


class ThreadGroup(Record, frozen=True):
    """Threads with equal stacks: the stack of the first, and the ids and names of all."""

    stack: Stack
    tids: tuple[int, ...]
    names: tuple[str, ...]
    functions: tuple[ReportFunction, ...]

    def shown(self) -> Iterator[ReportFunction | int]:
        """Yield the functions that text and pages show, and the number of those left out between them."""
        if len(self.functions) <= FIRST_SHOWN + LAST_SHOWN + 1:
            yield from self.functions
            return
        yield from self.functions[:FIRST_SHOWN]
        yield len(self.functions) - FIRST_SHOWN - LAST_SHOWN
        yield from self.functions[-LAST_SHOWN:]


class ReportModule(NamedTuple):
    """A file with code in the process; `frames` of stacks are in it, and `missing` says what they lack, if anything."""

    path: str
    start: int
    end: int
    build_id: str
    frames: int = 0
    missing: str = ""
    remedy: str = ""


class FaultCode(Record, frozen=True):
    """Instructions around that of the crash, at `vaddr` in `path`; `bias` added to a vaddr is a runtime address.

    Without instructions, `note` says why. `is_caller`: the code is that of the caller of the first frame.
    """

    path: str = ""
    function: str = ""
    vaddr: int = 0
    bias: int = 0
    instructions: tuple[Instruction, ...] = ()
    note: str = ""
    is_caller: bool = False


class MemoryPart(NamedTuple):
    """Memory in a report: why it is there, its address, and its bytes."""

    title: str
    address: int
    content: bytes


class CrashReport(Record, frozen=True):
    """All about a crash. `arguments` and `memory` are empty unless requested; `warnings` says what else is missing."""

    name: str
    kind: str
    machine: str
    bits: int
    pid: int
    command: str
    executable: str
    written: str
    signal: Signal | None
    fault: FaultPlace | None
    signature: CrashSignature
    groups: tuple[ThreadGroup, ...]
    registers: dict[str, int]
    code: FaultCode
    modules: tuple[ReportModule, ...]
    warnings: tuple[str, ...]
    has_variables: bool = False
    has_memory: bool = False
    arguments: str = ""
    memory: tuple[MemoryPart, ...] = ()

    def register_texts(self) -> list[str]:
        """Return name and value of each register."""
        digits = self.bits // 4 + 2
        return [f"{name:<6} {value:#0{digits}x}" for name, value in self.registers.items()] or ["unknown"]

    @property
    def contents(self) -> str:
        """The process's data that the report has, in a sentence."""
        parts = []
        if self.has_variables:
            parts.append("values of arguments and local variables")
        if self.has_memory:
            size = sum(len(part.content) for part in self.memory)
            parts.append(f"{size:,} bytes of memory (the stack of the crash, and memory at its registers)")
            parts.append("the command line")
        if parts:
            return f"has {', '.join(parts)}: read it before you send it"
        return "has no memory, values of variables, environment or command line of the process"

    def as_json(self) -> dict[str, object]:
        """Return a JSON object. Addresses are hex text, because JSON readers round 64-bit numbers."""
        fields: dict[str, object] = {
            "format": FORMAT,
            "version": VERSION,
            "whence": __version__,
            "dump": {
                "name": self.name,
                "kind": self.kind,
                "machine": self.machine,
                "bits": self.bits,
                "written": self.written,
            },
            "process": {"pid": self.pid, "command": self.command, "executable": self.executable},
            "signal": None if self.signal is None else _signal_json(self.signal),
            "fault": None if self.fault is None else _fault_json(self.fault),
            "signature": {
                "hash": self.signature.text,
                "program": self.signature.program,
                "functions": self.signature.functions,
            },
            "threads": [_group_json(group) for group in self.groups],
            "registers": {name: hex(value) for name, value in self.registers.items()},
            "code": _code_json(self.code),
            "modules": [
                {**module._asdict(), "start": hex(module.start), "end": hex(module.end)} for module in self.modules
            ],
            "warnings": self.warnings,
            "contents": self.contents,
        }
        if self.has_memory:
            fields["arguments"] = self.arguments
            fields["memory"] = [
                {"title": part.title, "address": hex(part.address), "bytes": part.content.hex()} for part in self.memory
            ]
        return fields


def _signal_json(signal: Signal) -> dict[str, object]:
    address = None if signal.address is None else hex(signal.address)
    return {"number": signal.number, "name": signal.name, "cause": signal.cause, "address": address}


def _fault_json(fault: FaultPlace) -> dict[str, object]:
    return {
        "address": None if fault.address is None else hex(fault.address),
        "kind": fault.kind.value,
        "text": fault.text,
        "path": fault.path,
        "offset": hex(fault.offset) if fault.path else None,
    }


def _group_json(group: ThreadGroup) -> dict[str, object]:
    stack = group.stack
    return {
        "tids": group.tids,
        "names": group.names,
        "signal": "" if stack.signal is None else stack.signal.name,
        "frames": [_function_json(function) for function in group.functions],
        "end": str(stack.end),
        "detail": stack.detail,
        "skipped": stack.skipped,
    }


def _function_json(entry: ReportFunction) -> dict[str, object]:
    frame, symbolized, function = entry.frame, entry.frame.place, entry.function
    fields: dict[str, object] = {
        "number": entry.number,
        "function": "" if function is None else function.function,
        "file": "" if function is None else function.file,
        "line": 0 if function is None else function.line,
        "inlined": function is not None and function.inlined,
        "address": hex(symbolized.address),
        "vaddr": None if symbolized.vaddr is None else hex(symbolized.vaddr),
        "path": "" if symbolized.mapping is None else symbolized.mapping.path,
        "build_id": "" if symbolized.mapping is None else symbolized.mapping.build_id,
        "found_by": str(frame.found_by),
        "signal_trampoline": frame.is_trampoline,
    }
    if symbolized.reason is not None:
        fields["reason"] = symbolized.reason.word
    if entry.source is not None:
        fields["source"] = {
            "origin": entry.source.origin, "first_line": entry.source.first, "lines": entry.source.lines,
        }  # fmt: skip
    if entry.variables is not None:
        fields["variables"] = [variable.as_object() for variable in entry.variables]
    return fields


def _code_json(code: FaultCode) -> dict[str, object]:
    return {
        "path": code.path,
        "function": code.function,
        "vaddr": hex(code.vaddr),
        "bias": hex(code.bias),
        "caller": code.is_caller,
        "note": code.note,
        "instructions": [
            {
                "vaddr": hex(instruction.vaddr),
                "bytes": instruction.code.hex(),
                "text": instruction.text,
                "file": instruction.frames[0].file if instruction.frames else "",
                "line": instruction.frames[0].line if instruction.frames else 0,
                "current": instruction.vaddr <= code.vaddr < instruction.end,
            }
            for instruction in code.instructions
        ],
    }
