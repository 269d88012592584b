"""Programs with modules: buffers, lazy parameters, reparametrizations, containers of modules, training steps."""
import copy

import diptych
import torch
import torch.nn.functional as F
import torch.nn.utils.prune
from programs import leaf, program
from torch import nn


def network():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 2))


@program(leaf(5, 4))
def modules_network(wrap):
    return wrap(network())


@program(leaf(5, 4), captures=2)
def modules_train_and_eval(wrap):
    model = network()
    f = wrap(model)
    return lambda x: (model.train(not model.training), f(x))[1]


@program(lambda step: torch.randn(5, 4))
def modules_training_step(wrap):
    model = network()
    f, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def call(x):
        optimizer.zero_grad()
        loss = f(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), [p.detach().clone() for p in model.parameters()]

    return call


@program(lambda step: torch.randn(5, 4))
def modules_whole_step(wrap):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = wrap(step)
    return lambda x: (f(x), [p.detach().clone() for p in model.parameters()])


@program(leaf(2, 4))
def modules_old_weight_norm(wrap):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wrap(nn.utils.weight_norm(nn.Linear(4, 3)))


@program(leaf(2, 4))
def modules_weight_norm(wrap):
    return wrap(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))


@program(leaf(2, 4))
def modules_spectral_norm(wrap):
    return wrap(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)))


@program(leaf(2, 4))
def modules_old_spectral_norm(wrap):
    return wrap(nn.utils.spectral_norm(nn.Linear(4, 3)))


@program(leaf(2, 4))
def modules_pruned(wrap):
    return wrap(nn.utils.prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5))


@program(leaf(3, 4))
def modules_lazy(wrap):
    return wrap(nn.Sequential(nn.LazyLinear(3), nn.Tanh(), nn.LazyLinear(2)))


class Averaged(nn.Module):
    """Rebinds a buffer and counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.calls = 0

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


@program(leaf(3, 4))
def modules_rebind_a_buffer(wrap):
    model = Averaged()
    f = wrap(model)
    return lambda x: (f(x), model.mean.clone())


class Remembers(nn.Module):
    """Keeps a result as an attribute."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        self.last = self.linear(x)
        return self.last.relu()


@program(leaf(3, 4))
def modules_keep_a_result(wrap):
    model = Remembers()
    f = wrap(model)
    return lambda x: (f(x), model.last * 1)


class Cached(nn.Module):
    """A cache of keys that grows with each call."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def forward(self, x):
        self.keys.append(x.detach())
        return torch.cat(self.keys).mean(0) * x


@program(leaf(3, 4), captures=4)
def modules_cache_that_grows(wrap):
    return wrap(Cached())


class Positions(nn.Module):
    """Makes a table when it is first asked for one so long."""

    def __init__(self):
        super().__init__()
        self.table, self.length = None, 0

    def forward(self, x):
        if self.table is None or x.shape[0] > self.length:
            self.length = x.shape[0]
            self.table = torch.arange(self.length)[:, None].float()
        return x + self.table[: x.shape[0]]


@program(leaf(3, 4), captures=2)
def modules_table_made_once(wrap):
    return wrap(Positions())


class Dispatch(nn.Module):
    """Experts by values."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 2), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = torch.where(choice == index)[0]
            out.index_add_(0, rows, expert(x[rows]))
        return out


@program(leaf(5, 4), captures=4)
def modules_experts(wrap):
    return wrap(Dispatch())


@program(leaf(5, 4))
def modules_experts_by_masks(wrap):
    model = Dispatch()

    def forward(model, x):
        choice = model.gate(x).argmax(-1)
        return sum(expert(x) * (choice == index)[:, None] for index, expert in enumerate(model.experts))

    f = wrap(forward)
    return lambda x: f(model, x)


@program(leaf(3, 2, 4))
def modules_lstm(wrap):
    return wrap(nn.LSTM(4, 3, 2))


@program(leaf(2, 6, 8))
def modules_attention(wrap):
    model = wrap(nn.MultiheadAttention(8, 2, batch_first=True))
    return lambda x: model(x, x, x)[0]


@program(leaf(5, 4))
def modules_copied(wrap):
    model = wrap(network())
    return copy.deepcopy(model)


@program(leaf(5, 4))
def modules_value_and_grad_with_extras(wrap):
    model = nn.Linear(4, 2)

    def loss(parameters, x):
        y = torch.func.functional_call(model, parameters, (x,))
        return y.square().mean(), y.detach()

    found = diptych.value_and_grad(loss, has_aux=True)

    def eager(parameters, x):
        gradients, (value, extras) = torch.func.grad_and_value(loss, has_aux=True)(parameters, x)
        return (value, extras), gradients

    f = eager if wrap(loss) is loss else found
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    return lambda x: [t.detach() for t in torch.utils._pytree.tree_leaves(f(parameters, x.detach()))]


class Checked(nn.Module):
    """Raises for what it does not take."""

    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("a matrix is needed")
        return F.softmax(x, -1)


@program(leaf(5, 4))
def modules_raise(wrap):
    model = wrap(Checked())

    def call(x):
        try:
            model(x[0])
        except ValueError as error:
            return str(error), model(x)

    return call


class Flags(nn.Module):
    """Options of its call."""

    def forward(self, x, *, output_hidden=False, return_dict=True, past=None):
        h = x.sin()
        result = {"last": h.cos(), "past": past}
        if output_hidden:
            result["hidden"] = (x, h)
        return result if return_dict else tuple(result.values())


@program(leaf(5, 4), captures=2)
def modules_options(wrap):
    model = wrap(Flags())
    return lambda x: (model(x, output_hidden=True), model(x, return_dict=False))
