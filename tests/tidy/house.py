"""The house in figures: `PYTHONPATH=tests python -m tidy.house` prints them, `--lists` with the places behind them.

Counted by syntax trees over the tracked modules of the two source roots, generated ones left out. Lines of code are
those that are left without imports, docstrings, comments and blanks.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.repository import ROOT, module_name, source_modules

GENERATED = re.compile(r"_pb2(_grpc)?\.py$")
TABLE_MIN = 6
"""A module that alone reads so many modules of one folder is a table: it names them, and nobody else has to."""
DIALECT = re.compile(
    r"\b(?:whoever|told|says|looks|given|takes|for good|by itself|of ours|somebody|such a|as well)\b"
    r"|(?:^|[.:] )(?:What|Who)\b",
    re.IGNORECASE,
)
DIALECT_NAMES = frozenset({"found", "told", "wanted", "said", "each", "known", "own", "given", "took", "asked"})
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")


@dataclass(frozen=True)
class Module:
    """A module as text and tree."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The package that it lies in."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@cache
def modules() -> dict[str, Module]:
    """Every module that somebody wrote, by its dotted name."""
    written = {}
    for path in source_modules():
        if not GENERATED.search(path.name):
            text = (ROOT / path).read_text()
            name = module_name(path)
            written[name] = Module(path, name, text, ast.parse(text))
    return written


# ---- imports ---------------------------------------------------------------------------------------------------------


def imports_of(module: Module, *, typing: bool = True) -> set[str]:
    """The modules of the house that a module imports, anywhere in it. typing: also those for types only."""
    names: set[str] = set()
    for node in _nodes(module.tree, typing=typing):
        match node:
            case ast.Import(aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(str(origin), aliases):
                inner = {f"{origin}.{alias.name}" for alias in aliases}
                names |= {name if name in modules() else origin for name in inner}
    return (names & set(modules())) - {module.name}


def _nodes(tree: ast.AST, *, typing: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not typing and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _nodes(node, typing=typing)


def readers() -> dict[str, set[str]]:
    """Module -> those that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for name in imports_of(module):
            found[name].add(module.name)
    return found


def with_one_reader() -> dict[str, str]:
    """Modules that one other module imports -> that one, without those that a table names."""
    single = {name: next(iter(by)) for name, by in readers().items() if len(by) == 1}
    single = {name: by for name, by in single.items() if modules()[name].path.name != "__init__.py"}
    named = Counter((by, modules()[name].folder) for name, by in single.items())
    return {name: by for name, by in single.items() if named[by, modules()[name].folder] < TABLE_MIN}


def folder_pairs() -> dict[tuple[str, str], list[str]]:
    """Folders of one package that import each other both ways, parent and child left out -> the imports of the rarer
    way."""
    arrows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules().values():
        for name in imports_of(module, typing=False):
            here, there = module.folder, modules()[name].folder
            if here != there:
                arrows[here, there].append(f"{module.name} -> {name}")
    pairs = {}
    for (here, there), ways in arrows.items():
        back = arrows.get((there, here))
        related = here.startswith(f"{there}.") or there.startswith(f"{here}.")
        if back is not None and here < there and not related and here.split(".")[:2] == there.split(".")[:2]:
            pairs[here, there] = sorted(ways if len(ways) < len(back) else back)
    return pairs


# ---- lines -----------------------------------------------------------------------------------------------------------


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    yield statement
                case _:
                    pass


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def lines_of(module: Module) -> tuple[int, int]:
    """(lines of code, lines of imports)."""
    texts = {line for node in _docstrings(module.tree) for line in _span(node)}
    imports = {
        line for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom) for line in _span(node)
    }
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in skipped:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - texts - imports), len(imports)


# ---- prose, names, classes -------------------------------------------------------------------------------------------


def prose_of(module: Module) -> str:
    """Docstrings and comments."""
    texts = [node.value.value for node in _docstrings(module.tree) if isinstance(node.value, ast.Constant)]
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join(str(text) for text in (*texts, *comments))


def names_of(module: Module) -> Iterator[str]:
    """Names that a module gives: arguments, and variables that are assigned."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name.strip("_")


def attributes_of(node: ast.ClassDef) -> set[str]:
    """The attributes of a class's instances: its fields, and what its methods assign to `self`."""
    fields = {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and not ast.unparse(statement.annotation).startswith("ClassVar")
    }
    return fields | {
        target.attr
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


def largest_classes(*, data: bool = False) -> list[tuple[int, str]]:
    """(attributes, class) of classes with methods that assign, the largest first; data: of classes of fields, too."""
    sizes = []
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                has_methods = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body)
                if data or has_methods:
                    sizes.append((len(attributes_of(node)), f"{module.name}.{node.name}"))
    return sorted(sizes, reverse=True)


_VERBS_AND_CONFIGS = re.compile(r"headrace\.(operators|spec\.verbs)\b")


def config_tests() -> list[str]:
    """Places that ask for the class of an operator's config, or of a step's model, outside of its own file."""
    owners = {
        node.name: module.name
        for module in modules().values()
        if _VERBS_AND_CONFIGS.match(module.name)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and (node.name.endswith("Config") or "Verb" in {ast.unparse(base) for base in node.bases})
    }
    places = []
    for module in modules().values():
        places += [
            f"{module.path}:{line} {name}"
            for line, name, origin in classes_asked(module.tree)
            if owners.get(name, module.name) != module.name and _VERBS_AND_CONFIGS.match(origin)
        ]
    return sorted(places)


def classes_asked(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, class, where it is imported from) for each class of the house that a module asks for, by isinstance, a
    case or an identity."""
    rooms = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace")
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked], lineno=line):
                pass
            case ast.MatchClass(cls=asked, lineno=line):
                pass
            case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()], comparators=[asked], lineno=line):
                pass
            case _:
                continue
        for part in ast.walk(asked):
            match part:
                case ast.Name(id=name) if name in rooms and name[0].isupper():
                    yield line, name, rooms[name]
                case ast.Attribute(value=ast.Name(id=room), attr=name) if room in rooms:
                    yield line, name, rooms[room]
                case _:
                    pass


def verb_names(verbs: Collection[str]) -> list[str]:
    """Places that name one of these verbs as a word of its own, outside of the files of the verbs."""
    return sorted(
        f"{module.name} {node.value}"
        for module in modules().values()
        if module.folder not in ("headrace.spec.verbs", "headrace.plan.verbs")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in verbs
    )


# ---- the figures -----------------------------------------------------------------------------------------------------


def figures() -> dict[str, float]:
    """Name -> value, in the order in which they are read."""
    sizes = [lines_of(module) for module in modules().values()]
    counted = [code for code, imports in sizes if code or imports]
    code, imports = sum(each[0] for each in sizes), sum(each[1] for each in sizes)
    prose = "\n".join(prose_of(module) for module in modules().values())
    names = [name for module in modules().values() for name in names_of(module)]
    return {
        "files": len(counted),
        "lines of code": code,
        "lines of code a file": round(code / len(counted), 1),
        "files under 40 lines": sum(
            len(module.text.splitlines()) < 40 for module in modules().values() if module.tree.body[1:]
        ),
        "files with one reader": len(with_one_reader()),
        "import lines by code": round(imports / code, 3),
        "sibling folders that import both ways": len(folder_pairs()),
        "class tests on configs": len(config_tests()),
        "attributes of the largest class": largest_classes()[0][0],
        "dialect markers per 1,000 words": round(1_000 * len(DIALECT.findall(prose)) / len(_WORD.findall(prose)), 2),
        "dialect names, %": round(100 * sum(name in DIALECT_NAMES for name in names) / len(names), 2),
    }


def main() -> None:
    """Prints the figures; with --lists also the places."""
    lines = [f"{value:>10,} {name}" for name, value in figures().items()]
    if "--lists" in sys.argv[1:]:
        lines += ["", "one reader:", *(f"  {name} <- {by}" for name, by in sorted(with_one_reader().items()))]
        lines += ["", "both ways:"]
        for (here, there), ways in sorted(folder_pairs().items()):
            lines += [f"  {here} <-> {there}", *(f"    {way}" for way in ways)]
        lines += ["", "class tests:", *(f"  {place}" for place in config_tests())]
        lines += ["", "largest classes:", *(f"  {size} {name}" for size, name in largest_classes()[:10])]
        most = sorted(((lines_of(module)[1], name) for name, module in modules().items()), reverse=True)
        lines += ["", "most import lines:", *(f"  {imports} {name}" for imports, name in most[:20])]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
