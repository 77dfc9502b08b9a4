"""The docstring of a package names each of its modules."""

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "whence"
FOLDERS = sorted(path.parent for path in SRC.rglob("__init__.py"))
PACKAGES = [path for path in FOLDERS if path != SRC and path.name != "kernels"]
LISTED = re.compile(r"^ *(?:kernels/)?([a-z_0-9]+)(?:\.py|\.pxd|/)?  +\S", re.MULTILINE)  # a name, then what it is


def modules(folder: Path, *kinds: str) -> set[str]:
    """Return the modules of a folder, except __init__ and __main__."""
    return {path.stem for kind in kinds for path in folder.glob(kind)} - {"__init__", "__main__"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(SRC)))
def test_the_docstring_of_a_package_names_each_of_its_modules(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    packages = {path.parent.name for path in package.glob("*/__init__.py")} - {"kernels"}
    own = modules(package, "*.py") | packages
    listed = set(LISTED.findall(text))
    assert own - listed == set()
    assert listed - own - {"kernels"} <= modules(package / "kernels", "*.py", "*.pxd")
