"""No circles of imports, also not through imports inside functions: each module can be read after those it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from support.repository import ROOT

PACKAGES = (
    ROOT / "platform" / "headrace",
    ROOT / "platform" / "headrace_dev",
    ROOT / "connectors" / "headrace_connectors",
)


def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    found: dict[str, ast.Module] = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text())
    return found


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`, whose imports never run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from runtime_nodes(node)


def imported(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules that a module imports, at its top or inside of functions."""
    names: set[str] = set()
    for node in runtime_nodes(tree):
        match node:
            case ast.Import(aliases):
                names |= {each.name for each in aliases}
            case ast.ImportFrom(str(origin), aliases):
                for each in aliases:
                    inner = f"{origin}.{each.name}"
                    names.add(inner if inner in known else origin)
    return (names & known) - {name}


def test_no_module_imports_itself_by_way_of_others() -> None:
    trees = modules()
    graph = {name: imported(name, tree, set(trees)) for name, tree in trees.items()}
    assert len(graph) > 500, "the packages were found"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"imports go in a circle: {' <- '.join(error.args[1])}") from None
