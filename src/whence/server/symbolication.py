"""Mozilla's symbolication API, version 5, as its servers and samply's speak it: names by debug id and offset.

Offsets count from the start of the image: the lowest loaded vaddr, rounded down to its page.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whence.elf import ElfFile
from whence.errors import WhenceError, WrongUse
from whence.reasons import Missing
from whence.server.bodies import JSON, Refusal, body_of
from whence.server.pool import image_base
from whence.server.settings import SYMBOLIZE
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from whence.locate.search import Opened
    from whence.model import Frames
    from whence.server.state import Server

DEBUG_ID = re.compile(r"[0-9A-Fa-f]{32}[0-9A-Fa-f]{1,8}")
DEBUG_NAME = re.compile(r"[A-Za-z0-9_.+{}@<> ~\[\]:/()-]{0,1024}")
NOTHING = "0" * 33
REMEMBERED = 100_000  # starts of images
UNKNOWN = -1  # a module index, or an offset
OFFSET = re.compile(r"0x[0-9a-fA-F]{1,16}")


class MapEntry:
    """One entry of a job's memory map, and what its offsets are called."""

    def __init__(self, name: str, debug_id: str) -> None:
        self.name, self.debug_id = name, debug_id
        self.offsets: set[int] = set()
        self.found: bool | None = None
        self.error = ""
        self.answers: dict[int, str] = {}  # by offset: what is known, as members of a JSON object

    @property
    def key(self) -> str:
        return f"{self.name}/{self.debug_id}"


class Symbolication:
    """/symbolicate/v5, /source/v1 and /asm/v1."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bases: dict[str, int] = {}  # starts of images by build-id

    async def symbolicate(self, request: Request) -> Response:
        self._server.count(request, "symbolicate")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return Response(await self._server.heavy(SYMBOLIZE, self._symbolicate, body), media_type=JSON)

    def _symbolicate(self, body: bytes) -> bytes:
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is no JSON: {error}") from None
        if not isinstance(asked, dict):
            raise Refusal(400, "the body is not an object")
        jobs = asked.get("jobs", [asked])
        limits = self._server.settings.limits
        if not isinstance(jobs, list) or len(jobs) > limits.symbolicate_jobs:
            raise Refusal(400, f"jobs is a list of at most {limits.symbolicate_jobs}")
        modules: dict[tuple[str, str], MapEntry] = {}
        read = [read_job(job, modules) for job in jobs]
        frames = sum(len(stack) for _, stacks in read for stack in stacks)
        if frames > limits.frames:
            raise Refusal(413, f"{frames} frames, at most {limits.frames} are allowed")
        for module in modules.values():
            if module.offsets:
                self._name(module)
        self._server.metrics.addresses.labels("asked").inc(frames)
        size = sum(
            len(modules[index].answers.get(offset, ""))
            for modules, stacks in read for stack in stacks for index, offset in stack if index != UNKNOWN
        )  # fmt: skip
        if size > limits.answer_bytes:
            raise Refusal(413, f"the answer has more than {limits.answer_bytes} bytes: ask for fewer frames")
        return f'{{"results":[{",".join(answered(*one) for one in read)}]}}'.encode()

    def _name(self, module: MapEntry) -> None:
        """Find the module's file, and name its offsets."""
        module.found = False
        build_id = self._build_id(module.debug_id)
        if not build_id:
            return
        try:
            with self._server.opened(build_id, len(module.offsets)) as opened:
                if isinstance(opened, Missing):
                    module.error = str(opened)
                    return
                base = self.base_of(opened, build_id)
                offsets = sorted(module.offsets)
                table = opened.binary.table_for([base + one for one in offsets])
                found = table.lookup_many([base + one for one in offsets])
                module.found = True
                for index, (offset, chain) in enumerate(zip(offsets, found.chains(), strict=True)):
                    if not chain:
                        continue
                    outermost = table[found.range_index[found.starts[index + 1] - 1]]
                    fields = shown(chain, base + offset - outermost.vaddr, outermost.length)
                    module.answers[offset] = "," + json.dumps(fields)[1:-1]
        except (WhenceError, OSError) as error:
            module.found, module.error = False, str(error)

    def _build_id(self, debug_id: str) -> str:
        """The build-id of a debug id, by the store's index; "" for none. An id of zeros is nobody's."""
        if not DEBUG_ID.fullmatch(debug_id) or not debug_id[:32].strip("0"):
            return ""
        try:
            found = self._server.store.build_id_of(debug_id[:32].upper() + debug_id[32:].lower())
        except (WrongUse, OSError):
            return ""
        if not found:
            self._server.misses.note(debug_id[:32].lower(), "symbolicate")
        return found

    def base_of(self, opened: Opened, build_id: str) -> int:
        """The start of the image, by a file of the store; an archive names the segments with code alone."""
        base = self._bases.get(build_id)
        if base is not None:
            return base
        for kind in (EXECUTABLE, DEBUGINFO):
            with self._server.store.file(build_id, kind) as path:
                if path is not None:
                    with ElfFile.open(path) as elf:
                        base = image_base(tuple(elf.segments))
                    if len(self._bases) >= REMEMBERED:
                        self._bases.clear()
                    self._bases[build_id] = base
                    return base
        loaded = [one for one in opened.segments or () if one.is_loaded]
        return min((max(one.vaddr - one.file_offset, 0) & -one.page for one in loaded), default=0)

    async def source(self, request: Request) -> Response:
        """A source file; the offset is the proof that the asker may see it: one of its frames names the file."""
        self._server.count(request, "source")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return JSONResponse(await run_in_threadpool(self._source, body))

    def _source(self, body: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(body)
            name, debug_id, offset, file = (asked[key] for key in ("debugName", "debugId", "moduleOffset", "file"))
        except (ValueError, RecursionError, KeyError, TypeError):
            raise Refusal(400, "the body is an object with debugName, debugId, moduleOffset and file") from None
        if not all(isinstance(one, str) for one in (name, debug_id, offset, file)) or not OFFSET.fullmatch(offset):
            raise Refusal(400, "debugName, debugId, moduleOffset (0x...) and file are texts")
        build_id = self._build_id(debug_id)
        chain: Frames = ()
        if build_id:
            with self._server.opened(build_id) as opened:
                if not isinstance(opened, Missing):
                    chain = opened.binary.lookup(self.base_of(opened, build_id) + int(offset, 16))
        if not any(frame.file == file for frame in chain):
            raise Refusal(404, "no frame at this offset is in this file")
        data = self._server.store.read_source(build_id, file)
        if data is None:
            raise Refusal(404, "the file is not bundled here")
        text = data.decode("utf-8", "replace")
        return {"symbolsLastModified": None, "sourceLastModified": None, "file": file, "source": text}

    async def assembly(self, request: Request) -> Response:
        self._server.count(request, "asm")
        raise Refusal(404, "this server has no disassembler")


def read_job(job: Any, modules: dict[tuple[str, str], MapEntry]) -> tuple[list[MapEntry], list[list[tuple[int, int]]]]:
    """A job's modules and stacks, checked. Raises Refusal."""
    if not isinstance(job, dict) or "memoryMap" not in job or "stacks" not in job:
        raise Refusal(400, "a job has memoryMap and stacks")
    mapped, stacks = job["memoryMap"], job["stacks"]
    if not isinstance(mapped, list) or not isinstance(stacks, list):
        raise Refusal(400, "memoryMap and stacks are lists")
    own: list[MapEntry] = []
    for entry in mapped:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(one, str) for one in entry)):
            raise Refusal(400, "an entry of memoryMap is [debugName, debugId]")
        name, debug_id = entry
        if not DEBUG_NAME.fullmatch(name) or not re.fullmatch(r"[0-9A-Fa-f]{0,40}", debug_id):
            raise Refusal(400, f"memoryMap has a name or id of other characters: {name[:80]!r}, {debug_id[:80]!r}")
        own.append(modules.setdefault((name, debug_id), MapEntry(name, debug_id)))
    for stack in stacks:
        if not isinstance(stack, list):
            raise Refusal(400, "a stack is a list of [moduleIndex, offset]")
        for frame in stack:
            if not (isinstance(frame, list) and len(frame) == 2 and all(type(one) is int for one in frame)):
                raise Refusal(400, "a frame is [moduleIndex, offset], two integers")
            index, offset = frame
            if not UNKNOWN <= index < len(own) or not UNKNOWN <= offset < 1 << 63:
                raise Refusal(400, f"module {index} of {len(own)}, offset {offset}: out of range")
            if index != UNKNOWN and offset != UNKNOWN:
                own[index].offsets.add(offset)
    return own, stacks


def shown(chain: Frames, into: int, size: int) -> dict[str, Any]:
    """What a frame of the answer says of an address: the function itself, and what is inlined into it there."""
    *inlined, outermost = chain
    out: dict[str, Any] = {"function": outermost.function, "function_offset": hex(into), "function_size": hex(size)}
    if outermost.file:
        out["file"] = outermost.file
    if outermost.line:
        out["line"] = outermost.line
    if inlined:
        inlines = []
        for frame in inlined:
            one: dict[str, Any] = {"function": frame.function}
            if frame.file:
                one["file"] = frame.file
            if frame.line:
                one["line"] = frame.line
            inlines.append(one)
        out["inlines"] = inlines
    return out


def answered(modules: list[MapEntry], stacks: list[list[tuple[int, int]]]) -> str:
    """The answer of one job, in JSON."""
    names = {index: json.dumps(module.name) for index, module in enumerate(modules)} | {UNKNOWN: '"<unknown>"'}
    out = []
    for stack in stacks:
        frames = []
        for number, (index, offset) in enumerate(stack):
            named = modules[index].answers.get(offset, "") if index != UNKNOWN else ""
            shown_offset = hex(offset) if offset != UNKNOWN else "-0x1"
            frames.append(f'{{"frame":{number},"module":{names[index]},"module_offset":"{shown_offset}"{named}}}')
        out.append(f"[{','.join(frames)}]")
    result: dict[str, Any] = {"found_modules": {one.key: one.found for one in modules}}
    errors = {one.key: [{"name": "unreadable", "message": one.error}] for one in modules if one.error}
    if errors:
        result["module_errors"] = errors
    return f'{{"stacks":[{",".join(out)}],{json.dumps(result)[1:-1]}}}'
