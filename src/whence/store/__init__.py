"""The store: of every build-id the best files and an archive of them, in a folder or a bucket that many may write to.

In: ELF files, folders and packages of them. Out: files and archives by build-id. The layout is a debuginfod's, so that
any web server over it is one (docs/store.md).

    store.py      Store: asking, putting, removing; the steps of a write
    keeper.py     what a store is to its parts
    names.py      the names of the objects, made of checked ids only
    objects.py    what a place for objects does: folder.py a folder, bucket.py a bucket; places.py decides which
    leases.py     the right to change a build-id, with an owner and an end
    quality.py    an ELF file looked at: build-id, kinds, which of two is better
    outcomes.py   what becomes of a file that is put
    meta.py       meta.json: what the files of a build-id are
    archiving.py  debug file and executable as one archive
    index.py      what `ls` prints
    intake.py     what people put: files, folders, packages (packages.py), with packing.py for zstd
    taking.py     what is done with each file, in processes of their own where they are many
                  (workers.py, worker_process.py)
    processes.py  what processes, core files and snapshots have mapped
    sources.py    bundles of source files
    layouts.py    layouts of others, written and read
    verify.py     everything read again; collecting.py: what goes by itself
    asynchronous.py  AsyncStore: the same, awaited
    source.py     a store as a source of the Locator
    wanted.py     questions without an answer; when a build-id answered last
    bucket.py           objects in a bucket: S3, Google's, Azure's, memory, HTTP
    collecting.py       deletes the build-ids that were used longest ago
    fetching.py         files of a bucket in the local cache
    folder.py           objects in a folder
    packages.py         ELF files inside .deb, .tar and .zip packages
    packing.py          zstd for stored files and packages
    places.py           opens a store by its path or address
    ranged.py           a few addresses of an archive in a bucket, by ranges of bytes
    worker_process.py   the process that a Worker starts
    workers.py          processes that add ELF files to a store

It refuses: build-ids that are not 1 to 64 bytes in lower-case hex, files that are no whole ELF file, that carry another
build-id than the one they are put under, or that hold neither code nor debug info nor symbols. Document: debuginfod(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.store.leases import Busy
from whence.store.meta import HeldFile, Meta
from whence.store.outcomes import Added
from whence.store.store import Content, Store

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
