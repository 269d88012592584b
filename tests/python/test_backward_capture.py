"""Whole backwards that Python shapes: Functions of any arity, in place on views, nested, batched, of subclasses; beside eager, many alike in one cache."""
import random
import threading
import warnings

import diptych
import pytest
import torch
from torch import autograd

capture = diptych.backward_capture.capture


def same(found, expected):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert found.layout == expected.layout and found.shape == expected.shape and found.dtype == expected.dtype
        torch.testing.assert_close(found.to_dense(), expected.to_dense())
    else:
        assert found == expected


def beside_eager(look, passes=3):
    """look() in eager, and several times with passes captured; returns the statistics of the latter."""
    expected = look()
    with capture() as captured:
        for _ in range(passes):
            same(look(), expected)
    return captured.stats()


class Fan(autograd.Function):
    """As many results as it is told."""

    @staticmethod
    def forward(ctx, x, count, *flags):
        ctx.count = count
        ctx.set_materialize_grads("undefined" not in flags)
        results = tuple(x * (i + 1) for i in range(count))
        if "dead" in flags and count > 1:
            ctx.mark_non_differentiable(results[-1])
        ctx.save_for_backward(*(x for _ in range(count)))
        return results if "tuple" in flags or count > 1 else results[0]

    @staticmethod
    def backward(ctx, *gradients):
        assert len(gradients) == ctx.count == len(ctx.saved_tensors)
        total = None
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                total = gradient * (i + 1) if total is None else total + gradient * (i + 1)
        return (total, None, *(None for _ in range(len(ctx.needs_input_grad) - 2)))


class Other(Fan):
    pass


def fan_gradient(function, count, *flags):
    x = torch.arange(1.0, 4.0, requires_grad=True)
    results = function.apply(x, count, *flags)
    first = results[0] if isinstance(results, tuple) else results
    first.sum().backward()
    return x.grad


def test_functions_with_as_many_results_as_they_are_told():
    counts = [3, 1, 2, 3, 1, 5, 1, 3]
    expected = [fan_gradient(Fan, count) for count in counts]
    with capture() as captured:
        same([fan_gradient(Fan, count) for count in counts], expected)
    assert captured.stats().hits > 0
    assert captured.stats().captures == 4


def test_two_functions_of_different_arity_alive_at_once():
    def look():
        x = torch.arange(1.0, 4.0, requires_grad=True)
        three, one = Fan.apply(x, 3), Other.apply(x, 1, "tuple")
        (three[0] + one[0]).sum().backward()
        x.grad, before = None, x.grad
        one, three = Other.apply(x, 1, "tuple"), Fan.apply(x, 3)
        (one[0] + three[2]).sum().backward()
        return before, x.grad

    beside_eager(look)


@pytest.mark.parametrize("flags", [(), ("undefined",), ("dead",), ("undefined", "dead"), ("tuple",)])
def test_flags_that_shape_a_backward_one_after_the_other(flags):
    for count in (1, 2, 3, 2, 1):
        expected = fan_gradient(Fan, count, *flags)
        with capture():
            same(fan_gradient(Fan, count, *flags), expected)
            same(fan_gradient(Fan, count), fan_gradient(Fan, count))


class Gather(autograd.Function):
    """Takes any number of tensors, some of them None."""

    @staticmethod
    def forward(ctx, power, *tensors):
        ctx.power, ctx.given = power, [tensor is not None for tensor in tensors]
        ctx.save_for_backward(*tensors)
        return sum(tensor**power for tensor in tensors if tensor is not None)

    @staticmethod
    def backward(ctx, gradient):
        saved = ctx.saved_tensors
        return (None, *(None if tensor is None else gradient * ctx.power * tensor ** (ctx.power - 1) for tensor in saved))


def test_functions_that_take_any_number_of_tensors_and_none():
    def look(pattern, power):
        tensors = [torch.full((2,), i + 2.0, requires_grad=i % 2 == 0) if c == "x" else None for i, c in enumerate(pattern)]
        Gather.apply(power, *tensors).sum().backward()
        return [None if tensor is None or tensor.grad is None else tensor.grad.tolist() for tensor in tensors]

    calls = [(pattern, power) for pattern in ("x", "xx", "x-x", "xxx", "--x", "x--") for power in (2, 3)]
    expected = [look(*call) for call in calls]
    with capture():
        for _ in range(2):
            assert [look(*call) for call in calls] == expected


class Twice(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@pytest.mark.parametrize("view", [lambda t: t[:], lambda t: t[0], lambda t: t.t(), lambda t: t.view(-1)[2:5], lambda t: t])
def test_a_function_that_changes_a_view_in_place(view):
    def look():
        a = torch.arange(6.0).view(2, 3).requires_grad_()
        base = a.clone()
        part = Twice.apply(view(base))
        (base.square().sum() + part.sum()).backward()
        return a.grad

    stats = beside_eager(look)
    assert stats.captures == 1 and stats.hits == 2


def test_the_copy_of_a_slice_runs_once_as_in_eager():
    a = torch.ones(3, requires_grad=True)
    base = a.clone()
    base[0].mul_(3)
    loss = base.sum()
    with capture():
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def nested(depth):
    """The gradient of a Function whose backward calls backward, so many levels deep."""

    class Nested(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach().clone()

        @staticmethod
        def backward(ctx, gradient):
            if ctx.x > 0:
                with torch.enable_grad():
                    Nested.apply(ctx.x).sum().backward()
            return gradient

    x = torch.tensor(float(depth), requires_grad=True)
    Nested.apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("depth", [5, 20, 100, 500])
def test_backwards_inside_backwards(depth):
    stats = beside_eager(lambda: nested(depth), passes=2)
    assert stats.hits > 0
    assert (stats.eager_by_reason.get("backwards nested too deep", 0) > 0) == (depth > 8)


def changed_view(x):
    y = x.clone()
    y[0].mul_(3)
    return y * x


def test_batched_gradients():
    def rows():
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        (found,) = autograd.grad(changed_view(x), x, torch.eye(2), is_grads_batched=True)
        return found

    def together():
        x = torch.tensor([2.0, 3.0, 5.0])
        jacobian = autograd.functional.jacobian(changed_view, x, vectorize=True)
        hessian = autograd.functional.hessian(lambda t: changed_view(t).prod(), x, vectorize=True)
        return jacobian, hessian

    for look in (rows, together):
        stats = beside_eager(look)
        assert stats.eager_by_reason["batched gradients"] >= 3


def test_transforms_of_functions_and_modes_see_eagers_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    def seen():
        x = torch.ones(3, requires_grad=True)
        loss = changed_view(x).exp().sum()
        with Names() as mode:
            loss.backward()
        return mode.names

    assert beside_eager(seen).eager_by_reason == {"a dispatch mode": 3}
    x = torch.tensor([2.0, 3.0, 5.0])
    for transform in (torch.func.grad, torch.func.hessian):
        beside_eager(lambda transform=transform: transform(lambda t: changed_view(t).prod())(x))

    def forward_over_reverse():
        with autograd.forward_ad.dual_level():
            y = autograd.forward_ad.make_dual(x.clone().requires_grad_(), torch.ones(3))
            (found,) = autograd.grad(changed_view(y).prod(), y)
            return autograd.forward_ad.unpack_dual(found)

    beside_eager(lambda: tuple(forward_over_reverse()))


@pytest.mark.parametrize("order", ["sparse first", "dense first", "both sparse", "through a product"])
def test_sparse_gradients_beside_dense_ones(order):
    def look():
        torch.manual_seed(3)
        weight = torch.randn(5, 2, requires_grad=True)
        rows = torch.tensor([1, 3, 1])
        used = weight * 2 if order == "through a product" else weight

        def sparse():
            return torch.nn.functional.embedding(rows, used, sparse=True).square().sum()

        dense = sparse if order == "both sparse" else lambda: (used * 3).sum()
        first, second = (dense, sparse) if order == "dense first" else (sparse, dense)
        (first() + second()).backward()
        return weight.grad

    beside_eager(look)


def test_nested_tensors_and_subclasses_run_in_eager():
    from torch.testing._internal.two_tensor import TwoTensor

    def ragged():
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
        rows = torch.nested.as_nested_tensor([x, y])
        torch.nested.to_padded_tensor(rows * 2, 0.0).square().sum().backward()
        return x.grad, y.grad

    def jagged():
        x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, requires_grad=True)
        (x * 2).values().square().sum().backward()
        return x.grad.values()

    def two():
        x = TwoTensor(torch.ones(3), torch.full((3,), 2.0)).requires_grad_()
        (x * x).sum().backward()
        return x.grad.a, x.grad.b

    for look, reason in ((ragged, "a nested tensor"), (jagged, "a nested tensor"), (two, "a tensor subclass")):
        assert beside_eager(look).eager_by_reason == {reason: 3}


def test_lazily_conjugated_tensors():
    def look():
        x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        y = torch.tensor([2 - 1j, 1 + 1j]).conj()
        torch.view_as_real((x * y).resolve_conj()).square().sum().backward()
        return x.grad.resolve_conj()

    beside_eager(look)


def test_hooks_of_saved_tensors():
    calls = []

    def pack(tensor):
        calls.append("pack")
        return tensor.detach() * 2

    def unpack(tensor):
        calls.append("unpack")
        return tensor / 2

    def by_context():
        calls.clear()
        x = torch.arange(1.0, 4.0, requires_grad=True)
        with autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp() * x
        y.sum().backward()
        return x.grad, list(calls)

    def by_node():
        calls.clear()
        x = torch.arange(1.0, 4.0, requires_grad=True)
        y = (x * 2).sin().square()
        y.grad_fn._raw_saved_self.register_hooks(pack, unpack)
        y.sum().backward()
        return x.grad, list(calls)

    for look in (by_context, by_node):
        assert beside_eager(look).hits == 2


def test_anomaly_mode_says_where_the_forward_was():
    class Failing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("on purpose")

    def look():
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with autograd.detect_anomaly():
                loss = Failing.apply(x).sum()
                with pytest.raises(RuntimeError, match="on purpose"):
                    loss.backward()
        return ["Traceback of forward call" in str(one.message) and "FailingBackward" in str(one.message) for one in seen]

    assert beside_eager(look).eager_by_reason == {"anomaly mode": 3}


def test_warnings_of_nodes_come_each_time():
    def look():
        x = torch.ones(2, requires_grad=True)
        y = x * torch.tensor([1 + 1j, 2 - 1j])
        loss = y.real.sum() + y.imag.sum()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            loss.backward()
        return x.grad, sorted({str(one.message).split("(")[0] for one in seen})

    class Warning_(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            warnings.warn("from a backward", stacklevel=1)
            return gradient * 2

    def of_a_function():
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            Warning_.apply(x).sum().backward()
        return x.grad, [str(one.message) for one in seen]

    beside_eager(look)
    beside_eager(of_a_function)


def test_what_surrounds_a_pass_is_a_part_of_its_key():
    def look(dtype):
        torch.manual_seed(5)
        x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        loss = (x @ w).square().sum()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss.backward()
        return x.grad, w.grad

    kinds = [None, torch.bfloat16, None, torch.float16, torch.bfloat16]
    expected = [look(dtype) for dtype in kinds]
    with capture() as captured:
        same([look(dtype) for dtype in kinds], expected)
    assert captured.stats().captures == 3 and captured.stats().hits == 2
    assert captured.stats().misses_by_reason["other state"] == 2


def grow(leaf):
    leaf.grad.mul_(1.5)


def test_numbers_of_hooks_may_change():
    def look(count, kind):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        for _ in range(count):
            if kind == "tensor":
                y.register_hook(lambda gradient: gradient * 1.5)
            elif kind == "pre":
                y.grad_fn.register_prehook(lambda gradients: tuple(gradient * 1.5 for gradient in gradients))
            elif kind == "post":
                y.grad_fn.register_hook(lambda inputs, outputs: tuple(None if i is None else i * 1.5 for i in inputs))
            else:
                x.register_post_accumulate_grad_hook(grow)
        y.sum().backward()
        return x.grad

    counts = (0, 1, 256, 3, 0, 257)
    for kind in ("tensor", "pre", "post", "accumulated"):
        expected = [look(min(count, 8), kind) for count in counts]
        with capture():
            same([look(min(count, 8), kind) for count in counts], expected)
    silent = [look_silently(count) for count in counts]
    with capture():
        assert [look_silently(count) for count in counts] == silent


def look_silently(count):
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    for i in range(count):
        y.register_hook(lambda gradient, i=i: seen.append(i))
    y.sum().backward()
    return seen


def test_hooks_of_a_functions_node_run_once():
    def look():
        order = []
        x = torch.ones(2, requires_grad=True)
        y = Fan.apply(x, 1)
        y.grad_fn.register_prehook(lambda gradients: order.append("pre"))
        y.grad_fn.register_hook(lambda inputs, outputs: order.append("post"))
        y.register_hook(lambda gradient: order.append("tensor"))
        y.sum().backward()
        return x.grad, order

    beside_eager(look)


def test_statistics_belong_to_the_object():
    def step(size):
        x = torch.ones(size, requires_grad=True)
        (x.cos() * x).sum().backward()

    diptych.backward_capture.reset()
    outer, inner = capture(), capture()
    with outer:
        step(2)
        with inner:
            step(2)
            thread = threading.Thread(target=lambda: step(2))
            thread.start()
            thread.join()
        step(2)
    step(2)
    assert (outer.stats().captures, outer.stats().hits) == (1, 2)
    assert (inner.stats().captures, inner.stats().hits) == (0, 1)
    with inner:
        assert inner.stats().hits == 0
    assert diptych.backward_capture.statistics().hits == 2
    assert capture().stats().misses == []


# --- Random passes, alike enough to be taken for one another, all in one cache. ---


class Slices(autograd.Function):
    """Changes its first argument in place and gives several results."""

    @staticmethod
    def forward(ctx, x, factor, count):
        ctx.mark_dirty(x)
        ctx.factor, ctx.count = factor, count
        x.mul_(factor)
        return (x, *(x.detach() * i for i in range(count)))

    @staticmethod
    def backward(ctx, gradient, *others):
        total = gradient * ctx.factor
        for i, other in enumerate(others):
            total = total + other * i * ctx.factor
        return total, None, None


def random_pass(seed):
    """What one random pass gives: gradients, and what its hooks saw."""
    draw = random.Random(seed)
    torch.manual_seed(seed % 7)
    leaves = [torch.randn(3, requires_grad=True) for _ in range(2)]
    pool, seen = list(leaves), []
    for _ in range(draw.randint(1, 4)):
        x = draw.choice(pool)
        kind = draw.randrange(9)
        if kind <= 2:
            flags = draw.sample(["undefined", "dead", "tuple"], draw.randint(0, 2))
            made = draw.choice([Fan, Other]).apply(x, draw.randint(1, 4), *flags)
            made = [y for y in (made if isinstance(made, tuple) else (made,)) if y.requires_grad]
            pool += draw.sample(made, draw.randint(1, len(made)))
        elif kind == 3:
            pool.append(Gather.apply(draw.randint(1, 3), *(draw.choice([y, None]) for y in pool[-3:]), x))
        elif kind == 4:
            base = x.clone()
            view = draw.choice([lambda t: t[:], lambda t: t[1:], lambda t: t])(base)
            changed = draw.choice([Twice.apply, lambda v: Slices.apply(v, 3.0, draw.randint(0, 2))[-1], lambda v: v.mul_(0.5)])(view)
            pool.append(base)
            if changed.requires_grad and changed.shape == (3,):
                pool.append(changed)
        elif kind == 5:
            y = x.sin()
            for i in range(draw.randint(1, 3)):
                y.register_hook(lambda gradient, i=i: seen.append((i, gradient.clone())))
            pool.append(y)
        elif kind == 6:
            with autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 2, lambda t: t / 2):
                pool.append(x.exp() * 0.1)
        else:
            pool.append(draw.choice([torch.tanh, lambda t: t * x, lambda t: t + x.sum(), lambda t: t.flip(0)])(draw.choice(pool)))
    loss = sum(y.sum() for y in draw.sample(pool, draw.randint(1, min(3, len(pool)))))
    how = draw.randrange(5)
    if how == 0:
        return autograd.grad(loss, leaves, allow_unused=True), seen
    if how == 1:
        return autograd.grad(loss, draw.sample([y for y in pool if y.requires_grad], 2), allow_unused=True), seen
    if how == 2 and not seen:
        first = autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        again = sum(g.square().sum() for g in first if g is not None)
        second = autograd.grad(again, leaves, allow_unused=True) if getattr(again, "requires_grad", False) else ()
        return [None if g is None else g.detach() for g in first], second
    inputs = {"inputs": leaves[:1]} if how == 3 else {}
    loss.backward(retain_graph=draw.random() < 0.3, **inputs)
    return [leaf.grad for leaf in leaves], seen


def outcome(seed):
    try:
        return random_pass(seed)
    except RuntimeError as error:  # as eager has it, in the same words
        return [str(error).split("\n")[0]]


def test_random_passes_in_one_cache():
    seeds = list(range(400))
    expected = {seed: outcome(seed) for seed in seeds}
    diptych.backward_capture.reset()
    with capture() as captured:
        for round_ in range(2):
            random.Random(round_).shuffle(seeds)
            for seed in seeds:
                try:
                    same(outcome(seed), expected[seed])
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}: {error}") from error
    stats = captured.stats()
    assert stats.hits > 300 and stats.captures > 50
