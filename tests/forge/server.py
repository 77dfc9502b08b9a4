"""A debuginfod server that behaves as a test says: slow, cut, wrong, huge, broken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """The running server: its address, and the requests it got as (path, Range header)."""

    url: str
    seen: list[tuple[str, str]] = field(default_factory=list)


Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served
    answers: list[Answer]
    lock = threading.Lock()

    def do_GET(self) -> None:
        with self.lock:
            self.served.seen.append((self.path, self.headers.get("Range", "")))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.close_connection = True
        with suppress(BrokenPipeError, ConnectionResetError):  # the client had enough
            answer(self)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def begin(self, status: int, **headers: object) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


def whole(data: bytes, tag: str = '"one"') -> Answer:
    """The file; from the asked byte on when there is a Range, and it is of this file."""

    def answer(handler: Handler) -> None:
        wanted = handler.headers.get("Range")
        if handler.headers.get("If-Range", tag) != tag:
            wanted = None
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        extra = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if wanted else {}
        handler.begin(206 if wanted else 200, Content_Length=len(data) - start, ETag=tag, **extra)
        handler.wfile.write(data[start:])

    return answer


def status(code: int) -> Answer:
    return lambda handler: handler.begin(code, Content_Length=0)


def cut(data: bytes, after: int, **headers: object) -> Answer:
    """The length of all of it, and then only a part. Without `headers` there is an ETag."""

    def answer(handler: Handler) -> None:
        handler.begin(200, Content_Length=len(data), **(headers or {"ETag": '"one"'}))
        handler.wfile.write(data[:after])

    return answer


def endless() -> Answer:
    """No length, and bytes for ever."""

    def answer(handler: Handler) -> None:
        handler.begin(200)
        while True:
            handler.wfile.write(bytes(1 << 16))

    return answer


def silent(seconds: float) -> Answer:
    return lambda handler: time.sleep(seconds)


def dripping(data: bytes, seconds: float) -> Answer:
    """A byte at a time."""

    def answer(handler: Handler) -> None:
        handler.begin(200, Content_Length=len(data))
        for byte in data:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(seconds)

    return answer


def raw(*pieces: bytes, seconds: float = 0.0) -> Answer:
    """Send these bytes unchanged, each after a number of seconds; repeat the last item for ever."""

    def answer(handler: Handler) -> None:
        for piece in pieces:
            handler.wfile.write(piece)
        while True:
            handler.wfile.write(pieces[-1])
            handler.wfile.flush()
            time.sleep(seconds)

    return answer


@contextmanager
def serving(*answers: Answer) -> Iterator[Served]:
    """A server on loopback that gives each answer once and the last one for ever."""
    served = Served("")
    handler = type("Bound", (Handler,), {"served": served, "answers": list(answers)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
