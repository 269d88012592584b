"""Hooks, modes round the call, transforms, sizes that are branched on, several backwards, Functions."""
from features import Feature, chain, feature, number, unary


@feature("hooks", 4)
def hooks(rng, name):
    change = rng.choice(["g * 3", "g + 1.0", "None", "g * g", "g.neg()", f"seen{name}.append(float(g.sum()))"])
    setup = [f"seen{name} = []", f"def h{name}(g): return {change}"]
    where = rng.choice(["inside", "argument", "result", "post accumulate", "weight", "saved", "node", "retain", "argument inside"])
    step = chain(rng, "y", 2)
    parts = {
        "inside": dict(body=[f"y = {unary(rng, 'y')}", f"y.register_hook(h{name}) if y.requires_grad else None", f"y = {unary(rng, 'y')}"]),
        "argument": dict(before=[f"x.register_hook(h{name}) if x.requires_grad else None"]),
        "argument inside": dict(body=[f"x.register_hook(h{name}) if x.requires_grad else None"]),
        "result": dict(after=[f"out[0].register_hook(h{name}) if out[0].requires_grad else None"]),
        "weight": dict(before=[f"w.register_hook(h{name})"]),
        "post accumulate": dict(before=[f"w.register_post_accumulate_grad_hook(lambda t: seen{name}.append(float(t.grad.sum())))"]),
        "retain": dict(body=[f"y = {step} * 1", "y.retain_grad() if y.requires_grad else None", "more.append(y)"], after=["see([t.grad for t in out[1:] if t.retains_grad])"]),
        "node": dict(body=[f"y = {unary(rng, 'y')}", f"y.grad_fn.register_hook(lambda gi, go: seen{name}.append(1)) if y.grad_fn is not None else None"]),
        "saved": dict(around=["torch.autograd.graph.saved_tensors_hooks(lambda t: (seen{0}.append(1), t)[1], lambda t: t)".format(name)]),
    }[where]
    parts.setdefault("after", []).extend([f"backwards.append(lambda: see(len(seen{name}) if '{where}' != 'saved' else 0, seen{name}[:3] if '{where}' != 'saved' else 0))"])
    return Feature(setup=setup, **parts)


@feature("module hooks", 2)
def module_hooks(rng, name):
    hook = rng.choice(
        [
            "m{0}.register_forward_hook(lambda m, a, r: r * 2)",
            "m{0}.register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
            "m{0}.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,) if gi[0] is not None else None)",
            "m{0}.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))",
            "torch.nn.modules.module.register_module_forward_hook(lambda m, a, r: r + 1)",
            "m{0}.weight.register_hook(lambda g: g * 2)",
        ]
    ).format(name)
    module = rng.choice(["torch.nn.Linear(3, 3)", "torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())"])
    if "weight" in hook:
        module = "torch.nn.Linear(3, 3)"
    return Feature(
        setup=["torch.manual_seed(0)", f"m{name} = {module}; modules.append(m{name})", f"handles{name} = []"],
        body=[f"y = m{name}(y)"],
        after=[f"if n == {rng.randint(0, 1)}: handles{name}.append({hook})", f"if n == 2: [h.remove() for h in handles{name}]", f"backwards.append(lambda: see([p.grad for p in m{name}.parameters()]))", f"cleanup.append(lambda: [h.remove() for h in handles{name}])"],
    )


@feature("modules", 2)
def module_state(rng, name):
    module = rng.choice(["torch.nn.BatchNorm1d(3)", "torch.nn.Dropout(0.5)", "torch.nn.Linear(3, 3)", "torch.nn.LayerNorm(3)", "torch.nn.BatchNorm1d(3, momentum=0.3)"])
    change = rng.choice(["m{0}.eval()", "m{0}.train(n % 2 == 0)", "m{0}.requires_grad_(False)", "m{0}.flag = n", "m{0}.load_state_dict({{k: v * 2 if v.is_floating_point() else v for k, v in m{0}.state_dict().items()}})", "m{0}.double().float()", "m{0}.zero_grad()", "[p.data.mul_(2.0) for p in m{0}.parameters()]", "m{0}.forward = lambda v: v * 2", "[setattr(p, 'grad', None) for p in m{0}.parameters()]"])
    return Feature(
        setup=["torch.manual_seed(0)", f"m{name} = {module}; modules.append(m{name})"],
        body=[f"y = m{name}(y)"],
        after=[f"if n == {rng.randint(0, 1)}: {change.format(name)}", f"see([b for b in m{name}.buffers()])", f"backwards.append(lambda: see([p.grad for p in m{name}.parameters()]))"],
    )


MODES = [
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.enable_grad()",
    "torch.autocast('cpu', torch.bfloat16)",
    "torch.set_grad_enabled(n % 2 == 0)",
    "Doubled()",
    "CountsCalls(calls)",
    "CountsDispatches(calls)",
    "AddsOne()",
    "torch.device('cpu')",
    "default_dtype(torch.float64)",
    "filled_memory()",
    "torch.autograd.graph.save_on_cpu()",
    "torch.autograd.set_multithreading_enabled(False)",
    "torch.autograd.detect_anomaly(check_nan=False)",
    "torch.autograd.profiler.profile()",
    "contextlib.nullcontext()",
]
MODES_SETUP = """
class Doubled(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if getattr(func, '__name__', '') in ('sin', 'cos', 'tanh') else result
class AddsOne(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 1 if func in (torch.ops.aten.sin.default, torch.ops.aten.mul.Tensor, torch.ops.aten.tanh.default) else result
class CountsCalls(torch.overrides.TorchFunctionMode):
    def __init__(self, calls): super().__init__(); self.calls = calls
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(1)
        return func(*args, **(kwargs or {}))
class CountsDispatches(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, calls): super().__init__(); self.calls = calls
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(1)
        return func(*args, **(kwargs or {}))
@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype(); torch.set_default_dtype(dtype)
    try: yield
    finally: torch.set_default_dtype(before)
@contextlib.contextmanager
def filled_memory():
    torch.use_deterministic_algorithms(True); torch.utils.deterministic.fill_uninitialized_memory = True
    try: yield
    finally: torch.use_deterministic_algorithms(False)
""".strip().splitlines()


@feature("modes round the call", 5)
def modes(rng, name):
    mode = rng.choice(MODES)
    when = rng.choice(["True", "n == 0", "n == 1", "n % 2 == 1"])
    body = rng.choice([[], ["y = y + torch.ones(3)"], ["y = y.sin()"], [f"e{name} = torch.empty(2, 3)", f"more.append(e{name}) if torch.are_deterministic_algorithms_enabled() else None"], ["y = y @ torch.eye(3)"]])
    return Feature(setup=[*MODES_SETUP, "calls = []"], body=body, around=[f"({mode} if {when} else contextlib.nullcontext())"], after=["see(len(calls) > 0)"])


@feature("modes inside")
def modes_inside(rng, name):
    mode = rng.choice(["torch.no_grad()", "torch.enable_grad()", "torch.autocast('cpu', torch.bfloat16)", "torch.inference_mode()", "torch.random.fork_rng()", "torch.device('cpu')", "default_dtype(torch.float64)"])
    return Feature(setup=MODES_SETUP, body=[f"with {mode}:", f"    y = {unary(rng, 'y')} @ w[:, :3].t() if y.dtype == w.dtype else y", "    y = y.float()[:, :3] if y.shape[1] >= 3 else y.float().sum() * x"])


@feature("transforms", 4)
def transforms(rng, name):
    call = rng.choice(
        [
            "torch.func.jvp(lambda v: g(v, w)[0], (x,), (torch.ones_like(x),))",
            "torch.func.grad(lambda v: g(v, w)[0].sum())(x)",
            "torch.func.vjp(lambda v: g(v, w)[0], x)[1](torch.ones_like(x))",
            "torch.func.jacrev(lambda v: g(v, w)[0])(x)",
            "torch.func.jacfwd(lambda v: g(v, w)[0])(x)",
            "torch.func.hessian(lambda v: g(v, w)[0].sum())(x)",
            "torch.func.vmap(lambda v: g(v, w)[0])(torch.stack([x, x]))",
            "torch.func.vmap(lambda v: g(v, w)[0], in_dims=1)(torch.stack([x, x], 1))",
            "torch.autograd.functional.jacobian(lambda v: g(v, w)[0], x)",
            "torch.autograd.functional.jacobian(lambda v: g(v, w)[0], x, vectorize=True)",
            "torch.autograd.functional.hvp(lambda v: g(v, w)[0].sum(), x, torch.ones_like(x))[1]",
            "dual(lambda v: g(v, w)[0], x)",
            "dual(lambda v: g(x, v)[0], w)",
            "torch.func.functionalize(lambda v: g(v, w)[0])(x)",
            "torch.func.linearize(lambda v: g(v, w)[0], x)[1](torch.ones_like(x))",
        ]
    )
    # Strides of derivatives are not eager's: docs/limits.md.
    laid_out = ["def laid_out(r):", "    if isinstance(r, tuple): return tuple(map(laid_out, r))", "    return r.contiguous() if isinstance(r, torch.Tensor) else r"]
    setup = laid_out + ["def dual(f, v):", "    with fwAD.dual_level():", "        r = f(fwAD.make_dual(v.detach(), torch.ones_like(v)))", "        return tuple(fwAD.unpack_dual(r))"]
    return Feature(setup=setup, before=[f"x = x.detach()", f"see(laid_out({call}))"])


@feature("duals in a closure")
def dual_in_closure(rng, name):
    return Feature(
        setup=[f"d{name} = [torch.ones(3)]"],
        body=[f"y = y * d{name}[0]"],
        around=["fwAD.dual_level()", f"swapped(d{name}, lambda: fwAD.make_dual(torch.ones(3), torch.full((3,), 2.0)) if n % 2 else torch.ones(3))"],
        after=["see(0)"],
        before=["def swapped(holder, make):", "    holder[0] = None", "    return Swap(holder, make)"],
    )


CONDITIONS = ["x.shape[0] % {k} == 0", "x.shape[0] > {m}", "{m} < x.shape[0] < {m} + 4", "x.shape[0] in ({m}, {m} + 1)", "len(x) >= {m}", "x.numel() % {k} == 1", "x.shape[0] // {k} % 2", "x.size(0) == {m}", "bool(x.shape[0] & 1)", "(x.shape[0] - {m}) ** 2 < 9", "x.shape[0] * 2 > x.shape[1] * {k}", "max(x.shape[0], {m}) == {m}", "str(x.shape[0]).endswith('{k}')", "x.shape[0] in range(0, 40, {k})", "{{5: True, 9: True}}.get(x.shape[0], False)", "math.sqrt(x.shape[0]).is_integer()", "hash(x.shape[0]) % {k} == 0", "[True, False][x.shape[0] % 2]", "x.stride(0) * x.shape[0] > 3 * {m}"]


@feature("sizes that are branched on", 6)
def size_branches(rng, name):
    condition = rng.choice(CONDITIONS).format(k=rng.choice([2, 3, 4, 5]), m=rng.choice([3, 6, 10, 14]))
    kind = rng.choice(["branch", "branch", "loop", "scalar", "slice", "reshape", "arange"])
    body = {
        "branch": [f"y = y * 3 if {condition} else y.sin()"],
        "loop": ["for i in range(x.shape[0] // 2):", "    y = y + i"],
        "scalar": [rng.choice(["y = y * x.shape[0]", "y = y / len(x)", "y = y + x.shape[0] ** 0.5", "y = y - (x.shape[0] % 3)", "more.append(x.shape[0])"])],
        "slice": [rng.choice(["y = y + y[: x.shape[0] // 2].sum()", "y = y + y[-(x.shape[0] // 3):].sum()", "more.append(y[::2])"])],
        "reshape": [rng.choice(["more.append(y.reshape(-1, 1))", "more.append(y.reshape(y.shape[0], 3, 1).expand(-1, 3, 2))", "more.append(torch.cat([y, y]))"])],
        "arange": [rng.choice(["y = y + torch.arange(x.shape[0]).view(-1, 1)", "y = y + torch.ones(x.shape[0], 3)", "y = y + torch.zeros_like(x).new_full((x.shape[0], 1), 2.0)"])],
    }[kind]
    return Feature(body=body, options={"dynamic": True})


@feature("backward in turn", 5)
def in_turn(rng, name):
    results = rng.choice(
        [
            ["x.sin()", "w.exp()"],
            ["x * w[0]", "x + w[1]"],
            ["(x * 2).sum()", "(w * w).sum()"],
            ["y.exp()", "y.exp() * 2"],
            ["x.tanh()", "w.detach() * 2", "w.sigmoid()"],
            ["x @ w.t()", "x.sum()"],
        ]
    )
    take = rng.choice(
        [
            ["for t in out[1:]: tried(lambda: t.sum().backward())", "see(x.grad, w.grad)"],
            ["for t in reversed(out): tried(lambda: t.sum().backward(retain_graph=True))", "see(x.grad, w.grad)"],
            ["see(torch.autograd.grad(out[2].sum(), out[1], allow_unused=True)[0]) if out[2].requires_grad and out[1].requires_grad else None"],
            ["g1 = torch.autograd.grad(out[1].sum(), [x, w], create_graph=True, allow_unused=True)", "see(*g1)", "s = sum((t * t).sum() for t in g1 if t is not None)", "see(*torch.autograd.grad(s, [x, w], allow_unused=True)) if s.requires_grad else None"],
            ["tried(lambda: torch.autograd.backward([t.sum() for t in out if t.requires_grad], inputs=[w]))", "see(x.grad, w.grad)"],
            ["out[1].sum().backward()", "tried(lambda: out[1].sum().backward())", "see(x.grad, w.grad)"],
        ]
    )
    return Feature(body=[f"more += [{', '.join(results)}]"] + ([f"more.append({chain(rng, 'more[0]')})"] if rng.random() < 0.4 else []), after=["x.grad = None; w.grad = None", *take])


@feature("custom functions", 5)
def custom_function(rng, name):
    reads = rng.choice([f"scale{name}", f"state{name}['a']", f"Scale{name}.a", f"torch.tensor(scale{name})"])
    backward = rng.choice([f"g * {reads}", f"g * ctx.saved_tensors[0].cos() * {reads}", "g * ctx.k", f"(count{name}.add_(1), g * 2)[1]", "g.clone().mul_(2)"])
    forward = rng.choice([f"v * {reads}", "v.sin()", f"v + {reads}", "v.clone()", f"(count{name}.add_(1), v * 2)[1]"])
    decorator = rng.choice(["", "    @torch.autograd.function.once_differentiable"])
    setup = [
        f"global scale{name}, state{name}, Scale{name}, count{name}, Fn{name}",
        f"scale{name} = 2.0; state{name} = {{'a': 2.0}}; count{name} = torch.zeros(())",
        f"class Scale{name}: a = 2.0",
        f"class Fn{name}(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, v):",
        f"        ctx.save_for_backward(v); ctx.k = {reads}",
        f"        return {forward}",
        "    @staticmethod",
        *([decorator] if decorator else []),
        "    def backward(ctx, g):",
        f"        return {backward}",
    ]
    change = rng.choice([f"scale{name} = 5.0", f"state{name}['a'] = 5.0", f"Scale{name}.a = 5.0", f"Fn{name}.backward = staticmethod(lambda ctx, g: g * 7)", "pass"])
    when = rng.choice(["n == 0", "n == 1"])
    place = rng.choice(["after", "between"])
    lines = [f"if {when}: {change}"]
    after = lines if place == "after" else [f"backwards.append(lambda: see(count{name}))", *lines]
    return Feature(setup=setup, body=[f"y = Fn{name}.apply(y)"], after=[*after, f"backwards.append(lambda: see(count{name}))"])


@feature("custom functions")
def mutating_function(rng, name):
    setup = [
        f"class Fn{name}(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, v):",
        *rng.choice([["        ctx.mark_dirty(v)", "        return v.mul_(2)"], ["        return v.view_as(v)"], ["        ctx.mark_non_differentiable(r := v.detach() * 2)", "        return r"], ["        ctx.set_materialize_grads(False)", "        return v * 2"]]),
        "    @staticmethod",
        "    def backward(ctx, g):",
        "        return g * 2 if g is not None else None",
    ]
    return Feature(setup=setup, body=[f"t{name} = Fn{name}.apply({rng.choice(['y.clone()', 'y.clone()[:]', 'y * 1', '(y * 1).t()'])})", f"y = t{name}.reshape(y.shape) + y"])


@feature("higher order operators", 2)
def higher_order(rng, name):
    op = rng.choice(
        [
            "operators.scan(lambda c, v: (c + v, c * v), y[0] * 0, y)",
            "(operators.cond(y.sum() > 0, lambda v: v.sin(), lambda v: v * 2, y),)",
            "(operators.map(lambda v: v.tanh() * w[0], y),)",
            "(operators.while_loop(lambda c: c.sum() < 10.0, lambda c: c * 2 + 1, y.detach().abs()),)",
            "(operators.checkpoint(lambda v: (v * w[0]).sin())(y),)",
            "(operators.checkpoint(lambda v: F.dropout(v, 0.5))(y),)",
        ]
    )
    return Feature(body=[f"h{name} = {op}", f"y = y + h{name}[0]"])
