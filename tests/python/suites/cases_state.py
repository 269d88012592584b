"""Functions that hold tensors, modules or lists, and hooks."""
import torch
from cases import case, computed, leaf
from torch import nn


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_free_variable():
    w = leaf(4)
    return lambda x: x * w, [w]


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_free_variable_is_changed():
    total = torch.zeros(4, dtype=torch.float64)

    def f(x):
        total.add_(x.detach().sum(0))
        return x * total

    return f, [total]


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_linear():
    layer = nn.Linear(4, 2).double()
    return lambda x: layer(x).relu(), list(layer.parameters())


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_tied_parameters():
    first, second = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()
    second.weight = first.weight
    return lambda x: second(first(x).tanh()), [*first.parameters(), second.bias]


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_batch_norm():
    norm = nn.BatchNorm1d(4).double()
    return lambda x: norm(x), [*norm.parameters(), *norm.buffers()]


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_batch_norm_twice():
    norm = nn.BatchNorm1d(4).double()
    return lambda x: norm(norm(x) * 2), [*norm.parameters(), *norm.buffers()]


@case(lambda n: (leaf(n, 4),), makes_state=True, skip=("inference",), order=1)
def state_spectral_norm():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4).double())
    return lambda x: layer(x), [*layer.parameters(), *layer.buffers()]


@case(lambda n: (leaf(n, 4),), makes_state=True, skip=("inference",))
def state_weight_norm():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4).double())
    return lambda x: layer(x), list(layer.parameters())


class Rebinds(nn.Module):
    """Puts a new tensor in the place of its buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, dtype=torch.float64))

    def forward(self, x):
        self.total = self.total + x.detach().sum(0)
        return x * self.total


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_buffer_is_rebound():
    module = Rebinds()
    return lambda x: (module(x), module.total), []


@case(lambda n: (leaf(n, 4),), makes_state=True, then=lambda result, x: (result, [t * 1 for t in LOG]))
def state_list_grows():
    LOG.clear()

    def f(x):
        LOG.append(x.detach().sum(0))
        return x * 2

    return f, []


LOG = []


@case(lambda n: (leaf(n, 4),), makes_state=True)
def state_counter_counts():
    count = [0]

    def f(x):
        count[0] += 1
        return x * count[0]

    return f, []


@case(lambda n: (leaf(n, 4),))
def hooks_on_an_input(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 2)
    return x * 3


@case(lambda n: (computed(n, 4),))
def hooks_on_an_input_that_is_returned(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 2)
    return x


@case(lambda n: (computed(n, 4),))
def hooks_on_an_input_of_which_a_view_is_returned(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 2)
    return x.view(-1), x * 1


@case(lambda n: (leaf(n, 4),))
def hooks_on_a_view_that_is_returned(x):
    view = x.view(-1)
    if view.requires_grad:
        view.register_hook(lambda gradient: gradient * 2)
    return view


@case(lambda n: (leaf(n, 4),))
def hooks_on_a_view_of_a_result(x):
    y = x * 2
    view = y.view(-1)[1:]
    if view.requires_grad:
        view.register_hook(lambda gradient: gradient * 2)
    return y, view


@case(lambda n: (leaf(n, 4),))
def hooks_on_a_result_of_which_a_view_is_returned(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 2)
    return y, y.view(-1), y[0]


@case(lambda n: (leaf(n, 4),), pure=True)
def hooks_on_an_intermediate(x):
    y = x.sin()
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 2 + 1)
    return y * 3, y


def with_retained(result, x):
    if result[1].requires_grad:
        result[1].sum().backward(retain_graph=True)
    return result, result[0].grad


@case(lambda n: (leaf(n, 4),), then=with_retained)
def hooks_retain_grad(x):
    y = x.sin()
    if y.requires_grad:
        y.retain_grad()
    return y, y * 3


@case(lambda n: (leaf(n, 4),), makes_state=True)
def hooks_of_a_module():
    layer = nn.Linear(4, 4).double()
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    layer.register_forward_hook(lambda module, inputs, output: output + 1)
    return lambda x: layer(x), list(layer.parameters())


@case(lambda n: (leaf(n, 4),), makes_state=True)
def hooks_backward_of_a_module():
    layer = nn.Linear(4, 4).double()
    layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,) if inputs[0] is not None else None)
    return lambda x: layer(x), list(layer.parameters())


@case(lambda n: (leaf(n, 4),), makes_state=True)
def hooks_before_the_backward_of_a_module():
    layer = nn.Linear(4, 4).double()
    layer.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))
    return lambda x: layer(x), list(layer.parameters())


@case(lambda n: (leaf(n, 4),))
def hooks_on_saved_tensors(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return x * x


@case(lambda n: (leaf(n, 4), leaf(n, 4)), skip=("constant", "no_grad", "inference"))
def state_backward_inside(x, y):
    (x * y).sum().backward()
    return x * 2


@case(lambda n: (leaf(n, 4),), makes_state=True, skip=("constant", "no_grad", "inference"), order=1)
def state_grad_is_read():
    def f(x):
        return x * 2 if x.grad is None else x.grad * x

    return f, []


@case(lambda n: (leaf(n, 4),), makes_state=True, order=0, skip=("dynamic",))
def state_step_of_an_optimizer():
    w = torch.ones(4, dtype=torch.float64)
    momentum = torch.zeros(4, dtype=torch.float64)

    def f(x):
        with torch.no_grad():
            momentum.mul_(0.9).add_(x.sum(0))
            w.sub_(momentum, alpha=0.1)
        return w.norm()

    return f, [w, momentum]


@case(lambda n: (leaf(n, 4), leaf(n, 6)), makes_state=True)
def state_recurrent():
    cell = nn.LSTMCell(4, 6).double()

    def f(x, h):
        c = torch.zeros_like(h)
        for _ in range(3):
            h, c = cell(x, (h, c))
        return h, c

    return f, list(cell.parameters())
