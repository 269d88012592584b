#!/usr/bin/env python3
"""Checks that the modules of python/diptych keep to their layers: what each may import, wherever it does so, and that no import
leads in a circle. Also that the modules which the bindings import by name are there.

Run without arguments from anywhere; prints one line per fault, "file:line: what, and what to do", and exits 1 if there
is one.
"""
import ast
import graphlib
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

PACKAGE = "diptych"
ROOT = "__init__"  # the name of the package's own file in the table
# Made by the build: the bindings, and what they were built for.
MADE = ("_build", "_core")
# Module -> the modules that it may import directly; it may also import whatever those may. A row "package.*" is for the
# modules of a package that have no row of their own, which may also import each other. python/README.md explains each.
LAYERS = {
    "_build": [],
    "_core": [],
    # What functions do on the host: facts, then questions, then those that answer for a capture.
    "_host": [],
    "_host.events": [],
    "_host.packed": [],
    "_host.reach": [],
    "_host.register": [],
    "_host.replaced": [],
    "_host.tensor_work": [],
    "_host.caches": ["_core"],
    "_host.numbers": [],
    "_host.numbers.base": ["_core"],
    "_host.numbers.floats": ["_host.numbers.base", "_host.register", "_host.replaced"],
    "_host.numbers.integers": ["_host.numbers.floats"],
    "_host.numbers.item": ["_host.numbers.integers"],
    "_host.numbers.draws": ["_host.numbers.integers", "_host.events"],
    "_host.contents": ["_host.caches", "_host.numbers.floats", "_host.packed"],
    "_host.places": ["_host.contents"],
    "_host.objects": ["_host.places"],
    "_host.results": ["_host.contents"],
    "_host.hidden_tensors": ["_host.objects", "_host.register"],
    "_host.module_state": ["_host.places", "_host.register"],
    "_host.strays": ["_host.caches"],
    "_host.walk": ["_host.contents"],
    "_host.libraries": ["_host.walk"],
    "_host.watch": ["_host.events", "_host.libraries", "_host.objects", "_host.register", "_host.results"],
    "_host.keeper": ["_cache_stats", "_host.hidden_tensors", "_host.reach"],
    # What takes the place of torch's functions.
    "_torch": [],
    "_torch.check": ["_build", "_torch.keys"],
    "_torch.keys": [],
    "_torch.*": ["_host.numbers.floats", "_host.register", "_host.replaced"],
    # What the bindings call.
    "_names": [],
    "_optimizers": ["_core"],
    "_tree": ["_core", "_host.packed"],
    "_transforms": ["_tree"],
    # The verbs.
    "_cache_stats": [],
    "_files": ["_core"],
    "_compiled": ["_host.keeper"],
    "_modules": ["_compiled", "_host.module_state"],
    "_specs": ["_core"],
    "_functions": ["_modules", "_specs"],
    "_dynamo": ["_functions", "_torch.*"],
    "backward_capture": ["_core"],
    "fx": ["_core"],
    "_display": ["_cache_stats", "fx"],
    "xla": ["_modules"],
    ROOT: ["_display", "_files", "_functions", "_host.numbers.draws", "_host.numbers.item", "_torch.*", "_torch.check", "backward_capture", "xla"],
    "_command": [ROOT, "_torch.check"],
}


class Fault(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Import(NamedTuple):
    line: int
    module: str


def name_of(path: str) -> str:
    """Returns the name of a module in the table, given its path below the package: "_host.watch", "_host" for a package's own file."""
    name = path.removesuffix(".py").replace("/", ".")
    return name if name == ROOT else name.removesuffix(f".{ROOT}")


def row_of(module: str, layers: dict) -> str | None:
    """Returns the row of the table that is for a module."""
    shared = f"{module.rpartition('.')[0]}.*"
    return module if module in layers else shared if shared in layers else None


def reachable(row: str, layers: dict) -> set[str]:
    """Returns the row with every row that it may import."""
    found = {row}
    for below in layers[row]:
        found |= reachable(below, layers)
    return found


def _named(name: str, known: set[str]) -> str:
    """Returns the module that a name below the package means: the longest part of it that is one."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or ROOT


def _names(node: ast.AST, package: str) -> Iterator[str]:
    """Yields the names that a statement or a call imports, below the package. `package`: that of the module, with a dot between parts."""
    if isinstance(node, ast.Import):
        yield from (f"{alias.name}." for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = [PACKAGE, *filter(None, package.split("."))]
        origin = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module
        yield from (f"{origin}.{alias.name}." for alias in node.names)
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("import_module", "__import__"):
        yield from (f"{argument.value}." for argument in node.args[:1] if isinstance(argument, ast.Constant))


def imports(path: str, source: str, known: set[str]) -> list[Import]:
    """Returns what a module imports of the package: at its beginning, in functions and where only types are checked."""
    package = path.rpartition("/")[0].replace("/", ".")
    names = [(node.lineno, name) for node in ast.walk(ast.parse(source)) for name in _names(node, package)]
    below = [(line, name.removeprefix(f"{PACKAGE}.").rstrip(".")) for line, name in names if name.startswith(f"{PACKAGE}.")]
    return sorted({Import(line, _named(name, known)) for line, name in below})


def check_module(path: str, found: list[Import], layers: dict) -> list[Fault]:
    """Checks what one module imports, named by its path below the package."""
    module = name_of(path)
    row = row_of(module, layers)
    if row is None:
        return [Fault(path, 1, f"module '{module}' is not in the table of tools/check_python_layers.py; add it, and python/README.md")]
    allowed, faults = reachable(row, layers), []
    for line, other in found:
        if row_of(other, layers) not in allowed:
            words = ", ".join(sorted(allowed - {row})) or "none"
            faults.append(Fault(path, line, f"'{module}' may not import '{other}' (it may import: {words}); move the code, or pass the fact in"))
    return faults


def check_circles(arrows: dict[str, list[Import]]) -> list[Fault]:
    """Finds a circle of imports. `arrows`: path -> what the module imports."""
    try:
        graphlib.TopologicalSorter({name_of(path): {other for _, other in found} for path, found in arrows.items()}).prepare()
    except graphlib.CycleError as error:
        path = next(path for path in arrows if name_of(path) == error.args[1][-1])
        return [Fault(path, 1, f"imports lead in a circle: {' -> '.join(reversed(error.args[1]))}; give what they share a module of its own")]
    return []


def check_table(modules: set[str], layers: dict) -> list[Fault]:
    """Checks that the table has no circle of its own, and no row that is for nothing."""
    rows = {row_of(module, layers) for module in modules}
    tool = "tools/check_python_layers.py"
    faults = [Fault(tool, 1, f"the row '{row}' is for no module; drop it") for row in layers if row not in rows]
    unknown = sorted({below for row in layers.values() for below in row} - layers.keys())
    faults += [Fault(tool, 1, f"'{below}' may be imported, and has no row") for below in unknown]
    try:
        graphlib.TopologicalSorter(layers).prepare()
    except graphlib.CycleError as error:
        faults.append(Fault(tool, 1, f"the table has a circle: {' -> '.join(error.args[1])}"))
    return faults


def check_sources(sources: dict[str, str], layers: dict = LAYERS) -> list[Fault]:
    """Checks modules, given as path below the package -> source."""
    known = {name_of(path) for path in sources} | set(MADE)
    if faults := check_table(known, layers):
        return faults
    arrows = {path: imports(path, source, known) for path, source in sources.items()}
    faults = [fault for path, found in arrows.items() for fault in check_module(path, found, layers)]
    return faults + check_circles(arrows)


def check_bindings(path: str, source: str, known: set[str]) -> list[Fault]:
    """Checks that the modules that a file of C++ imports are there."""
    faults = []
    for match in re.finditer(rf'\bimport\(\s*"{PACKAGE}\.([\w.]+)"', source):
        if match.group(1) not in known:
            faults.append(Fault(path, source.count("\n", 0, match.start()) + 1, f"imports '{PACKAGE}.{match.group(1)}', which is no module of the package"))
    return faults


def main() -> int:
    root = Path(__file__).resolve().parent.parent / "python"
    sources = {file.relative_to(root / PACKAGE).as_posix(): file.read_text() for file in sorted((root / PACKAGE).rglob("*.py"))}
    known = {name_of(path) for path in sources} | set(MADE)
    faults = [f"python/{PACKAGE}/{fault}" if fault.file in sources else str(fault) for fault in check_sources(sources)]
    for file in sorted(file for suffix in ("*.h", "*.cpp") for file in (root / "src").rglob(suffix)):
        faults += map(str, check_bindings(file.relative_to(root.parent).as_posix(), file.read_text(), known))
    for fault in faults:
        print(fault)
    if not sources:
        print(f"python layers: found no modules under {root / PACKAGE}")
        return 1
    print(f"python layers: {len(sources)} modules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
