"""The transport of `whence mcp`: a JSON-RPC message per line on stdin and stdout.

The package's own transport for stdio drops malformed lines, waits for the next line after Ctrl-C or when stdout was
closed, and has no limit on a line. This one answers each line, and ends at once.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stdout, suppress
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.types import jsonrpc_message_adapter

from whence._base.streams import STDOUT, naming_stream
from whence.cli.main import interrupted

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

LINE = 4 << 20  # bytes of a message
PARSE_ERROR, INVALID_REQUEST = -32700, -32600  # of JSON-RPC


def serve(server: MCPServer) -> None:
    """Answer the messages on stdin until it ends. Raises OSError if stdout cannot be written."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(interrupted()))
    incoming = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    outgoing = sys.stdout.buffer
    with redirect_stdout(sys.stderr):
        answers = anyio.run(_serve, server, incoming, outgoing)
    if answers.error is not None:
        raise answers.error


async def _serve(server: MCPServer, incoming: BinaryIO, outgoing: BinaryIO) -> Answers:
    with anyio.CancelScope() as scope:
        answers = Answers(outgoing, scope)
        streams: Any = {"stdin": Requests(incoming, answers), "stdout": answers}  # as far as the package uses them
        low_level = server._lowlevel_server
        async with stdio_server(**streams) as (received, sent):
            await low_level.run(received, sent, low_level.create_initialization_options())
    return answers


class Answers:
    """The stream of answers. If it cannot be written, the server is stopped and `error` is set."""

    def __init__(self, file: BinaryIO, scope: anyio.CancelScope) -> None:
        self.error: OSError | None = None
        self._file, self._scope = file, scope
        self._lock = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write whole lines."""
        async with self._lock:
            try:
                await anyio.to_thread.run_sync(self._write, text.encode(errors="backslashreplace"))
            except OSError as error:
                self.error = self.error or error
                self._scope.cancel()

    def _write(self, content: bytes) -> None:
        with naming_stream(STDOUT):
            self._file.write(content)
            self._file.flush()

    async def flush(self) -> None:
        """Do nothing: `write` flushes."""


class Requests:
    """The lines of stdin that are messages; other lines are answered with an error.

    They are read by a thread that does not keep the process from ending.
    """

    def __init__(self, file: BinaryIO, answers: Answers) -> None:
        self._file, self._answers = file, answers

    async def __aiter__(self) -> AsyncIterator[str]:
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        taken = Semaphore()  # so that the thread reads no more than a line ahead
        loop = asyncio.get_running_loop()

        def read() -> None:
            with suppress(RuntimeError, OSError):  # the loop has ended; stdin cannot be read
                line = b"\n"
                while line:
                    line = self._file.readline(LINE + 1)
                    taken.acquire()
                    loop.call_soon_threadsafe(lines.put_nowait, line)

        async def next_line() -> bytes:
            line = await lines.get()
            taken.release()
            return line

        Thread(target=read, name="stdin", daemon=True).start()
        while line := await next_line():
            if len(line) > LINE:
                while line and not line.endswith(b"\n"):
                    line = await next_line()
                await self._refuse(None, INVALID_REQUEST, f"the message is longer than {LINE:,} bytes")
                continue
            text = line.decode(errors="replace").strip()
            if not text:
                continue
            try:
                jsonrpc_message_adapter.validate_json(text, by_name=False)
            except ValueError:
                await self._refuse(*_fault(text))
            else:
                yield text

    async def _refuse(self, id: int | str | None, code: int, message: str) -> None:
        fields = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
        await self._answers.write(json.dumps(fields) + "\n")


def _fault(text: str) -> tuple[int | str | None, int, str]:
    """Return the id of an invalid message (None if it is missing), an error code, and what is wrong."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, PARSE_ERROR, f"the line is not JSON: {error}"
    id = message.get("id") if isinstance(message, dict) else None
    is_id = isinstance(id, int | str) and not isinstance(id, bool)
    return id if is_id else None, INVALID_REQUEST, "the line is not a request or notification of JSON-RPC 2.0"
