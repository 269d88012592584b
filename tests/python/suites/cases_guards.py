"""What differs between the first call and the second, so that the capture of the first does not fit; and what callers do afterwards with results."""
import types

import torch
from cases import case, computed, leaf
from torch import nn


def steps(first, second):
    """Arguments of the first call and of the second."""
    return lambda n, step: second(n) if step % 2 else first(n)


@case(steps(lambda n: (leaf(n, 4),), lambda n: (leaf(n, 6),)), by_step=True)
def guard_sizes(x):
    return x.sin() * x.shape[1]


@case(steps(lambda n: (leaf(n, 4),), lambda n: (leaf(1, 4),)), by_step=True)
def guard_a_size_of_one(x):
    return x.expand(3, 4) * 2 if x.shape[0] == 1 else x


@case(steps(lambda n: (leaf(n, 4),), lambda n: (leaf(n, 4).float(),)), by_step=True, order=1, narrow=True)
def guard_dtype(x):
    return x.sin()


@case(steps(lambda n: (leaf(4, 4),), lambda n: (leaf(4, 4).t(),)), by_step=True)
def guard_strides(x):
    return x * 2, x.is_contiguous()


@case(steps(lambda n: (leaf(n), leaf(n)), lambda n: (leaf(n).detach(), leaf(n))), by_step=True)
def guard_requires_grad(x, y):
    return x * y, x.sin()


@case(steps(lambda n: (leaf(n), None), lambda n: (leaf(n), leaf(n))), by_step=True)
def guard_none(x, y):
    return x if y is None else x * y


@case(steps(lambda n: (leaf(n), 2), lambda n: (leaf(n), 2.0)), by_step=True)
def guard_number(x, scale):
    return x * scale, type(scale).__name__


@case(steps(lambda n: (leaf(n), True), lambda n: (leaf(n), 1)), by_step=True)
def guard_bool_and_number(x, flag):
    return x * 2 if flag is True else x * 3


@case(steps(lambda n: ([leaf(n)],), lambda n: ([leaf(n), leaf(n)],)), by_step=True)
def guard_length_of_a_list(xs):
    return sum(xs) * 2


@case(steps(lambda n: ({"a": leaf(n)},), lambda n: ({"b": leaf(n)},)), by_step=True)
def guard_keys_of_a_dict(d):
    return {key: value * 2 for key, value in d.items()}


@case(steps(lambda n: (leaf(n),), lambda n: (computed(n),)), by_step=True)
def guard_leaf_or_not(x):
    return x * 2, x.is_leaf


def with_default_dtype(n, step):
    torch.set_default_dtype(torch.float64 if step % 2 else torch.float32)
    return (leaf(n),)


@case(with_default_dtype, by_step=True, then=lambda result, x: (torch.set_default_dtype(torch.float32), result)[1])
def guard_default_dtype(x):
    return x * torch.ones(x.shape), torch.zeros(2) + 0.5


GLOBAL = types.SimpleNamespace(scale=1.0)
SCALE = 1.0


def with_global(n, step):
    global SCALE
    SCALE = GLOBAL.scale = float(step % 2 + 1)
    return (leaf(n),)


@case(with_global, by_step=True)
def guard_global_number(x):
    return x * SCALE


@case(with_global, by_step=True)
def guard_global_object(x):
    return x * GLOBAL.scale


@case(lambda n: (leaf(n, 4),), makes_state=True)
def guard_training_mode():
    module = nn.Dropout(0.5)
    calls = [0]

    def f(x):
        return module(x)

    def call(x):
        module.train(calls[0] % 2 == 0)
        calls[0] += 1
        return f(x)

    return call, []


class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.options = nn.Linear(4, 4).double(), {"scale": 2.0, "names": ["a"]}

    def forward(self, x):
        return self.inner(x) * self.options["scale"] * len(self.options["names"])


def changed_between(change):
    """A module that `change` alters before the second call."""

    def make():
        module, calls = Switch(), [0]

        def before(x):
            if calls[0] == 1:
                change(module)
            calls[0] += 1
            return x

        return module, before

    return make


def register(name, change):
    def f():
        module, before = changed_between(change)()
        f.before = before
        return (lambda x: module(x)), [*module.parameters()]

    f.__name__ = name
    case(lambda n, step: (f.before(leaf(n, 4)) if hasattr(f, "before") else leaf(n, 4),), makes_state=True, by_step=True, skip=("dynamic",))(f)


register("guard_module_dict_value", lambda module: module.options.update(scale=3.0))
register("guard_module_list_length", lambda module: module.options["names"].append("b"))
register("guard_module_is_replaced", lambda module: setattr(module, "inner", nn.Linear(4, 4).double()))
register("guard_parameter_is_frozen", lambda module: module.inner.weight.requires_grad_(False))
register("guard_parameter_is_absent", lambda module: module.inner.register_parameter("bias", None))
register("guard_forward_is_replaced", lambda module: setattr(module.inner, "forward", lambda x: x * 7))
register("guard_hook_is_added", lambda module: module.inner.register_forward_hook(lambda *args: args[2] * 2) and None)


@case(lambda n: (leaf(n, 4),), then=lambda result, x: backward_twice(result, x), order=0)
def after_backward_twice_with_retained_graph(x):
    return x.sin() * x


def backward_twice(result, x):
    if not result.requires_grad:
        return result
    result.sum().backward(retain_graph=True)
    result.square().sum().backward(retain_graph=True)
    return result.detach(), x.grad.clone()


@case(lambda n: (leaf(n, 4), leaf(4)), then=lambda result, x, w: backward_to(result, w), order=0)
def after_backward_to_one_input(x, w):
    return x.sin() * w


def backward_to(result, w):
    if not result.requires_grad:
        return result
    result.sum().backward(inputs=[w])
    return result.detach(), w.grad.clone()


@case(lambda n: (leaf(n, 4),), then=lambda result, x: hook_on(result, x), order=1)
def after_hook_on_the_result(x):
    return x.sin()


def hook_on(result, x):
    if result.requires_grad:
        result.register_hook(lambda gradient: gradient * 3)
        x.register_hook(lambda gradient: gradient + 1)
        result.retain_grad()
    return result


@case(lambda n: (leaf(n, 4),), then=lambda result, x: (result[0].add_(result[1]), result)[1])
def after_a_result_is_changed_by_another(x):
    return x.sin(), x * 2


@case(lambda n: (leaf(n, 4),), then=lambda result, x: (x.detach().mul_(2), result)[1], order=1)
def after_the_input_is_changed(x):
    return x.sin()


# Autograd does not see the change; what is computed again for the backward does.
@case(lambda n: (leaf(n, 4),), then=lambda result, x: (x.data.mul_(2), result)[1], order=1, skip=("min_cut", "second-min_cut", "budget", "dynamic"))
def after_the_data_of_the_input_is_changed(x):
    return x.exp() * 2


@case(lambda n: (leaf(n, 4),), then=lambda result, x: freed(result, x), order=0)
def after_the_graph_is_freed(x):
    return x.sin()


def freed(result, x):
    """A second backward is refused."""
    if not result.requires_grad:
        return result
    result.sum().backward()
    result.sum().backward()
    return result
