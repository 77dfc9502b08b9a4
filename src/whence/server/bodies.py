"""Bodies of requests, bounded in bytes and in time, and the answers to what is refused."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import threading
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from json.encoder import encode_basestring as quoted
from typing import Any, Self

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

JSON = "application/json"
GZIP_WINDOW = 31
UNPACKED_TIMES = 32  # a body unpacks to so many times its bytes, plus:
UNPACKED_ALLOWANCE = 1 << 20
COUNTED_TOGETHER = 1 << 16  # bytes of JSON whose texts are cut out in one call
TEXT = re.compile(rb'"[^"]*"?')
GZIP_MAGIC = b"\x1f\x8b"
UNPACKED_TOGETHER = 1 << 12  # bytes of gzip
BACKSLASH = b"\\"
BLANKS = b"\xef\xbb\xbf \t\r\n\v\f"  # that may precede a JSON document, a byte order mark too


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
    """A limit shared by the requests in memory: bytes, JSON values or uploads. Safe from several threads.

    `why` is the text of the refusal when it is reached.
    """

    def __init__(self, most: int, why: str = "too many large bodies at a time") -> None:
        self.most, self.why, self.held = most, why, 0
        self.lock = threading.Lock()

    def part(self) -> BodyPart:
        return BodyPart(self)


class BodyPart:
    """The part of a budget that one request uses. A context manager that releases it."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self._held = budget, 0

    def take(self, size: int) -> None:
        """Raises Refusal (503) if other requests use too much."""
        with self._budget.lock:
            if self._budget.held + size > self._budget.most:
                raise Refusal(503, self._budget.why, headers={"Retry-After": "5"})
            self._budget.held += size
            self._held += size

    def release(self) -> None:
        with self._budget.lock:
            self._budget.held -= self._held
            self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


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


def storage_refusal(error: OSError, what: str) -> Refusal:
    """Return the refusal for a request that can't be stored: 507 if the disk is full, else 503."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Refusal(507 if full else 503, f"{what}: {error.strerror}", headers={"Retry-After": "60"})


def accepts_gzip(request: Request) -> bool:
    """Return True if the client accepts a gzip body (RFC 9110, 12.5.3)."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = one.replace(" ", "").partition(";")
        if coding == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


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


def json_of(body: bytes, most: int, part: BodyPart) -> Any:
    """The document of a JSON body. Its values are taken from `part`. Raises Refusal: 400 if malformed, 413 if it has
    more than `most` values."""
    part.take(count_values(lambda: pieces_of(body), most))
    try:
        return json.loads(body.decode("utf-8-sig"))  # in UTF-16 the punctuation could not be counted in bytes
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None


def count_profile_values(body: bytes, most: int, limit: int) -> int:
    """Count the JSON values of a profile, which may be gzip; 0 if it has another format. Raises Refusal (413) if there
    are more than `most`, or if the profile unpacks to more than `limit` bytes."""
    is_packed = body.startswith(GZIP_MAGIC)

    def pieces() -> Iterator[bytes]:
        return unpacked_pieces(body, limit) if is_packed else pieces_of(body)

    head = next((text for piece in pieces() if (text := piece.lstrip(BLANKS))), b"")
    if head[:1] in (b"{", b"["):
        return count_values(pieces, most)
    if is_packed:
        deque(pieces(), 0)  # for the limit
    return 0


def count_values(pieces: Callable[[], Iterator[bytes]], most: int) -> int:
    """Count at least as many as the values of a JSON document, before any object is made. Raises Refusal (413) if there
    are more than `most`. `pieces` is called once or twice for the document's bytes."""
    count = sum(map(punctuation, pieces()))
    if count > most:  # some of it may be inside texts
        count = punctuation_outside_texts(pieces())
    if count > most:
        raise Refusal(413, f"the JSON has more than {most} values: send less at once")
    return count


def pieces_of(body: bytes) -> Iterator[bytes]:
    return (body[start : start + COUNTED_TOGETHER] for start in range(0, len(body), COUNTED_TOGETHER))


def unpacked_pieces(body: bytes, limit: int) -> Iterator[bytes]:
    """The unpacked bytes of a gzip file, up to the first damage. Raises Refusal (413) after `limit` bytes."""
    size = offset = 0
    while body.startswith(GZIP_MAGIC, offset):
        member = zlib.decompressobj(GZIP_WINDOW)
        while not member.eof and offset < len(body):
            try:
                piece = member.decompress(body[offset : offset + UNPACKED_TOGETHER])
            except zlib.error:
                return
            offset = min(offset + UNPACKED_TOGETHER, len(body)) - len(member.unused_data)
            size += len(piece)
            if size > limit:
                raise Refusal(413, f"the profile unpacks to more than the {limit} bytes allowed")
            yield piece


def punctuation(body: bytes) -> int:
    """At least as many as a JSON document has values that are not its only one: every comma and opening bracket."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def punctuation_outside_texts(pieces: Iterable[bytes]) -> int:
    """Count the same without the punctuation inside texts."""
    count, in_text, rest = 0, False, b""
    for piece in pieces:
        piece, rest = rest + piece, b""
        if (len(piece) - len(piece.rstrip(BACKSLASH))) % 2:
            piece, rest = piece[:-1], BACKSLASH
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        if in_text:
            plain = b'"' + plain
        in_text = plain.count(b'"') % 2 == 1
        count += punctuation(TEXT.sub(b"", plain))
    return count
