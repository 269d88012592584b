"""torch.utils.checkpoint inside captured functions: a region that is computed again, and draws once."""
import functools
import itertools
import time

import diptych
import pytest
import torch
import torch.utils.checkpoint as module
from as_near import assert_as_true, shaken, to_wide
from torch import nn
from torch.nn import functional
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

HELD = torch.full((3,), 0.7, requires_grad=True)
LAYER = nn.Linear(3, 3)
NEXT = {False: functools.partial(checkpoint, use_reentrant=False), True: functools.partial(checkpoint, use_reentrant=True)}

# Functions of (x, w) on [4, 3] and [3].
BODIES = {
    "pointwise": lambda x, w: (x * w).sin().exp(),
    "dropout": lambda x, w: functional.dropout((x * w).sin(), 0.5).exp(),
    "draws": lambda x, w: torch.rand(4, 3) * x + torch.randn(3) * w,
    "module and closure": lambda x, w: torch.tanh(LAYER(x) * w + HELD),
    "tuple": lambda x, w: (x.sin(), x @ w, 3, None),
    "integers": lambda x, w: (x * w, x.argmax(-1)),
    "attention": lambda x, w: functional.scaled_dot_product_attention(x[None, None], x[None, None], (x * w)[None, None], dropout_p=0.2),
    "argument returned": lambda x, w: (x, x * w),
}


def result_of(call, seed=0, convert=lambda x: x):
    """Two calls of one seed: results, whether they require grad, gradients, and what the generator draws next."""
    found = []
    torch.manual_seed(seed)
    for _ in range(2):
        x, w = (convert(torch.randn(sizes)).requires_grad_() for sizes in ((4, 3), (3,)))
        for leaf in (HELD, *LAYER.parameters()):
            leaf.grad = None
        y = call(x, w)
        results = [leaf for leaf in _pytree.tree_leaves(y) if isinstance(leaf, torch.Tensor)]
        draw = torch.rand(2)
        sum(leaf.square().sum() for leaf in results if leaf.requires_grad).backward()
        found += [y, [leaf.requires_grad for leaf in results], draw, [leaf.grad for leaf in (x, w, HELD, *LAYER.parameters())]]
    return found


def as_in_eager(function):
    compiled = diptych.aot_function(function)
    torch.testing.assert_close(result_of(compiled), result_of(function))
    stats = compiled.stats()
    assert (stats.misses, stats.hits, stats.originals) == (1, 1, 0), (stats.last_miss, stats.last_original)
    return compiled


def regions(compiled):
    return str(compiled.forward_graphs()[0]).count("region checkpoint")


@pytest.mark.parametrize("reentrant", (False, True))
@pytest.mark.parametrize("name", BODIES)
def test_results_gradients_and_draws_are_those_of_eager(name, reentrant):
    compiled = as_in_eager(lambda x, w: checkpoint(BODIES[name], x * 1, w, use_reentrant=reentrant))
    assert regions(compiled)


@pytest.mark.parametrize("outer, inner", list(itertools.product((False, True), repeat=2)))
def test_checkpoints_nest(outer, inner):
    def block(x, w):
        return functional.dropout(NEXT[inner](BODIES["dropout"], x, w), 0.3) * w

    assert regions(as_in_eager(lambda x, w: NEXT[outer](block, x, w) + x))


@pytest.mark.parametrize("reentrant", (False, True))
@pytest.mark.parametrize("segments", (1, 2, 3))
def test_sequences(reentrant, segments):
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Dropout(0.4), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    as_in_eager(lambda x, w: checkpoint_sequential(layers, segments, x * w, use_reentrant=reentrant))
    as_in_eager(lambda x, w: checkpoint_sequential(list(layers), segments, x * w, use_reentrant=reentrant))


@pytest.mark.parametrize(
    "call",
    (
        lambda f, x, w: module.checkpoint(f, x, w, use_reentrant=False),
        lambda f, x, w: torch.utils.checkpoint.checkpoint(f, x, w, use_reentrant=False, determinism_check="none", debug=False, early_stop=False),
        lambda f, x, w: functools.partial(checkpoint, f, use_reentrant=True, preserve_rng_state=True)(x, w),
        lambda f, x, w: checkpoint(functools.partial(f, w=w), x, use_reentrant=False),
        lambda f, x, w: checkpoint(f, x, w=w, use_reentrant=False),
        lambda f, x, w: checkpoint(lambda held: {"y": f(*held["both"])}, {"both": [x, w]}, use_reentrant=False),
        lambda f, x, w: checkpoint(lambda: f(x, w), use_reentrant=False),
        lambda f, x, w: module.CheckpointFunction.apply(f, True, x, w),
    ),
)
def test_ways_to_call_it(call):
    assert regions(as_in_eager(lambda x, w: call(BODIES["dropout"], x, w)))


def test_a_method_with_an_object_among_its_arguments():
    class Cache:
        def __init__(self):
            self.states = []

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x, cache):
            cache.states.append(self.layer(x))
            return cache.states[-1].tanh(), cache

    block = Block()

    def function(x, w):
        y, cache = checkpoint(block.__call__, x, Cache(), use_reentrant=False)
        return y * w + cache.states[0]

    as_in_eager(function)


def test_the_region_keeps_its_inputs_alone():
    def deep(x):
        for _ in range(5):
            x = x.sin()
        return x

    x = torch.ones(8, requires_grad=True)
    pair = diptych.capture(lambda x: checkpoint(deep, x, use_reentrant=True), x)
    assert [line.split()[:2] for line in pair.explain().splitlines()][1:3] == [["%0", "f32[8]"], ["total", "1"]]


def test_nothing_requires_grad():
    x = torch.randn(4, 3)
    for grad, reentrant in ((False, False), (True, True), (False, True), (True, False)):
        compiled = diptych.aot_function(lambda x: checkpoint(BODIES["dropout"], x, HELD, use_reentrant=reentrant))
        for _ in range(2):
            with torch.set_grad_enabled(grad):
                torch.manual_seed(0)
                expected = checkpoint(BODIES["dropout"], x, HELD, use_reentrant=reentrant)
                torch.manual_seed(0)
                got = compiled(x)
            torch.testing.assert_close(got, expected)
            assert got.requires_grad == expected.requires_grad


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_what_a_reentrant_checkpoint_tracks():
    """Only tensors that are arguments themselves, and results that are; a detached result requires grad all the same."""
    cases = {
        "a list": lambda x, w: checkpoint(lambda held: held[0] * held[1], [x, w], use_reentrant=True) + x,
        "a closure": lambda x, w: checkpoint(lambda: x * w, use_reentrant=True) + x,
        "a list and a tensor": lambda x, w: checkpoint(lambda held, w: held[0] * w, [x], w, use_reentrant=True),
        "a dict returned": lambda x, w: (checkpoint(lambda x, w: {"y": x * w}, x, w, use_reentrant=True), x * 1),
        "detached": lambda x, w: checkpoint(lambda x, w: (x * w, x.detach() * 2), x, w, use_reentrant=True),
        "no_grad inside": lambda x, w: checkpoint(_without_grad, x, w, use_reentrant=True),
    }
    for function in cases.values():
        as_in_eager(function)


def _without_grad(x, w):
    with torch.no_grad():
        y = x * 3
    return x * y * w


def test_second_derivatives():
    def function(x, w):
        return checkpoint(BODIES["dropout"], x, w, use_reentrant=False)

    found = []
    for call in (function, diptych.aot_function(function)):
        torch.manual_seed(1)
        x, w = torch.randn(4, 3, dtype=torch.double).requires_grad_(), torch.randn(3, dtype=torch.double).requires_grad_()
        first = torch.autograd.grad(call(x, w).sum(), (x, w), create_graph=True)
        found.append((first, torch.autograd.grad(sum(one.square().sum() for one in first), (x, w))))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("reentrant", (False, True))
def test_inside_bodies_and_pairs(reentrant):
    def function(x, w):
        return diptych.scan(lambda carry, row: (NEXT[reentrant](BODIES["pointwise"], carry, row), carry * 2), w, x)[1]

    found = []
    for call in (function, diptych.aot_function(function), lambda x, w: _loop(x, w)):
        torch.manual_seed(1)
        x, w = torch.randn(4, 3).requires_grad_(), torch.randn(3).requires_grad_()
        y = call(x, w)
        y.sum().backward()
        found.append((y, x.grad, w.grad))
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[2])


def _loop(x, carry):
    rows = []
    for row in x:
        rows.append(carry * 2)
        carry = BODIES["pointwise"](carry, row)
    return torch.stack(rows)


def test_backwards_inside_the_function():
    def function(x, w):
        y = checkpoint(BODIES["dropout"], x, w, use_reentrant=False)
        return torch.autograd.grad(y.sum(), x, create_graph=True)[0] * w

    as_in_eager(function)


def test_autocast_and_dynamic_sizes():
    def function(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return checkpoint(lambda x: LAYER(x).sin(), x, use_reentrant=False).float() * w

    as_in_eager(function)
    compiled = diptych.aot_function(lambda x: checkpoint(lambda x: LAYER(x).sin() / x.shape[0], x, use_reentrant=False), dynamic=True)
    for rows in (4, 5, 6, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), LAYER(x).sin() / rows)
    assert compiled.stats().misses == 2


@pytest.mark.parametrize("reentrant", (False, True))
def test_models_whose_blocks_are_checkpointed(reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Dropout(0.2), nn.GELU()) for _ in range(3))

        def forward(self, x, w):
            for block in self.blocks:
                x = x + NEXT[reentrant](block, x)
            return x * w

    model = Model()

    def look(call, of=model, convert=lambda x: x):
        of.zero_grad()
        seen = _pytree.tree_leaves([result_of(call, convert=convert), [parameter.grad for parameter in of.parameters()]])
        return [one for one in seen if isinstance(one, torch.Tensor)], [one for one in seen if not isinstance(one, torch.Tensor)]

    def look_at_copy(convert):
        copy = Model()
        for own, parameter in zip(copy.parameters(), model.parameters()):
            own.data = convert(parameter.detach()).clone()
        return look(copy, copy, convert)

    compiled = diptych.aot_module(model, eager_fallback=False)
    neighbours = [look_at_copy(functools.partial(shaken, seed=seed))[0] for seed in range(4)]
    truth = [to_wide(result) for result in look_at_copy(to_wide)[0]]
    (found, plain), (expected, expected_plain) = look(compiled), look(model)
    assert_as_true(found, expected, truth, neighbours)
    assert plain == expected_plain
    assert (compiled.stats().misses, compiled.stats().originals) == (1, 0)


def test_outside_captures_it_is_torchs():
    runs = []

    def body(x):
        runs.append(1)
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    for reentrant in (False, True):
        runs.clear()
        checkpoint(body, x, use_reentrant=reentrant).sum().backward()
        assert len(runs) == 2  # once more in the backward
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(torch.sin, x, use_reentrant=False, determinism_check="other")


def test_what_torch_refuses_it_refuses_in_a_trace_as_well():
    x = torch.ones(3, requires_grad=True)
    for keywords, words in ({"determinism_check": "other"}, "determinism_check"), ({"use_reentrant": True, "other": 1}, "Unexpected keyword"):
        with pytest.raises(ValueError, match=words):
            diptych.aot_function(lambda x: checkpoint(torch.sin, x, **{"use_reentrant": False, **keywords}))(x)


def test_exceptions_of_the_function():
    def raises(x):
        raise KeyError("mine")

    for reentrant in (False, True):
        with pytest.raises(KeyError, match="mine"):
            diptych.aot_function(lambda x: checkpoint(raises, x, use_reentrant=reentrant))(torch.ones(3, requires_grad=True))


def saves_large_products(ctx, op, *args, **kwargs):
    assert not ctx.is_recompute
    return module.CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default and args[0].shape[1] > 2 else module.CheckpointPolicy.PREFER_RECOMPUTE


def saves_small_products(ctx, op, *args, **kwargs):
    return op == torch.ops.aten.mm.default and args[0].shape[1] <= 2


@pytest.mark.parametrize("policy, products", [([torch.ops.aten.mm.default], 4), (saves_large_products, 4), (saves_small_products, 5), (lambda ctx, op, *args, **kwargs: False, 5)])
def test_selective_checkpoints_keep_what_their_policy_says(policy, products):
    """Four products are those of the gradients; the first of the forward is computed again if it is not kept."""

    def block(x, w, v):
        return ((x @ w).sin() @ v).exp()

    def function(x, w, v):
        contexts = functools.partial(module.create_selective_checkpoint_contexts, policy)
        return checkpoint(block, x, w, v, use_reentrant=False, context_fn=contexts).cos()

    leaves = [torch.randn(sizes, requires_grad=True) for sizes in ((4, 3), (3, 2), (2, 5))]
    compiled = diptych.aot_function(function)
    for _ in range(2):
        got, expected = ((y := call(*leaves), torch.autograd.grad(y.sum(), leaves)) for call in (compiled, function))
        torch.testing.assert_close(got, expected)
    assert compiled.stats().entries == 1 and compiled.stats().originals == 0
    pair = diptych.capture(function, *leaves)
    assert sum(node.name == "aten.mm" for node in pair.backward.nodes) == products


def test_a_mode_of_ones_own_as_a_context_is_refused():
    class Counts(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, 3, requires_grad=True)
    with pytest.raises(diptych.UserError, match="makes a Counts.*save_matrix_products"):
        diptych.aot_function(lambda x: checkpoint(torch.mm, x, x, use_reentrant=False, context_fn=lambda: (Counts(), Counts())))(x)


@pytest.mark.parametrize("reentrant", (False, True))
def test_checkpoints_that_dynamo_meets(reentrant):
    from diptych._dynamo import backend

    def function(x, w):
        return NEXT[reentrant](BODIES["dropout"], x, w) * 2

    compiled = torch.compile(function, backend=backend, fullgraph=True, options={"eager_fallback": False})
    torch.testing.assert_close(result_of(compiled), result_of(function))


@pytest.mark.parametrize("reentrant", (False, True))
def test_batch_norm_changes_its_buffers_once(reentrant):
    """torch's runs the forward again in the backward, which updates them a second time."""
    norms = [nn.BatchNorm1d(3) for _ in range(2)]
    x = torch.randn(4, 3)
    for call in (norms[0], diptych.aot_function(lambda x: NEXT[reentrant](norms[1], x))):
        for _ in range(2):
            y = x.clone().requires_grad_()
            call(y * 1).square().sum().backward()
    torch.testing.assert_close(dict(norms[1].named_buffers()), dict(norms[0].named_buffers()))


@torch.compiler.allow_in_graph
def clocked(x):
    """What Dynamo leaves in its graph, so that the graph runs as it is at each call."""
    time.perf_counter()
    return x * 1


@torch.compiler.allow_in_graph
def refused(x):
    """Likewise, since no graph of ours can be made of it."""
    if diptych._core.is_stand_in(x):
        raise diptych.UserError("no graph can be made of this")
    return x * 1


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, w):
        return functional.dropout(self.norm(x * w), 0.5)


def _selective(ctx, operator, *args, **kwargs):
    return module.CheckpointPolicy.MUST_SAVE if operator is torch.ops.aten.mm.default else module.CheckpointPolicy.PREFER_RECOMPUTE


def _under_autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        return checkpoint(lambda x, w: functional.dropout(LAYER(x) * w, 0.5).float(), x, w, use_reentrant=False)


NORM, SEQUENCE = Counted(), nn.Sequential(nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.1))
DRAWING = {
    "plain": lambda x, w: checkpoint(BODIES["dropout"], x, w, use_reentrant=False),
    "reentrant": lambda x, w: checkpoint(BODIES["draws"], x, w, use_reentrant=True),
    "nested": lambda x, w: checkpoint(lambda x, w: functional.dropout(checkpoint(BODIES["dropout"], x, w, use_reentrant=False), 0.2) * x, x, w, use_reentrant=False),
    "two of them": lambda x, w: sum(checkpoint(BODIES[name], x, w, use_reentrant=False) for name in ("dropout", "draws")) + torch.rand(3),
    "a sequence": lambda x, w: checkpoint_sequential(SEQUENCE, 2, x * w, use_reentrant=False),
    "selective": lambda x, w: checkpoint(lambda x, w: functional.dropout(x.mm(x.mT), 0.5).sin().mv(x @ w), x, w, use_reentrant=False,
                                         context_fn=functools.partial(module.create_selective_checkpoint_contexts, _selective)),
    "autocast": _under_autocast,
    "buffers": lambda x, w: checkpoint(NORM, x, w, use_reentrant=False),
}


@pytest.mark.filterwarnings("ignore:.*runs uncompiled", "ignore:.*context_fn")
@pytest.mark.parametrize("why", (clocked, refused))
@pytest.mark.parametrize("name", DRAWING)
def test_what_dynamo_found_draws_the_same_when_it_is_computed_again(name, why):
    torch.compiler.reset()
    function = DRAWING[name]
    compiled = torch.compile(lambda x, w: function(why(x), w), backend="diptych")

    def look(call):
        NORM.norm.reset_running_stats()
        return result_of(call), NORM.norm.running_mean.clone(), NORM.norm.num_batches_tracked.clone()

    torch.testing.assert_close(look(compiled), look(function))


@pytest.mark.parametrize("reentrant", (False, True))
@pytest.mark.parametrize("name", ("dropout", "draws", "module and closure"))
def test_compiled_functions_in_torchs_checkpoint(name, reentrant):
    """Which runs them again in a backward, where the graph draws as it did."""
    for body in (BODIES[name], lambda x, w: BODIES[name](clocked(x), w)):
        compiled = diptych.aot_function(body)
        around = lambda f: lambda x, w: checkpoint(f, x, w, use_reentrant=reentrant)
        torch.testing.assert_close(result_of(around(compiled)), result_of(around(BODIES[name])))
