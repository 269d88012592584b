"""Operators of libraries that return numbers, inside of captured functions."""
import diptych
import pytest
import torch
from torch import library

RUNS = []


@library.custom_op("diptych_numbers::count", mutates_args=())
def count(x: torch.Tensor) -> int:
    return int((x > 0).sum())


@count.register_fake
def _(x):
    return library.get_ctx().new_dynamic_size()


@library.custom_op("diptych_numbers::largest", mutates_args=())
def largest(x: torch.Tensor) -> float:
    return float(x.abs().max())


@library.custom_op("diptych_numbers::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: torch.Tensor | None = None) -> tuple[torch.Tensor, int, bool]:
    return (x.sin() if by is None else x * by), int(x.sum() * 10), bool(x[0] > 0)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


scaled.register_autograd(lambda ctx, g, *_: (g * ctx.saved_tensors[0].cos(), None), setup_context=_setup)


@library.custom_op("diptych_numbers::bump_", mutates_args={"x"})
def bump_(x: torch.Tensor) -> float:
    x.add_(1)
    return float(x.max())


@library.custom_op("diptych_numbers::marked", mutates_args=())
def marked(x: torch.Tensor) -> int:
    return int(x[0])


@marked.register_fake
def _(x):
    return 0


@library.custom_op("diptych_numbers::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> float:
    return float(x.sum() + torch.rand(()))


@library.custom_op("diptych_numbers::says_that_it_draws", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def says_that_it_draws(x: torch.Tensor) -> float:
    return float(x.sum() + torch.rand(()))


def many(x, y, zs):
    n = int(x[0])
    scalar, text = (float(x[1]) if n > 0 else n), "ab" * max(n, 0)
    return [n, 2], x.tolist(), [v > 0 for v in x.tolist()], scalar, (None if n > 1 else n), text, [z * n for z in zs], x + (0 if y is None else y)


LIBRARY = library.Library("diptych_numbers", "FRAGMENT")
LIBRARY.define("many(Tensor x, Tensor? y, Tensor[] zs) -> (int[], float[], bool[], Scalar, int?, str, Tensor[], Tensor)")
LIBRARY.impl("many", many, "CompositeExplicitAutograd")
LIBRARY.define("elements(Tensor x) -> int")
LIBRARY.impl("elements", lambda x: x.numel(), "CompositeExplicitAutograd")
LIBRARY.define("counted(Tensor x) -> (Tensor, int)")
LIBRARY.impl("counted", lambda x: (RUNS.append(None), (x.sin(), int(x.sum())))[1], "CPU")
OPERATORS = torch.ops.diptych_numbers


def uses_many(x):
    integers, floats, truths, scalar, maybe, text, tensors, last = OPERATORS.many(x, None, [x, x * 2])
    return x * sum(integers) + sum(floats) + sum(truths) + scalar + (7 if maybe is None else maybe) + len(text) + sum(tensors) + last


def branches(x):
    first, n, is_positive = scaled(x.exp())
    return first * n if is_positive else first - n


def bumps(x):
    of_argument = bump_(x)
    y = x * of_argument
    return bump_(y) * y


FUNCTIONS = {
    "an integer": lambda x: x * count(x.sin()),
    "a float": lambda x: x * largest(x * 2),
    "beside a tensor": branches,
    "an absent tensor": lambda x: scaled(x, x)[0] * scaled(x)[1],
    "writes": bumps,
    "a fake kernel's mark": lambda x: x * marked(x),
    "by sizes": lambda x: x * OPERATORS.elements(x),
    "lists, texts and what is absent": uses_many,
    "after a draw": lambda x: count(x + torch.rand(3)) * torch.rand(3),
    "steers": lambda x: x.sin() if count(x) > 2 else x.cos(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    function = FUNCTIONS[name]
    compiled = diptych.aot_function(function)
    for values in ([1.0, 2, 3], [1.0, 2, 3], [-1, 2, 3], [2, -5, 1], [0.5, -1, -2], [1, 2, 3]):
        found = []
        for call in (function, compiled):
            torch.manual_seed(1)
            x = torch.tensor(values, dtype=torch.float)
            found.append((call(x), x, torch.get_rng_state()))
        torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    stats = compiled.stats()
    assert stats.originals == 0 and stats.hits >= 1 and stats.hits + stats.misses == 6
    if name != "by sizes":
        assert "diptych_numbers::" in stats.last_miss and "asks for is" in stats.last_miss


def test_gradients_through_the_tensors_beside():
    compiled = diptych.aot_function(branches)
    for values in ([0.1, 0.2, 0.3], [0.4, -0.2, 0.3], [0.1, 0.2, 0.3]):
        found = []
        for call in (branches, compiled):
            x = torch.tensor(values, requires_grad=True)
            y = call(x)
            found.append([y.detach(), *torch.autograd.grad(y.sum(), x)])
        torch.testing.assert_close(found[1], found[0])


def test_for_a_number_alone_it_runs_once_a_call():
    compiled = diptych.aot_function(lambda x: x * OPERATORS.counted(x @ x)[1])
    x = torch.eye(3)
    compiled(x)
    RUNS.clear()
    compiled(x)
    assert len(RUNS) == 1


def test_where_values_are_not_known():
    x = torch.ones(3)
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::largest.*returns a number.*not known here.*cond"):
        diptych.capture(lambda x: x * largest(x), x)
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::count.*returns a number"):
        diptych.aot_function(lambda x: x * count(x), path_limit=0)(x)
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::bump_.*returns a number"):
        diptych.capture(lambda x: bump_(x) * x, x)
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::largest.*returns a number"):
        diptych.aot_function(lambda x: diptych.scan(lambda c, x: (c * largest(c), x), x, x))(x)
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::many.*(has no fake kernel, and its own|returns a number)"):
        diptych.capture(uses_many, x)
    # A number that follows from shapes is known.
    assert "6" in diptych.capture(lambda x: x * OPERATORS.elements(x), torch.ones(6)).forward.code()


@pytest.mark.parametrize("operator", [noisy, says_that_it_draws])
def test_one_that_draws_is_refused(operator):
    with pytest.raises(diptych.UserError, match=r"diptych_numbers::.*draws random numbers, and returns a number.*item\(\)"):
        diptych.aot_function(lambda x: x * operator(x))(torch.ones(3))
    compiled = diptych.aot_function(lambda x: x * operator(x), eager_fallback=True)
    for call in (1, 2):
        torch.manual_seed(call)
        expected = torch.ones(3) * operator(torch.ones(3))
        torch.manual_seed(call)
        assert torch.equal(compiled(torch.ones(3)), expected)


def test_a_form_is_found_by_its_name():
    text = """graph f(%0 x : f32[3])
  %1 : f32[], %2 : f32[3] = in_tensors.on_copies__diptych_numbers__bump_(%0)
  return (%1 number, %2 written)
"""
    graph = diptych.parse(text)
    assert "in_tensors.on_copies__diptych_numbers__bump_(" in graph.code()


#: What operators of the library read besides their arguments.
HOST = {"rate": 1.0}

for _signature in ("rate(float by) -> float", "level(float by) -> Tensor"):
    LIBRARY.define(_signature)
LIBRARY.impl("rate", lambda by: by * HOST["rate"], "CompositeExplicitAutograd")
LIBRARY.impl("level", lambda by: torch.full((3,), by * HOST["rate"]), "CompositeExplicitAutograd")


@pytest.mark.parametrize("name", ["rate", "level"])
def test_without_tensors_it_is_called_each_time(name, monkeypatch):
    operator = getattr(torch.ops.diptych_numbers, name)

    def function(x):
        return x * operator(2.0) + torch.ones(3).sum()

    compiled, x = diptych.aot_function(function), torch.randn(3)
    for rate in (1.0, 0.5, 4.0):
        monkeypatch.setitem(HOST, "rate", rate)
        assert torch.equal(compiled(x), function(x))
