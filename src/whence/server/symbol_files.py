"""Symbol files under the paths of symbol servers: Breakpad's and Mozilla's, Microsoft's, and Sentry's "unified" layout.

    /NAME/DEBUGID/NAME.sym              the Breakpad symbol file, as minidump-stackwalk and Tecken's clients request it
    /NAME/DEBUGID/NAME                  the file with debug info of a debug id, such as /a.pdb/GUIDAGE/a.pdb
    /NAME/CODEID/NAME                   a PE file by its time and size, such as /a.dll/6B04A9E25000/a.dll; also .sym
    /ab/cdef.../breakpad                by build-id or debug id: also debuginfo, executable, gsym

A DEBUGID may have any spelling: a UUID, with or without dashes and age. The ID alone identifies a file: names are not
compared. Breakpad and GSYM files were made when other files were added (`--also`), or were added themselves.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from whence._base.errors import WrongUse
from whence.objects.ids import DebugId, is_hex
from whence.server.bodies import Refusal
from whence.server.debuginfod import ascii_of, send
from whence.store.names import DEBUGINFO, ELF_KINDS, EXECUTABLE, SYMBOLS, code_id_of, is_id

if TYPE_CHECKING:
    from whence.locate.search import FileKind
    from whence.server.state import Server

GSYM, BREAKPAD = SYMBOLS
UNIFIED = {"breakpad": BREAKPAD, "gsym": GSYM, "debuginfo": DEBUGINFO, "executable": EXECUTABLE}
"""Sentry's words for kinds of files."""
PREFIX = 2  # digits of an ID before the first slash of the unified layout
SYM = ".sym"


class SymbolFileEndpoints:
    """The endpoint /NAME/ID/FILE."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def file(self, request: Request) -> Response:
        """Return a file by a path of three parts. Raises Refusal."""
        name, identity, file = (request.path_params[part] for part in ("name", "identity", "file"))
        is_unified = len(name) == PREFIX and is_hex(name) and file in UNIFIED
        if is_unified:
            identity = name + identity
        kind = UNIFIED[file] if is_unified else BREAKPAD if file.lower().endswith(SYM) else DEBUGINFO
        if kind is DEBUGINFO and not is_unified and code_id_of(identity):
            kind = EXECUTABLE
        self._server.count(request, "symbols")
        if file.endswith("_"):  # clients request a cabinet first, or after the file
            raise Refusal(404, f"{file!r} would be in a cabinet; the server has files as they are")
        build_id = await run_in_threadpool(self._build_id, identity)
        content = await self._server.content(request, build_id, kind) if build_id else None
        if content is None and build_id and kind is BREAKPAD:
            content = await self._server.content(request, build_id, DEBUGINFO)  # added as a symbol file
            if content is not None and content.read(0, len(MODULE)) != MODULE:
                content.close()
                content = None
        if content is None:
            self._server.misses.note(build_id or DebugId.parse(identity).guid or identity, "symbols")
            raise Refusal(404, missing(kind, identity))
        response = send(request, content, ascii_of(file))
        if kind not in ELF_KINDS:
            response.headers["Vary"] = "Accept-Encoding"
        return response

    def _build_id(self, identity: str) -> str:
        """Return the build-id that an ID of a path means; "" for another text."""
        debug_id, code_id = DebugId.parse(identity), code_id_of(identity)
        build_id = ""
        with suppress(WrongUse, OSError):
            if debug_id:
                build_id = self._server.store.build_id_of(debug_id.breakpad)
            elif code_id:
                build_id = self._server.store.build_id_of_code(code_id)
        folded = identity.lower()
        return build_id or (folded if is_id(folded) else "")


MODULE = b"MODULE "


def missing(kind: FileKind, identity: str) -> str:
    """Return the message for a missing file."""
    hint = "; whence store add --also gsym,sym makes symbol files" if kind in SYMBOLS else ""
    return f"{kind} of the ID {identity[:80]!r} not found{hint}"
