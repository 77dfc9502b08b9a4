"""Uploads: PUT /buildid/ID/KIND, and the three calls of Pyroscope's agents and profilecli.

A file is verified before it is kept, and never replaces a better one (whence.store).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from whence._base.errors import ProfileError, WhenceError, WrongUse, plain, without_file
from whence.samples import wire
from whence.samples.wire import Messages
from whence.server.bodies import BodyBudget, BodyPart, Refusal, body_of, chunks_of, media_type_of, storage_refusal
from whence.server.debuginfod import checked
from whence.server.responses import JsonResponse
from whence.server.settings import SCAN, SYMBOLIZE
from whence.store import Added
from whence.store.announcements import Announcements
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from whence.server.state import Server
    from whence.store.outcomes import Received

STATUS = {"added": 201, "better": 201, "same": 200, "poorer": 200, "busy": 409}
LONGEST_NAME = 200  # characters of a file's name
SMALL = 1 << 16  # bytes of a Connect message
WRITTEN_TOGETHER = 1 << 20  # bytes of a body that are written in one call
PYROSCOPE = "/debuginfo.v1alpha1.DebuginfoService"
PROTO, CONNECT_JSON = "application/proto", "application/json"
PYROSCOPE_ID = re.compile(r"[a-fA-F0-9]{2,128}")
FULL, NO_CODE = 1, 2  # types of files
FILE_TYPES = (FULL, NO_CODE, "TYPE_EXECUTABLE_FULL", "TYPE_EXECUTABLE_NO_TEXT")


class UploadEndpoints:
    """The endpoints that receive files."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._announcements = Announcements(server.store.objects)
        limits = server.settings.limits
        self._bytes = BodyBudget(limits.uploads_bytes, "the uploads being received have too many bytes")
        self._count = BodyBudget(limits.uploads_held, "too many uploads are being received")

    async def put(self, request: Request) -> Response:
        """PUT /buildid/ID/debuginfo or /executable: 201 kept, 200 the same or a better file exists, 409, 413, 422."""
        build_id, kind = checked(request.path_params["build_id"]), request.path_params["kind"]
        self._server.count(request, "upload")
        if kind not in (DEBUGINFO, EXECUTABLE):
            raise Refusal(404, f"only debuginfo and executable can be uploaded, not {kind[:80]!r}")
        return await self._keep(request, build_id, kind)

    async def put_any(self, request: Request) -> Response:
        """PUT /upload or /upload/NAME: a file of any build-id and kind."""
        self._server.count(request, "upload")
        return await self._keep(request, "", "")

    async def _keep(self, request: Request, build_id: str, kind: str) -> Response:
        """Receive a file and respond with its outcome. Raises Refusal."""
        added = await self._receive(request, build_id, kind, name_in(request))
        return JsonResponse(added.as_json(), STATUS[added.outcome], headers={"X-Whence-Outcome": added.outcome})

    async def _receive(self, request: Request, build_id: str, kind: str, name: str) -> Added:
        """Receive a file into the store's folder and put it; `name` is what the client calls it. Raises Refusal."""
        if not self._server.settings.uploads:
            raise Refusal(403, "this server accepts no uploads")
        limits = self._server.settings.limits
        with self._charged() as part, receiving():
            spooled = await run_in_threadpool(self._server.store.spool, f"upload: {shown_name(name)}")
            try:
                waiting = bytearray()
                async for chunk in chunks_of(request, limits.upload_bytes, limits.upload_seconds):
                    part.take(len(chunk))
                    waiting += chunk
                    if len(waiting) >= WRITTEN_TOGETHER:
                        await run_in_threadpool(spooled.write, bytes(waiting))
                        waiting.clear()
                await run_in_threadpool(spooled.write, bytes(waiting))
                received = await run_in_threadpool(spooled.received)
                added = await self._server.run(SCAN, self._put, build_id, kind, received)
            finally:
                await run_in_threadpool(spooled.close)
        self._server.metrics.uploads.labels(added.outcome).inc()
        self._server.metrics.scanned_files.labels("upload").inc()
        self._server.metrics.scanned_bytes.labels("upload").inc(added.size)
        if added.outcome == "busy":
            raise Refusal(409, added.why, headers={"Retry-After": "5"})
        return added

    @contextlib.contextmanager
    def _charged(self) -> Iterator[BodyPart]:
        """Open a block that counts as one upload; its bytes are charged to the part. Raises Refusal."""
        count, size = self._count.part(), self._bytes.part()
        count.take(1)
        try:
            yield size
        finally:
            size.release()
            count.release()

    def _put(self, build_id: str, kind: str, received: Received) -> Added:
        try:
            added = self._server.store.put_received(build_id, kind, received)
        except WhenceError as error:
            name = received.origin.partition(": ")[2] or "the upload"
            hint = error.hint or "upload a complete object file: a program, a library or a debug file"
            raise Refusal(422, f"{name}: {without_file(error)}: {hint}") from None
        except OSError as error:
            raise storage_refusal(error, "the store failed") from None
        if added.outcome in ("added", "better"):
            self._server.invalidate(added.build_id)
        return added

    # Pyroscope

    async def should_initiate(self, request: Request) -> Response:
        """ShouldInitiateUpload: whether to upload a file, and the reason if not."""
        self._server.count(request, "upload")
        message = await self._message(request, SHOULD_INITIATE)
        file = message.get("file") or {}
        build_id = str(file.get("gnuBuildId", "")).lower()
        if file.get("type", 0) not in FILE_TYPES:
            return connect_error("invalid_argument", "unknown type of file")
        if not build_id:
            reason = "the file has no GNU build-id"
        elif not is_id(build_id):
            return not_hex()
        else:
            reason = await self._server.run(SYMBOLIZE, self._announce, build_id, str(file.get("name", "")))
        return self._reply(request, {"shouldInitiateUpload": not reason, "reason": reason})

    def _announce(self, build_id: str, name: str) -> str:
        """Announce an upload; return "", or why it is refused. Raises Refusal."""
        store = self._server.store
        try:
            described = store.find(build_id)
            if described is not None and described.quality.units:
                return "the store already has a file with debug info"
            if not self._server.settings.uploads or store.objects.read_only:
                return "this server accepts no uploads"
            return self._announcements.announce(build_id, name)
        except OSError as error:
            raise storage_refusal(error, "the store failed") from None

    async def upload(self, request: Request) -> Response:
        """Upload/ID: the body is the file."""
        self._server.count(request, "upload")
        build_id = request.path_params["build_id"].lower()
        if not is_id(build_id):
            return not_hex()
        name = await run_in_threadpool(self._announcements.name_of, build_id)
        if name is None:
            return connect_error("failed_precondition", "ShouldInitiateUpload was not called", 412)
        await self._receive(request, build_id, "", name)
        return Response(status_code=200)

    async def finished(self, request: Request) -> Response:
        """UploadFinished: 404 if the store does not have the file."""
        self._server.count(request, "upload")
        message = await self._message(request, FINISHED)
        build_id = str(message.get("gnuBuildId", "")).lower()
        if not is_id(build_id):
            return not_hex()
        if not self._server.store.objects.read_only:
            await run_in_threadpool(self._announcements.end, build_id)
        if await self._server.run(SYMBOLIZE, self._server.store.find, build_id) is None:
            return connect_error("not_found", "no file of this build-id was uploaded", 404)
        return self._reply(request, {})

    async def _message(self, request: Request, fields: MessageFields) -> dict[str, Any]:
        """Return a Connect message, sent as JSON or protobuf. Raises Refusal."""
        body = await body_of(request, SMALL, self._server.settings.limits.body_seconds)
        kind = media_type_of(request)
        if kind == PROTO:
            return decoded(body, fields)
        if kind != CONNECT_JSON:
            raise Refusal(415, f"the Content-Type of a Connect message is {PROTO} or {CONNECT_JSON}")
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise Refusal(400, "the message is not valid JSON") from None
        if not isinstance(message, dict) or not isinstance(message.get("file", {}), dict):
            raise Refusal(400, "the message is not an object")
        return message

    def _reply(self, request: Request, message: dict[str, Any]) -> Response:
        if media_type_of(request) == PROTO:
            return Response(encoded(message), media_type=PROTO)
        return JsonResponse(message)


@contextlib.contextmanager
def receiving() -> Iterator[None]:
    """Open a block whose errors of the store's folder become refusals: 403 if it is read-only, 507 if it is full."""
    try:
        yield
    except WrongUse as error:
        raise Refusal(403, str(error)) from None
    except OSError as error:
        raise storage_refusal(error, "the upload can't be received") from None


class MessageFields(NamedTuple):
    """The fields of a protobuf message by number: their names in JSON, and the fields of submessages."""

    texts: dict[int, str]
    numbers: dict[int, str]
    messages: dict[int, tuple[str, MessageFields]]


FILE = MessageFields({1: "gnuBuildId", 2: "goBuildId", 3: "otelFileId", 4: "name"}, {5: "type"}, {})
SHOULD_INITIATE = MessageFields({}, {}, {1: ("file", FILE)})
FINISHED = MessageFields({1: "gnuBuildId"}, {}, {})


def name_in(request: Request) -> str:
    """Return what the client calls its file: the query's name, or the last part of /upload/NAME; else ""."""
    return request.query_params.get("name", "") or str(request.path_params.get("name", ""))


def shown_name(name: str) -> str:
    """Return the last part of a client's file name, printable."""
    return plain(os.path.basename(name.replace("\0", "")))[:LONGEST_NAME]


def connect_error(code: str, message: str, status: int = 400) -> Response:
    """Return an error of the Connect protocol."""
    return JsonResponse({"code": code, "message": message}, status)


def not_hex() -> Response:
    """Return the error for a malformed build-id."""
    return connect_error("invalid_argument", "the GNU build-id is not hex")


def decoded(data: bytes, fields: MessageFields) -> dict[str, Any]:
    """Decode a protobuf message; the last value of a field counts. Raises Refusal."""

    def read(message: Messages, fields: MessageFields) -> dict[str, Any]:
        out: dict[str, Any] = {}
        numbers = message.table(max(fields.numbers, default=-1) + 1)
        out |= {name: numbers[number] for number, name in fields.numbers.items() if numbers[number]}
        for number, name in fields.texts.items():
            if values := message.field(number, name):
                out[name] = values.raw(len(values) - 1).decode("utf-8", "replace")
        for number, (name, inner) in fields.messages.items():
            if values := message.field(number, name):
                out[name] = read(values.item(len(values) - 1), inner)
        return out

    try:
        return read(Messages.from_bytes(data, "message"), fields)
    except ProfileError as error:
        raise Refusal(400, f"the message is not valid protobuf: {error}") from None


def encoded(message: dict[str, Any]) -> bytes:
    """Encode a ShouldInitiateUploadResponse (1: bool, 2: text), or an empty message."""
    reason = str(message.get("reason", ""))
    initiate = wire.number(1, int(message.get("shouldInitiateUpload", False)))
    return initiate + (wire.text(2, reason) if reason else b"")
