"""Software bills of materials in CycloneDX 1.6.

    python tools/sbom.py        what is installed here, Python's and Debian's packages: for the container's image

`of_wheel` is what setup.py writes into each wheel (PEP 770: .dist-info/sboms/). The same input gives the same bytes:
the time of creation is left out, and the serial number is derived from the content. This module does not import whence:
it runs while whence is built.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib import metadata
from typing import Any
from urllib.parse import quote

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "cyclonedx.whence")
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(\[[^]]*\])?\s*([^;]*)(?:;\s*(.*))?")
CODE_OF_CYTHON = "The code that Cython writes into each kernel, compiled into the shared object."


def normalized(name: str) -> str:
    """Return the name of a Python distribution as package URLs spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_component(name: str, version: str, **more: Any) -> dict[str, Any]:
    """Return a Python distribution as a component."""
    purl = f"pkg:pypi/{normalized(name)}" + (f"@{quote(version)}" if version else "")
    fields: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name}
    return {**fields, **({"version": version} if version else {}), "purl": purl, **more}


def licensed(expression: str) -> list[dict[str, Any]]:
    return [{"license": {"id": expression}}]


def document(root: dict[str, Any], tools: list[dict[str, Any]], components: list[dict[str, Any]]) -> str:
    """Return a bill of materials as JSON. The root depends on every component."""
    references = sorted(component["bom-ref"] for component in components)
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": {"components": tools}, "component": root},
        "components": components,
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": references}, *({"ref": each} for each in references)],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=1) + "\n"


def requirements(project: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the requirements of the project table of pyproject.toml, each with the name of its extra or ""."""
    yield from ((text, "") for text in project["dependencies"])
    for extra, texts in project["optional-dependencies"].items():
        yield from ((text, extra) for text in texts)


def of_wheel(version: str, project: dict[str, Any]) -> str:
    """Return the bill of a wheel: what is compiled into it, and what it needs, without versions.

    `project` is the project table of pyproject.toml.
    """
    cython = python_component(
        "Cython", metadata.version("cython"), description=CODE_OF_CYTHON, licenses=licensed("Apache-2.0"),
        scope="required",
    )  # fmt: skip
    needed: dict[str, dict[str, Any]] = {}
    for text, extra in requirements(project):
        match = REQUIREMENT.match(text)
        assert match is not None, text
        name = match[1]
        properties = {"requirement": match[3].strip(), "marker": match[4] or "", "extra": extra}
        needed.setdefault(normalized(name), python_component(
            name, "", description="Not in the wheel: installed with it.", scope="optional" if extra else "required",
            properties=[{"name": f"whence:{key}", "value": value} for key, value in properties.items() if value],
        ))  # fmt: skip
    root = python_component("whence", version, licenses=licensed("Apache-2.0"))
    tools = [python_component(name, metadata.version(name)) for name in ("cython", "setuptools")]
    return document(root, tools, [cython, *(needed[name] for name in sorted(needed))])


def of_environment() -> str:
    """Return the bill of this environment: installed Python distributions and Debian packages."""
    result = {normalized(each.metadata["Name"]): each for each in metadata.distributions() if each.metadata["Name"]}
    components = [python_component(name, result[name].version, scope="required") for name in sorted(result)]
    if shutil.which("dpkg-query"):
        listed = subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${Architecture}\n"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name, version, machine in sorted(line.split("\t") for line in listed.splitlines()):
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}"
            components.append(
                {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
            )  # fmt: skip
    own = result.get("whence")
    root = {"type": "container", "bom-ref": "image", "name": "whence", "version": own.version if own else ""}
    python = {
        "type": "platform", "bom-ref": "python", "name": "CPython",
        "version": ".".join(map(str, sys.version_info[:3])),
    }  # fmt: skip
    return document(root, [], [python, *components])


if __name__ == "__main__":
    sys.stdout.write(of_environment())
