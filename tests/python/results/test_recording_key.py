"""What comes of recording among the backends: late operators, kernels of other layouts, and kernels that select a backend."""
import weakref

import diptych
import pytest
import torch
from torch import library


def define(name):
    """Defines an operator as Python programs do for all devices: a kernel for every backend, shapes, and a gradient."""
    defined = library.Library(name, "DEF")
    defined.define("twice(Tensor x) -> Tensor")
    defined.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    defined.impl("twice", torch.empty_like, "Meta")
    library.register_autograd(f"{name}::twice", lambda ctx, g: g * 2, lib=defined)
    weakref.finalize(torch, defined._destroy)  # keeps it for good, also where a capture undoes what the function kept
    return defined


def train(function):
    x = torch.linspace(0, 1, 3).requires_grad_()
    y = function(x)
    y.sum().backward()
    return y, x.grad


def test_an_operator_that_is_defined_after_a_trace_is_recorded_as_itself():
    diptych.capture(torch.sin, torch.ones(2))
    define("late_one")
    operator = torch.ops.late_one.twice

    def function(x):
        return operator(x).sin()

    assert "late_one.twice" in str(diptych.capture(function, torch.ones(3, requires_grad=True)).forward)
    torch.testing.assert_close(train(diptych.aot_function(function)), train(function))


def test_an_operator_that_a_function_defines():
    def function(x):
        if "late_two::twice" not in torch._C._dispatch_get_all_op_names():
            define("late_two")
        return torch.ops.late_two.twice(x).sin()

    assert "late_two.twice" in str(diptych.capture(function, torch.ones(3, requires_grad=True)).forward)
    torch.testing.assert_close(train(diptych.aot_function(function)), train(function))


def test_an_operator_that_is_unloaded_and_defined_again_as_another():
    kinds = []
    for kind in ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        defined = library.Library("late_three", "DEF")
        defined.define("thrice(Tensor x) -> Tensor")
        defined.impl("thrice", lambda x: x * 3, kind)
        operator = torch.ops.late_three.thrice
        kinds.append("late_three.thrice" in str(diptych.capture(lambda x: operator(x).sin(), torch.ones(3)).forward))
        torch.testing.assert_close(diptych.aot_function(lambda x: operator(x).sin())(torch.ones(3)), torch.full((3,), 3.0).sin())
        defined._destroy()
    assert kinds == [True, False, True]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_a_write_of_a_checked_original_by_a_kernel_of_another_layout(layout):
    held, layered = torch.zeros(3, 3), layout(torch.eye(3))

    def function(x):
        if not torch._C._dispatch_tls_is_dispatch_key_included("Functionalize"):  # what no trace sees
            held.add_(layered)
        return x * 2

    compiled = diptych.aot_function(function, check=1)
    with pytest.raises(diptych.UserError, match="written to originally, left alone compiled"):
        compiled(torch.ones(3))
    torch.testing.assert_close(held, torch.zeros(3, 3))


def test_a_kernel_for_shapes_that_copies_between_dtypes():
    """The kernel calls an operator that selects its backend and takes tensors, where the thread's keys are asked anew."""
    def function(x, mask):
        return x * 2 if torch._nested_tensor_from_mask_left_aligned(x, mask) else x

    x, mask = torch.ones(2, 3, 4), torch.tensor([[True, True, False]] * 2)
    torch.testing.assert_close(diptych.aot_function(function)(x, mask), x * 2)
