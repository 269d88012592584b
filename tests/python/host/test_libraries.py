"""What an installed library keeps of the tensors that it makes: a trace leaves none of its own there, eager finds the library in order
afterwards, and what it keeps once costs one run of the function itself."""
import ctypes
import importlib.util
import json
import operator
import sys

import diptych
import pytest
import torch

SOURCE = """
import collections
import functools
import threading

import torch

TABLE, PAIRS, ROWS, LATEST, NAMES = {}, {}, [], collections.deque(maxlen=2), {}
LAST = None
SEEN = 0


def table(n):
    if n not in TABLE:
        TABLE[n] = torch.arange(float(n))
    return TABLE[n]


def pairs(n):
    if n not in PAIRS:
        PAIRS[n] = {"angles": (torch.arange(float(n)).sin(), [torch.ones(n)])}
    return PAIRS[n]["angles"][0] + PAIRS[n]["angles"][1][0]


def rows(n):
    while len(ROWS) < n:
        ROWS.append(torch.full((n,), float(len(ROWS))))
    return ROWS[n - 1]


def last(n):
    global LAST
    if LAST is None or len(LAST) != n:
        LAST = torch.arange(float(n))
    return LAST


def keys(n):
    if not NAMES:
        NAMES[torch.arange(float(n))] = "made"
    return next(iter(NAMES))


def latest(x):
    LATEST.append(x * 2)
    return sum(LATEST)


def counted(x):
    global SEEN
    SEEN += 1
    return x * 2


@functools.lru_cache
def cached(n):
    return torch.arange(float(n))


def default(n, held=[]):
    if not held:
        held.append(torch.arange(float(n)))
    return held[0]


def _with_memory():
    made = None

    def get(n):
        nonlocal made
        if made is None or len(made) != n:
            made = torch.arange(float(n))
        return made

    return get


def _remembers(function):
    memo = {}

    @functools.wraps(function)
    def get(n):
        if n not in memo:
            memo[n] = function(n)
        return memo[n]

    return get


def _behind(function):
    cached = functools.lru_cache(maxsize=1)(function)

    @functools.wraps(function)
    def get(*arguments):
        return cached(*arguments)

    return get


class Rows:
    of = staticmethod(_behind(lambda n: torch.arange(float(n))))

    @_behind
    def each(self, n):
        return torch.arange(float(n))


behind = _behind(lambda n: torch.arange(float(n)))
MADE = Rows()
closure = _with_memory()
wrapped = _remembers(lambda n: torch.arange(float(n)))


class Layer(torch.nn.Module):
    scale = None
    sizes = {}

    def forward(self, x):
        if Layer.scale is None:
            Layer.scale = torch.arange(float(x.shape[-1]))
        return x * Layer.scale

    @classmethod
    def of(cls, n):
        if n not in cls.sizes:
            cls.sizes[n] = torch.arange(float(n))
        return cls.sizes[n]


class Derived(Layer):
    pass


class Store:
    __slots__ = ("parameters", "local")

    def __init__(self):
        self.parameters, self.local = {}, threading.local()

    def parameter(self, n):
        if n not in self.parameters:
            self.parameters[n] = torch.arange(float(n)).requires_grad_()
        return self.parameters[n]

    def of_thread(self, n):
        if not hasattr(self.local, "made"):
            self.local.made = torch.arange(float(n))
        return self.local.made


STORE = Store()
"""
# Functions of the library and a tensor of [.., 3], and how often they run themselves in six calls, of three kinds.
ONCE = {
    "a dict": lambda lib, x: x * lib.table(x.shape[-1]),
    "deep in a dict": lambda lib, x: x * lib.pairs(x.shape[-1]),
    "a list": lambda lib, x: x * lib.rows(x.shape[-1]),
    "a global": lambda lib, x: x * lib.last(x.shape[-1]),
    "a key": lambda lib, x: x * lib.keys(x.shape[-1]),
    "a cache of functools": lambda lib, x: x * lib.cached(x.shape[-1]),
    "a cache in a closure": lambda lib, x: x * lib.behind(x.shape[-1]),
    "a cache of a class": lambda lib, x: x * lib.Rows.of(x.shape[-1]),
    "a cache of a method": lambda lib, x: x * lib.MADE.each(x.shape[-1]),
    "a default argument": lambda lib, x: x * lib.default(3),
    "a closure": lambda lib, x: x * lib.closure(x.shape[-1]),
    "a decorator": lambda lib, x: x * lib.wrapped(x.shape[-1]),
    "an attribute of a class": lambda lib, x: lib.Layer()(x),
    "a class above": lambda lib, x: lib.Derived()(x) + lib.Derived.of(3),
    "a slot of an object": lambda lib, x: x * lib.STORE.parameter(x.shape[-1]),
    "what belongs to a thread": lambda lib, x: x * lib.STORE.of_thread(3),
    "a dict that the user fills": lambda lib, x: x * lib.TABLE.setdefault("mine", torch.arange(3.0)),
    "an attribute that the user sets": lambda lib, x: (lib.TABLE or setattr(lib, "LAST", x * 2) or lib.TABLE.update(done=True), x * 2)[1],
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Makes the library anew, as if it were installed."""
    place = tmp_path / "site-packages" / "kept_by_library.py"
    place.parent.mkdir()
    place.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("kept_by_library", place)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "kept_by_library", module)
        spec.loader.exec_module(module)
        return module

    return load


def _calls(call, lib):
    found = []
    for sizes in ((3,), (3,), (2, 3), (2, 3), (1, 2, 3), (3,)):
        x = torch.linspace(1, 2, 3).expand(sizes).clone().requires_grad_()
        y = call(lib, x)
        y.sum().backward()
        found.append((y.detach(), x.grad))
    return found


@pytest.mark.parametrize("name", ONCE)
def test_it_is_filled_as_in_eager(name, library):
    function, lib, other = ONCE[name], library(), library()
    compiled = diptych.aot_function(lambda x: function(lib, x))
    torch.testing.assert_close(_calls(lambda lib, x: compiled(x), lib), _calls(function, other), rtol=0, atol=0)
    torch.testing.assert_close(function(lib, torch.ones(3)) * 1, function(other, torch.ones(3)) * 1)  # in eager
    assert compiled.stats().originals == 1 and compiled.stats().hits >= 2, compiled.stats().last_original
    gradients = [value.grad for value in lib.STORE.parameters.values()]
    torch.testing.assert_close(gradients, [value.grad for value in other.STORE.parameters.values()])


@pytest.mark.parametrize("held", ("behind", "Rows.of", "MADE.each", "closure", "wrapped", "default", "cached"))
def test_a_function_of_it_that_the_user_holds(held, library):
    find = operator.attrgetter(held)
    function, other = find(library()), find(library())
    compiled = diptych.aot_function(lambda x: x * function(3))
    torch.testing.assert_close(_calls(lambda _, x: compiled(x), None), _calls(lambda _, x: x * other(3), None), rtol=0, atol=0)
    torch.testing.assert_close(function(3) * 1, other(3) * 1)  # in eager
    assert compiled.stats().originals == 1 and compiled.stats().hits >= 2, compiled.stats().last_original


def test_what_is_kept_at_each_call(library):
    lib, other = library(), library()
    compiled = diptych.aot_function(lambda x: lib.latest(x))
    for step in range(20):
        x = torch.full((2,), float(step))
        torch.testing.assert_close(compiled(x), other.latest(x))
    torch.testing.assert_close(list(lib.LATEST), list(other.LATEST))
    assert compiled.stats().originals == 20 and "leaves a tensor in 'kept_by_library.LATEST'" in compiled.stats().last_original


def test_its_other_affairs_cost_no_graph(library):
    lib = library()
    compiled = diptych.aot_function(lambda x: lib.counted(x))
    for _ in range(3):
        compiled(torch.ones(2))
    assert compiled.stats().hits == 2 and compiled.stats().originals == 0 and lib.SEEN == 1


@pytest.mark.filterwarnings("ignore:.*runs uncompiled")
@pytest.mark.parametrize("fallback", (False, True))
def test_a_refusal_and_an_exception_leave_nothing(fallback, library):
    def refused(x):
        return lib.table(3) * x.data_ptr()

    def raises(x):
        raise KeyError(lib.table(3).shape)

    lib = library()
    for function, error in ((refused, diptych.UserError), (raises, KeyError)):
        compiled = diptych.aot_function(function, eager_fallback=fallback)
        if error is diptych.UserError and fallback:
            compiled(torch.ones(3))
        else:
            with pytest.raises(error):
                compiled(torch.ones(3))
        torch.testing.assert_close(lib.table(3) * 1, torch.arange(3.0))
        lib.TABLE.clear()


def test_a_pair_leaves_nothing(library):
    lib = library()
    diptych.capture(lambda x: x * lib.table(3), torch.ones(3))
    assert not lib.TABLE


def _by_an_extension(x):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x * 2))


STRAYS = {
    "torch.nn.functional.left": lambda x: setattr(torch.nn.functional, "left", x * 2),
    "torch.nn.modules.linear.Linear": lambda x: setattr(torch.nn.Linear, "left", [x * 2]),
    "json.left": lambda x: vars(json).setdefault("left", []).append({"deep": x * 2}),
    "something that Python's garbage collector does not see": _by_an_extension,
}


@pytest.mark.parametrize("owner", STRAYS)
def test_what_nobody_watches_is_refused_by_name(owner):
    compiled = diptych.aot_function(lambda x: (STRAYS[owner](x), x * 3)[1])
    with pytest.raises(diptych.UserError, match=f"leaves a tensor of its trace in {owner}"):
        compiled(torch.ones(2))
    assert not (hasattr(torch.nn.functional, "left") or hasattr(torch.nn.Linear, "left") and torch.nn.Linear.left)
    for module, name in ((torch.nn.Linear, "left"), (json, "left")):
        if hasattr(module, name):
            delattr(module, name)


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x * 2
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.kept


def _cycle(x):
    made = {"y": x * 2}
    made["made"] = made
    return made["y"]


def _hook(x):
    y, z = x * 2, x.sin()
    y.register_hook(lambda gradient: gradient * z)
    return y * z


@pytest.mark.parametrize("function", (Kept.apply, _cycle, _hook))
def test_garbage_and_what_a_backward_keeps_cost_no_graph(function):
    compiled = diptych.aot_function(lambda x: function(x))
    found = []
    for call in (compiled, compiled, function):
        x = torch.ones(2, requires_grad=True)
        call(x).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(found[:2], found[2:] * 2)
    assert compiled.stats().originals == 0 and compiled.stats().hits == 1
