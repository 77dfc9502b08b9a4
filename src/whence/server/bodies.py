"""Bodies of requests, bounded in bytes and in time, and the answers to what is refused."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterator
from json.encoder import encode_basestring as quoted
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

JSON = "application/json"
GZIP_WINDOW = 31
UNPACKED_TIMES = 32  # a body unpacks to so many times its bytes, plus:
UNPACKED_ALLOWANCE = 1 << 20
COUNTED_TOGETHER = 1 << 16  # bytes of JSON whose texts are cut out in one call
TEXT = re.compile(rb'"[^"]*"?')


class Refusal(Exception):
    """A request that is not served: the status, and why, in a line for people."""

    def __init__(self, status: int, why: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers or {}

    def body(self) -> bytes:
        """Both names are there: Mozilla's API has `title`, everyone else reads `error`."""
        why = quoted(self.why)
        return f'{{"error":{why},"title":{why}}}'.encode("utf-8", "backslashreplace")

    def response(self) -> Response:
        return Response(self.body(), self.status, headers=self.headers, media_type=JSON)


class BodyBudget:
    """The bytes of bodies that are in memory at a time; used by the event loop alone."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def part(self) -> BodyPart:
        return BodyPart(self)


class BodyPart:
    """What one request has of it."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self._held = budget, 0

    def take(self, size: int) -> None:
        """Raises Refusal where others have too much."""
        if self._budget.held + size > self._budget.most:
            raise Refusal(503, "too many large bodies at a time", headers={"Retry-After": "5"})
        self._budget.held += size
        self._held += size

    def release(self) -> None:
        self._budget.held -= self._held
        self._held = 0


def media_type_of(request: Request) -> str:
    """What a body is, in small letters and without parameters; "" where nothing is said."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def chunks_of(request: Request, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """The pieces of a body. Raises Refusal: 413 when it has more than `limit` bytes, 408 after `seconds`, 400 when the
    sender went away."""
    announced = request.headers.get("content-length", "")
    if announced and (not announced.isascii() or not announced.isdecimal()):
        raise Refusal(400, f"Content-Length is no number: {announced[:40]!r}")
    if len(announced) > 18 or (announced and int(announced) > limit):
        raise Refusal(413, f"the body has {announced[:40]} bytes, at most {limit} are allowed")
    size = 0
    deadline = asyncio.get_running_loop().time() + seconds
    stream = request.stream().__aiter__()
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, f"the body did not come within {seconds:g} seconds") from None
        except ClientDisconnect:
            raise Refusal(400, "the sender went away before the body's end") from None
        if chunk is None:
            return
        size += len(chunk)
        if size > limit:
            raise Refusal(413, f"the body has more than the {limit} bytes allowed")
        if chunk:
            yield chunk


async def body_of(request: Request, limit: int, seconds: float) -> bytes:
    """A body, whole; unpacked where it is in gzip. Raises Refusal."""
    part: BodyPart | None = request.scope.get("whence.bodies")
    chunks = []
    async for chunk in chunks_of(request, limit, seconds):
        if part is not None:
            part.take(len(chunk))
        chunks.append(chunk)
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Refusal(415, f"Content-Encoding {encoding[:40]!r} is not known: gzip or none")
    most = min(limit, UNPACKED_TIMES * len(body) + UNPACKED_ALLOWANCE)
    if part is not None:
        part.take(most)
    unpacker = zlib.decompressobj(GZIP_WINDOW)
    try:
        unpacked = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refusal(400, f"the body is no gzip: {error}") from None
    if len(unpacked) > most:
        raise Refusal(413, f"the body unpacks to more than {most} bytes")
    if not unpacker.eof:
        raise Refusal(400, "the gzip is cut off")
    return unpacked


class AnswerBudget:
    """The bytes of one answer, charged as they are made."""

    def __init__(self, most: int) -> None:
        self.most, self.spent = most, 0

    def charge(self, size: int) -> None:
        """Raises Refusal when the answer gets too large."""
        self.spent += size
        if self.spent > self.most:
            raise Refusal(413, f"the answer has more than {self.most} bytes: ask for less at once")


def json_of(body: bytes, most: int) -> Any:
    """The document of a JSON body. Raises Refusal: 400 if malformed, 413 if it has more than `most` values."""
    check_values(body, most)
    try:
        return json.loads(body.decode("utf-8-sig"))  # in UTF-16 the punctuation could not be counted in bytes
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None


def check_values(body: bytes, most: int) -> None:
    """Refuse a JSON body that would become too many objects, before any is built. Raises Refusal."""
    if punctuation(body) > most and punctuation_outside_texts(body) > most:
        raise Refusal(413, f"the JSON has more than {most} values: send less at once")


def punctuation(body: bytes) -> int:
    """At least as many as a JSON document has values that are not its only one: every comma and opening bracket."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def punctuation_outside_texts(body: bytes) -> int:
    """The same without the punctuation inside texts. Works on pieces: every text cut out is an object for a moment."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    count, in_text = 0, False
    for start in range(0, len(plain), COUNTED_TOGETHER):
        piece = plain[start : start + COUNTED_TOGETHER]
        if in_text:
            piece = b'"' + piece
        in_text = piece.count(b'"') % 2 == 1
        count += punctuation(TEXT.sub(b"", piece))
    return count
