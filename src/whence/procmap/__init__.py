"""A process's executable memory: from (pid, runtime address) to mapping, build-id, file and vaddr.

In: /proc (or a tree like it). Out: mappings, each with its kind and the identity of the file behind it, and the
arithmetic from runtime addresses over file offsets to vaddrs. Documents: proc_pid_maps(5), include/uapi/linux/fs.h,
the ELF specification's program headers. Nothing here knows what functions are called, but for the two plain lists
of names that are not in ELF files: perf maps and kallsyms.

    mapping.py         Mapping, Kind; opening the very file that is mapped
    maps.py            the text of maps
    query.py           PROCMAP_QUERY: the kernel answers for one address
    process.py         who a pid is: start time, exec, namespaces
    reader.py          one process, looked at
    resolver.py        Resolver: many processes, cached
    build_id.py        read_build_id
    address_mapper.py  AddressMapper: file offset <-> vaddr <-> runtime, by elf.segments.Translation
    names.py           lists of named addresses; perfmap.py, kallsyms.py read them
    vdso.py            the kernel's own library, from memory
    threads.py         where each thread is
    snapshot.py        mappings kept for later
    core.py            a core file as such a snapshot, with threads
    link_map.py        the loader's list of libraries, in the memory of a core
    kallsyms.py        /proc/kallsyms: symbols of the running kernel
    perfmap.py         /tmp/perf-PID.map: names that a JIT compiler writes

    >>> import ctypes, os
    >>> from whence.procmap import AddressMapper, Resolver
    >>> address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    >>> with Resolver() as resolver:
    ...     mapping = resolver.lookup(os.getpid(), address)
    >>> AddressMapper(mapping.openable_path()).vaddr(mapping, address) is not None
    True

Refused: a file whose name is the mapping's but whose inode is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.procmap.mapping import Kind, Mapping

if TYPE_CHECKING:
    from whence.procmap.address_mapper import AddressMapper
    from whence.procmap.build_id import read_build_id, read_go_build_id
    from whence.procmap.resolver import Resolver

__all__ = ["AddressMapper", "Kind", "Mapping", "Resolver", "read_build_id", "read_go_build_id"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # profiles need the mappings alone, not ELF files
            "AddressMapper": "whence.procmap.address_mapper",
            "Resolver": "whence.procmap.resolver",
            "read_build_id": "whence.procmap.build_id",
            "read_go_build_id": "whence.procmap.build_id",
        },
    )
