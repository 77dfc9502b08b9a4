"""Layouts of other programs: in which a store keeps copies, and from which it reads files.

    gdb          .build-id/ab/cdef.debug                      written: gdb, `set debug-file-directory`
    pyroscope    symbolizer/TENANT/ID                         written: Pyroscope looks there first
    Parca        ID/{debuginfo,executable}                    read
    symbolicator ab/cdef/{debuginfo,executable} ("unified")   read

Files in these layouts are read if the marker of a store is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from whence._base.errors import WrongUse
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, GDB, SYMBOLIZER, checked_id, gdb_key, is_tenant
from whence.store.names import symbolizer_key as pyroscope_key

LAYOUTS = ("gdb", "pyroscope")


def layout_of(name: str, tenant: str = "") -> str:
    """Return a layout as `Store.add` accepts it: "gdb" or "pyroscope/TENANT". Raises WrongUse."""
    if name not in LAYOUTS:
        raise WrongUse(f"a layout is {' or '.join(LAYOUTS)}, not {name!r}")
    if name == "gdb":
        return name
    if not tenant:
        raise WrongUse("Pyroscope's layout needs a tenant: give 'anonymous' for a server without tenants")
    pyroscope_key(tenant, "00")
    return f"{name}/{tenant}"


def copies_for(layouts: Iterable[str], build_id: str) -> list[str]:
    """Return the keys of the copies of a build-id."""
    keys = []
    for layout in layouts:
        name, _, tenant = layout.partition("/")
        if name == "gdb":
            if len(build_id) >= 4:
                keys.append(gdb_key(build_id))
        else:
            keys.append(pyroscope_key(tenant, build_id))
    return keys


def kind_of_copy(key: str, build_id: str) -> str:
    """Return the kind of the file that a key is a copy of; "" if it is not a copy of a file of this build-id."""
    if len(build_id) >= 4 and key == gdb_key(build_id):
        return DEBUGINFO
    tenant = key.removeprefix(SYMBOLIZER).partition("/")[0]
    if key.startswith(SYMBOLIZER) and is_tenant(tenant) and key == pyroscope_key(tenant, build_id):
        return ARCHIVE
    return ""


def foreign_keys(build_id: str, kind: str) -> Iterator[str]:
    """Yield the keys of a file of a build-id in the layouts of other programs."""
    checked_id(build_id)
    if kind in (DEBUGINFO, EXECUTABLE):
        yield f"{build_id}/{kind}"
        if len(build_id) >= 4:
            yield f"{build_id[:2]}/{build_id[2:]}/{kind}"
    if kind == DEBUGINFO and len(build_id) >= 4:
        yield f"{GDB}{build_id[:2]}/{build_id[2:]}.debug"
