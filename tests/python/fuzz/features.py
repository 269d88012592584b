"""Parts that random programs are made of. A feature draws lines for the places of a program:

    setup   before the function is defined
    body    inside it; `x` and `w` are arguments, `y` is what the function computes, `more` the list of its other results
    before  in each call, before the function is called: `n` is the number of the call
    after   after it; `out` is the list of its results, `see(...)` writes down what a caller can see
    around  a context manager round the call
"""
import dataclasses

FEATURES = []


@dataclasses.dataclass
class Feature:
    setup: list = dataclasses.field(default_factory=list)
    body: list = dataclasses.field(default_factory=list)
    before: list = dataclasses.field(default_factory=list)
    after: list = dataclasses.field(default_factory=list)
    around: list = dataclasses.field(default_factory=list)
    options: dict = dataclasses.field(default_factory=dict)


def feature(kind, weight=1):
    """Enters a function of a generator of random numbers and a fresh name's suffix under the class of programs that it draws."""

    def enter(function):
        FEATURES.extend([(kind, function)] * weight)
        return function

    return enter


def number(rng):
    return rng.choice(["2", "3.0", "0.5", "-1.5", "4"])


def unary(rng, value):
    return rng.choice(["{}.sin()", "{}.cos()", "{}.tanh()", "({} * 0.5)", "({} + 1.0)", "{}.exp().clamp(max=3.0)", "{}.sigmoid()", "(-{})"]).format(value)


def chain(rng, value, most=3):
    for _ in range(rng.randint(0, most)):
        value = unary(rng, value)
    return value


@feature("arithmetic", 3)
def arithmetic(rng, name):
    line = rng.choice(["y = y + {}", "y = y * {}", "y = torch.where(x > 0, y, {})", "y = (y + {}) * 0.5"])
    return Feature(body=[line.format(chain(rng, rng.choice(["x", "w", "y"])))])


@feature("arithmetic")
def in_place(rng, name):
    target = rng.choice(["y[0]", "y[:, 1]", "y.t()", "y.view(-1)[1:]", "y"])
    return Feature(body=["y = y.clone()", f"{target}.{rng.choice(['mul_(2.0)', 'add_(1.0)', 'sin_()', 'zero_()', 'copy_(torch.ones(()))'])}"])


@feature("arithmetic")
def writes_an_argument(rng, name):
    return Feature(
        setup=[f"buffer{name} = torch.ones(3)"],
        body=[rng.choice([f"buffer{name}.add_(1.0)", f"buffer{name}[0].mul_(2.0)", f"buffer{name}.copy_(y.detach().sum(0))"]), f"y = y + buffer{name}"],
        after=[f"see(buffer{name}, buffer{name}._version > 0)"],
    )


# Closures and globals that change between calls.
HOLDERS = {
    "cell": (["k{0} = 2.0"], "k{0}", "k{0} = {1}"),
    "list": (["k{0} = [1.0, 2.0]"], "k{0}[1]", "k{0}[1] = {1}"),
    "nested list": (["k{0} = [[1.0], [2.0]]"], "k{0}[1][0]", "k{0}[1][0] = {1}"),
    "dict": (["k{0} = {{'a': 2.0}}"], "k{0}['a']", "k{0}['a'] = {1}"),
    "attribute": (["class K{0}: pass", "k{0} = K{0}()", "k{0}.a = 2.0"], "k{0}.a", "k{0}.a = {1}"),
    "class attribute": (["class K{0}: a = 2.0", "k{0} = K{0}()"], "k{0}.a", "K{0}.a = {1}"),
    "inherited attribute": (["class B{0}: a = 2.0", "class K{0}(B{0}): pass", "k{0} = K{0}()"], "k{0}.a", "B{0}.a = {1}"),
    "attribute of a class": (["class K{0}: a = 2.0"], "K{0}.a", "K{0}.a = {1}"),
    "property": (["class K{0}: a = property(lambda self: 2.0)", "k{0} = K{0}()"], "k{0}.a", "K{0}.a = property(lambda self: {1})"),
    "what a property reads": (
        ["class K{0}:", "    @property", "    def a(self): return self.hidden * 2", "k{0} = K{0}()", "k{0}.hidden = 1.0"],
        "k{0}.a",
        "k{0}.hidden = {1}",
    ),
    "method": (["class K{0}:", "    def a(self): return 2.0", "k{0} = K{0}()"], "k{0}.a()", "K{0}.a = lambda self: {1}"),
    "method of the object": (["class K{0}:", "    def a(self): return 2.0", "k{0} = K{0}()"], "k{0}.a()", "k{0}.a = lambda: {1}"),
    "call": (["class K{0}:", "    b = 2.0", "    def __call__(self): return self.b", "k{0} = K{0}()"], "k{0}()", "k{0}.b = {1}"),
    "getattr": (["class K{0}:", "    def __getattr__(self, name): return table{0}[name]", "table{0} = {{'a': 2.0}}", "k{0} = K{0}()"], "k{0}.a", "table{0}['a'] = {1}"),
    "descriptor": (
        ["class D{0}:", "    v = 2.0", "    def __get__(self, instance, owner): return self.v", "class K{0}: a = D{0}()", "k{0} = K{0}()"],
        "k{0}.a",
        "K{0}.__dict__['a'].v = {1}",
    ),
    "static method": (["class K{0}:", "    @staticmethod", "    def a(): return 2.0"], "K{0}.a()", "K{0}.a = staticmethod(lambda: {1})"),
    "class method": (["class K{0}:", "    b = 2.0", "    @classmethod", "    def a(cls): return cls.b"], "K{0}.a()", "K{0}.b = {1}"),
    "function": (["k{0} = lambda: 2.0"], "k{0}()", "k{0} = lambda: {1}"),
    "function of a function": (["j{0} = 2.0", "k{0} = lambda: j{0}"], "k{0}()", "j{0} = {1}"),
    "default": (["def k{0}(a=2.0): return a"], "k{0}()", "k{0}.__defaults__ = ({1},)"),
    "attribute of a function": (["def k{0}(): return k{0}.a", "k{0}.a = 2.0"], "k{0}()", "k{0}.a = {1}"),
    "code of a function": (["def k{0}(): return 2.0"], "k{0}()", "k{0}.__code__ = (lambda: {1}).__code__"),
    "partial": (["k{0} = functools.partial(lambda a: a, 2.0)"], "k{0}()", "k{0} = functools.partial(lambda a: a, {1})"),
    "order of a dict": (["k{0} = collections.OrderedDict(a=2.0, b=3.0)"], "next(iter(k{0}.values()))", "k{0}.move_to_end(list(k{0})[0])"),
    "order of a plain dict": (["k{0} = dict(a=2.0, b=3.0)"], "list(k{0}.values())[0]", "k{0}['a'] = k{0}.pop('a')"),
    "length of a list": (["k{0} = [1.0]"], "len(k{0})", "k{0}.append({1})"),
    "sum of a set": (["k{0} = {{1.0, 2.0}}"], "sum(k{0})", "k{0}.add({1})"),
    "deque": (["k{0} = collections.deque([2.0, 3.0])"], "k{0}[0]", "k{0}.rotate(1)"),
    "default dict": (["k{0} = collections.defaultdict(lambda: 2.0)"], "k{0}['a']", "k{0}['a'] = {1}"),
    "counter": (["k{0} = collections.Counter('aab')"], "k{0}['a']", "k{0}.update('a')"),
    "dataclass": (["@dataclasses.dataclass", "class K{0}:", "    a: float = 2.0", "k{0} = K{0}()"], "k{0}.a", "k{0}.a = {1}"),
    "slots": (["class K{0}:", "    __slots__ = ('a',)", "k{0} = K{0}()", "k{0}.a = 2.0"], "k{0}.a", "k{0}.a = {1}"),
    "namespace": (["k{0} = types.SimpleNamespace(a=2.0)"], "k{0}.a", "k{0}.a = {1}"),
    "object in an object": (["k{0} = types.SimpleNamespace(b=types.SimpleNamespace(a=2.0))"], "k{0}.b.a", "k{0}.b.a = {1}"),
    "enumeration": (["class K{0}(enum.Enum):", "    A = 2.0", "    B = 3.0", "k{0} = K{0}.A"], "k{0}.value", "k{0} = K{0}.B"),
    "whether it is there": (["class K{0}: pass", "k{0} = K{0}()"], "(3.0 if hasattr(k{0}, 'a') else 2.0)", "k{0}.a = {1}"),
    "key that is there": (["k{0} = {{}}"], "(3.0 if 'a' in k{0} else 2.0)", "k{0}['a'] = {1}"),
    "numpy number": (["k{0} = numpy.float64(2.0)"], "float(k{0})", "k{0} = numpy.float64({1})"),
    "numpy array": (["k{0} = numpy.array([2.0, 3.0])"], "float(k{0}[0])", "k{0}[0] = {1}"),
    "string": (["k{0} = 'sin'"], "(2.0 if k{0} == 'sin' else 3.0)", "k{0} = 'cos'"),
    "none": (["k{0} = None"], "(2.0 if k{0} is None else 3.0)", "k{0} = {1}"),
    "is instance": (["class A{0}: pass", "class B{0}: pass", "k{0} = A{0}()"], "(2.0 if isinstance(k{0}, A{0}) else 3.0)", "k{0}.__class__ = B{0}"),
    "tensor": (["k{0} = torch.tensor(2.0)"], "k{0}", "k{0} = torch.tensor(float({1}))"),
    "value of a tensor": (["k{0} = torch.tensor(2.0)"], "k{0}", "k{0}.fill_({1})"),
    "data of a tensor": (["k{0} = torch.tensor(2.0)"], "k{0}", "k{0}.data = torch.tensor(float({1}))"),
    "tensor in a list": (["k{0} = [torch.tensor(2.0)]"], "k{0}[0]", "k{0}[0] = torch.tensor(float({1}))"),
    "shape of a tensor": (["k{0} = torch.ones(2)"], "k{0}.shape[0]", "k{0} = torch.ones(3)"),
    "environment": (["os.environ['K{0}'] = '2'"], "float(os.environ['K{0}'])", "os.environ['K{0}'] = str({1})"),
}


@feature("closure that changes", 8)
def changing_closure(rng, name):
    kind = rng.choice(sorted(HOLDERS))
    setup, read, change = HOLDERS[kind]
    use = rng.choice(["y = y * ({})", "y = y + ({})", "y = y.sin() if ({}) > 2.5 else y.cos()", "y = (y, y.tanh())[int(({}) > 2.5)]"])
    if "tensor" in kind and "shape" not in kind:
        use = "y = y * ({})"
    changed = change.format(name, number(rng))
    when = rng.choice(["n == 0", "n == 1", "n % 2 == 0", "True"])
    is_global = rng.random() < 0.4
    lines = [line.format(name) for line in setup]
    names = sorted({word + name for word in ("k", "j", "K", "B", "table") if any(line.startswith((f"{word}{name} =", f"def {word}{name}", f"class {word}{name}")) for line in lines)})
    return Feature(
        setup=([f"global {', '.join(names)}"] if is_global and names else []) + lines,
        body=[use.format(read.format(name))],
        after=[f"if {when}: {changed}"],
    )


@feature("host writes", 3)
def host_writes(rng, name):
    kind = rng.choice(["nonlocal", "list", "attribute", "dict", "append", "iterator", "generator", "set by caller", "pop", "global", "counter"])
    step = f"y = y * k{name}"
    setup, body, after = {
        "nonlocal": (["k{0} = 1"], ["nonlocal k{0}", "k{0} += 1", "y = y * k{0}"], ["see(k{0})"]),
        "global": (["global k{0}", "k{0} = 1"], ["global k{0}", "k{0} = k{0} + 1", "y = y * k{0}"], ["see(k{0})"]),
        "list": (["k{0} = [1]"], ["k{0}[0] += 1", "y = y * k{0}[0]"], ["see(k{0})"]),
        "attribute": (["k{0} = types.SimpleNamespace(a=1)"], ["k{0}.a += 1", "y = y + k{0}.a"], ["see(k{0}.a)"]),
        "dict": (["k{0} = {{}}"], ["k{0}['a'] = k{0}.get('a', 0) + 1", "y = y + k{0}['a']"], ["see(k{0})"]),
        "append": (["k{0} = []"], ["k{0}.append(1.0)", "y = y + len(k{0})"], ["see(len(k{0}))"]),
        "pop": (["k{0} = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]"], ["y = y + k{0}.pop()"], ["see(len(k{0}))"]),
        "iterator": (["k{0} = iter([1.0, 2.0, 3.0, 4.0, 5.0])"], ["y = y * next(k{0})"], []),
        "generator": (["k{0} = (i * 0.5 for i in range(9))"], ["y = y + next(k{0})"], []),
        "counter": (["k{0} = itertools.count(1)"], ["y = y * next(k{0})"], []),
        "set by caller": (["k{0} = types.SimpleNamespace(done=False)"], ["y = y * (2.0 if k{0}.done else 1.0)", "k{0}.done = True"], ["see(k{0}.done)", "k{0}.done = False"]),
    }[kind]
    fill = lambda lines: [line.format(name) for line in lines]
    return Feature(setup=fill(setup), body=fill(body), after=fill(after))


@feature("host writes")
def keeps_a_result(rng, name):
    return Feature(
        setup=[f"kept{name} = []" if rng.random() < 0.5 else f"kept{name} = [None]"],
        body=[rng.choice([f"kept{name}.append(y)", f"kept{name}[:] = [y.detach()]", f"kept{name}[:] = [y.sum()]"])],
        after=[f"see(len(kept{name}), kept{name}[-1])"],
    )


@feature("random numbers", 4)
def random_numbers(rng, name):
    return Feature(
        setup=[f"gen{name} = torch.Generator().manual_seed(5)", "random.seed(3); numpy.random.seed(3)", f"rs{name} = numpy.random.RandomState(1); rg{name} = numpy.random.default_rng(2); pr{name} = random.Random(4)"],
        body=[
            rng.choice(
                [
                    "y = y * torch.rand(3)",
                    "y = y + torch.randn_like(y)",
                    "y = F.dropout(y, 0.5)",
                    "y = torch.bernoulli(y.sigmoid().detach()) + y",
                    f"y = y * torch.rand(3, generator=gen{name})",
                    f"y = y + torch.empty(2, 3).normal_(generator=gen{name})",
                    "y = y * random.random()",
                    "y = y * numpy.random.rand()",
                    "y = y if random.random() < 0.5 else -y",
                    f"y = y * rs{name}.rand()",
                    f"y = y + float(rg{name}.normal())",
                    f"y = y * pr{name}.random()",
                    "y = y + random.choice([1.0, 2.0, 3.0])",
                    "y = y[torch.randperm(2)]",
                    "y = y + torch.randint(0, 9, (3,))",
                    "y = y * (time.perf_counter_ns() % 2 + 1) / (time.perf_counter_ns() % 2 + 1) if False else y",
                    "torch.manual_seed(7); y = y * torch.rand(3)",
                ]
            )
        ],
        before=rng.choice([[], ["torch.manual_seed(n)"], ["torch.manual_seed(1)"], [f"gen{name}.manual_seed(1)"], ["random.seed(1)"]]),
        after=["see(torch.rand(()))"] + rng.choice([[], ["see(random.random())"], [f"see(torch.rand((), generator=gen{name}))"]]),
    )
