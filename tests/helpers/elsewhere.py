"""A pytest plugin that takes from this Python what only Linux has, before the tests are imported.

    python -m pytest -p tests.helpers.elsewhere ...

`sys.platform` is "darwin", and modules and functions that macOS or Windows lack are missing. Files of /proc, /sys and
of the system's libraries and tools can't be opened, and the PATH has no compiler or other program. Tests that pass need
neither Linux nor its tools: tools/portable.py runs them on macOS and Windows.
"""

from __future__ import annotations

import multiprocessing.resource_sharer  # noqa: F401  # like asyncio, made for the system that it runs on
import os
import platform
import sys
import sysconfig

import _pytest.tmpdir
import hypothesis  # noqa: F401
import pytest

from tests.helpers import lesser_system

SYSTEM_FOLDERS = ("/proc/", "/sys/", "/usr/lib/", "/usr/bin/", "/lib/", "/lib64/", "/bin/")
OWN_FOLDERS = tuple(f"{path}/" for path in {sys.prefix, *sysconfig.get_paths().values()})  # of this Python


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Raise for what another system does not have."""
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(SYSTEM_FOLDERS):
        if not arguments[0].startswith(OWN_FOLDERS):
            raise FileNotFoundError(f"{arguments[0]}: only Linux has this file")
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"):
        program = str(arguments[0])
        if program != sys.executable:
            raise FileNotFoundError(f"{program}: another system may not have this program")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Hide it before a module of whence is imported."""
    platform.uname()
    sysconfig.get_config_vars()
    lesser_system.hide()
    sys.platform = "darwin"
    os.environ["PATH"] = ""
    _pytest.tmpdir.get_user_id = lambda: None  # type: ignore[attr-defined]  # as on Windows
    sys.addaudithook(refuse)
