"""`whence core DUMP --info`: what a minidump says of a process and its system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import gmtime, strftime
from typing import TYPE_CHECKING

from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.main import ANSWERED, WRONG_USE

if TYPE_CHECKING:
    from whence.dumps.facts import MinidumpFacts
    from whence.symbolize import Core


def show_info(core: Core, as_json: bool) -> int:
    """Print the facts of a minidump. Return the exit code."""
    facts = core.minidump
    if facts is None:
        complain(f"{core.path}: --info is for minidumps: use --maps or --registers for a core", "whence core")
        return WRONG_USE
    if as_json:
        print(json.dumps(as_object(core, facts)))
    else:
        print("\n".join(plain(line) for line in as_lines(core, facts)))
    return ANSWERED


def time_text(seconds: int) -> str:
    """Return a time as text in UTC, "" for 0."""
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(seconds)) if seconds else ""


def as_lines(core: Core, facts: MinidumpFacts) -> Iterator[str]:
    """Yield a line for each fact, and one for each module and stream."""
    rows = {
        "process": str(core.pid or ""),
        "command": core.arguments or core.command,
        "system": ", ".join(filter(None, (facts.system, facts.release))),
        "processor": f"{facts.processor}, {facts.cpus} CPUs" if facts.cpus else facts.processor,
        "written": time_text(facts.written),
        "started": time_text(facts.started),
        "requested by": "" if facts.requesting_thread is None else f"thread {facts.requesting_thread}",
        "assertion": facts.assertion,
        "comment": facts.comment,
        "report": facts.report_id,
        "client": facts.client_id,
    }
    yield from (f"{name:13} {value}" for name, value in rows.items() if value)
    if facts.annotations:
        yield "annotations:"
        yield from (f"  {name} = {value}" for name, value in facts.annotations.items())
    annotated = {annotations.index: annotations for annotations in facts.module_annotations}
    yield "modules:"
    for index, module in enumerate(facts.modules):
        identity = module.codeview.debug_id or module.codeview.build_id or module.code_id or "-"
        words = f"  {module.base:#x}-{module.end:#x} {identity} {module.name} {module.version}"
        yield words.rstrip()
        of_module = annotated.get(index)
        if of_module is not None:
            yield from (f"    {text}" for text in of_module.texts)
            yield from (f"    {name} = {value}" for name, value in of_module.pairs.items())
    if facts.unloaded:
        yield "unloaded modules:"
        for gone in facts.unloaded:
            yield f"  {gone.base:#x}-{gone.base + gone.size:#x} {gone.name}"
    yield "streams:"
    yield from (f"  {stream.name}: {stream.size} bytes at {stream.offset:#x}" for stream in facts.streams)


def as_object(core: Core, facts: MinidumpFacts) -> dict[str, object]:
    """Return the facts as a JSON object. Addresses are hex text, because JSON readers round 64-bit numbers."""
    annotated = {annotations.index: annotations for annotations in facts.module_annotations}
    modules = []
    for index, module in enumerate(facts.modules):
        fields: dict[str, object] = {
            "base": hex(module.base),
            "size": module.size,
            "name": module.name,
            "version": module.version,
            "build_id": module.codeview.build_id,
            "debug_id": module.codeview.debug_id,
            "debug_file": module.codeview.file,
            "code_id": module.code_id,
        }
        if index in annotated:
            fields["annotations"] = annotated[index].pairs
            fields["texts"] = annotated[index].texts
        modules.append(fields)
    return {
        "pid": core.pid,
        "command": core.command,
        "arguments": core.arguments,
        "system": facts.system,
        "release": facts.release,
        "processor": facts.processor,
        "cpus": facts.cpus,
        "written": time_text(facts.written),
        "started": time_text(facts.started),
        "requesting_thread": facts.requesting_thread,
        "assertion": facts.assertion,
        "comment": facts.comment,
        "report_id": facts.report_id,
        "client_id": facts.client_id,
        "annotations": facts.annotations,
        "environment": facts.environment,
        "auxiliary": {str(tag): hex(value) for tag, value in facts.auxiliary.items()},
        "modules": modules,
        "unloaded": [{"base": hex(gone.base), "size": gone.size, "name": gone.name} for gone in facts.unloaded],
        "streams": [
            {"type": stream.type, "name": stream.name, "size": stream.size, "offset": stream.offset}
            for stream in facts.streams
        ],
    }
