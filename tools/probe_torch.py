#!/usr/bin/env python3
"""Says whether a torch has what Diptych relies on beside its public interface: probe_torch.py [--sources python/diptych].

Run with the Python that has the torch; Diptych need not be built. A line for each fact, `ok` or `MISSING`; the status is 1 if one
is missing. What only a compiler can say (headers, private members of classes) is said by the build, and what only a trace can
say (that compiled autograd names the tensors that nodes save) by the tests.
"""
import argparse
import ast
import ctypes
import importlib
import re
import runpy
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
SYMBOLS = ("Sleef_expf16_u10", "Sleef_expf8_u10", "Sleef_expd8_u10", "Sleef_tanhf8_u10", "GOMP_parallel")


def names_used(source):
    """Yields what a file names of torch: (module, attributes), as in ("torch._higher_order_ops", ["wrap"])."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                yield node.module, [alias.name]
        elif isinstance(node, ast.Attribute):
            chain = []
            while isinstance(node, ast.Attribute):
                chain.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and node.id == "torch":
                yield "torch", chain[::-1]


def is_there(module, attributes):
    found = importlib.import_module(module)
    for attribute in attributes:
        if not hasattr(found, attribute):
            try:
                found = importlib.import_module(f"{found.__name__}.{attribute}")
            except (ImportError, AttributeError):
                return False
        else:
            found = getattr(found, attribute)
    return True


def optional_names(source):
    """Returns the attributes that a file asks for by getattr() or hasattr(): those may be missing."""
    return set(re.findall(r"(?:getattr|hasattr|getattr_static)\([^,()]+, \"(\w+)\"", source))


def python_names(sources):
    """Returns (name, whether it is there) of all that the package names of torch."""
    found = {}
    for path in sorted(sources.rglob("*.py")):
        source = path.read_text()
        optional = optional_names(source)
        for module, attributes in names_used(source):
            if not optional.intersection(attributes):
                found[f"{module}.{'.'.join(attributes)}"] = (module, attributes)
    return [(name, is_there(*parts)) for name, parts in sorted(found.items())]


def has_symbol(name):
    """Whether code that is compiled at run time finds a function in torch's libraries."""
    libraries = [path for path in Path(torch.__file__).parent.joinpath("lib").glob("lib*.so*") if re.match(r"lib(torch_cpu|gomp)", path.name)]
    return any(hasattr(ctypes.CDLL(str(path)), name) for path in (*libraries, "libgomp.so.1") if _loads(path))


def _loads(path):
    try:
        ctypes.CDLL(str(path))
    except OSError:
        return False
    return True


def facts(sources):
    yield from runpy.run_path(str(sources / "_torch" / "keys.py"))["facts"]()
    names = python_names(sources)
    yield f"{len(names)} names of torch that the package uses", all(there for _, there in names)
    yield from ((name, there) for name, there in names if not there)
    for symbol in SYMBOLS:
        yield f"the symbol {symbol}", has_symbol(symbol)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--sources", type=Path, default=ROOT / "python" / "diptych", help="the package that names torch")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    missing = 0
    for fact, holds in facts(options.sources):
        print(f"{'ok' if holds else 'MISSING':8}{fact}")
        missing += not holds
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
