"""A pytest plugin for Pythons without the global lock (tools/free_threaded.py).

pytest-run-parallel runs each test of tests/portable.txt in several threads at once, unless the test changes what
threads share; other tests run once, as they use processes, ports and folders of their own. Some packages have no wheels
for such Pythons: a test that needs a missing package is skipped, and the reason names the package.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from tools import portable

ONE_THREAD = ("tests/locate/test_debug_files.py",)  # tests of files in one folder
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}{'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''}"
OWN = ("whence", "tests", "tools", "benchmarks", "fuzz")
IMPORTERS = ("tests.", "tools.", "benchmarks.", "fuzz.")


def reason(module: str) -> str:
    return f"{module.partition('.')[0]} is not installed: it has no wheel for Python {VERSION}"


class MissingPackages:
    """The last finder: an import of a missing package by a test skips the test."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen_importlib")) and frame.f_back:
            frame = frame.f_back
        importer = frame.f_globals.get("__name__", "")
        if path is None and importer.startswith(IMPORTERS) and not name.startswith(OWN):
            raise pytest.skip.Exception(reason(name), allow_module_level=True)
        return None


sys.meta_path.append(MissingPackages())


def missing_package(error: BaseException | None) -> str:
    """Return the name of the package whose import failed first; "" if an error has another cause."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith(OWN):
            return error.name
        error = error.__cause__ or error.__context__
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test that whence refused because a package is missing as skipped."""
    report = yield
    name = missing_package(call.excinfo.value) if call.excinfo is not None else ""
    if name and report.failed:
        report.outcome = "skipped"
        path, line, _ = item.location
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason(name)}")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run in one thread."""
    parallel = {*portable.listed()} - {*ONE_THREAD}
    for item in items:
        if item.nodeid.partition("::")[0] not in parallel:
            item.add_marker(pytest.mark.parallel_threads(1))
