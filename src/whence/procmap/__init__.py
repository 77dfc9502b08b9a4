"""The executable memory of processes: from (pid, runtime address) to mapping, build-id, file and vaddr.

In: /proc, or a tree like it. Out: mappings, each with its kind and the identity of its file, and the arithmetic from
runtime addresses over file offsets to vaddrs. References: proc_pid_maps(5), include/uapi/linux/fs.h, the program
headers of the ELF specification. Function names are only known from two plain lists: perf maps and kallsyms.

    address_mapper.py  AddressMapper: file offset <-> vaddr <-> runtime address of a file
    build_id.py        read_build_id
    kallsyms.py        /proc/kallsyms: symbols of the running kernel
    mapping.py         Mapping, Kind; opens the file that is mapped
    maps.py            the text of /proc/PID/maps
    names.py           sorted lists of named addresses
    perfmap.py         /tmp/perf-PID.map: names that a JIT compiler writes
    process.py         identity of a process: start time, exec, namespaces
    query.py           PROCMAP_QUERY: the kernel's answer for one address
    reader.py          reads the mappings of one process
    resolver.py        Resolver: mappings of many processes, cached
    snapshot.py        mappings in a file, for later
    threads.py         program counters of threads
    vdso.py            the kernel's own library, from memory

    >>> import ctypes, os
    >>> from whence.procmap import AddressMapper, Resolver
    >>> address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    >>> with Resolver() as resolver:
    ...     mapping = resolver.lookup(os.getpid(), address)
    >>> AddressMapper(mapping.openable_path()).vaddr(mapping, address) is not None
    True

A file with the path of a mapping but another inode is refused.
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
        {  # profiles need mappings only
            "AddressMapper": "whence.procmap.address_mapper",
            "Resolver": "whence.procmap.resolver",
            "read_build_id": "whence.procmap.build_id",
            "read_go_build_id": "whence.procmap.build_id",
        },
    )
