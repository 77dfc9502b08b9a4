"""PDB files of PE files: the names under which they may be.

    app.pdb                       beside the program: the program's name, and the name in its CodeView record
    C:\\build\\app.pdb              the path in the CodeView record, on the machine that linked the program
    DEBUG_DIR/app.pdb             in a debug folder
    DEBUG_DIR/app.pdb/ID/app.pdb  in a debug folder laid out like a symbol server: ID is GUID and age in hex
    DEBUG_DIR/app.pdb/ID/app.pd_  a cabinet with the file, which is not unpacked

Names prove nothing: the caller compares GUID and age. The age that counts is that of the DBI stream: tools that rewrite
a PDB file raise only the file's own.
"""

from __future__ import annotations

import os

from whence._base.records import Record
from whence.objects.ids import DebugId
from whence.objects.pe import PeFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whence.objects.interface import ObjectFile

SUFFIX = ".pdb"


class PdbRequest(Record, frozen=True):
    """The name and the identity of a PDB file, as symbol servers need them."""

    name: str
    debug_id: DebugId

    @property
    def path(self) -> str:
        """The path on a symbol server."""
        return f"{self.name}/{self.debug_id.breakpad}/{self.name}"

    @property
    def packed_path(self) -> str:
        """The path of a cabinet with the file on a symbol server."""
        return f"{self.path[:-1]}_"


def pdb_request(program: ObjectFile) -> PdbRequest | None:
    """Return the request for a program's PDB file; None if its CodeView record has no name or no GUID."""
    if not isinstance(program, PeFile) or not is_file_name(program.pdb_name) or not program.debug_id:
        return None
    return PdbRequest(program.pdb_name, program.debug_id)


def pdb_files(program: ObjectFile, folders: Iterable[str], debug_dirs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield path and description of files that may be the PDB file of a program.

    `folders` are those of the program, `debug_dirs` the debug folders.
    """
    if not isinstance(program, PeFile):
        return
    own_name = os.path.splitext(os.path.basename(program.path))[0] + SUFFIX
    names = [*dict.fromkeys(filter(is_file_name, (program.pdb_name, own_name)))]
    for folder in folders:
        for name in names:
            yield os.path.join(folder, name), "next to the file"
    if os.path.isabs(program.pdb_path):
        yield program.pdb_path, "CodeView path"
    request = pdb_request(program)
    served = (request.path, request.packed_path) if request is not None else ()
    for folder in debug_dirs:
        for name in names:
            yield os.path.join(folder, name), "debug folder"
        for path in served:
            yield os.path.join(folder, path), "symbol server folder"


def is_file_name(name: str) -> bool:
    """Return True unless a name is empty, or leads out of its folder."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name
