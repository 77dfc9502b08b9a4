"""A client for symbol servers: PDB files and programs of Windows, from configured servers.

Protocol: GET SERVER/app.pdb/ID/app.pdb, where ID is GUID and age in hex, and SERVER/app.exe/ID/app.exe, where ID is the
program's time stamp and size (Microsoft's "SymSrv"). Servers may have a file in a cabinet, app.pd_, instead; that is
not unpacked. Downloads are bounded, resumed, verified and cached as those
of debuginfod. The age is a part of the key in the cache: linkers keep the GUID and raise the age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from whence.locate.cache import PLACE
from whence.locate.debuginfod import Debuginfod, Request
from whence.locate.pdb import PdbRequest, is_file_name
from whence.objects.ids import is_hex

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from whence.objects.ids import DebugId


class SymbolServer(Debuginfod):
    """A client for symbol servers, with the options of Debuginfod."""

    kind = "symbol server"

    def fetch(
        self, build_id: str, kind: str = "debuginfo", path: str = "", headers: Mapping[str, str] | None = None
    ) -> Path | None:
        """Return None: symbol servers have no files by build-id."""
        return None

    def fetch_pdb(self, name: str, debug_id: DebugId, path: str = "") -> Path | None:
        """Return the path of a PDB file in the cache, fetched from the first server that has it; None if none has.

        `path` is that of the program, used by the allow-list and not sent.
        """
        if not debug_id or not is_file_name(name):
            return None
        key = f"{debug_id.guid}{PLACE}{debug_id.age:x}"
        request = Request(key, "debuginfo", quote(PdbRequest(name, debug_id).path))
        return self._fetch(request, path, None)

    def fetch_program(self, name: str, code_id: str, build_id: str, path: str = "") -> Path | None:
        """Return the path of a program in the cache, as `fetch_pdb` does. `build_id` is the GUID of its PDB file."""
        if not is_hex(code_id) or not is_file_name(name):
            return None
        key = f"{build_id}{PLACE}{code_id.lower()}"
        return self._fetch(Request(key, "executable", quote(f"{name}/{code_id}/{name}")), path, None)

    def __repr__(self) -> str:
        return f"<whence.locate.SymbolServer: {', '.join(self.servers)}>"
