"""Decisions of the host on values: branches, loops, counts and places that follow from what tensors hold, with writes and draws before and after them."""
from features import Feature, chain, feature, unary

KIND = "decisions on values"
LOOKED_AT = ["x", "w", "y", "y.detach()", "y.sin()", "x * w", "b{0}", "(y * b{0})", "torch.rand(3)", "torch.rand(2, 3).mul(2).sub(1)", "x[0]", "y.t()"]
QUESTIONS = [
    "{v}.sum() > {c}", "{v}.mean().item() > {c}", "bool(({v} > {c}).any())", "({v} < {c}).all()", "not ({v}.max() > {c})", "{v}.norm() > abs({c}) * 2",
    "int({v}.sum() * 2) % 2 == 0", "float({v}.min()) < {c}", "{v}.argmax().item() % 2 == 0", "torch.is_nonzero(({v} > {c}).sum() % 2)", "len(({v} > {c}).nonzero()) > 2",
    "({v} > {c}).sum().item() in (1, 2, 3)", "{v}.reshape(-1)[0] > {c} and {v}.sum() < 2", "{v}.reshape(-1)[1] > {c} or {v}.isnan().any()", "torch.equal({v} > {c}, {v} > -{c})",
    "torch.allclose({v}, {v}.abs())", "{v}.tolist()[0] != {v}.tolist()[-1]", "max({v}.sum(), {v}.mean()) > {c}", "({v} > {c}).double().mean().round().item()",
    "{v}.sum().detach() > {c}", "bool({v}.sum() > {c}) ^ bool({v}.mean() > 0)", "{v}.count_nonzero() > 3", "math.floor({v}.sum()) >= {c}",
]  # fmt: skip
NUMBERS = [
    "y = y * {v}.sum().item()", "y = y + float({v}.mean())", "y = y / (1 + abs({v}.max().item()))", "y = y * int({v}.abs().sum())", "y = y + round({v}.sum().item())",
    "y = y * (2 if {v}.sum() > {c} else 3)", "y = y + torch.full((3,), {v}.sum().item())", "y = y + torch.tensor({v}.tolist()).sum()", "y = y + len({v}.unique())",
    "y = y.clamp(max=abs({v}.max().item()) + 0.1)", "y = y + sum(row[0] for row in (x > {c}).double().tolist())", "y = y * min({v}.sum(), 1.0)", "y = torch.pow(y.abs() + 1, int({v}.sum()) % 3)",
]  # fmt: skip
PLACES = [
    "more.append({v}[{v} > {c}])", "y = y + {v}[{v} > {c}].sum()", "more.append(({v} > {c}).nonzero())", "y = y + {v}[({v} > {c}).nonzero(as_tuple=True)].sin().sum()",
    "y = y.clone(); y[y > {c}] = 0.5", "y = y.clone(); y[y > {c}] = y[y > {c}] * 2", "y = y.masked_fill(y > {c}, 0.0) + torch.masked_select({v}, {v} > {c}).sum()",
    "y = y + torch.where({v} > {c})[0].sum()", "y = y + y[:, : int((x[0] > {c}).sum()) + 1].sum()", "more.append(y[int({v}.argmax()) % 2])", "y = y[(x[:, 0] > {c}).nonzero()[:, 0]].sum() + y",
    "more.append(y.repeat_interleave((x[:, 0] > {c}).long() + 1, 0))", "more.append(torch.split(y, [int(x.sum() > {c}), 2 - int(x.sum() > {c})])[1])", "more.append({v}.unique(return_counts=True)[1])",
    "more.append(torch.bincount((x > {c}).long().reshape(-1)))", "more.append(F.one_hot((x[0] > {c}).long()))", "y = y + {v}.sort().values.sum() + {v}[{v} != {v}.max()].sum()",
    "m{0} = x > {c}; y = y.index_put((m{0},), y[m{0}].exp())", "more.append(torch.zeros(int((x > {c}).sum()) + 1) + y.mean())", "y = y.clone(); y.view(-1)[(x > {c}).view(-1)] += 1.0",
]  # fmt: skip
EFFECTS = [
    "b{0}.add_(1.0)", "b{0}.mul_(0.5); y = y + b{0}", "b{0}[0] = y.detach().mean() * 0.1", "y = y * torch.rand(3)", "y = F.dropout(y, 0.5)", "y = y + torch.randn_like(y)", "y = y.clone(); y[0].mul_(2.0)",
    "w.data.mul_(1.01)", "y = y.sin()", "more.append(y.cos())", "y = y + torch.empty(3).uniform_()", "b{0}.copy_(torch.rand(3))", "y.register_hook(lambda g: g * 2) if y.requires_grad else None",
    "z{0} = y.detach(); y = y * z{0}.mean()", "more.append(b{0} * y)",
]  # fmt: skip


def value(rng, name):
    return rng.choice(LOOKED_AT).format(name)


def threshold(rng):
    return rng.choice(["0.0", "0.1", "0.4", "-0.3", "1.0"])


def question(rng, name):
    return rng.choice(QUESTIONS).format(v=value(rng, name), c=threshold(rng))


def filled(rng, lines, name):
    return rng.choice(lines).format(name, v=value(rng, name), c=threshold(rng))


def some_effects(rng, name):
    return [rng.choice(EFFECTS).format(name) for _ in range(rng.choice([0, 1, 1, 2]))]


def indented(lines):
    return [f"    {line}" for line in lines]


def branch(rng, name):
    step = lambda: [*some_effects(rng, name), rng.choice([f"y = {chain(rng, 'y')}", f"y = {unary(rng, 'y')} * 2", filled(rng, NUMBERS, name), filled(rng, PLACES, name)])]
    other = rng.choice([["else:", *indented(step())], [f"elif {question(rng, name)}:", *indented(step())], [], ["else:", "    return (y * 2, *more)"]])
    return [f"if {question(rng, name)}:", *indented(step()), *other]


def loop(rng, name):
    step = rng.choice([f"y = {unary(rng, 'y')}", "y = y * 0.5 + x", f"b{name}.add_(0.5)", "y = y * torch.rand(3)", "more.append(y.sum())"])
    return rng.choice(
        [
            [f"k{name} = 0", f"while k{name} < 3 and {question(rng, name)}:", f"    k{name} += 1", f"    {step}"],
            [f"for _ in range(int({value(rng, name)}.abs().sum()) % 4):", f"    {step}"],
            [f"for k{name} in range(3):", f"    {step}", f"    if {question(rng, name)}: break"],
            [f"for k{name} in ({value(rng, name)}.reshape(-1)[:3] > {threshold(rng)}).tolist():", f"    {step if rng.random() < 0.5 else f'y = y * (2 if k{name} else 3)'}"],
            [f"for row{name} in x:", f"    if row{name}.sum() > {threshold(rng)}: {step}"],
        ]
    )


@feature(KIND, 8)
def decision(rng, name):
    made = rng.choice([branch, branch, loop, lambda rng, name: [filled(rng, NUMBERS, name)], lambda rng, name: [filled(rng, PLACES, name)]])
    body = [*some_effects(rng, name), *made(rng, name), *some_effects(rng, name)]
    options = rng.choice([{}, {}, {}, {"path_limit": 1}, {"path_limit": 2}, {"path_limit": 3}])
    return Feature(setup=[f"b{name} = torch.ones(3)"], body=body, after=[f"see(b{name}, torch.rand(2))"], options=options)
