"""Memory that several own, views that overlap themselves, literals, leaves that are made inside."""
from features import Feature, chain, feature, number

WRITES = ["fill_(2.0)", "zero_()", "add_(1.0)", "mul_(3.0)", "copy_(torch.arange(3.0))", "sin_()", "relu_()", "clamp_(max=0.5)", "add_(w[0])"]
SHARED = [
    "a{0} = numpy.arange(6.0, dtype=numpy.float32); s{0} = torch.from_numpy(a{0}); t{0} = torch.from_numpy(a{0})",
    "a{0} = numpy.arange(6.0, dtype=numpy.float32); s{0} = torch.from_numpy(a{0}[:4]); t{0} = torch.from_numpy(a{0}[2:])",
    "s{0} = torch.arange(6.0); t{0} = torch.from_numpy(s{0}.numpy())",
    "s{0} = torch.arange(6.0); t{0} = torch.from_dlpack(s{0}.numpy())",
    "s{0} = torch.arange(6.0); t{0} = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(s{0}))",
    "a{0} = bytearray(24); s{0} = torch.frombuffer(a{0}, dtype=torch.float32); t{0} = torch.frombuffer(a{0}, dtype=torch.float32, offset=8)",
    "s{0} = torch.arange(6.0); t{0} = s{0}.view(2, 3)",
    "s{0} = torch.arange(6.0); t{0} = s{0}.detach()",
    "s{0} = torch.arange(6.0); t{0} = s{0}.data",
    "s{0} = torch.arange(6.0); t{0} = s{0}[1:4]",
    "s{0} = torch.arange(6.0); t{0} = torch.empty(0).set_(s{0}.untyped_storage(), 2, (3,))",
    "a{0} = numpy.zeros((2, 3), dtype=numpy.float32); s{0} = torch.from_numpy(a{0}); t{0} = torch.from_numpy(a{0}.T)",
]


@feature("memory shared with other owners", 5)
def shared_memory(rng, name):
    write, read = (f"s{name}", f"t{name}") if rng.random() < 0.5 else (f"t{name}", f"s{name}")
    body = [f"{write}.{rng.choice(['mul_(2.0)', 'add_(1.0)', 'fill_(3.0)', 'view(-1)[1:].add_(1.0)'])}", f"more.append({read} * 1)"]
    if rng.random() < 0.4:
        body.append(f"{read}.{rng.choice(['add_(1.0)', 'neg_()'])}")
        body.append(f"more.append({write} + 1)")
    return Feature(setup=[rng.choice(SHARED).format(name)], body=body, after=[f"see(s{name}, t{name})"])


@feature("memory shared with other owners")
def arguments_that_share(rng, name):
    """As extra arguments: the function is called by way of a tuple."""
    write = rng.choice(["p[0]", "p[1]"])
    return Feature(
        before=[rng.choice(SHARED).format(name), f"extra.append((s{name}, t{name}))"],
        body=["for p in extra:", f"    {write}.mul_(2.0)", "    more.append(p[0] + 1); more.append(p[1] * 1)"],
        after=[f"see(s{name}, t{name})"],
    )


@feature("expanded views", 4)
def expanded(rng, name):
    source = rng.choice(["(x[0] * 1)", "x[0].detach().clone()", "torch.ones(3)", "w[0].clone()", "torch.zeros(1, 3)", "x[0]", f"c{name}"])
    view = rng.choice(["expand(2, 3)", "expand(2, 3)[1]", "expand(2, 2, 3)[0]", "expand(2, 3).t().t()", "unsqueeze(0).expand(2, -1, -1)[0]"])
    if "(1, 3)" in source or ".unsqueeze" in view:
        view = "expand(2, 3)" if "(1, 3)" in source else view
    if "unsqueeze" in view and source != "torch.zeros(1, 3)":
        view = "expand(2, 3)"
    return Feature(
        setup=[f"c{name} = torch.arange(3.0)"],
        body=[f"b{name} = {source}", f"e{name} = b{name}.{view}", f"e{name}.{rng.choice(WRITES)}", rng.choice([f"y = y + e{name}", f"more.append(b{name} * 1)", f"more.append(e{name})"])],
        after=[f"see(c{name})"],
    )


@feature("expanded views")
def overlapping(rng, name):
    view = rng.choice(["as_strided((2, 2), (1, 1))", "unfold(0, 2, 1)", "as_strided((3,), (0,))"])
    return Feature(body=[f"v{name} = torch.arange(3.0) * 1", f"v{name}.{view}.{rng.choice(['fill_(2.0)', 'zero_()', 'add_(1.0)', 'mul_(2.0)'])}", f"y = y + v{name}"])


LITERALS = [
    "torch.tensor(1.0)",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.as_tensor([1.0, 2.0, 3.0])",
    "torch.from_numpy(numpy.ones(3, dtype=numpy.float32))",
    "torch.scalar_tensor(2.0)",
    "torch.zeros(3)",
    "torch.arange(3.0)",
    "torch.tensor([1.0, 2.0, 3.0]).view(3, 1)",
    "torch.tensor([[1.0, 2.0, 3.0]])[0]",
    "torch.tensor(1.0).expand(3)",
    "torch.tensor([1.0, 2.0, 3.0]).detach()",
    "torch.eye(3)",
    "torch.asarray([1.0, 2.0, 3.0])",
    "x.new_tensor([1.0, 2.0, 3.0])",
    "torch.full((3,), 2.0)",
    "torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))",
    "torch.stack([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)])",
    "{{'a': torch.tensor(1.0)}}['a']",
]


@feature("literals", 4)
def literal(rng, name):
    made = rng.choice(LITERALS).replace("{{", "{").replace("}}", "}")
    body = [f"l{name} = {made}"]
    if rng.random() < 0.5:
        body.append(f"y = y + l{name}.sum()")
    if rng.random() < 0.3:
        body.append(f"l{name}.data.add_(1.0)" if rng.random() < 0.3 else f"l{name} = l{name}.{rng.choice(['add(1.0)', 'contiguous()', 'clone()', 'view(-1)', 't()', 'requires_grad_(False)'])}")
    body.append(rng.choice([f"more.append(l{name})", f"more.append(l{name}[..., :2])", f"more += [l{name}, l{name}.reshape(-1)]", f"more += [l{name}, l{name}]"]))
    write = rng.choice(["t.add_(1.0)", "t.zero_()", "t.data.mul_(5.0)", "t.view(-1)[0] = 7.0", "t.numpy()[...] = 9.0"])
    return Feature(body=body, after=["with torch.no_grad():", f"    for t in out[1:]: tried(lambda: {write})" if "=" not in write else f"    for t in out[1:]: tried(lambda: t.reshape(-1)[:1].fill_(7.0))", "see(*out[1:])"])


@feature("leaves made inside", 2)
def leaf_inside(rng, name):
    made = rng.choice(["torch.ones(3, requires_grad=True)", "torch.tensor([1.0, 2.0, 3.0], requires_grad=True)", "torch.zeros(3).requires_grad_()", "x[0].detach().clone().requires_grad_()", "torch.nn.Parameter(torch.ones(3))", "x.detach().view(-1).requires_grad_(True)"])
    body = [f"l{name} = {made}", f"more.append(l{name})"]
    if rng.random() < 0.7:
        body.append(f"y = y + l{name}.sum()")
    return Feature(body=body, after=["see([t.grad for t in out if t.requires_grad and t.is_leaf])"])


@feature("views that are returned", 3)
def returned_view(rng, name):
    view = rng.choice(["y.t()", "y[0]", "y.view(-1)", "y.unbind(0)", "x.view(-1)", "x[1]", "w.t()", "y.expand(2, 2, 3)", "y.detach()", "x.detach()", "x.data", "(y * 1).split(1)", "y.diagonal()", "torch.view_as_complex(y[:, :2].contiguous())", "x", "y"])
    body = [f"r{name} = {view}", f"more.extend(r{name}) if isinstance(r{name}, tuple) else more.append(r{name})"]
    return Feature(body=body, after=["see([[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for b in [x, w, *out]] for a in out])", "see([t._is_view() for t in out])"])


@feature("wrapped numbers", 4)
def wrapped_numbers(rng, name):
    k = rng.choice(["2", "3", "2.5", "-2", "True", "2j", "numpy.float32(2)", "numpy.int64(3)", "fractions.Fraction(1, 2)", "torch.tensor(2)", "torch.tensor(2.0, dtype=torch.float64)", "x.shape[0]", "x.dim()"])
    op = rng.choice(["{0} // {1}", "{1} // {0}", "torch.floor_divide({0}, {1})", "{0} % {1}", "{1} % {0}", "{0} ** {1}", "{1} ** {0}", "{1} - {0}", "{1} / {0}", "torch.fmod({0}, {1})", "torch.remainder({0}, {1})", "{0} & 1", "divmod({0}, 2)[1]",
                     "torch.where({0} > 0, {1}, 0)", "{0}.clamp(min={1})", "torch.maximum({0}, torch.as_tensor({1}))", "{0}.mul({1}, )", "torch.add({0}, {1}, alpha=2)", "{0}.true_divide({1})", "{0}.lerp({0}, 0.5) * {1}", "torch.pow({1}, {0})", "{0} == {1}", "{0} << 1"])
    value = rng.choice(["(x.detach() + 3)", "(y + 4)", "torch.arange(1, 7).view(2, 3)", "torch.arange(1, 7, dtype=torch.int8).view(2, 3)", "(x.detach() > 0)", "y.double()", "y.to(torch.complex64)", "y.bfloat16()"])
    in_place = rng.choice([[], [], [f"q{name} = q{name} * 1", f"q{name}.{rng.choice(['floor_divide_', 'remainder_', 'pow_', 'mul_', 'div_'])}({number(rng)})"]])
    return Feature(body=[f"q{name} = {op.format(value, k)}", *in_place, f"more.append(q{name})"])


@feature("conjugates")
def conjugates(rng, name):
    body = [f"z{name} = torch.complex(y, y + 1){rng.choice(['', '.conj()', '.conj() * 1'])}", rng.choice([f"z{name}.mul_(2j)", f"z{name}.imag.add_(1)", f"z{name}.real.mul_(2)", f"z{name} = z{name}.conj()", f"z{name} = z{name}.imag"]), f"more.append(z{name})"]
    if rng.random() < 0.5:
        body.insert(0, f"q{name} = {chain(rng, 'y')}")
    return Feature(body=body)
