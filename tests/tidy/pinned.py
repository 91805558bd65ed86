"""Names that users' scripts rely on and that no other generated file has: flags of commands, fields of their `--json`.

`make docs` writes both files anew. REST documents are in schemas/openapi.json, metrics in docs/metrics.md, both
generated as well.

Fields are read from the source: the keys of the dicts that reach `print_json`, also through functions and variables.
Models that commands print are those of REST, whose fields are in schemas/openapi.json.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from headrace.cli.app import app
from support.repository import ROOT

PACKAGES = ROOT / "platform"
FOLDER = Path(__file__).parent / "contract"
OPTIONS, FIELDS = FOLDER / "options.txt", FOLDER / "json_fields.txt"
PRINTERS = {"print_json", "_print_json", "dumps"}
"""Functions that print a document."""


def options() -> str:
    """A line for each argument and flag: command, names, whether it takes a value, and has to be given."""
    return "".join(f"{line}\n" for line in _of_command("headrace", typer.main.get_command(app)))


def _of_command(path: str, command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield f"{path} {_shown(parameter)}"
    for name, below in getattr(command, "commands", {}).items():
        yield from _of_command(f"{path} {name}", below)


def _shown(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    words = ["/".join((*parameter.opts, *parameter.secondary_opts)) if is_option else parameter.name.upper()]
    words += ["value"] if is_option and not parameter.is_flag else []
    words += ["required"] if parameter.required else []
    words += ["repeated"] if (is_option and parameter.multiple) or parameter.nargs != 1 else []
    return " ".join(words)


def json_fields() -> str:
    """A line for each module of a command that prints JSON, with the keys of its documents."""
    files = sorted((PACKAGES / "headrace/cli").rglob("*.py"))
    modules = [".".join(file.relative_to(PACKAGES).with_suffix("").parts) for file in files]
    found = {module: _printed(module) for module in modules}
    return "".join(f"{module}: {' '.join(sorted(keys))}\n" for module, keys in found.items() if keys)


def _printed(module: str) -> set[str]:
    reader = _Reader()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.FunctionDef) and node.name not in PRINTERS:
            reader.printed_by(module, node)
    return reader.keys


class _Reader:
    """Collects the keys of documents, from the calls that print them back to the functions that make them."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._read: set[tuple[str, str]] = set()

    def printed_by(self, module: str, function: ast.FunctionDef) -> None:
        """Adds what a function prints."""
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name(node.func) in PRINTERS:
                for argument in node.args:
                    self._made_by(module, function, argument)

    def _made_by(self, module: str, function: ast.AST, value: ast.AST) -> None:
        """Adds the keys of an expression, and those of the variables and functions that it names."""
        for node in ast.walk(value):
            if isinstance(node, ast.Dict):
                self.keys |= {
                    key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
            if isinstance(node, ast.Name):
                self._named(module, function, node.id)

    def _named(self, module: str, function: ast.AST, name: str) -> None:
        place = (module, f"{getattr(function, 'name', '')}.{name}")
        if place in self._read:
            return
        self._read.add(place)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    self._made_by(module, function, node.value)
        self._defined(module, name)

    def _defined(self, module: str, name: str) -> None:
        """Follows a name to the function that it is imported from."""
        place = (module, name)
        if place in self._read or not module.startswith("headrace."):
            return
        self._read.add(place)
        for node in ast.walk(_tree(module)):
            match node:
                case ast.FunctionDef() if node.name == name:
                    for inner in ast.walk(node):
                        if isinstance(inner, ast.Return) and inner.value is not None:
                            self._made_by(module, node, inner.value)
                case ast.ImportFrom() if node.module and any((each.asname or each.name) == name for each in node.names):
                    source = next(each.name for each in node.names if (each.asname or each.name) == name)
                    self._defined(node.module, source)
                case _:
                    pass


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name():
            return function.id
        case ast.Attribute():
            return function.attr
        case _:
            return ""


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGES / Path(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def main() -> None:
    """Writes both files."""
    FOLDER.mkdir(exist_ok=True)
    OPTIONS.write_text(options(), encoding="utf-8")
    FIELDS.write_text(json_fields(), encoding="utf-8")


if __name__ == "__main__":
    main()
