"""What a store is to its parts: they are given one, and it calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO, Protocol

    from whence.producers import Producers
    from whence.store.meta import Meta
    from whence.store.objects import Objects, Stat
    from whence.store.outcomes import MadeArchive, Outcomes, Received
    from whence.store.quality import Looked
    from whence.store.sources import Bundled

    class Readable(Protocol):
        """A stream of bytes: an open file, the body of an upload."""

        def read(self, size: int = -1, /) -> bytes: ...

    class Parser(Protocol):
        """What parses files for a store, elsewhere than in its process. The questions about one file come from one
        thread, one after the other, within a `session`. Each raises WhenceError, and OSError where nothing can be
        parsed."""

        def session(self) -> AbstractContextManager[None]: ...

        def look(self, path: Path) -> Looked:
            """quality.look"""

        def archive(
            self, store: Keeper, known: Meta, files: Mapping[str, Path], output: BinaryIO, looked_at: Path | None,
        ) -> MadeArchive:  # fmt: skip
            """archiving.make_archive; `looked_at` is the file that `look` saw, where all files are that one."""

    class Keeper(Protocol):
        """As much of whence.store.Store as its parts ask."""

        objects: Objects
        url: str
        jobs: int | None
        compress: bool

        def find(self, build_id: str) -> Meta | None: ...

        def file(self, build_id: str, kind: str) -> AbstractContextManager[Path | None]: ...

        def status(self, build_id: str, kind: str) -> Stat | None: ...

        def fetch(self, build_id: str, kind: str, file: BinaryIO) -> None: ...

        def missed(self, build_id: str, who: str, path: str = "") -> None: ...

        def used(self, build_id: str) -> None: ...

        def receive(self, file: Readable, origin: str, limit: int = 0) -> AbstractContextManager[Received]: ...

        def take(
            self,
            received: Received,
            looked: Looked,
            build_id: str,
            *,
            wait: float = ...,
            archive: bool = True,
            folders: Iterable[str] = (),
            producers: Producers | None = None,
        ) -> Outcomes: ...

        def finish(
            self, build_id: str, *, layouts: Iterable[str] = (), folders: Iterable[str] = (), wait: float = ...
        ) -> Meta | None: ...

        def put_sources(self, build_id: str, folders: Iterable[str | os.PathLike[str]]) -> Bundled | None: ...
