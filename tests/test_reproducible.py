"""Two builds of equal sources are equal, and wheels and images have bills of materials."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import reproducible, sbom
from tools.wheels import faults
from whence._version import __version__

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_source_distributions_of_other_folders_times_and_settings_are_equal() -> None:
    """`make reproducible` compares wheels, too."""
    pytest.importorskip("build", reason="build is not installed")
    assert reproducible.compare(only_sdist=True) == []


def test_the_difference_of_two_archives_is_named(tmp_path: Path) -> None:
    contents = []
    for number, text in enumerate(("one", "three")):
        path = tmp_path / f"{number}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("same"), "same")
            archive.writestr(zipfile.ZipInfo("other"), text)
        contents.append(path.read_bytes())
    assert "other" in reproducible.difference(contents[0], contents[1], "a.whl")
    assert "3 and 5 bytes" in reproducible.difference(contents[0], contents[1], "a.whl")


def validate(text: str) -> dict[str, Any]:
    """Check a bill against CycloneDX's own schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    referencing = pytest.importorskip("referencing", reason="jsonschema is not installed")
    cyclonedx = pytest.importorskip("cyclonedx.schema", reason="cyclonedx-python-lib is not installed")
    folder = Path(cyclonedx.__file__).parent / "_res"
    schemas = {path.name: json.loads(path.read_text()) for path in folder.glob("*.SNAPSHOT.schema.json")}
    resources = [
        (f"http://cyclonedx.org/schema/{name}", referencing.Resource.from_contents(schema))
        for name, schema in schemas.items()
    ]
    registry = referencing.Registry().with_resources(resources)
    bill: dict[str, Any] = json.loads(text)
    schema = schemas[f"bom-{bill['specVersion']}.SNAPSHOT.schema.json"]
    problems = [error.message for error in jsonschema.Draft7Validator(schema, registry=registry).iter_errors(bill)]
    assert problems == []
    return bill


def test_the_bill_of_a_wheel_names_what_is_in_it_and_what_it_needs() -> None:
    text = sbom.of_wheel(__version__, PROJECT)
    assert text == sbom.of_wheel(__version__, PROJECT)
    bill = validate(text)
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/whence@{__version__}"
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} == {
        "Cython", "backports.zstd", "isal", "pydemumble", "urllib3",
    }  # fmt: skip
    assert {"pyarrow", "obstore", "starlette"} <= {name for name, scope in scopes.items() if scope == "optional"}
    zstd = next(each for each in bill["components"] if each["name"] == "backports.zstd")
    assert {each["name"]: each["value"] for each in zstd["properties"]} == {
        "whence:requirement": ">=1.0", "whence:marker": "python_version < '3.14'",
    }  # fmt: skip
    assert sbom.of_wheel("2.0", PROJECT) != text
    assert json.loads(sbom.of_wheel("2.0", PROJECT))["serialNumber"] != bill["serialNumber"]


def test_the_bill_of_an_image_names_what_is_installed() -> None:
    command = [sys.executable, str(ROOT / "tools" / "sbom.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bill = validate(done.stdout)
    installed = {component["name"] for component in bill["components"]}
    assert {"CPython", "urllib3", "pydemumble"} <= {name.lower() if name != "CPython" else name for name in installed}
    assert "tools/sbom.py" in (ROOT / "packaging" / "docker" / "Dockerfile").read_text()


def test_a_wheel_without_a_bill_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("whence/__init__.py", "")
    assert faults(tmp_path / "a.whl") == ["no file .dist-info/sboms/whence.cdx.json"]
