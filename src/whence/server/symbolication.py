"""Mozilla's symbolication API, version 5, as its servers and samply's speak it: names by debug id and offset.

Offsets count from the start of the image: the lowest loaded vaddr, rounded down to its page.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from whence._base.errors import WhenceError, WrongUse
from whence._base.reasons import Missing
from whence.objects.elf import ElfFile
from whence.server.bodies import JSON, AnswerBudget, Refusal, body_of, json_of
from whence.server.deadlines import check_deadline
from whence.server.pool import image_base
from whence.server.settings import SYMBOLIZE
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.locator.answers import Opened
    from whence.server.state import Server

DEBUG_ID = re.compile(r"[0-9A-Fa-f]{32}[0-9A-Fa-f]{1,8}")
DEBUG_NAME = re.compile(r"[A-Za-z0-9_.+{}@<> ~\[\]:/()-]{0,1024}")
NOTHING = "0" * 33
REMEMBERED = 100_000  # starts of images
UNKNOWN = -1  # a module index, or an offset
PIECE = 1 << 16  # bytes of an answer that are sent together
WHOLE = 1 << 20  # a longer answer is made again while it is sent: a slow client holds no more than the names
OFFSET = re.compile(r"0x[0-9a-fA-F]{1,16}")


class MapEntry:
    """One entry of a job's memory map, and what its offsets are called."""

    def __init__(self, name: str, debug_id: str) -> None:
        self.name, self.debug_id = name, debug_id
        self.label = json.dumps(name)
        self.offsets: set[int] = set()
        self.found: bool | None = None
        self.error = ""
        self.answers: dict[int, str] = {}  # by offset: what is known, as members of a JSON object

    @property
    def key(self) -> str:
        return f"{self.name}/{self.debug_id}"


class Job:
    """A job's modules and stacks. A frame takes 12 bytes, so that a body with many is not many times as large here."""

    def __init__(self, modules: list[MapEntry]) -> None:
        self.modules = modules
        self.lengths = array("I")  # frames of each stack
        self.indexes, self.offsets = array("i"), array("q")  # of each frame

    def text(self) -> Iterator[str]:
        """The job's answer, in JSON, in parts."""
        yield '{"stacks":['
        indexes, offsets = iter(self.indexes), iter(self.offsets)
        for stack, length in enumerate(self.lengths):
            yield ",[" if stack else "["
            for number, index, offset in zip(range(length), islice(indexes, length), offsets):
                label, named = '"<unknown>"', ""
                if index != UNKNOWN:
                    label, named = self.modules[index].label, self.modules[index].answers.get(offset, "")
                place = hex(offset) if offset != UNKNOWN else "-0x1"
                yield f'{"," if number else ""}{{"frame":{number},"module":{label},"module_offset":"{place}"{named}}}'
            yield "]"
        modules = list({one.key: one for one in self.modules}.values())
        yield '],"found_modules":{'
        for number, module in enumerate(modules):
            yield f"{',' if number else ''}{json.dumps(module.key)}:{json.dumps(module.found)}"
        failed = [one for one in modules if one.error]
        if failed:
            yield '},"module_errors":{'
        for number, module in enumerate(failed):
            error = json.dumps([{"name": "unreadable", "message": module.error}])
            yield f"{',' if number else ''}{json.dumps(module.key)}:{error}"
        yield "}}"


class SymbolicationEndpoints:
    """/symbolicate/v5, /source/v1 and /asm/v1."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bases: dict[str, int] = {}  # starts of images by build-id

    async def symbolicate(self, request: Request) -> Response:
        self._server.count(request, "symbolicate")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return await self._server.run(SYMBOLIZE, self._symbolicate, body)

    def _symbolicate(self, body: bytes) -> Response:
        """The answer. Its size is known before anything is sent, so that one too large is refused."""
        limits = self._server.settings.limits
        modules: dict[tuple[str, str], MapEntry] = {}
        with self._server.json_values.part() as part:
            jobs = self._jobs(json_of(body, limits.json_values, part), modules)
        frames = sum(len(job.indexes) for job in jobs)
        if frames > limits.frames:
            raise Refusal(413, f"{frames} frames, at most {limits.frames} are allowed")
        budget = AnswerBudget(limits.answer_bytes)
        for module in modules.values():
            if module.offsets:
                check_deadline()
                self._name(module, budget)
                module.offsets.clear()
        self._server.metrics.addresses.labels("asked").inc(frames)
        whole: list[bytes] = []
        budget = AnswerBudget(limits.answer_bytes)
        for piece in answered(jobs):
            check_deadline()
            budget.charge(len(piece))
            if budget.spent <= WHOLE:
                whole.append(piece)
        if budget.spent <= WHOLE:
            return Response(b"".join(whole), media_type=JSON)
        return StreamingResponse(answered(jobs), media_type=JSON, headers={"Content-Length": str(budget.spent)})

    def _jobs(self, asked: Any, modules: dict[tuple[str, str], MapEntry]) -> list[Job]:
        """The jobs of a request, checked; their modules are added to `modules`. Raises Refusal."""
        limits = self._server.settings.limits
        if not isinstance(asked, dict):
            raise Refusal(400, "the body is not an object")
        given = asked.get("jobs", [asked])
        if not isinstance(given, list) or len(given) > limits.symbolicate_jobs:
            raise Refusal(400, f"jobs is a list of at most {limits.symbolicate_jobs}")
        jobs = []
        for one in given:
            check_deadline()
            jobs.append(read_job(one, modules, limits.build_ids))
        return jobs

    def _name(self, module: MapEntry, budget: AnswerBudget) -> None:
        """Find the module's file, and name its offsets. The names are charged: each is at least once in the answer."""
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
                    named = "," + json.dumps(fields)[1:-1]
                    budget.charge(len(named))
                    module.answers[offset] = named
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
        with self._server.json_values.part() as part:
            asked = json_of(body, self._server.settings.limits.json_values, part)
        try:
            name, debug_id, offset, file = (asked[key] for key in ("debugName", "debugId", "moduleOffset", "file"))
        except (KeyError, TypeError):
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


def read_job(job: Any, modules: dict[tuple[str, str], MapEntry], most: int) -> Job:
    """A job's modules and stacks, checked; `modules` are those of all jobs, at most `most`. Raises Refusal."""
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
        module = modules.get((name, debug_id))
        if module is None:
            if len(modules) >= most:
                raise Refusal(413, f"more than {most} modules: ask for fewer at once")
            module = modules[name, debug_id] = MapEntry(name, debug_id)
        own.append(module)
    read = Job(own)
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
            read.indexes.append(index)
            read.offsets.append(offset)
        read.lengths.append(len(stack))
    return read


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


def answered(jobs: list[Job]) -> Iterator[bytes]:
    """The answer of all jobs, in JSON, in pieces of about PIECE bytes."""
    parts, size = ['{"results":['], 0
    for number, job in enumerate(jobs):
        if number:
            parts.append(",")
        for part in job.text():
            parts.append(part)
            size += len(part)
            if size >= PIECE:
                yield "".join(parts).encode()
                parts, size = [], 0
    yield "".join([*parts, "]}"]).encode()
