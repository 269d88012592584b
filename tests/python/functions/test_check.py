# Calls that are compared with the original function, from Python: what only Python has to see to.
import os
import random
import subprocess
import sys
import types

import diptych
import numpy
import pytest
import torch

# Four objects deep, where no guard looks.
deep = types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=types.SimpleNamespace(scale=2.0, raises=False, number="1"))))
AGAIN = "differs from the original function's"


def checked(function, **options):
    return diptych.aot_function(function, check=1, **options)


def test_what_is_right_passes_and_is_counted():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    compiled = diptych.aot_module(net, check=1)
    for _ in range(3):
        compiled(torch.randn(5, 3)).sum().backward()
    assert compiled.stats().checks == 3
    assert net[1].num_batches_tracked.item() == 3


def test_gradients_hooks_versions_and_generators_are_as_without_it():
    def seen(check):
        torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
        w, gradients = torch.ones(3, requires_grad=True), []
        w.register_hook(gradients.append)
        f = diptych.aot_function(lambda x: (torch.dropout(x * w, 0.5, True)).sum(), check=check)
        x = torch.arange(3.0)
        f(x), f(x).backward()
        return [w.grad.tolist(), len(gradients), w._version, x._version, torch.rand(2).tolist(), random.random(), numpy.random.rand()]

    assert seen(0) == seen(1)


def test_a_number_that_no_guard_reads_is_found():
    deep.a.b.c.scale = 2.0
    f = checked(lambda x: (x.sin() * deep.a.b.c.scale).sum())
    f(torch.ones(2))
    deep.a.b.c.scale = 3.0
    with pytest.raises(diptych.UserError, match=AGAIN) as error:
        f(torch.ones(2))
    for words in ("result 'out'", "the first node whose value differs", "aten.mul.Tensor", "test_check.py"):
        assert words in str(error.value)


def test_what_is_read_in_the_backward_is_found():
    deep.a.b.c.scale = 2.0

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * deep.a.b.c.scale

    f = checked(lambda x: Scaled.apply(x).sum())
    x = torch.ones(2, requires_grad=True)
    value = f(x)
    deep.a.b.c.scale = 5.0
    with pytest.raises(diptych.UserError, match="the gradient of argument 'x' " + AGAIN):
        value.backward()


def test_a_write_that_the_compiled_backward_would_drop_is_refused():
    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, count):
            ctx.count = count
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.count.add_(1)
            return g * 2, None

    count = torch.zeros(())
    with pytest.raises(diptych.UserError, match="the backward of the function changes 'free.0' in place"):
        checked(lambda x: Counts.apply(x, count).sum())(torch.ones(2, requires_grad=True))
    assert count.item() == 0


def test_python_errors_of_the_original_are_told():
    def f(x):
        if deep.a.b.c.raises:
            raise ValueError("not today")
        return x * 2

    compiled = checked(f)
    compiled(torch.ones(2))
    deep.a.b.c.raises = True
    with pytest.raises(diptych.UserError, match="not today"):
        compiled(torch.ones(2))
    deep.a.b.c.raises = False


def test_numbers_in_the_result_are_compared():
    f = checked(lambda x: (x * 2, deep.a.b.c.number))
    f(torch.ones(2))
    deep.a.b.c.number = "2"
    with pytest.raises(diptych.UserError, match="its structure and numbers"):
        f(torch.ones(2))


def test_attributes_that_come_by_no_operator_are_those_of_copies():
    weight = torch.nn.Parameter(torch.ones(3))
    f = checked(lambda x: (x * weight.data).sum() + weight.sum())
    f(torch.ones(3)).backward()
    assert weight._version == 0 and weight.tolist() == [1, 1, 1]


def test_transforms_of_values_and_gradients_are_checked():
    f = diptych.value_and_grad(lambda w, x: (w * x).sin().sum(), check=1)
    value, gradient = f(torch.ones(3), torch.arange(3.0))
    assert torch.allclose(gradient, torch.arange(3.0) * torch.arange(3.0).cos())


def test_options_hold_it_and_every_nth_call_is_checked():
    assert diptych.Options(check=5, check_tolerance=0.5).check == 5
    assert diptych.Options(check=5, check_tolerance=0.5).check_tolerance == 0.5 and diptych.Options().check_tolerance is None
    f = diptych.aot_function(lambda x: x * 2, check=2)
    for _ in range(5):
        f(torch.ones(2))
    assert f.stats().checks == 2


def test_the_environment_asks_for_all_functions():
    program = "import diptych, torch; f = diptych.aot_function(lambda x: x * 2); f(torch.ones(2)); print(f.stats().checks)"
    got = subprocess.run([sys.executable, "-c", program], env={**os.environ, "DIPTYCH_CHECK": "1"}, capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "1"


def test_random_numbers_of_a_generator_are_drawn_alike():
    generator = torch.Generator().manual_seed(3)
    f = checked(lambda x: x * torch.rand(3, generator=generator))
    first = f(torch.ones(3))
    assert torch.equal(first, torch.rand(3, generator=torch.Generator().manual_seed(3)))


def test_operators_with_bodies_are_checked():
    w = torch.ones(3, requires_grad=True)
    f = checked(lambda xs: diptych.scan(lambda c, x: (c * w + x, c.sin()), torch.zeros(3), xs)[1].sum())
    f(torch.ones(4, 3)).backward()
    assert w.grad is not None and f.stats().checks == 1


def test_aliases_of_one_memory_have_it_back():
    w = torch.tensor([1.0, 2.0])
    outside = w.data
    compiled = diptych.aot_function(lambda x: (outside.mul_(2), x * w)[1], check=1)
    for factor in (2, 4, 8):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.tensor([1.0, 2.0]) * factor)
        torch.testing.assert_close(w, torch.tensor([1.0, 2.0]) * factor)
