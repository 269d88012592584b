"""What the forward and the backward of a torch.autograd.Function read, changed between two calls."""
import pytest
import torch
from torch import nn

from beside_eager import Cases
from changes import check_value_and_gradient

SCALE = 2.0
# make() gives a function of a tensor and a change of what it computes.
change = Cases()


def raise_the_scale():
    global SCALE
    SCALE += 1


def autograd_function(forward_scale, backward_scale):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * forward_scale()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * backward_scale()

    return Scale


@change
def a_global_in_the_forward_of_a_custom_function():
    scale = autograd_function(lambda: SCALE, lambda: 1.0)
    return lambda x: scale.apply(x), raise_the_scale


@change
def a_global_in_the_backward_of_a_custom_function():
    scale = autograd_function(lambda: 1.0, lambda: SCALE)
    return lambda x: scale.apply(x), raise_the_scale


@change
def a_global_in_a_custom_function_by_its_apply():
    apply = autograd_function(lambda: SCALE, lambda: SCALE).apply
    return lambda x: apply(x), raise_the_scale


@change
def a_list_that_a_custom_function_reads():
    held = [2.0]
    scale = autograd_function(lambda: held[0], lambda: held[0])
    return lambda x: scale.apply(x), lambda: held.__setitem__(0, 3.0)


@change
def a_custom_function_with_a_context_of_its_own():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.scale = SCALE

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale

    return lambda x: Scale.apply(x), raise_the_scale


@change
def a_custom_function_in_a_module():
    scale = autograd_function(lambda: SCALE, lambda: SCALE)

    class Net(nn.Module):
        def forward(self, x):
            return scale.apply(x)

    return Net(), raise_the_scale


@change
def the_backward_of_a_custom_function_that_is_replaced():
    scale = autograd_function(lambda: 1.0, lambda: 1.0)
    return lambda x: scale.apply(x), lambda: setattr(scale, "backward", staticmethod(lambda ctx, gradient: gradient * 3))


@change
def a_class_attribute_of_a_custom_function():
    class Scale(torch.autograd.Function):
        scale = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Scale.scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * Scale.scale

    return lambda x: Scale.apply(x), lambda: setattr(Scale, "scale", 3.0)


@pytest.mark.parametrize("name", change)
def test_a_change_is_seen(name):
    check_value_and_gradient(*change[name]())
