"""Worker: capture by make_fx of torch.func.grad_and_value, with fake tensors so that no kernel runs."""

import protocol
from models_torch import MODELS
from torch.func import grad_and_value
from torch.fx.experimental.proxy_tensor import make_fx


def capture_case(name):
    model = None

    def run(repeat):
        nonlocal model
        model = model or MODELS[name]()
        params = [value.detach() for value in model.params]
        graphs = []

        def once():
            function = grad_and_value(lambda p, b, d: model.loss(p, b, d))
            graphs.append(make_fx(function, tracing_mode="fake")(params, model.buffers, model.data))

        times = protocol.timed(repeat, once)
        nodes = sum(node.op == "call_function" for node in graphs[-1].graph.nodes)
        return times, {"joint_nodes": nodes}

    return run


if __name__ == "__main__":
    protocol.serve({f"capture/{name}": capture_case(name) for name in ("gpt", "gpt2", "resnet18")})
