"""A store of object files and archives by build-id, in a folder or a bucket that several writers share.

Object files, folders and packages are put in; files and archives by build-id are read. The layout is debuginfod's, so
that any web server over the folder is a debuginfod (docs/store.md).

    store.py          Store: open and add
    writer.py         StoreWriter: put, archive, remove; the steps of a write
    reader.py         StoreReader: find, open, export, record requests
    names.py          the names of the objects, made from checked ids
    objects.py        the interface of folders and buckets
    folder.py         objects in a folder
    bucket.py         objects in a bucket: S3, Google, Azure, memory, HTTP
    places.py         opens a store by its path or address
    leases.py         the exclusive right to change a build-id, which expires
    quality.py        the scan of an object file: build-id, kinds, quality of its names
    parser.py         scans and archives a file while it is open
    outcomes.py       what happened to a file that was put
    meta.py           meta.json: the description of the files of a build-id
    archiving.py      debug file and executable as one archive
    index.py          the rows of `whence store ls`
    intake.py         finds the object files in files, folders and packages
    ingest.py         puts each of them, in this process or in child processes
    packages.py       object files inside .deb, .tar and .zip packages
    parca.py          uploads in a bucket of Parca
    packing.py        zstd for stored files and packages, gzip for archives
    processes.py      the files that processes, core files and snapshots have mapped
    sources.py        bundles of source files
    layouts.py        layouts of other programs, written and read
    verify.py         checks every file of a store
    collecting.py     removes the build-ids that were used least recently
    announcements.py  uploads that were announced to a server
    wanted.py         requests for missing build-ids; when a build-id was used last
    source.py         a store as a source of the Locator
    fetching.py       files of a bucket in the local cache
    ranged.py         a few addresses of an archive in a bucket, by ranges of bytes
    asynchronous.py   AsyncStore: the methods of Store as coroutines

A store refuses build-ids that are not 1 to 64 bytes in lowercase hex, and files that are damaged, have another build-id
than expected, or hold neither code nor debug info nor symbols. Document: debuginfod(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.store.leases import Busy
from whence.store.meta import HeldFile, Meta
from whence.store.outcomes import Added
from whence.store.reader import Content
from whence.store.store import Store

if TYPE_CHECKING:
    from whence.store.asynchronous import AsyncStore

__all__ = ["Added", "AsyncStore", "Busy", "Content", "HeldFile", "Meta", "Store"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # asyncio takes long to import
            "AsyncStore": "whence.store.asynchronous",
        },
    )
