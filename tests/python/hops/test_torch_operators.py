"""torch's own higher-order operators inside captured functions, which are Diptych's there."""
import collections

import diptych
import pytest
import torch
from beside_eager import Cases, loop
from diptych._dynamo import backend
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree

HELD = torch.full((3,), 0.7, requires_grad=True)
LAYER = nn.Linear(3, 3)
Pair = collections.namedtuple("Pair", "left right")
CASES = Cases()  # functions of xs [5, 3] and w [3]


@CASES
def cond_of_a_tensor(xs, w):
    return torch.cond(xs.sum() > 0, lambda x, w: (x * w).sin(), lambda x, w: x.cos() + w, (xs, w))


@CASES
def cond_in_a_loop(xs, w):
    for x in xs:
        w = torch.cond(x.sum() > 0, lambda x, w: x * w.tanh(), lambda x, w: w - x, (x, w))
    return w


@CASES
def cond_of_closures_and_modules(xs, w):
    return torch.cond((xs.sum() > 0).reshape(1), lambda x: LAYER(x) * HELD, lambda x: x * w, (xs,))


@CASES
def cond_of_trees(xs, w):
    return torch.cond(xs.sum() > 0, lambda d, p: {"y": d["x"] * p[0], "z": [p[1].sin()]}, lambda d, p: {"y": d["x"] + p[0], "z": [p[1].cos()]}, ({"x": xs}, (w, w * 2)))


@CASES
def cond_of_a_truth_of_the_host(xs, w):
    return torch.cond(xs.shape[0] > 3, lambda x: x * w, lambda x: x, (xs,))


@CASES
def cond_without_operands(xs, w):
    return torch.cond(xs.mean() > 0, lambda: xs * w, lambda: xs - w)


@CASES
def cond_of_a_branch_that_ignores(xs, w):
    return torch.cond(xs.sum() > 100, lambda x, w: x * w, lambda x, w: x.sin(), (xs, w))


@CASES
def cond_inside_cond(xs, w):
    def inner(x, w):
        return torch.cond(x.mean() > 0, lambda x, w: x * w, lambda x, w: x - w, (x, w))

    return torch.cond(w.sum() > 0, inner, lambda x, w: x.exp() * w, (xs, w))


@CASES
def scan_with_a_closure(xs, w):
    return scan(lambda carry, x: (carry * w + x, carry.sin()), w, xs)


def _scan_of_trees(xs, w, **options):
    def step(carry, x):
        h = torch.tanh(carry["h"] * x["a"] + carry["c"][0])
        return {"h": h, "c": [carry["c"][0] * w]}, (h * x["b"], [h.sum()])

    return scan(step, {"h": w * 2, "c": [w * 3]}, {"a": xs, "b": xs.cos()}, **options)


@CASES
def scan_of_trees(xs, w):
    return _scan_of_trees(xs, w)


@CASES
def scan_of_trees_reversed(xs, w):
    return _scan_of_trees(xs, w, reverse=True)


@CASES
def scan_along_another_dimension(xs, w):
    return scan(lambda carry, x: (carry + x.sum(), torch.outer(x, w)), w, xs, dim=1)


@CASES
def scan_along_another_dimension_reversed(xs, w):
    return scan(lambda carry, x: (carry * 0.9 + x.mean(), x * carry.sum()), w, xs.t(), dim=-1, reverse=True)


@CASES
def scan_of_modules(xs, w):
    return scan(lambda carry, x: (LAYER(carry) + x, carry * HELD), w.tanh(), xs)


@CASES
def scan_without_slices(xs, w):
    return scan(lambda carry, x: (carry, carry), w * 2, [])


@CASES
def while_of_a_counter(xs, w):
    return while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * w + 1), (torch.tensor(0), xs * 2))


@CASES
def while_of_trees(xs, w):
    return while_loop(lambda i, d: i < 4, lambda i, d: (i + 1, {"x": d["x"] * w, "y": [d["y"][0] + d["x"].sum()]}), (torch.tensor(0), {"x": xs * 1, "y": [w * 1]}))


@CASES
def map_of_one(xs, w):
    return mapped(lambda x: x.sin() * 2, xs)


@CASES
def map_of_trees_with_operands(xs, w):
    return mapped(lambda x, w, n: {"y": x["a"] * w, "z": (x["b"] @ w,)}, {"a": xs, "b": xs.cos()}, w, w * 2)


@CASES
def map_of_a_map(xs, w):
    return mapped(lambda x: mapped(lambda e: e * w.sum(), x), xs)


@CASES
def associative_scan_of_products(xs, w):
    return associative_scan(lambda a, b: a * b, xs, 0, combine_mode="generic")


@CASES
def associative_scan_of_affine_maps(xs, w):
    def compose(a, b):
        return {"m": a["m"] * b["m"], "c": a["c"] * b["m"] + b["c"]}

    return associative_scan(compose, {"m": xs.sin(), "c": xs * w}, 0, combine_mode="generic")


@CASES
def associative_scan_along_another_dimension_reversed(xs, w):
    return associative_scan(lambda a, b: a + b, xs * w, 1, reverse=True, combine_mode="generic")


@CASES
def scan_of_cond_and_map(xs, w):
    def step(carry, x):
        carry = torch.cond(x.sum() > 0, lambda c, x: c * w, lambda c, x: c + x, (carry, x))
        return carry, mapped(lambda e: e * 2 + carry.sum(), x)

    return scan(step, w * 1, xs)


SEEDS = (0, 3)  # the sums of xs and of w are below zero, and above it: conds take both branches


def results_and_gradients(function, seed):
    torch.manual_seed(seed)
    xs, w = torch.randn(5, 3).requires_grad_(), torch.randn(3).requires_grad_()
    leaves = (xs, w, HELD, *LAYER.parameters())
    for leaf in leaves:
        leaf.grad = None
    y = function(xs, w)
    results = [leaf for leaf in _pytree.tree_leaves(y) if isinstance(leaf, torch.Tensor)]
    losses = [leaf.square().sum() for leaf in results if leaf.requires_grad]
    sum(losses).backward()
    return y, [leaf.requires_grad for leaf in results], [leaf.grad for leaf in leaves]


def same(got, expected):
    (a, needs_a, gradients_a), (b, needs_b, gradients_b) = got, expected
    assert _pytree.tree_structure(a) == _pytree.tree_structure(b)
    assert needs_a == needs_b
    torch.testing.assert_close(a, b)
    torch.testing.assert_close(*([0.0 if one is None else one for one in gradients] for gradients in (gradients_a, gradients_b)))


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_torch(name):
    compiled = diptych.aot_function(CASES[name])
    for seed in SEEDS:
        expected = results_and_gradients(CASES[name], seed)
        same(results_and_gradients(compiled, seed), expected)
    stats = compiled.stats()
    assert (stats.misses, stats.hits, stats.originals) == (1, 1, 0), (stats.last_miss, stats.last_original)


@pytest.mark.parametrize("name", ("cond_of_a_tensor", "cond_of_closures_and_modules", "scan_with_a_closure", "scan_of_trees_reversed", "while_of_trees", "map_of_trees_with_operands"))
def test_graphs_of_dynamo_hold_them(name):
    compiled = torch.compile(CASES[name], backend=backend, fullgraph=True, options={"eager_fallback": False})
    for seed in SEEDS:
        expected = results_and_gradients(CASES[name], seed)
        same(results_and_gradients(compiled, seed), expected)


def test_they_are_nodes_of_the_graph():
    xs, w = torch.ones(4, 3), torch.ones(3)
    for name, node in ("cond_of_a_tensor", "hop.cond"), ("scan_with_a_closure", "hop.scan"), ("while_of_a_counter", "hop.while_loop"):
        assert node in str(diptych.capture(CASES[name], xs, w).forward), name


BESIDE_LOOPS = {
    "scan": (lambda xs, w: scan(lambda c, x: (c * w + x.sin(), c * x), w, xs)[1], lambda xs, w: loop(lambda c, x: (c * w + x.sin(), c * x), w, xs)[1]),
    "cond": (lambda xs, w: torch.cond(xs.sum() > 1e3, lambda: xs * w, lambda: (xs * w).exp()), lambda xs, w: (xs * w).exp()),
    "while": (lambda xs, w: while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * w), (torch.tensor(0), xs))[1], lambda xs, w: xs * w * w * w),
    "while without a trip": (lambda xs, w: while_loop(lambda c: c.sum() > 1e6, lambda c: (c * w,), (xs * w,))[0], lambda xs, w: xs * w),
    "while of numbers": (lambda xs, w: while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * w), (0, xs))[1], lambda xs, w: xs * w * w * w),
    "map": (lambda xs, w: mapped(lambda x: x * w.exp(), xs), lambda xs, w: xs * w.exp()),
    "associative_scan": (lambda xs, w: associative_scan(lambda a, b: a * b, xs * w, 0, combine_mode="generic"), lambda xs, w: (xs * w).cumprod(0)),
    "the operator of pointwise functions": (lambda xs, w: associative_scan_op(lambda a, b: (a * b,), [xs * w], ())[0], lambda xs, w: (xs * w).cumprod(0)),
    "named tuples": (
        lambda xs, w: scan(lambda c, x: (Pair(c.left + x, c.right * w), c.left * c.right), Pair(w * 1, w * 2), xs)[1],
        lambda xs, w: loop(lambda c, x: (Pair(c.left + x, c.right * w), c.left * c.right), Pair(w * 1, w * 2), xs)[1],
    ),
    "a subgraph": (lambda xs, w: invoke_subgraph(lambda x, w: (x * w.sin(),), "name", xs, w)[0], lambda xs, w: xs * w.sin()),
    "in a checkpoint": (
        lambda xs, w: torch.utils.checkpoint.checkpoint(lambda xs: mapped(lambda x: x.sin() * w, xs), xs, use_reentrant=False),
        lambda xs, w: xs.sin() * w,
    ),
}


@pytest.mark.parametrize("name", BESIDE_LOOPS)
def test_to_second_order_they_are_what_is_written_out(name):
    function, expected = BESIDE_LOOPS[name]
    found = []
    for call in (diptych.aot_function(function), expected):
        torch.manual_seed(0)
        leaves = torch.randn(5, 3, dtype=torch.double).requires_grad_(), torch.randn(3, dtype=torch.double).requires_grad_()
        y = call(*leaves)
        first = torch.autograd.grad(y.sin().sum(), leaves, create_graph=True)
        found.append((y, first, torch.autograd.grad(sum(one.square().sum() for one in first), leaves)))
    torch.testing.assert_close(found[0], found[1])


def test_dynamic_sizes():
    compiled = diptych.aot_function(lambda xs, w: CASES["scan_with_a_closure"](xs, w)[1] / xs.shape[0], dynamic=True)
    w = torch.randn(3)
    for length in (4, 5, 6, 9):
        xs = torch.randn(length, 3)
        torch.testing.assert_close(compiled(xs, w), loop(lambda carry, x: (carry * w + x, carry.sin()), w, xs)[1] / length)
    assert compiled.stats().misses == 2


def test_what_has_no_meaning_is_refused():
    x = torch.ones(4, 3)
    with pytest.raises(diptych.UserError, match=r"\[scan\].*carry"):
        diptych.aot_function(lambda x: scan(lambda c, y: (c.double(), y), x[0], x))(x)
    with pytest.raises(RuntimeError, match="callable"):
        diptych.aot_function(lambda x: torch.cond(x.sum() > 0, 1, 2, (x,)))(x)
