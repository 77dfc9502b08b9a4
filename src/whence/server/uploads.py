"""Files in: PUT /buildid/ID/KIND, and the three calls that Pyroscope's agents and profilecli make.

A file is verified before it is kept, and a poorer one never takes the place of a better one (whence.store).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whence._base.errors import Mismatch, ProfileError, WhenceError, WrongUse, plain, without_file
from whence._base.files import write_all
from whence.samples import wire
from whence.samples.wire import Messages
from whence.server.bodies import BodyBudget, BodyPart, Refusal, body_of, chunks_of, media_type_of, storage_refusal
from whence.server.debuginfod import checked
from whence.server.settings import SCAN, SYMBOLIZE
from whence.store import Added
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from whence.server.state import Server

STATUS = {"added": 201, "better": 201, "same": 200, "poorer": 200, "busy": 409}
LONGEST_NAME = 200  # letters of a file's name
SMALL = 1 << 16  # bytes of a Connect message
ANNOUNCED = 10_000  # uploads that are remembered until they come
STALE_SECONDS = 420  # an announced upload that did not come
PYROSCOPE = "/debuginfo.v1alpha1.DebuginfoService"
PROTO, CONNECT_JSON = "application/proto", "application/json"
PYROSCOPE_ID = re.compile(r"[a-fA-F0-9]{2,128}")
FULL, NO_CODE = 1, 2  # types of files


class Uploads:
    """The endpoints that take files."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._announced: dict[str, tuple[float, str]] = {}  # by build-id: since when, and the file's name
        limits = server.settings.limits
        self._bytes = BodyBudget(limits.uploads_bytes, "the uploads being received have too many bytes")
        self._count = BodyBudget(limits.uploads_held, "too many uploads are being received")

    async def put(self, request: Request) -> Response:
        """PUT /buildid/ID/debuginfo or /executable: 201 kept, 200 the same or a better one is there, 409, 413, 422."""
        build_id, kind = checked(request.path_params["build_id"]), request.path_params["kind"]
        self._server.count(request, "upload")
        if kind not in (DEBUGINFO, EXECUTABLE):
            raise Refusal(404, "what can be put is debuginfo and executable")
        return await self._keep(request, build_id, kind)

    async def put_any(self, request: Request) -> Response:
        """PUT /upload: the same for a file of whatever build-id and kind."""
        self._server.count(request, "upload")
        return await self._keep(request, "", "")

    async def _keep(self, request: Request, build_id: str, kind: str) -> Response:
        """Receive a file; the answer says what became of it. Raises Refusal."""
        added = await self._receive(request, build_id, kind, request.query_params.get("name", ""))
        return JSONResponse(added.as_json(), STATUS[added.outcome], headers={"X-Whence-Outcome": added.outcome})

    async def _receive(self, request: Request, build_id: str, kind: str, name: str) -> Added:
        """The body as a file of the store, known by the last part of a name. Raises Refusal."""
        if not self._server.settings.uploads:
            raise Refusal(403, "this server takes no uploads")
        limits = self._server.settings.limits
        with self._charged() as part, receiving(), tempfile.NamedTemporaryFile(buffering=0) as file:
            async for chunk in chunks_of(request, limits.upload_bytes, limits.upload_seconds):
                part.take(len(chunk))
                write_all(file.fileno(), chunk)
            file.seek(0)
            added = await self._server.heavy(SCAN, self._put, build_id, kind, cast("BinaryIO", file), name)
        self._server.metrics.uploads.labels(added.outcome).inc()
        self._server.metrics.scanned_files.labels("upload").inc()
        self._server.metrics.scanned_bytes.labels("upload").inc(added.size)
        if added.outcome == "busy":
            raise Refusal(409, added.why, headers={"Retry-After": "5"})
        return added

    @contextlib.contextmanager
    def _charged(self) -> Iterator[BodyPart]:
        """Count one more upload as long as its file exists; the part is to be charged its bytes. Raises Refusal."""
        count, size = self._count.part(), self._bytes.part()
        count.take(1)
        try:
            yield size
        finally:
            size.release()
            count.release()

    def _put(self, build_id: str, kind: str, file: BinaryIO, name: str) -> Added:
        try:
            added = self._server.store.put(build_id, kind, file, origin=f"upload: {named(name)}")
        except Mismatch as error:
            raise Refusal(422, without_file(error)) from None
        except WrongUse as error:
            raise Refusal(403 if self._server.store.objects.read_only else 422, str(error)) from None
        except WhenceError as error:
            raise Refusal(422, without_file(error)) from None
        except OSError as error:
            raise Refusal(507 if error.errno == errno.ENOSPC else 503, f"the store failed: {error.strerror}") from None
        if added.outcome in ("added", "better"):
            self._server.came(added.build_id)
        return added

    # Pyroscope

    async def should_initiate(self, request: Request) -> Response:
        """ShouldInitiateUpload: whether a file is wanted, and why not."""
        self._server.count(request, "upload")
        asked = await self._message(request, SHOULD_INITIATE)
        file = asked.get("file") or {}
        build_id = str(file.get("gnuBuildId", "")).lower()
        kind = file.get("type", 0)
        if kind not in (FULL, NO_CODE, "TYPE_EXECUTABLE_FULL", "TYPE_EXECUTABLE_NO_TEXT"):
            return connect_error("invalid_argument", "the file's type is not known")
        if not build_id:
            return self._reply(request, {"shouldInitiateUpload": False, "reason": "the file has no GNU build-id"})
        if not is_id(build_id):
            return not_hex()
        known = await self._server.heavy(SYMBOLIZE, self._server.store.find, build_id)
        now = time.monotonic()
        self._announced = {one: note for one, note in self._announced.items() if now - note[0] < STALE_SECONDS}
        if known is not None and known.quality.units:
            reason = "there is a file with debug info already"
        elif len(self._announced) >= ANNOUNCED:
            reason = "too many uploads are under way"
        elif build_id in self._announced:
            reason = "an upload of it is under way"
        elif not self._server.settings.uploads or self._server.store.objects.read_only:
            reason = "this server takes no uploads"
        else:
            self._announced[build_id] = now, str(file.get("name", ""))
            return self._reply(request, {"shouldInitiateUpload": True, "reason": ""})
        return self._reply(request, {"shouldInitiateUpload": False, "reason": reason})

    async def upload(self, request: Request) -> Response:
        """Upload/ID: the body is the file."""
        self._server.count(request, "upload")
        build_id = request.path_params["build_id"].lower()
        if not is_id(build_id):
            return not_hex()
        if build_id not in self._announced:
            return connect_error("failed_precondition", "ShouldInitiateUpload was not called", 412)
        await self._receive(request, build_id, "", self._announced[build_id][1])
        return Response(status_code=200)

    async def finished(self, request: Request) -> Response:
        """UploadFinished: whether the file is there."""
        self._server.count(request, "upload")
        asked = await self._message(request, FINISHED)
        build_id = str(asked.get("gnuBuildId", "")).lower()
        if not is_id(build_id):
            return not_hex()
        self._announced.pop(build_id, None)
        if await self._server.heavy(SYMBOLIZE, self._server.store.find, build_id) is None:
            return connect_error("not_found", "nothing was uploaded", 404)
        return self._reply(request, {})

    async def _message(self, request: Request, fields: MessageFields) -> dict[str, Any]:
        """A Connect message, in JSON or protobuf. Raises Refusal."""
        body = await body_of(request, SMALL, self._server.settings.limits.body_seconds)
        kind = media_type_of(request)
        if kind == PROTO:
            return decoded(body, fields)
        if kind != CONNECT_JSON:
            raise Refusal(415, f"Connect messages are {PROTO} or {CONNECT_JSON}")
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            raise Refusal(400, "the message is no JSON") from None
        if not isinstance(asked, dict) or not isinstance(asked.get("file", {}), dict):
            raise Refusal(400, "the message is not an object")
        return asked

    def _reply(self, request: Request, answer: dict[str, Any]) -> Response:
        if media_type_of(request) == PROTO:
            return Response(encoded(answer), media_type=PROTO)
        return JSONResponse(answer)


@contextlib.contextmanager
def receiving() -> Iterator[None]:
    """Refuse with 507 or 503 what the temporary folder can't take."""
    try:
        yield
    except OSError as error:
        raise storage_refusal(error, "the upload can't be received") from None


class MessageFields(NamedTuple):
    """Fields of a protobuf message, by number: what they are called in JSON, and what those of messages have."""

    texts: dict[int, str]
    numbers: dict[int, str]
    messages: dict[int, tuple[str, MessageFields]]


FILE = MessageFields({1: "gnuBuildId", 2: "goBuildId", 3: "otelFileId", 4: "name"}, {5: "type"}, {})
SHOULD_INITIATE = MessageFields({}, {}, {1: ("file", FILE)})
FINISHED = MessageFields({1: "gnuBuildId"}, {}, {})


def named(name: str) -> str:
    """What a file is called by who sends it, as far as it is shown."""
    return plain(os.path.basename(name.replace("\0", "")))[:LONGEST_NAME]


def connect_error(code: str, message: str, status: int = 400) -> Response:
    return JSONResponse({"code": code, "message": message}, status)


def not_hex() -> Response:
    """The answer to a build-id that is none."""
    return connect_error("invalid_argument", "the GNU build-id is not hex")


def decoded(data: bytes, fields: MessageFields) -> dict[str, Any]:
    """A protobuf message by the names of its fields; the last of several counts. Raises Refusal."""

    def read(message: Messages, fields: MessageFields) -> dict[str, Any]:
        out: dict[str, Any] = {}
        numbers = message.table(max(fields.numbers, default=-1) + 1)
        out |= {name: numbers[number] for number, name in fields.numbers.items() if numbers[number]}
        for number, name in fields.texts.items():
            if found := message.field(number, name):
                out[name] = found.raw(len(found) - 1).decode("utf-8", "replace")
        for number, (name, inner) in fields.messages.items():
            if found := message.field(number, name):
                out[name] = read(found.one(len(found) - 1), inner)
        return out

    try:
        return read(Messages.from_bytes(data, "message"), fields)
    except ProfileError as error:
        raise Refusal(400, f"the message is no protobuf: {error}") from None


def encoded(answer: dict[str, Any]) -> bytes:
    """ShouldInitiateUploadResponse (1: bool, 2: text), or an empty message."""
    reason = str(answer.get("reason", ""))
    wanted = wire.number(1, int(answer.get("shouldInitiateUpload", False)))
    return wanted + (wire.text(2, reason) if reason else b"")
