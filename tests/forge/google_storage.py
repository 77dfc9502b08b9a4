"""Google Cloud Storage's XML API in memory: objects with generations, preconditions, ranges, lists and parts.

Document: "XML API overview", "Request preconditions" and "XML API multipart uploads" of Cloud Storage.
"""

from __future__ import annotations

import email.utils
import hashlib
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

RANGE = re.compile(r"bytes=(\d+)-(\d*)")
PART = re.compile(r"<PartNumber>(\d+)</PartNumber>")


class StoredObject(NamedTuple):
    content: bytes
    generation: int
    time: str

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class Request(NamedTuple):
    """`headers` have names in lower case."""

    method: str
    key: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Bucket:
    """The objects of one bucket. Every request is answered under its lock."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()

    def answer(self, asked: Request) -> Answer:
        method, key, query, headers, body = asked
        if method == "GET" and not key:
            return self.listed(query)
        if method == "POST" and "uploads" in query:
            upload = str(next(self.numbers))
            self.parts[upload] = {}
            return Answer(200, named("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>"))
        if "uploadId" in query:
            return self.of_upload(method, key, query, body)
        if method == "PUT":
            if source := headers.get("x-goog-copy-source"):
                body = self.objects[unquote(source).partition("/")[2]].content
            return self.put(key, body, headers)
        result = self.objects.get(key)
        if result is None:
            return Answer(404)
        if method == "DELETE":
            del self.objects[key]
            return Answer(204)
        return self.got(result, headers)

    def put(self, key: str, content: bytes, headers: dict[str, str]) -> Answer:
        """Store a new object if the current generation (0: no object) is the requested generation."""
        before = self.objects.get(key)
        wanted = headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (before.generation if before else 0):
            return Answer(412)
        made = StoredObject(content, next(self.numbers), email.utils.formatdate(usegmt=True))
        self.objects[key] = made
        is_copy = "x-goog-copy-source" in headers
        return Answer(200, named("CopyObjectResult", tag_element(made)) if is_copy else b"", told(made))

    def got(self, found: StoredObject, headers: dict[str, str]) -> Answer:
        if headers.get("if-match", found.tag) != found.tag:
            return Answer(412)
        size = len(found.content)
        asked = RANGE.fullmatch(headers.get("range", ""))
        if asked is None:
            return Answer(200, found.content, told(found))
        start, end = int(asked[1]), min(int(asked[2] or size) + 1, size)
        if start >= size:
            return Answer(416)
        span = ("Content-Range", f"bytes {start}-{end - 1}/{size}")
        return Answer(206, found.content[start:end], (*told(found), span))

    def of_upload(self, method: str, key: str, query: dict[str, list[str]], body: bytes) -> Answer:
        upload = query["uploadId"][0]
        if method == "PUT":
            self.parts[upload][int(query["partNumber"][0])] = body
            return Answer(200, b"", (("ETag", f'"{hashlib.md5(body).hexdigest()}"'),))
        parts = self.parts.pop(upload)
        if method == "DELETE":
            return Answer(204)
        full = b"".join(parts[int(number)] for number in PART.findall(body.decode()))
        self.put(key, full, {})
        return Answer(200, named("CompleteMultipartUploadResult", tag_element(self.objects[key])))

    def listed(self, query: dict[str, list[str]]) -> Answer:
        prefix, delimiter = (query.get(name, [""])[0] for name in ("prefix", "delimiter"))
        result, folders = [], set()
        for key in sorted(self.objects):
            if not key.startswith(prefix):
                continue
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                folders.add(prefix + head + cut)
            else:
                result.append(key)
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Generation>{each.generation}</Generation><Size>{len(each.content)}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified>{tag_element(each)}</Contents>"
            for key, each in ((key, self.objects[key]) for key in result)
        )
        text += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders))
        return Answer(200, named("ListBucketResult", f"<IsTruncated>false</IsTruncated>{text}"))


def told(one: StoredObject) -> tuple[tuple[str, str], ...]:
    return ("ETag", one.tag), ("x-goog-generation", str(one.generation)), ("Last-Modified", one.time)


def tag_element(one: StoredObject) -> str:
    return f"<ETag>{escape(one.tag)}</ETag>"


def named(element: str, text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{element}>{text}</{element}>'.encode()


@contextmanager
def google_storage() -> Iterator[str]:
    """Yield the address of a server, on which every bucket exists."""
    buckets: dict[str, Bucket] = {}
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            pass

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urlsplit(self.path)
            name, _, key = unquote(url.path.lstrip("/")).partition("/")
            with lock:
                bucket = buckets.setdefault(name, Bucket())
            headers = {name.lower(): value for name, value in self.headers.items()}
            method = self.command.replace("HEAD", "GET")
            with bucket.lock:
                answer = bucket.answer(Request(method, key, parse_qs(url.query, True), headers, body))
            self.send_response(answer.status)
            for header, value in answer.headers:
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
