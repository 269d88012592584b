"""What steps on devices refuse, by name: optimizers, options, hooks, functions, meshes."""
import random
import re

import diptych
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

X = torch.ones(3, 4)


class Mine(torch.optim.Adam):
    pass


def loss_of(model, x):
    return model(x).square().mean()


def refused(words, make_optimizer=None, loss=loss_of, x=X, model=None, **options):
    """Checks that making or calling a step is refused in these words, and that nothing changes."""
    model = model if model is not None else torch.nn.Linear(4, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = make_optimizer(model) if make_optimizer else torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(diptych.UserError, match=re.escape(words)):
        diptych.xla.capture_step(optimizer, loss, **options)(model, x)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


SGD, Adam = torch.optim.SGD, torch.optim.Adam
OPTIMIZERS = {
    "RMSprop": ("[step] got a torch.optim.rmsprop.RMSprop as the optimizer", lambda m: torch.optim.RMSprop(m.parameters())),
    "a class of the user": (".Mine as the optimizer, expected exactly", lambda m: Mine(m.parameters())),
    "no optimizer": ("[step] got a builtins.list as the optimizer", lambda m: list(m.parameters())),
    "differentiable": ("[step] differentiable of group 0 of the optimizer is set", lambda m: SGD(m.parameters(), lr=0.1, differentiable=True)),
    "capturable": ("[step] capturable of group 0 of the optimizer is set", lambda m: Adam(m.parameters(), capturable=True)),
    "a rate with a gradient": ("[step] lr of group 0 of the optimizer is a tensor that requires grad",
                               lambda m: SGD(m.parameters(), lr=torch.tensor(0.1, requires_grad=True))),
    "two kinds of decay": ("[step] decoupled_weight_decay of the optimizer is True in some groups", lambda m: Adam(
        [{"params": [m.weight], "decoupled_weight_decay": True}, {"params": [m.bias]}])),
    "complex numbers": ("[step] parameter 2 of group 0 of the optimizer is ComplexFloat", lambda m: SGD(
        [*m.parameters(), torch.zeros(2, dtype=torch.complex64, requires_grad=True)], lr=0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    refused(*OPTIMIZERS[name])


def test_hooks():
    def hooked(register):
        def make(model):
            optimizer = SGD(model.parameters(), lr=0.1)
            register(model, optimizer)
            return optimizer

        return make

    of_step = "[step] the optimizer's step() has hooks"
    refused(of_step, hooked(lambda model, optimizer: optimizer.register_step_pre_hook(lambda *_: None)))
    refused(of_step, hooked(lambda model, optimizer: optimizer.register_step_post_hook(lambda *_: None)))
    handle = register_optimizer_step_post_hook(lambda *_: None)
    try:
        refused(of_step)
    finally:
        handle.remove()
    of_gradient = "[step] parameter 1 of group 0 of the optimizer has hooks on its gradient"
    refused(of_gradient, hooked(lambda model, optimizer: model.bias.register_hook(lambda gradient: gradient * 2)))
    refused(of_gradient, hooked(lambda model, optimizer: model.bias.register_post_accumulate_grad_hook(lambda parameter: None)))


def test_state_of_another_model():
    def make(model):
        optimizer = Adam(model.parameters())
        optimizer.state[model.bias] = {"step": torch.tensor(3.0), "exp_avg": torch.zeros(5), "exp_avg_sq": torch.zeros(5)}
        return optimizer

    refused("[step] the optimizer's exp_avg of parameter 1 of group 0 is Float of sizes [5], expected Float of sizes [2]", make)


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class Counts(torch.nn.Linear):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def by_chance(model, x):
    return loss_of(model, x) * random.random()


def test_effects_on_the_host_are_refused_and_undone():
    model, seen = Counts(4, 2), []
    refused("[step] the function changes 'model", model=model)
    assert model.calls == 0
    refused("[step] the function changes 'closure.seen", loss=lambda model, x: seen.append(1) or loss_of(model, x))
    assert seen == []
    random.seed(1)
    refused("[step] the function draws random numbers", loss=by_chance)
    drawn = random.random()
    random.seed(1)
    assert drawn == random.random()


def returns(value):
    return lambda model, x: value(loss_of(model, x))


def test_what_functions_return():
    words = "in the place of the loss, expected one tensor, or a tuple of the loss"
    for value in (lambda y: {"loss": y}, lambda y: [y, y], lambda y: (y, y, y), lambda y: (1.0, y), lambda y: None):
        refused(words, loss=returns(value))
    refused("[step] the function returned a dict with a dict in the place", loss=returns(lambda y: {"loss": y}))
    refused("[step] the function's first result is not a loss", loss=lambda model, x: model(x))
    refused("[step] the function's first result is not a loss", loss=lambda model, x: x.sum())


def test_what_programs_do_not_hold():
    refused("aten._linalg_svd", loss=lambda model, x: torch.linalg.svdvals(model(x)).sum())
    refused("[step] 'x' requires grad and is not a parameter of the optimizer", x=torch.ones(3, 4, requires_grad=True))
    model = torch.nn.Linear(4, 2)
    refused("[step] 'x' shares memory with 'model.weight', which the step changes", x=model.weight.detach(), model=model)
    refused("[capture] 'x' is a tensor of layout Sparse", x=X.to_sparse())
    refused("[step] 'x' is a", x=X.as_subclass(Loud))


def test_calls_inside_transforms_and_captures():
    model = torch.nn.Linear(4, 2)
    step = diptych.xla.capture_step(SGD(model.parameters(), lr=0.1), loss_of)
    with pytest.raises(diptych.UserError, match=r"\[step\] a step was called inside a function that is being captured"):
        diptych.capture(lambda x: step(model, x).loss.tensor(), X)
    with pytest.raises(diptych.UserError, match=r"\[step\] .* expected plain tensors and no mode"):
        torch.func.grad(lambda x: step(model, x).loss.tensor())(X)
    assert step.num_programs == 0


def test_numbers_and_meshes():
    refused("[step] max_gradient_norm is -1, expected a positive number", max_gradient_norm=-1.0)
    refused("[step] norm_type is 0, expected a positive number or infinity", norm_type=0.0)
    refused("partition", partition="most")
    mesh = diptych.xla.Mesh({"data": 1})
    refused("[step] optimizer_axis is 'model', which the mesh does not have", mesh=mesh, optimizer_axis="model")
    refused("[xla] the sharding of 'x' is 'data', expected the axis of each dimension", mesh=mesh, shardings={"x": "data"})
    refused("[xla] the sharding of 'x' is (1,), expected the axis of each dimension", mesh=mesh, shardings={"x": (1,)})
    refused("got size 0", mesh=diptych.xla.Mesh({"data": 0}))
    for given in (("data",), ({"data": 1}, (1,)), (("data",), (1, 2)), (("data",),)):
        with pytest.raises(diptych.UserError, match=r"\[xla\] a mesh got .* as its axes"):
            diptych.xla.Mesh(*given)
    assert diptych.xla.Mesh({"a": 2, "b": 3}) == diptych.xla.Mesh(("a", "b"), (2, 3)) != diptych.xla.Mesh({"b": 3, "a": 2})


def test_errors_of_calls_are_pythons():
    model = torch.nn.Linear(4, 2)
    step = diptych.xla.capture_step(SGD(model.parameters(), lr=0.1), loss_of)
    with pytest.raises(TypeError):
        step(model, X, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        step(model, torch.ones(3, 5))
    assert step.num_programs == 0
