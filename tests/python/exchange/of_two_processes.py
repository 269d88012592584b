"""What one of two processes does, started by torchrun: trains models in several ways beside eager, and prints for each the largest
difference of parameters, buffers and losses from eager's, what the compiled parts of it did, and what they warned of."""
import json
import os
import sys
import warnings

import diptych
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

SIZE = 6


class Net(nn.Module):
    """Has a buffer that differs between the processes until it is broadcast, and a layer that every other call does without."""

    def __init__(self, has_buffers=True):
        super().__init__()
        self.first, self.norm, self.last, self.rare = nn.Linear(4, 8), nn.BatchNorm1d(8) if has_buffers else nn.LayerNorm(8), nn.Linear(8, 2), nn.Linear(2, 2)
        if has_buffers:
            self.register_buffer("scale", torch.ones(1) * (1 + dist.get_rank()))

    def forward(self, x, rarely=False):
        y = self.last(self.norm(self.first(x)).tanh() * getattr(self, "scale", 1.0))
        return self.rare(y) if rarely else y


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def batch(step):
    generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
    return torch.randn(SIZE, 4, generator=generator, dtype=torch.float64)


def backward(model, step, **keywords):
    loss = model(batch(step), **keywords).square().mean()
    loss.backward()
    return loss.detach()


def plain(model, step):
    return backward(model, step)


def accumulating(model, step):
    with model.no_sync():
        backward(model, step + 100)
    return backward(model, step)


def rarely(model, step):
    return backward(model, step, rarely=step % 2 == 1)


def uneven(model, step):
    """The second process has one batch less."""
    with Join([model], enable=True):
        for part in range(2 - dist.get_rank()):
            loss = backward(model, 10 * step + part)
    return loss


def parallel(**options):
    return lambda model: DistributedDataParallel(model, **options)


def hooked(model):
    model.register_comm_hook(None, fp16_compress_hook)
    return model


def sharded(model, compile=lambda layer: layer, late=lambda layer: layer):
    mesh = init_device_mesh("cpu", (2,))
    for index, layer in enumerate(model.layers):
        model.layers[index] = late(fully_shard(compile(layer), mesh=mesh))
    return fully_shard(model, mesh=mesh)


def by_dynamo(model):
    return torch.compile(model, backend="diptych")


NET, LAYERS = Net, Layers
BARE = lambda: Net(has_buffers=False)  # noqa: E731
AOT, IN_PLACE = diptych.aot_module, diptych.compile
# name: (what makes the model, what is done to it with compile(), how compile() compiles, a step)
CASES = {
    "DDP(aot)": (NET, lambda m, compile: parallel()(compile(m)), AOT, plain),
    "DDP(aot) without buffers": (BARE, lambda m, compile: parallel()(compile(m)), AOT, plain),
    "aot(DDP)": (NET, lambda m, compile: compile(parallel()(m)), AOT, plain),
    "aot(DDP) without buffers": (BARE, lambda m, compile: compile(parallel()(m)), AOT, plain),
    "DDP in a compiled model": (BARE, lambda m, compile: compile(nn.Sequential(parallel()(m))), AOT, plain),
    "DDP(compiled in place)": (NET, lambda m, compile: parallel()(compile(m)), IN_PLACE, plain),
    "DDP compiled in place": (BARE, lambda m, compile: compile(parallel()(m)), IN_PLACE, plain),
    "torch.compile(DDP)": (NET, lambda m, compile: compile(parallel()(m)), by_dynamo, plain),
    "DDP(torch.compile)": (NET, lambda m, compile: parallel()(compile(m)), by_dynamo, plain),
    "no_sync": (NET, lambda m, compile: parallel()(compile(m)), AOT, accumulating),
    "no_sync, aot(DDP)": (BARE, lambda m, compile: compile(parallel()(m)), AOT, accumulating),
    "unused parameters": (NET, lambda m, compile: parallel(find_unused_parameters=True)(compile(m)), AOT, rarely),
    "static graph": (NET, lambda m, compile: parallel(static_graph=True, find_unused_parameters=True)(compile(m)), AOT, plain),
    "views of buckets": (BARE, lambda m, compile: parallel(gradient_as_bucket_view=True)(compile(m)), AOT, plain),
    "communication hook": (NET, lambda m, compile: hooked(parallel()(compile(m))), AOT, plain),
    "join": (BARE, lambda m, compile: parallel()(compile(m)), AOT, uneven),
    "aot(fully_shard)": (LAYERS, lambda m, compile: compile(sharded(m)), AOT, plain),
    "fully_shard(aot)": (LAYERS, lambda m, compile: sharded(m, compile), AOT, plain),
    "layers of fully_shard": (LAYERS, lambda m, compile: sharded(m, late=compile), AOT, plain),
    "layers of fully_shard in place": (LAYERS, lambda m, compile: sharded(m, late=compile), IN_PLACE, plain),
    "torch.compile(fully_shard)": (LAYERS, lambda m, compile: compile(sharded(m)), by_dynamo, plain),
}


def trained(case, compile):
    """Returns the model, and the tensors that it has after some steps with the losses."""
    make, wrap, _, step = CASES[case]
    torch.manual_seed(0)
    net = make().double()
    for parameter in getattr(net, "rare", nn.Identity()).parameters():
        parameter.requires_grad_(step is rarely or case == "static graph")
    model = wrap(net, compile)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for index in range(4):
        optimizer.zero_grad()
        losses.append(step(model, index))
        optimizer.step()
    tensors = [tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor for tensor in model.state_dict().values()]
    return model, torch.cat([*losses[0].new_tensor(losses).split(1), *(tensor.detach().double().reshape(-1) for tensor in tensors)])


def look_at_training(case):
    _, expected = trained(case, lambda model: model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, got = trained(case, CASES[case][2])
    stats = [module.stats() for module in model.modules() if isinstance(module, diptych.AotModule)]
    warned = [str(one.message) for one in caught if "runs uncompiled" in str(one.message)]
    return {"difference": (got - expected).abs().max().item(), "hits": sum(one.hits for one in stats), "originals": sum(one.originals for one in stats), "warned": warned}


def reduced(x):
    y = x * 2
    dist.all_reduce(y)
    return y


def gathered(x):
    parts = [torch.zeros_like(x), torch.zeros_like(x)]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def waited_for(x):
    y = x.clone()
    dist.broadcast(y, 0, async_op=True).wait()
    return y


COLLECTIVES = {"all_reduce": reduced, "all_gather": gathered, "broadcast": waited_for,
               "functional": lambda x: functional.all_reduce(x * 2, "sum", dist.group.WORLD) * 1}


def look_at_collective(name):
    """A collective is in the graph or is refused by name, and with eager_fallback the function itself runs in each call."""
    function = COLLECTIVES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled, differences = diptych.aot_function(function, eager_fallback=True), []
        for step in range(2):
            x = torch.arange(3.0) + step + dist.get_rank()
            differences.append((compiled(x) - function(x)).abs().max().item())
    return {"difference": max(differences), "why": compiled.stats().last_original}


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    seen = {name: look_at_training(name) for name in CASES} | {name: look_at_collective(name) for name in COLLECTIVES}
    with open(f"{sys.argv[1]}.{dist.get_rank()}", "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo's may be left, and end a process that unloads its libraries by SIGABRT


if __name__ == "__main__":
    main()
