"""Fixtures: a program in a store, and an application with this store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.programs import folder
from tests.helpers.stores import Files


@pytest.fixture(scope="session")
def source() -> str:
    """Return the path of the program's source in its debug info."""
    return str(folder() / "program.c")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def place(files: Files, source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the program, its debug file and its source."""
    from whence.store import Store

    place = tmp_path_factory.mktemp("server") / "store"
    with Store(place) as store:
        store.add(files.stripped, files.debug, source_folders=[Path(source).parent])
    return place


@pytest.fixture
def client(place: Path) -> Iterator[Any]:
    from tests.helpers.serving import TestClient
    from whence.server.app import make_app
    from whence.server.settings import ServerSettings

    with TestClient(make_app(ServerSettings(store=str(place))), raise_server_exceptions=False) as client:
        yield client
