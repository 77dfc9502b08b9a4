"""Mozilla's symbolication API, version 5, compatible with its servers and samply: names by debug id and offset.

Offsets are relative to the start of the image: the lowest loaded vaddr, rounded down to its page.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whence._base.errors import WhenceError, WrongUse
from whence._base.reasons import Missing
from whence.demangle import demangle
from whence.listing.build import CodeReader
from whence.listing.sources import SourceOptions, Sources
from whence.objects.elf.segments import image_base
from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_X86_64, machine_name
from whence.objects.opening import open_object
from whence.server.bodies import JSON, AnswerBudget, Refusal, body_of, json_of
from whence.server.deadlines import check_deadline
from whence.server.responses import JsonResponse
from whence.server.settings import SYMBOLIZE
from whence.server.state import upstream_headers
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.lidia.results import Range
    from whence.listing.sources import Fetcher
    from whence.locator.answers import OpenedFile
    from whence.server.state import Server

DEBUG_ID = re.compile(r"[0-9A-Fa-f]{32}[0-9A-Fa-f]{1,8}")
DEBUG_NAME = re.compile(r"[A-Za-z0-9_.+{}@<> ~\[\]:/()-]{0,1024}")
NOTHING = "0" * 33
CAPACITY = 100_000  # starts of images in the cache
UNKNOWN = -1  # a module index, or an offset
CHUNK = 1 << 16  # bytes of a response that are sent together
CODE_BYTES = 1 << 18  # of a response with instructions
CACHED_BYTES = 1 << 20  # a longer response is generated again while it is sent, so that it is never in memory
ARCHITECTURES = {EM_X86_64: "x86_64", EM_386: "i686", EM_AARCH64: "aarch64", EM_ARM: "arm"}  # as samply names them
OFFSET = re.compile(r"0x[0-9a-fA-F]{1,16}")


class MapEntry:
    """An entry of a job's memory map, with the names of its offsets."""

    def __init__(self, name: str, debug_id: str) -> None:
        self.name, self.debug_id = name, debug_id
        self.label = json.dumps(name)
        self.offsets: set[int] = set()
        self.found: bool | None = None
        self.error = ""
        self.answers: dict[int, str] = {}  # by offset: members of a JSON object

    @property
    def key(self) -> str:
        """The key of the module in the response."""
        return f"{self.name}/{self.debug_id}"


class SymbolicationJob:
    """The modules and stacks of a job, with 12 bytes per frame."""

    def __init__(self, modules: list[MapEntry]) -> None:
        self.modules = modules
        self.lengths = array("I")  # frames of each stack
        self.indexes, self.offsets = array("i"), array("q")  # of each frame

    def text(self) -> Iterator[str]:
        """Yield the parts of the job's result, in JSON."""
        yield '{"stacks":['
        indexes, offsets = iter(self.indexes), iter(self.offsets)
        for stack, length in enumerate(self.lengths):
            yield ",[" if stack else "["
            for number, index, offset in zip(range(length), islice(indexes, length), offsets):
                label, named = '"<unknown>"', ""
                if index != UNKNOWN:
                    label, named = self.modules[index].label, self.modules[index].answers.get(offset, "")
                shown = hex(offset) if offset != UNKNOWN else "-0x1"
                yield f'{"," if number else ""}{{"frame":{number},"module":{label},"module_offset":"{shown}"{named}}}'
            yield "]"
        modules = list({module.key: module for module in self.modules}.values())
        yield '],"found_modules":{'
        for number, module in enumerate(modules):
            yield f"{',' if number else ''}{json.dumps(module.key)}:{json.dumps(module.found)}"
        failed = [module for module in modules if module.error]
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
        """Return the names of the frames of jobs."""
        self._server.count(request, "symbolicate")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return await self._server.run(SYMBOLIZE, self._symbolicate, body)

    def _symbolicate(self, body: bytes) -> Response:
        """Return the response. Its size is computed before, so that a large response is refused."""
        limits = self._server.settings.limits
        modules: dict[tuple[str, str], MapEntry] = {}
        with self._server.json_values.part() as part:
            jobs = self._jobs(json_of(body, limits.json_values, part), modules)
        frames = sum(len(job.indexes) for job in jobs)
        if frames > limits.frames:
            raise Refusal(413, f"the jobs have {frames} frames, at most {limits.frames} are allowed")
        budget = AnswerBudget(limits.answer_bytes)
        for module in modules.values():
            if module.offsets:
                check_deadline()
                self._name(module, budget)
                module.offsets.clear()
        self._server.metrics.addresses.labels("asked").inc(frames)
        chunks: list[bytes] = []
        budget = AnswerBudget(limits.answer_bytes)
        for chunk in response_of(jobs):
            check_deadline()
            budget.charge(len(chunk))
            if budget.spent <= CACHED_BYTES:
                chunks.append(chunk)
        if budget.spent <= CACHED_BYTES:
            return Response(b"".join(chunks), media_type=JSON)
        return StreamingResponse(response_of(jobs), media_type=JSON, headers={"Content-Length": str(budget.spent)})

    def _jobs(self, document: Any, modules: dict[tuple[str, str], MapEntry]) -> list[SymbolicationJob]:
        """Return the checked jobs of a request, and add their modules to `modules`. Raises Refusal."""
        limits = self._server.settings.limits
        if not isinstance(document, dict):
            raise Refusal(400, "the body is not an object")
        items = document.get("jobs", [document])
        if not isinstance(items, list) or len(items) > limits.symbolicate_jobs:
            raise Refusal(400, f"jobs has to be a list of at most {limits.symbolicate_jobs}")
        jobs = []
        for job in items:
            check_deadline()
            jobs.append(read_job(job, modules, limits.build_ids))
        return jobs

    def _name(self, module: MapEntry, budget: AnswerBudget) -> None:
        """Name the offsets of a module. Names are charged to `budget`: each is in the response at least once."""
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
                table = opened.binary.table_for([base + offset for offset in offsets])
                results = table.lookup_many([base + offset for offset in offsets])
                module.found = True
                for index, (offset, chain) in enumerate(zip(offsets, results.chains(), strict=True)):
                    if not chain:
                        continue
                    outermost = table[results.range_index[results.starts[index + 1] - 1]]
                    fields = frame_members(chain, base + offset - outermost.vaddr, outermost.length)
                    named = "," + json.dumps(fields)[1:-1]
                    budget.charge(len(named))
                    module.answers[offset] = named
        except (WhenceError, OSError) as error:
            module.found, module.error = False, str(error)

    def _build_id(self, debug_id: str) -> str:
        """Return the build-id of a debug id; "" if it is unknown, or all zeros."""
        if not DEBUG_ID.fullmatch(debug_id) or not debug_id[:32].strip("0"):
            return ""
        try:
            build_id = self._server.store.build_id_of(debug_id[:32].upper() + debug_id[32:].lower())
        except (WrongUse, OSError):
            return ""
        if not build_id:
            self._server.misses.note(debug_id[:32].lower(), "symbolicate")
        return build_id

    def base_of(self, opened: OpenedFile, build_id: str) -> int:
        """Return the start of the image, from a file of the store: an archive has only the segments with code."""
        base = self._bases.get(build_id)
        if base is not None:
            return base
        for kind in (EXECUTABLE, DEBUGINFO):
            with self._server.store.file(build_id, kind) as path:
                if path is not None:
                    with open_object(path) as elf:
                        base = elf.image_base
                    if len(self._bases) >= CAPACITY:
                        self._bases.clear()
                    self._bases[build_id] = base
                    return base
        return image_base(opened.segments or (), only_code=True)

    async def source(self, request: Request) -> Response:
        """Return a source file, if a frame at the offset of the request is in this file."""
        self._server.count(request, "source")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return JsonResponse(await self._server.run(SYMBOLIZE, self._source, body, upstream_headers(request)))

    def _source(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        with self._server.json_values.part() as part:
            query = json_of(body, self._server.settings.limits.json_values, part)
        try:
            name, debug_id, offset, file = (query[key] for key in ("debugName", "debugId", "moduleOffset", "file"))
        except (KeyError, TypeError):
            raise Refusal(400, "the body has to be an object with debugName, debugId, moduleOffset and file") from None
        if not all(isinstance(value, str) for value in (name, debug_id, offset, file)) or not OFFSET.fullmatch(offset):
            raise Refusal(400, "debugName, debugId, moduleOffset (0x...) and file have to be strings")
        build_id = self._build_id(debug_id)
        chain: Frames = ()
        if build_id:
            with self._server.opened(build_id) as opened:
                if not isinstance(opened, Missing):
                    chain = opened.binary.lookup(self.base_of(opened, build_id) + int(offset, 16))
        if not any(frame.file == file for frame in chain):
            raise Refusal(404, "the frames at this offset are not in this file")
        with self._sources(build_id, headers) as sources:
            source = sources.read(file)
            if source is None:
                raise Refusal(404, f"the source file was not found: {sources.why_missing(file)}")
        text = source.content.decode("utf-8", "replace")
        return {
            "symbolsLastModified": None, "sourceLastModified": None, "file": file, "source": text,
            "origin": source.origin, "verified": source.verified,
        }  # fmt: skip

    @contextmanager
    def _sources(self, build_id: str, headers: dict[str, str]) -> Iterator[Sources]:
        """Return the source files of a build-id: in the debug info, in the store's bundle, on upstream servers."""
        server = self._server
        fetchers: list[tuple[str, Fetcher]] = [("store", server.store.read_source)]
        upstream = server.upstream
        if upstream is not None:
            fetchers.append(("upstream", lambda build_id, path: upstream.source(build_id, path, headers)))
        with ExitStack() as stack:
            debug = None
            for kind in (DEBUGINFO, EXECUTABLE):
                path = stack.enter_context(server.store.file(build_id, kind))
                if path is not None:
                    with suppress(WhenceError):
                        debug = stack.enter_context(open_object(path))
                    break
            yield Sources(SourceOptions(fetchers=tuple(fetchers), own_paths=False), build_id, debug)

    async def assembly(self, request: Request) -> Response:
        """Return the instructions of a range of an executable of the store.

        The profiler shows the text of `error`; it reports other statuses as network errors.
        """
        self._server.count(request, "asm")
        limits = self._server.settings.limits
        body = await body_of(request, limits.json_bytes, limits.body_seconds)
        return await self._server.run(SYMBOLIZE, self._assembly, body)

    def _assembly(self, body: bytes) -> Response:
        with self._server.json_values.part() as part:
            query = json_of(body, self._server.settings.limits.json_values, part)
        try:
            texts = [query[key] for key in ("debugId", "startAddress", "size")]
        except (KeyError, TypeError):
            raise Refusal(400, "the body has to be an object with debugName, debugId, startAddress and size") from None
        if not all(isinstance(text, str) for text in texts) or not all(map(OFFSET.fullmatch, texts[1:])):
            raise Refusal(400, "debugId, startAddress (0x...) and size (0x...) have to be strings")
        debug_id, start, size = texts[0], int(texts[1], 16), int(texts[2], 16)
        build_id = self._build_id(debug_id)
        if not build_id:
            return JsonResponse({"error": f"the store has no file with the debug id {debug_id[:40]}"})
        try:
            with self._server.opened(build_id) as opened:
                if isinstance(opened, Missing):
                    return JsonResponse({"error": str(opened)})
                vaddr = self.base_of(opened, build_id) + start
                if query.get("continueUntilFunctionEnd") is True:
                    size = max([size, *(part.end - vaddr for part in function_at(opened, vaddr))])
                answer = self._instructions(build_id, start, vaddr, min(size, CODE_BYTES))
                if query.get("frames") is True and "instructions" in answer:
                    add_chains(answer, opened, vaddr)
            return JsonResponse(answer)
        except (WhenceError, OSError, ImportError) as error:
            return JsonResponse({"error": str(error)})

    def _instructions(self, build_id: str, start: int, vaddr: int, size: int) -> dict[str, Any]:
        """Return the response for [vaddr, vaddr + size), which is at `start` in the image."""
        store = self._server.store
        with ExitStack() as stack:
            path = stack.enter_context(store.file(build_id, EXECUTABLE))
            if path is None:
                return {"error": f"the store has no executable of build-id {build_id}"}
            elf = stack.enter_context(open_object(path))
            debug_path = stack.enter_context(store.file(build_id, DEBUGINFO))
            debug = None if debug_path is None else stack.enter_context(open_object(debug_path))
            instructions = CodeReader.of_file(elf, debug, demangle=demangle).instructions(vaddr, vaddr + size)
            check_deadline()
            return {
                "startAddress": hex(start),
                "size": hex(size),
                "arch": ARCHITECTURES.get(elf.machine, machine_name(elf.machine)),
                "syntax": ["Intel" if elf.machine in (EM_386, EM_X86_64) else "GNU"],
                "instructions": [[each.vaddr - vaddr, each.text] for each in instructions],
            }


def add_chains(answer: dict[str, Any], opened: OpenedFile, vaddr: int) -> None:
    """Add `vaddr`, and the function, file and line of each instruction and of the calls around it, outermost first.

    Each instruction gets the index of its chain in `chains` as its last element.
    """
    rows = answer["instructions"]
    vaddrs = [vaddr + row[0] for row in rows]
    chains: dict[Frames, int] = {}
    frames = opened.binary.table_for(vaddrs).lookup_many(vaddrs).chains(function=demangle)
    for row, chain in zip(rows, frames, strict=True):
        row.append(chains.setdefault(chain, len(chains)))
    answer["vaddr"] = hex(vaddr)
    answer["chains"] = [[[frame.function, frame.file, frame.line] for frame in reversed(chain)] for chain in chains]


def function_at(opened: OpenedFile, vaddr: int) -> list[Range]:
    """Return the part of the function at a vaddr; none if there is no function."""
    return [part for parts in opened.binary.parts(vaddr) for part in parts if part.vaddr <= vaddr < part.end]


def read_job(job: Any, modules: dict[tuple[str, str], MapEntry], limit: int) -> SymbolicationJob:
    """Return a checked job; its modules are added to `modules`, which has at most `limit`. Raises Refusal."""
    if not isinstance(job, dict) or "memoryMap" not in job or "stacks" not in job:
        raise Refusal(400, "a job has to be an object with memoryMap and stacks")
    mapped, stacks = job["memoryMap"], job["stacks"]
    if not isinstance(mapped, list) or not isinstance(stacks, list):
        raise Refusal(400, "memoryMap and stacks have to be lists")
    own: list[MapEntry] = []
    for entry in mapped:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(text, str) for text in entry)):
            raise Refusal(400, "an entry of memoryMap has to be [debugName, debugId]")
        name, debug_id = entry
        if not DEBUG_NAME.fullmatch(name) or not re.fullmatch(r"[0-9A-Fa-f]{0,40}", debug_id):
            raise Refusal(400, f"memoryMap has an invalid name or id: {name[:80]!r}, {debug_id[:80]!r}")
        module = modules.get((name, debug_id))
        if module is None:
            if len(modules) >= limit:
                raise Refusal(413, f"the request has more than {limit} modules: split it")
            module = modules[name, debug_id] = MapEntry(name, debug_id)
        own.append(module)
    read = SymbolicationJob(own)
    for stack in stacks:
        if not isinstance(stack, list):
            raise Refusal(400, "a stack has to be a list of [moduleIndex, offset]")
        for frame in stack:
            if not (isinstance(frame, list) and len(frame) == 2 and all(type(number) is int for number in frame)):
                raise Refusal(400, "a frame has to be [moduleIndex, offset], two integers")
            index, offset = frame
            if not UNKNOWN <= index < len(own) or not UNKNOWN <= offset < 1 << 63:
                raise Refusal(400, f"module index {index} (of {len(own)}) or offset {offset} is out of range")
            if index != UNKNOWN and offset != UNKNOWN:
                own[index].offsets.add(offset)
            read.indexes.append(index)
            read.offsets.append(offset)
        read.lengths.append(len(stack))
    return read


def frame_members(chain: Frames, offset: int, size: int) -> dict[str, Any]:
    """Return the members of a frame: the outermost function, and the functions inlined into it at the address."""
    *inlined, outermost = chain
    out: dict[str, Any] = {"function": outermost.function, "function_offset": hex(offset), "function_size": hex(size)}
    if outermost.file:
        out["file"] = outermost.file
    if outermost.line:
        out["line"] = outermost.line
    if inlined:
        inlines = []
        for frame in inlined:
            inline: dict[str, Any] = {"function": frame.function}
            if frame.file:
                inline["file"] = frame.file
            if frame.line:
                inline["line"] = frame.line
            inlines.append(inline)
        out["inlines"] = inlines
    return out


def response_of(jobs: list[SymbolicationJob]) -> Iterator[bytes]:
    """Yield the response in JSON, in chunks of about CHUNK bytes."""
    parts, size = ['{"results":['], 0
    for number, job in enumerate(jobs):
        if number:
            parts.append(",")
        for part in job.text():
            parts.append(part)
            size += len(part)
            if size >= CHUNK:
                yield "".join(parts).encode()
                parts, size = [], 0
    yield "".join([*parts, "]}"]).encode()
