"""Bodies of requests, limited in bytes and time, and refusals."""

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
UNPACKED_TIMES = 32  # a body may decompress to this multiple of its size, plus:
UNPACKED_ALLOWANCE = 1 << 20
COUNTED_TOGETHER = 1 << 16  # bytes of JSON whose strings are removed in one call
TEXT = re.compile(rb'"[^"]*"?')
GZIP_MAGIC = b"\x1f\x8b"
UNPACKED_TOGETHER = 1 << 12  # bytes of gzip
BACKSLASH = b"\\"
BLANKS = b"\xef\xbb\xbf \t\r\n\v\f"  # may precede a JSON document; includes a byte order mark


class Refusal(Exception):
    """A refused request: the status, and the reason in a line."""

    def __init__(self, status: int, why: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers or {}

    def body(self) -> bytes:
        """Return the body, which has the reason twice: Mozilla's API reads `title`, other clients `error`."""
        why = quoted(self.why)
        return f'{{"error":{why},"title":{why}}}'.encode("utf-8", "backslashreplace")

    def response(self) -> Response:
        """Return the response."""
        return Response(self.body(), self.status, headers=self.headers, media_type=JSON)


class BodyBudget:
    """A limit shared by the current requests: bytes, JSON values or uploads. Safe from several threads.

    `why` is the reason of refusals when it is reached.
    """

    def __init__(self, limit: int, why: str = "the server is receiving too many large bodies") -> None:
        self.limit, self.why, self.used = limit, why, 0
        self.lock = threading.Lock()

    def part(self) -> BodyPart:
        """Return the part of a request, which is empty."""
        return BodyPart(self)


class BodyPart:
    """The part of a budget that one request uses. A context manager that releases it."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self._used = budget, 0

    def take(self, size: int) -> None:
        """Add to the part. Raises Refusal (503) if the limit is reached."""
        with self._budget.lock:
            if self._budget.used + size > self._budget.limit:
                raise Refusal(503, self._budget.why, headers={"Retry-After": "5"})
            self._budget.used += size
            self._used += size

    def release(self) -> None:
        """Empty the part."""
        with self._budget.lock:
            self._budget.used -= self._used
            self._used = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def media_type_of(request: Request) -> str:
    """Return the media type of a body, in lowercase and without parameters; "" if it is missing."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def chunks_of(request: Request, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the chunks of a body.

    Raises Refusal: 413 if it has more than `limit` bytes, 408 after `seconds`, 400 if the client disconnected.
    """
    declared = request.headers.get("content-length", "")
    if declared and (not declared.isascii() or not declared.isdecimal()):
        raise Refusal(400, f"Content-Length is not a number: {declared[:40]!r}")
    if len(declared) > 18 or (declared and int(declared) > limit):
        raise Refusal(413, f"the body has {declared[:40]} bytes, at most {limit} are allowed")
    size = 0
    deadline = asyncio.get_running_loop().time() + seconds
    stream = request.stream().__aiter__()
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, f"the body was not received within {seconds:g} seconds") from None
        except ClientDisconnect:
            raise Refusal(400, "the client disconnected before the end of the body") from None
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
    for item in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = item.replace(" ", "").partition(";")
        if coding == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


async def body_of(request: Request, limit: int, seconds: float) -> bytes:
    """Return a body; decompressed if it is gzip. Raises Refusal."""
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
        raise Refusal(415, f"unsupported Content-Encoding {encoding[:40]!r}: use gzip or none")
    size = min(limit, UNPACKED_TIMES * len(body) + UNPACKED_ALLOWANCE)
    if part is not None:
        part.take(size)
    unpacker = zlib.decompressobj(GZIP_WINDOW)
    try:
        unpacked = unpacker.decompress(body, size + 1)
    except zlib.error as error:
        raise Refusal(400, f"the body is not valid gzip: {error}") from None
    if len(unpacked) > size:
        raise Refusal(413, f"the body decompresses to more than {size} bytes")
    if not unpacker.eof:
        raise Refusal(400, "the gzip body is cut off")
    return unpacked


class AnswerBudget:
    """A limit for the bytes of one answer."""

    def __init__(self, limit: int) -> None:
        self.limit, self.spent = limit, 0

    def charge(self, size: int) -> None:
        """Add bytes. Raises Refusal (413) if the answer is too large."""
        self.spent += size
        if self.spent > self.limit:
            raise Refusal(413, f"the answer has more than {self.limit} bytes: split the request")


def json_of(body: bytes, limit: int, part: BodyPart) -> Any:
    """Parse a JSON body, whose number of values is added to `part`.

    Raises Refusal: 400 if it is malformed, 413 if it has more than `limit` values.
    """
    part.take(count_values(lambda: pieces_of(body), limit))
    try:
        return json.loads(body.decode("utf-8-sig"))  # in UTF-16 the punctuation could not be counted in bytes
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None


def count_profile_values(body: bytes, values: int, size: int) -> int:
    """Return the number of JSON values of a profile, which may be gzip; 0 for another format.

    Raises Refusal (413) if there are more than `values`, or if the profile decompresses to more than `size` bytes.
    """
    is_packed = body.startswith(GZIP_MAGIC)

    def pieces() -> Iterator[bytes]:
        return unpacked_pieces(body, size) if is_packed else pieces_of(body)

    head = next((text for piece in pieces() if (text := piece.lstrip(BLANKS))), b"")
    if head[:1] in (b"{", b"["):
        return count_values(pieces, values)
    if is_packed:
        deque(pieces(), 0)  # for the limit
    return 0


def count_values(pieces: Callable[[], Iterator[bytes]], limit: int) -> int:
    """Return an upper bound of the number of values of a JSON document, without parsing it.

    `pieces` returns the document's bytes; it is called once or twice. Raises Refusal (413) for more than `limit`.
    """
    count = sum(map(punctuation, pieces()))
    if count > limit:  # includes punctuation in strings
        count = punctuation_outside_strings(pieces())
    if count > limit:
        raise Refusal(413, f"the JSON has more than {limit} values: split the request")
    return count


def pieces_of(body: bytes) -> Iterator[bytes]:
    """Yield a body in pieces."""
    return (body[start : start + COUNTED_TOGETHER] for start in range(0, len(body), COUNTED_TOGETHER))


def unpacked_pieces(body: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of a gzip file, up to the first damage. Raises Refusal (413) after `limit` bytes."""
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
                raise Refusal(413, f"the profile decompresses to more than the {limit} bytes allowed")
            yield piece


def punctuation(body: bytes) -> int:
    """Return the number of commas and opening brackets, an upper bound of the values in a JSON document."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def punctuation_outside_strings(pieces: Iterable[bytes]) -> int:
    """Return the number of commas and opening brackets outside strings."""
    count, in_string, rest = 0, False, b""
    for piece in pieces:
        piece, rest = rest + piece, b""
        if (len(piece) - len(piece.rstrip(BACKSLASH))) % 2:
            piece, rest = piece[:-1], BACKSLASH
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        if in_string:
            plain = b'"' + plain
        in_string = plain.count(b'"') % 2 == 1
        count += punctuation(TEXT.sub(b"", plain))
    return count
