"""_core.pyi beside the module that it describes: names, parameters, and types where pybind11 knows them."""
import ast
import importlib.resources
import re
import types

import diptych
import pytest
from diptych import _core

STUB = ast.parse(importlib.resources.files(diptych).joinpath("_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
PUBLIC = sorted(name for name in CLASSES if not name.startswith("_"))


def members(name):
    """The functions of a class of the stub, with those of its bases."""
    inherited = {}
    for base in CLASSES[name].bases:
        if base.id in CLASSES:
            inherited |= members(base.id)
    return inherited | {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}


def stub_parameters(node):
    """(name, whether it has a default, type) of each parameter, "*" where keywords begin."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    found = [(argument.arg, index >= missing, argument.annotation) for index, argument in enumerate(positional)]
    if arguments.vararg:
        found.append(("*args", False, None))
    elif arguments.kwonlyargs:
        found.append(("*", False, None))
    found += [(a.arg, default is not None, a.annotation) for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append(("**kwargs", False, None))
    return [(name, default, ast.unparse(type) if type else "") for name, default, type in found if name != "self"]


def split(text):
    """Splits at the commas that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def signature_of(doc):
    """What pybind11 wrote into a docstring: parameters as stub_parameters() has them, and the type that is returned."""
    inside, returned = re.match(r"\w*\((.*)\) -> (.*)", doc).groups()
    parameters = []
    for part in split(inside):
        name, _, rest = part.partition(":")
        type, equals, _ = rest.partition(" = ")
        if name not in ("self", "/"):
            parameters.append((name, bool(equals), type.strip()))
    return parameters, returned


def same_type(ours, theirs):
    """Whether pybind11 says the same, or knows less: any object, or a class that was bound later."""
    for long, short in (
        ("typing.SupportsInt | typing.SupportsIndex", "int"), ("typing.SupportsFloat | typing.SupportsIndex", "float"),
        ("collections.abc.", ""), ("typing.", ""), ("torch.Tensor", "Tensor"), ("diptych._core.", ""), ("at::Tensor", "Tensor"),
    ):
        theirs = theirs.replace(long, short)
    knows_less = re.search(r"\b(object|Any|Callable|handle|tuple|Iterable)\b|::", theirs) or "_Result" in ours
    return bool(knows_less) or ours == theirs or ours.replace(" | None", "") == theirs


def compare(where, node, doc):
    parameters, returned = signature_of(doc)
    ours = stub_parameters(node)
    assert [p[:2] for p in ours] == [p[:2] for p in parameters], f"{where} takes other parameters than _core.pyi says"
    for mine, theirs in zip(ours, parameters):
        assert where.endswith("__eq__") or same_type(mine[2], theirs[2]), f"{where}: {mine[0]} is {theirs[2]}, _core.pyi says {mine[2]}"
    assert same_type(ast.unparse(node.returns), returned), f"{where} returns {returned}, _core.pyi says {ast.unparse(node.returns)}"


def test_the_stub_names_what_the_module_has():
    names = [name for name in vars(_core) if not name.startswith("__")]
    assert sorted(names) == sorted([*PUBLIC, *FUNCTIONS])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name):
    compare(name, FUNCTIONS[name], getattr(_core, name).__doc__)


@pytest.mark.parametrize("name", PUBLIC)
def test_classes(name):
    own = {key: value for key, value in vars(getattr(_core, name)).items() if value is not None and key != "_pybind11_conduit_v1_"}
    if own.get("__init__") is not None and not re.match(r"__init__\(", own["__init__"].__doc__ or ""):
        del own["__init__"]  # pybind11's own, of a class that Python can't make
    described = members(name)
    kept = {"__init__", "__call__", "__eq__", "__hash__", "__repr__", "__str__", "__enter__", "__exit__", "_repr_html_"}
    assert {key for key in own if not key.startswith("_") or key in kept} == set(described)
    for key, node in described.items():
        is_property = any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in node.decorator_list)
        assert is_property == isinstance(own[key], property), key
        doc = own[key].fget.__doc__ if is_property else own[key].__doc__
        if doc and re.match(r"\w*\(self: ", doc):  # what diptych._display attaches is written in Python
            compare(f"{name}.{key}", node, doc.splitlines()[0])


@pytest.mark.parametrize("name", diptych.__all__)
def test_everything_public_has_a_docstring(name):
    found = getattr(diptych, name)
    if not isinstance(found, types.ModuleType | str):
        assert found.__doc__, name
    if isinstance(found, type):
        bare = [key for key, value in vars(found).items() if not key.startswith("_") and not re.sub(r"^\w+\(.*\) -> .*\n*", "", value.__doc__ or "")]
        assert not bare, f"{name}: {bare}"
