"""What a forward registers in modules when it first runs: hooks, children, parameters, buffers, and what hooks keep for the backward.
What a trace has registered is taken back before the forward itself registers it."""
import functools

import diptych
import pytest
import torch
from torch import nn
from torch.nn.modules import module as of_all

from beside_eager import Cases

once = Cases()  # of what a forward does to its module the first time
every = Cases()  # each time


def _hooks(kind):
    """How many hooks there are of each kind."""
    return {name: len(held) for name, held in vars(kind).items() if name.endswith("_hooks") and held is not None}


class Net(nn.Module):
    def __init__(self, register, is_done=lambda net: hasattr(net, "done")):
        super().__init__()
        self.child, self.more, self.table = nn.Linear(2, 2), nn.ModuleList(), nn.ParameterDict()
        self.register, self.is_done = register, is_done
        self.seen = []

    def forward(self, x):
        if not self.is_done(self):
            self.done = True
            self.register(self)
        y = self.child(x)
        for layer in self.more:
            y = layer(y)
        return y * getattr(self, "scale", 1)


@once
def a_hook(net):
    net.child.register_forward_hook(lambda module, args, out: out * 2)


@once
def a_hook_that_takes_keywords(net):
    net.child.register_forward_hook(lambda module, args, kwargs, out: out * 2, with_kwargs=True, always_call=True)


@once
def a_hook_before_the_forward(net):
    net.child.register_forward_pre_hook(lambda module, args: args[0] * 2)


@once
def a_full_backward_hook(net):
    net.child.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))


@once
def a_hook_before_the_backward(net):
    net.child.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))


@once
def a_hook_that_keeps_what_passes(net):
    net.child.register_forward_hook(lambda module, args, out: net.seen.append(len(net.seen)))


@once
def a_hook_of_the_state_dict(net):
    net.child.register_state_dict_post_hook(lambda *args: None)


@once
def a_hook_of_all_modules(net):
    net.handle = of_all.register_module_forward_hook(lambda module, args, out: out * 2 if module is net.child else None)


@once
def a_hook_of_a_parameter(net):
    net.child.weight.register_hook(lambda gradient: gradient * 2)


@once
def a_hook_after_which_no_graph_can_be_made(net):
    net.child.register_forward_hook(lambda module, args, out: out * (1 if out.data_ptr() else 2))


@once
def a_parametrization(net):
    nn.utils.parametrizations.weight_norm(net.child)


@every
def a_hook_each_time(net):
    net.child.register_forward_hook(lambda module, args, out: out * 2)


@every
def a_hook_that_is_removed(net):
    net.child.register_forward_hook(lambda module, args, out: out * 2).remove()


def _made(what, is_done):
    """A forward that makes something unless it is there: nothing else changes."""

    def make():
        return Net(what, is_done)

    return make


def _a_layer(net):
    layer = nn.Linear(2, 2, bias=False)
    nn.init.ones_(layer.weight)
    net.more.append(layer)


def _an_entry(net):
    net.table["scale"] = nn.Parameter(torch.arange(2.0))
    net.scale = net.table["scale"]


MADE = {
    "a layer of a list": _made(_a_layer, lambda net: len(net.more) == 2),
    "a buffer": _made(lambda net: net.register_buffer("scale", torch.arange(2.0)), lambda net: hasattr(net, "scale")),
    "a buffer that no state has": _made(lambda net: net.register_buffer("scale", torch.arange(2.0), persistent=False), lambda net: hasattr(net, "scale")),
    "a parameter": _made(lambda net: net.register_parameter("scale", nn.Parameter(torch.arange(2.0))), lambda net: hasattr(net, "scale")),
    "an entry of a dict": _made(_an_entry, lambda net: "scale" in net.table),
    **{name: _made(register, lambda net: hasattr(net, "done")) for name, register in once.items()},
    **{name: _made(register, lambda net: False) for name, register in every.items()},
}


def _steps(call, net):
    found = []
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        y = call(x)
        y.sum().backward()
        state = {name: value.tolist() for name, value in net.state_dict().items()}
        gradients = {name: parameter.grad.tolist() for name, parameter in net.named_parameters() if parameter.grad is not None}
        hooks = [_hooks(net.child), _hooks(of_all), len(net.child.weight._backward_hooks or ()), len(net._non_persistent_buffers_set)]
        found.append((y.tolist(), x.grad.tolist(), state, gradients, list(net.seen), hooks))
        net.zero_grad()
    return found


WAYS = {
    "module": diptych.aot_module,
    "function": lambda net: diptych.aot_function(lambda x: net(x), eager_fallback=True),
    "argument": lambda net: functools.partial(diptych.aot_function(lambda net, x: net(x), eager_fallback=True), net),
}


@pytest.mark.filterwarnings("ignore:.*runs uncompiled")
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("how", WAYS)
def test_it_is_registered_as_often_as_in_eager(name, how):
    def run(compile):
        torch.manual_seed(0)
        net = MADE[name]()
        try:
            return _steps(compile(net), net)
        finally:
            if hasattr(net, "handle"):
                net.handle.remove()

    torch.testing.assert_close(run(WAYS[how]), run(lambda net: net))


def _append(module, args, out):
    if not hasattr(module, "kept"):
        module.kept = []
    module.kept.append(args[0].detach())


def _pop(module, inputs, outputs):
    module.found = torch.einsum("ni,nj->nij", outputs[0], module.kept.pop())


def _keep(module, args, out):
    module.kept = args[0].detach()


def _take(module, inputs, outputs):
    module.found = torch.einsum("ni,nj->nij", outputs[0], module.kept)
    del module.kept


def _raise(module, inputs, outputs):
    raise KeyError("the backward of a module")


KEPT = {"a list that grows": (_append, _pop, True), "a list that the hook makes": (_append, _pop, False), "an attribute": (_keep, _take, False),
        "nothing, but an error": (_keep, _raise, False)}


@pytest.mark.parametrize("name", KEPT)
def test_what_hooks_keep_for_the_backward(name):
    forward, backward, is_there = KEPT[name]

    def run(compile):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        layers = [net[0], net[2]]
        for layer in layers:
            layer.register_forward_hook(forward), layer.register_full_backward_hook(backward)
            if is_there:
                layer.kept = []
        call, found = compile(net), []
        for step in range(3):
            loss = call(torch.arange(6.0).reshape(2, 3).requires_grad_() + step).square().sum()
            if backward is _raise:
                with pytest.raises(KeyError, match="the backward of a module"):
                    loss.backward()
            else:
                loss.backward()
            found.append([loss.detach(), *([layer.found, len(getattr(layer, "kept", ()))] for layer in layers if hasattr(layer, "found"))])
        return found

    torch.testing.assert_close(run(diptych.aot_module), run(lambda net: net))
