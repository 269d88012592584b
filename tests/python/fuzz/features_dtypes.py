"""Operands of several dtypes, another default dtype for a part of a program, lazy conjugates and negatives, hooks that come after the call."""
from features import Feature, chain, feature

DTYPES = ["torch.float64", "torch.bfloat16", "torch.float16", "torch.int64", "torch.int32", "torch.uint8", "torch.bool", "torch.complex64"]
BINARY = ["{} + {}", "{} * {}", "{} - {}", "{} / {}", "torch.where(x > 0, {}, {})", "torch.cat([{}, {}])", "torch.stack([{}, {}])", "torch.maximum({}, {})", "torch.atan2({}, {})", "F.mse_loss({}, {})", "{} == {}", "torch.lerp({}, {}, 0.5)"]
BINARY += ["torch.addcmul({0}, {0}, {1})", "F.smooth_l1_loss({}, {})", "{} @ {}.t()", "torch.clamp({}, max={})", "{}.masked_fill(x > 0, 2) + {}", "torch.copysign({}, {})", "torch.fmod({}, {} * {} + 3)", "torch.dist({}, {})"]
DEFAULT = "(lambda d: (torch.get_default_dtype(), torch.set_default_dtype(d))[0])"


def converted(rng, value):
    return f"({value} * 3).to({rng.choice(DTYPES)})" if rng.random() < 0.7 else value


@feature("mixed dtypes", 5)
def mixed_dtypes(rng, name):
    body = []
    for place in range(rng.randint(1, 3)):
        call = rng.choice(BINARY).format(converted(rng, "y"), converted(rng, rng.choice(["x", "w", "w[0]", "x.detach()"])), "x")
        body += [f"try: m{name} = {call}", f"except (RuntimeError, TypeError, IndexError): m{name} = y * {place}", f"more.append(m{name})"]
    use = rng.choice([f"y = y + m{name}.sum()", f"y = y * m{name}.abs().sum().float()", f"y = y.clone(); y += m{name}.mean(dtype=torch.float32)", f"y.mul_(m{name}.sum()) if not y.is_leaf else None"])
    return Feature(body=body + ([use] if rng.random() < 0.5 else []))


@feature("another default dtype", 3)
def another_default(rng, name):
    dtype = rng.choice(["torch.float64", "torch.float16", "torch.bfloat16"])
    made = rng.choice(["torch.ones(3)", "torch.full((3,), 1.5)", "torch.arange(3) / 2", "torch.tensor([0.5, 1.5, 2.5])", "torch.linspace(0, 1, 3)", "(x > 0).sum(0) * 0.5", "x.long().float().mean(0)", "(x * 3).int().sqrt()", "torch.zeros(3) + 1", "x.bool().sigmoid()", "torch.eye(3)", "torch.tensor(2) * 1.5", "torch.complex(x, w).abs()", "torch.rand(3)"])
    lines = [f"before{name} = {DEFAULT}({dtype})", f"d{name} = {made}", f"torch.set_default_dtype(before{name})", rng.choice([f"more.append(d{name})", f"more.append(d{name} * x)", f"y = (y + d{name}.sum()).float()"])]
    where = rng.choice(["inside", "round", "between"])
    if where == "inside":
        return Feature(body=lines)
    setup = ["@contextlib.contextmanager", f"def default{name}():", f"    before = {DEFAULT}({dtype})", "    try: yield", "    finally: torch.set_default_dtype(before)"]
    return Feature(setup=setup, body=[lines[1], lines[3]], around=[f"(default{name}() if {'True' if where == 'round' else 'n == 1'} else contextlib.nullcontext())"])


@feature("conjugates", 4)
def conjugates(rng, name):
    lazy = rng.choice(["c.conj()", "c.mH", "c.conj().t()", "c.conj()[0]", "c.conj() * 1j", "torch._neg_view(c)", "c.conj().conj()", "c.conj().clone()", "c.conj().resolve_conj()"])
    use = rng.choice(["c.imag", "c.real", "(c * c.conj()).real", "c.abs()", "torch.view_as_real(c.resolve_conj())", "c.sum()", "c * 2", "(c @ c.mT).imag", "c.conj().imag.neg()", "c.angle().cos()", "torch.cat([c, c.conj()])", "c.exp().conj()", "c"])
    made = rng.choice(["torch.complex(y.float(), w)", f"k{name} * y", f"k{name}.conj() + y", f"torch.complex(x, x) * k{name}"])
    writes = rng.choice([[], [], ["c = c.clone(); c.conj().mul_(2j)"], ["c = c.clone(); c.imag.add_(1.0)"], [f"k{name}.imag.mul_(2.0)"], ["c = c.clone(); c.conj().imag.copy_(x.detach())"]])
    setup = [f"k{name} = torch.complex(torch.arange(6.0), torch.ones(6)).view(2, 3)" + rng.choice(["", ".conj()", "[:, :1].conj()"])]
    before = rng.choice([[], [], ["x = torch.complex(x, x * 2).conj().imag"], ["x = torch._neg_view(x)"]])
    return Feature(setup=setup, body=[f"c = {made}", *writes, f"c = {lazy}", f"more.append({use})"], before=before, after=[f"see(k{name}, k{name}.is_conj())", "see([(t.is_conj(), t.is_neg()) for t in out if isinstance(t, torch.Tensor)])"])


@feature("late hooks", 4)
def late_hooks(rng, name):
    change = rng.choice(["g * 3", "g + 1.0", "None", "g.neg()", f"seen{name}.append(float(g.sum()))"])
    target = rng.choice(["out[0]", "out[1]", "out[-1]", "x", "w"])
    late = rng.choice([
        f"{target}.register_hook(h{name}) if {target}.requires_grad else None",
        f"{target}.retain_grad() if {target}.requires_grad else None; extra.append({target})",
        f"w.register_post_accumulate_grad_hook(lambda t: seen{name}.append(float(t.grad.sum())))",
        f"handles{name}.append(w.register_hook(h{name})); handles{name}[0].remove() if n == 1 else None",
        f"torch.autograd.graph.register_multi_grad_hook([t for t in (x, w, *out) if isinstance(t, torch.Tensor) and t.requires_grad], lambda gs: seen{name}.append(len(gs)))",
        f"kept{name}.append(torch.autograd.graph.get_gradient_edge(w).node) or kept{name}[-1].register_prehook(lambda go: (go[0] * 2,))",
    ])
    look = f"backwards.append(lambda: see(seen{name}, [t.grad for t in extra]))"
    return Feature(setup=[f"seen{name}, handles{name}, kept{name} = [], [], []", f"def h{name}(g): return {change}"], body=["more += [y * 2, " + chain(rng, "y", 2) + " * 1]"], after=[late, look])
