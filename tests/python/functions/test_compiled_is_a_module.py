"""A compiled module in the place of the module: whatever torch and its tools do to a module does the same to it."""
import copy
import inspect
import io
import pickle

import diptych
import pytest
import torch
from diptych import aot_module
from torch import nn
from torch.func import functional_call, stack_module_state
from torch.nn.utils import parametrizations, parametrize, prune

INPUT = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(5, 4)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4)).double()


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 4).double()


class Within(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, linear()

    def forward(self, x):
        return self.head(self.encoder(x))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).mT


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = linear()

    def forward(self, x):
        return self.last(x)

    def train(self, mode=True):
        return super().train(mode)


class Derived(Base):
    registered = []

    def __init_subclass__(cls, **kwargs):
        Derived.registered.append(cls)

    def forward(self, x):
        return super().forward(x) * 2

    def twice(self, x):
        return self(self(x))

    @property
    def first(self):
        return self.last.weight


class HasOurNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.stats, self.module = linear(), linear()

    def clear(self):
        return "its own"

    def forward(self, x):
        return self.module(self.stats(x))


def trained(module, steps=3):
    """Returns losses, parameters and buffers after some steps."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(INPUT).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, module.state_dict()


def hooked(module):
    module.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    module.register_forward_hook(lambda module, inputs, output: output * 2)
    module[3].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    module.register_state_dict_post_hook(lambda module, state, *_: state.update(extra=torch.ones(1)))
    return module


def after(change, module):
    change(module)
    return module


def assigned(outer, compile):
    outer.encoder = compile(outer.encoder)
    return outer


def averaged(module):
    average = torch.optim.swa_utils.AveragedModel(module)
    for _ in range(2):
        trained(module)
        average.update_parameters(module)
    return average.eval()


# name: what makes a module with the help of compile(module), which eager's side leaves as it is.
PROGRAMS = {
    "itself": lambda compile: compile(net()),
    "child of a container": lambda compile: nn.Sequential(compile(net())),
    "child from __init__": lambda compile: Within(compile(net())),
    "child assigned": lambda compile: assigned(Within(net()), compile),
    "child of a compiled module": lambda compile: compile(Within(compile(net()))),
    "edited as a container": lambda compile: compile(net()).append(compile(linear())).insert(0, linear()).extend([compile(linear()), nn.Tanh()]),
    "compiled twice": lambda compile: compile(compile(net())),
    "deep copy": lambda compile: copy.deepcopy(compile(net())),
    "deep copy inside": lambda compile: copy.deepcopy(Within(compile(net()))),
    "pickled": lambda compile: pickle.loads(pickle.dumps(Within(compile(net())))),
    "averaged": lambda compile: averaged(compile(net())),
    "hooks": lambda compile: hooked(compile(net())),
    "pruned before": lambda compile: compile(after(lambda m: prune.l1_unstructured(m, "weight", 0.5), linear())),
    "pruned after": lambda compile: after(lambda m: prune.l1_unstructured(m, "weight", 0.5), compile(linear())),
    "pruned after a call": lambda compile: after(lambda m: (m(INPUT), prune.random_structured(m, "weight", 1, 0)), compile(linear())),
    "parametrized before": lambda compile: compile(after(lambda m: parametrize.register_parametrization(m, "weight", Symmetric()), linear())),
    "parametrized after": lambda compile: after(lambda m: (m(INPUT), parametrize.register_parametrization(m, "weight", Symmetric())), compile(linear())),
    "parametrizations removed": lambda compile: after(
        lambda m: (parametrize.register_parametrization(m, "weight", Symmetric()), m(INPUT), parametrize.remove_parametrizations(m, "weight")), compile(linear())
    ),
    "parametrized child": lambda compile: after(lambda m: parametrize.register_parametrization(m[0], "weight", parametrizations._WeightNorm()), compile(nn.Sequential(linear()))),
    "weight_norm": lambda compile: after(parametrizations.weight_norm, compile(linear())),
    "spectral_norm": lambda compile: after(parametrizations.spectral_norm, compile(linear())),
    "the old weight_norm": lambda compile: after(torch.nn.utils.weight_norm, compile(linear())),
    "state assigned": lambda compile: after(lambda m: m.load_state_dict({k: v * 2 for k, v in net().state_dict().items()}, assign=True), compile(net())),
    "double": lambda compile: compile(linear()).float().double(),
    "apply": lambda compile: compile(net()).apply(lambda m: nn.init.constant_(m.weight, 0.1) if isinstance(m, nn.Linear) else None),
    "lazy": lambda compile: after(lambda m: (torch.manual_seed(0), m(INPUT)), compile(nn.LazyLinear(4, dtype=torch.float64))),
    "lazy inside": lambda compile: after(lambda m: (torch.manual_seed(0), m(INPUT)), Within(compile(nn.LazyLinear(4, dtype=torch.float64)))),
    "scripted": lambda compile: compile(torch.jit.script(linear())),
    "symbolically traced": lambda compile: compile(torch.fx.symbolic_trace(net())),
    "child replaced": lambda compile: after(lambda m: (m(INPUT), setattr(m, "0", nn.Linear(4, 8).double()), nn.init.ones_(m[0].weight), nn.init.zeros_(m[0].bias)), compile(net())),
    "parameter registered": lambda compile: after(lambda m: (m(INPUT), m.register_parameter("bias", None)), compile(linear())),
    "converted for BatchNorm of processes": lambda compile: compile(nn.SyncBatchNorm.convert_sync_batchnorm(compile(net())).eval()),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated", "ignore:Lazy modules", "ignore:.*torch.jit.script")
@pytest.mark.parametrize("how", [aot_module, diptych.compile], ids=["aot_module", "compile"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_modules(name, how):
    eager, ours = PROGRAMS[name](lambda module: module), PROGRAMS[name](how)
    assert list(ours.state_dict()) == list(eager.state_dict())
    assert [path for path, _ in ours.named_modules()] == [path for path, _ in eager.named_modules()]
    assert repr(ours) == repr(eager) and type(ours).__name__ == type(eager).__name__ and ours.__class__.__qualname__ == eager.__class__.__qualname__
    if name != "converted for BatchNorm of processes":
        torch.testing.assert_close(trained(ours), trained(eager))
    torch.testing.assert_close(ours.eval()(INPUT), eager.eval()(INPUT))


def test_a_compiled_module_is_an_instance_of_its_class_and_holds_the_same():
    module = Derived()
    compiled, x = aot_module(module), INPUT
    assert isinstance(compiled, Derived) and isinstance(compiled, diptych.AotModule) and not isinstance(module, diptych.AotModule)
    assert compiled.__class__ is Derived and type(compiled).__name__ == "Derived" and type(compiled).__module__ == __name__ and Derived.registered == []
    assert compiled.module is module and compiled.last is module.last and dict(compiled.named_children()).keys() == {"last"}
    assert all(one is other for one, other in zip(compiled.parameters(), module.parameters(), strict=True))
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(compiled.twice(x), module.twice(x))  # by compiled calls
    assert compiled.stats().hits + compiled.stats().misses == 3 and compiled.first is module.last.weight
    assert compiled.eval() is compiled and not module.training
    assert type(type(compiled)()) is Derived and inspect.signature(compiled) == inspect.signature(module.forward)
    torch.testing.assert_close(compiled.forward(x), module.forward(x))
    assert aot_module(compiled).module is module


def test_names_of_the_modules_own_go_before_ours():
    module = HasOurNames()
    compiled = aot_module(module)
    torch.testing.assert_close(compiled(INPUT), module(INPUT))
    assert compiled.stats is module.stats and compiled.module is module.module and compiled.clear() == "its own"
    assert diptych.AotModule.stats(compiled).misses == 1 and diptych.AotModule.module(compiled) is module


def test_containers_keep_their_protocols():
    module = net()
    compiled = aot_module(module)
    assert len(compiled) == 4 and compiled[0] is module[0] and list(compiled) == list(module)
    assert type(compiled[1:]) is nn.Sequential and len(compiled + linear_pair()) == 6
    assert len(nn.ModuleList([compiled, linear()])) == 2 and len(list(nn.Sequential(compiled, linear()).parameters())) == 8


def linear_pair():
    return nn.Sequential(linear(), linear())


def test_functions_of_state():
    state = {name: tensor.detach() * 2 for name, tensor in linear().named_parameters()}
    compiled = aot_module(linear())
    for _ in range(2):
        torch.testing.assert_close(functional_call(compiled, state, (INPUT,)), functional_call(linear(), state, (INPUT,)))

    def loss(module):
        return lambda state: functional_call(module, state, (INPUT,)).square().sum()

    torch.testing.assert_close(torch.func.grad(loss(compiled))(state), torch.func.grad(loss(linear()))(state))
    modules = [aot_module(nn.Linear(4, 2).double()) for _ in range(3)]
    stacked, buffers = stack_module_state(modules)
    base = copy.deepcopy(modules[0]).to("meta")
    assert base.weight.is_meta and not modules[0].weight.is_meta
    outs = torch.vmap(lambda *state: functional_call(base, state, (INPUT,)))(stacked, buffers)
    torch.testing.assert_close(outs, torch.stack([module(INPUT) for module in modules]))


def test_files_hold_a_compiled_module():
    file, expected = io.BytesIO(), net().eval()(INPUT)
    torch.save({"model": aot_module(net(), partition="min_cut").eval()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)["model"]
    torch.testing.assert_close(loaded(INPUT), expected)
    assert isinstance(loaded, diptych.AotModule) and loaded.forward_graphs()


def test_compile_in_place_returns_the_module_and_hits():
    module = net()
    assert diptych.compile(module) is module and type(module) is nn.Sequential
    trained(module)
    stats = module._compiled_call_impl.func.stats()
    assert (stats.misses, stats.hits, stats.originals) == (1, 2, 0)
    copied = copy.deepcopy(module)
    assert copied._compiled_call_impl is None and module._compiled_call_impl is not None


class HasSlots(nn.Module):
    __slots__ = ("kept",)

    def forward(self, x):
        return x * self.kept


def test_a_class_with_slots_is_compiled_in_place_alone():
    module = HasSlots()
    module.kept = 2.0
    with pytest.raises(diptych.UserError, match=r"\[aot_module\] got a HasSlots.*use diptych.compile"):
        aot_module(module)
    torch.testing.assert_close(diptych.compile(module)(INPUT), INPUT * 2)
    for wrong in (aot_module, diptych.compile):
        with pytest.raises(diptych.UserError, match="expected a torch.nn.Module; use aot_function"):
            wrong(lambda x: x)
    with pytest.raises(diptych.UserError, match="use aot_module"):
        diptych.AotModule(module)


class HasDecoratedMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = linear()

    @diptych.aot_function
    def forward(self, x, scale=1.0):
        """Scales."""
        return self.last(x) * scale


def test_a_decorated_method_is_a_method():
    module = HasDecoratedMethods()
    method = module.forward
    assert inspect.ismethod(method) and method.__self__ is module and method.__func__ is HasDecoratedMethods.forward
    assert method.__name__ == "forward" and method.__doc__ == "Scales." and str(inspect.signature(method)) == "(x, scale=1.0)"
    for scale in (1.0, 2.0):
        torch.testing.assert_close(module(INPUT, scale=scale), module.last(INPUT) * scale)
    assert method.stats().misses == 2 and HasDecoratedMethods.forward.stats().misses == 2
    other = pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(other(INPUT), module(INPUT))
    torch.testing.assert_close(aot_module(module)(INPUT), module(INPUT))
