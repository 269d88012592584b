"""The programs whose exported modules are judged: each is a function, its arguments, and what a call changes besides them."""
import copy

import diptych
import torch
from torch.nn import functional


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norms[0](x)).split(width, dim=-1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class GPT(torch.nn.Module):
    """Its last product has the weights of the embedding. `wrap` makes what runs a list of blocks."""

    def __init__(self, wrap, vocabulary=29, width=16, length=8, depth=3):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, 2) for _ in range(depth))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.wrap = wrap

    def forward(self, tokens, targets):
        x = self.wrap(self.blocks)(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1])))
        return functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def in_turn(blocks):
    def run(x):
        for block in blocks:
            x = block(x)
        return x
    return run


def in_turn_with_checkpoints(blocks):
    return in_turn([diptych.checkpoint(lambda x, block=block: block(x)) for block in blocks])


def in_a_scan(blocks):
    return lambda x: diptych.scan_layers(blocks, x)


class Residual(torch.nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = torch.nn.BatchNorm2d(outputs), torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False), torch.nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.second(functional.relu(self.norm1(self.first(x)))))
        return functional.relu(y + self.shortcut(x))


def resnet18(width=4):
    """ResNet-18 with few channels: stem, pooling, four stages of two blocks."""
    stages, inputs = [], width
    for stage in range(4):
        outputs = width << stage
        stages += [Residual(inputs, outputs, 1 if stage == 0 else 2), Residual(outputs, outputs, 1)]
        inputs = outputs
    return torch.nn.Sequential(torch.nn.Conv2d(3, width, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
                               *stages, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(inputs, 10))


def leaf(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype).requires_grad_()


def mlp(params, x):
    for layer in params["layers"][:-1]:
        x = functional.gelu(x @ layer["w"] + layer["b"])
    return (x @ params["layers"][-1]["w"]).square().mean(), {"features": x}


def mlp_parameters(dtype):
    return {"layers": [{"w": leaf(5, 7, dtype=dtype), "b": leaf(7, dtype=dtype)}, {"w": leaf(7, 3, dtype=dtype)}]}


def accumulate(total, x, w):
    total.mul_(0.5).add_(x)
    return (total * w).sin().sum(), w.t()


def language_model(wrap):
    def case():
        tokens = torch.randint(29, (2, 9))
        return lambda model, tokens, targets: model(tokens, targets), GPT(wrap), tokens[:, :-1], tokens[:, 1:]
    return case


CASES = {
    "mlp": lambda: (mlp, mlp_parameters(torch.float32), torch.randn(4, 5)),
    "mlp_f64": lambda: (mlp, mlp_parameters(torch.float64), torch.randn(4, 5, dtype=torch.float64)),
    "mlp_bf16": lambda: (mlp, mlp_parameters(torch.bfloat16), torch.randn(4, 5).bfloat16()),
    "gpt_tied": language_model(in_turn),
    "gpt_checkpoints": language_model(in_turn_with_checkpoints),
    "gpt_scan_layers": language_model(in_a_scan),
    "resnet18": lambda: (lambda model, x, labels: functional.cross_entropy(model(x), labels), resnet18(), torch.randn(8, 3, 64, 64), torch.arange(8)),
    "scan": lambda: (lambda w, h, xs: diptych.scan(lambda h, x: (torch.tanh(h @ w + x), h * 2), h, xs), leaf(3, 3), leaf(2, 3), leaf(5, 2, 3)),
    "cond": lambda: (lambda p, x: diptych.cond(p.sum() > 0, torch.sin, lambda x: x.cos() * 2, x), torch.ones(2), leaf(2, 3)),
    "while_loop": lambda: (lambda x, w: diptych.while_loop(lambda x: (x * x).sum() > 1, lambda x: x * 0.5, x) @ w, torch.randn(2, 3) * 9, leaf(3, 2)),
    "checkpoint": lambda: (lambda w, x: diptych.checkpoint(lambda y: torch.tanh(y @ w).exp())(x), leaf(3, 3), leaf(2, 3)),
    "dict_arguments": lambda: (lambda batch, scales: {"y": batch["x"] * scales["b"] + scales["a"], "x": batch["x"]}, {"x": leaf(2, 3), "unused": torch.ones(2)}, {"b": leaf(3), "a": leaf(2, 1)}),
    "in_place": lambda: (accumulate, torch.randn(3, 2), torch.randn(3, 2), leaf(3, 2)),
    "constants": lambda: (lambda x: (x * torch.arange(6.0).reshape(2, 3)).sum(), leaf(2, 3)),
}


def make(name):
    """Returns a case's function and arguments, the same ones each time."""
    torch.manual_seed(0)
    function, *arguments = CASES[name]()
    return function, arguments


def clone(arguments):
    return copy.deepcopy(arguments)
