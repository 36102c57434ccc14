"""What a build adds to the package: links for a package index, and the tag of machine code."""

import hashlib
import re
from pathlib import Path

from wheels.compile import HERE, is_everywhere, without_folders
from wheels.hook import platforms_of, repository_of, with_absolute_links

from armrace.kernels import machine_code

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/someone/armrace"
WORKFLOW = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "someone/armrace"}


def test_links_of_the_readme_work_on_a_package_index() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]*)\)", with_absolute_links(readme, REPOSITORY))
    assert all(link.startswith(("https://", "#")) for link in links)
    ours = [link for link in links if link.startswith(REPOSITORY)]
    assert len(ours) > 20
    for link in ours:
        kind, path = link.removeprefix(f"{REPOSITORY}/").split("/HEAD/")
        assert (ROOT / path.partition("#")[0]).exists(), link
        assert kind == ("raw" if path.endswith(".png") else "blob")


def test_addresses_come_from_the_repository_whose_workflow_builds() -> None:
    assert repository_of(WORKFLOW) == REPOSITORY
    assert repository_of({}) == ""


def test_machine_code_is_for_the_platforms_of_numba() -> None:
    assert re.fullmatch(r"[\w.]+", platforms_of("numba"))


def test_machine_code_may_need_what_every_machine_has_and_nothing_else() -> None:
    assert all(map(is_everywhere, ("log1p", "memset", "PyErr_Occurred", "numba_gil_ensure")))
    assert not is_everywhere("__svml_exp4")


def test_stored_code_names_no_folder_of_the_machine_that_built_it() -> None:
    (inside, *_) = HERE
    payload = f"raised in {inside}/numba/np/arraymath.py".encode()
    whole = machine_code._MAGIC + hashlib.sha256(payload).digest() + payload
    stored = without_folders(whole)
    assert len(stored) == len(whole)
    assert machine_code.unsealed(stored) is not None
    assert inside.encode() not in stored
    assert b"/numba/np/arraymath.py" in stored
