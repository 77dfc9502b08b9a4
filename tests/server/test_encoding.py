"""Responses with archives that are stored compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.helpers.serving import TestClient
from tests.helpers.stores import Files
from whence import lidia
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.store import Store


def test_an_archive_is_sent_by_gzip_to_clients_that_accept_it_and_decompressed_to_others(
    tmp_path: Path, files: Files
) -> None:
    store = Store(tmp_path / "store")
    store.add(files.whole)
    path = f"/buildid/{files.build_id}/lidia"
    stored = (Path(store.url) / "buildid" / files.build_id / "lidia.gz").read_bytes()
    with TestClient(make_app(ServerSettings(store=store.url))) as client:
        for accepted, encoding in (("gzip, br", "gzip"), ("identity", None), ("gzip;q=0", None), ("", None)):
            got = client.get(path, headers={"accept-encoding": accepted})
            assert got.status_code == 200
            assert got.headers.get("content-encoding") == encoding
            assert got.headers["vary"] == "Accept-Encoding"
            assert got.content == gzip.decompress(stored)
            assert int(got.headers["content-length"]) == len(stored if encoding else got.content)
        tags = {client.get(path, headers={"accept-encoding": "identity"}).headers["etag"] for _ in range(2)}
        assert len(tags) == 1
        part = client.get(path, headers={"accept-encoding": "identity", "range": "bytes=0-3"})
        assert (part.status_code, part.content) == (206, b".dia")
        assert client.get(path, headers={"accept-encoding": "identity", "if-none-match": tags.pop()}).status_code == 304
    with lidia.from_bytes(stored) as table:
        assert table.about.build_id == files.build_id
