"""Measure the size and shape of the source: ``python -m benchmarks.house [--walks]``."""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = {"armrace": ROOT / "src/armrace", "armrace_client": ROOT / "client/src/armrace_client"}
_DOORS = ("__init__", "__main__")


def main() -> None:
    """Print the size of every room, names with two homes, modules with one importer, and walks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=__doc__)
    parser.add_argument(
        "--walks", action="store_true", help="count modules and functions of typical calls"
    )
    options = parser.parse_args()
    console = Console()
    console.print(sizes())
    modules = dict(_modules())
    homes = repeated_classes(modules)
    console.print(f"Public class names with more than one home: {len(homes)}", *sorted(homes))
    lonely = single_importers(modules)
    console.print(f"Modules with a single importer: {len(lonely)}", *lonely, sep="\n  ")
    if options.walks:
        console.print(walks())


def sizes() -> Table:
    """Lines, files, and the share of lines that only import or export."""
    table = Table("room", "lines", "code", "files", "imports and __all__", title="Size")
    rooms = {
        f"src/armrace/{path.name}": path
        for path in sorted(_PACKAGES["armrace"].iterdir())
        if path.is_dir()
    }
    everything = {**rooms, "src": ROOT / "src", "client": ROOT / "client", "tests": ROOT / "tests"}
    for name, folder in everything.items():
        counts = sum((_count(path) for path in folder.rglob("*.py")), Counter[str]())
        if counts["files"]:
            share = f"{100 * counts['imports'] / counts['lines']:.1f}%"
            table.add_row(
                name, f"{counts['lines']:,}", f"{counts['code']:,}", str(counts["files"]), share
            )
    words = sum(
        len(path.read_text().split())
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    )
    table.caption = f"README and docs: {words:,} words"
    return table


def _count(path: Path) -> Counter[str]:
    text = path.read_text()
    lines = text.splitlines()
    prose: set[int] = set()
    imports = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _exports(node):
            imports += _height(node)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = sum(
        1
        for number, line in enumerate(lines, 1)
        if line.strip() and line.strip()[0] != "#" and number not in prose
    )
    return Counter(lines=len(lines), code=code, files=1, imports=imports)


def _exports(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"


def _height(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0) + 1


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package, folder in _PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *parts)), ast.parse(path.read_text())


def repeated_classes(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Public classes that are defined under one name in several modules."""
    homes = defaultdict(list)
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                homes[node.name].append(module)
    return {name: found for name, found in homes.items() if len(found) > 1}


def single_importers(modules: dict[str, ast.Module]) -> list[str]:
    """Modules that one other module imports, doors for users left out."""
    importers = defaultdict(set)
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                importers[node.module].add(module)
                for name in node.names:
                    importers[f"{node.module}.{name.name}"].add(module)
    return [
        module
        for module in modules
        if len(importers[module]) == 1 and module.rpartition(".")[2] not in _DOORS
    ]


def walks() -> Table:
    """Count the modules and functions of ours that typical calls pass through."""
    table = Table("walk", "modules", "functions", title="Walks")
    for name, walk in (
        ("compare to HTML", _compare),
        ("decide, reward, retract in process", _serve),
    ):
        with tempfile.TemporaryDirectory() as folder:
            called = _profile(partial(walk, Path(folder)))
        table.add_row(name, str(len({file for file, _ in called})), str(len(called)))
    return table


def _compare(folder: Path) -> None:
    from armrace.cli.main import run

    words = ["compare", "--policies", "ucb1,thompson", "--horizon", "1000", "--replications", "2"]
    run([*words, "--report", str(folder / "report.html")])


def _serve(folder: Path) -> None:
    import armrace

    with armrace.open(folder / "store.sqlite") as service:
        service.create("shop", arms=["red", "green"], horizon=1000, missing=0)
        decision = service.decide("shop").decision
        service.reward(decision, 1.0)
        service.retract("shop", decisions=[decision])


def _profile(walk: Callable[[], None]) -> set[tuple[str, str]]:
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "armrace" in file and frame.f_code.co_name != "<module>":
            called.add((file, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return called


if __name__ == "__main__":
    main()
