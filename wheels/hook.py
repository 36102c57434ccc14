"""What Hatchling asks when it builds the package: the README, addresses, and machine code.

Where a workflow of a repository builds, its address is in the metadata, and the README's links
lead there, since a package index has no other files. Elsewhere they stay as they are.

If ARMRACE_MACHINE_CODE names the folder that `compile.py` filled, the wheel brings it. It is then
for one version of Python, and for the systems that the wheel of Numba is for: the code is linked
with nothing, and names nothing but what each of these systems, Python or Numba has.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?P<path>(?!https?:|#)[^)\s]+)\)")


class MetadataHook(MetadataHookInterface):
    """Called for the fields that `pyproject.toml` leaves open."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the README and the addresses."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = repository_of(os.environ)
        metadata["urls"] = {}
        if repository:
            text = with_absolute_links(text, repository)
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{repository}/tree/HEAD/docs",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class MachineCodeHook(BuildHookInterface):
    """Called before a wheel is written."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the folder, and name the tag."""
        folder = os.environ.get("ARMRACE_MACHINE_CODE")
        if not folder or version == "editable":
            return
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platforms_of('numba')}"
        build_data["force_include"][str(Path(folder).resolve())] = "armrace/_machine_code"


def repository_of(environment: Any) -> str:
    """Return the address of the repository whose workflow runs, as GitHub and others tell it."""
    server, name = (environment.get(f"GITHUB_{each}") for each in ("SERVER_URL", "REPOSITORY"))
    return f"{server}/{name}" if server and name else ""


def with_absolute_links(text: str, repository: str) -> str:
    """Let links to files of the repository lead there, and pictures come from there."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}{link['text']}({repository}/{kind}/HEAD/{link['path']})"

    return _LINK.sub(absolute, text)


def platforms_of(name: str) -> str:
    """Return the platforms in the tags of an installed wheel, such as manylinux_2_28_x86_64."""
    lines = (distribution(name).read_text("WHEEL") or "").splitlines()
    tags = [line.partition(": ")[2] for line in lines if line.startswith("Tag: ")]
    return ".".join(sorted({tag.split("-")[2] for tag in tags}))
