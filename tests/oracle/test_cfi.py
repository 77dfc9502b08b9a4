"""Every row of large files' call frame information, against readelf."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.helpers.frames import compared
from tests.oracle.corpora import CORPORA, fetched

pytestmark = pytest.mark.oracle

FILES = {
    "libc": ("/lib/x86_64-linux-gnu/libc.so.6",),
    "libstdc++": ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6",),
    "libcrypto": ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/x86_64-linux-gnu/libcrypto.so.1.1"),
    "libpython": (
        "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        f"{sysconfig.get_config_var('LIBDIR')}/libpython3.11.so.1.0",
    ),
    "node": ("/usr/bin/node",),
    "ceph-mds": ("/usr/bin/ceph-mds",),
}


@pytest.mark.parametrize("name", [*FILES, "vmlinux"])
def test_every_row_of_a_large_file_is_readelfs(name: str) -> None:
    if shutil.which("readelf") is None or sysconfig.get_platform() != "linux-x86_64":
        pytest.skip("compared with readelf, on x86-64")
    if name == "vmlinux":
        package, pattern, _ = CORPORA[name]
        result = sorted(fetched(package).glob(pattern))
    else:
        result = [Path(each) for each in FILES[name] if Path(each).is_file()]
    if not result:
        pytest.skip(f"no {name} on this machine")
    count = compared(result[0])
    print(f"{name}: {count:,} rows")
    assert count > 10_000
