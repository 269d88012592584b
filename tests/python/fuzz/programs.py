"""A random program as text: a function, what it reads, and a caller that calls it some times and looks at all that can be seen."""
import dataclasses
import random
import textwrap

import features
import features_autograd  # enters its features
import features_decisions  # enters its features
import features_dtypes  # enters its features
import features_memory  # enters its features

PRELUDE = """\
import collections, contextlib, dataclasses, enum, fractions, functools, itertools, math, os, random, time, types
import diptych, numpy, torch, torch.autograd.forward_ad as fwAD, torch.nn.functional as F
import diptych as operators
from watch import Refused, Swap, is_of_versions, make, snapshot
"""
FRAME = """\
def program(wrap, log):
    backwards, cleanup, extra, modules = [], [], [], []
    def see(*values): log.append([snapshot(v) for v in values])
    def tried(action):
        try: action()
        except diptych.UserError: raise
        except Exception as error:
            if is_of_versions(error): raise Refused from error
            log.append("raised")
    {w}
{setup}
    def f(x, w):
        more = []
        y = {start}
{body}
        return y, *more
    g = wrap(f, {options})
    try:
        for n in range({calls}):
            torch.manual_seed(10 + n); w.grad = None; extra.clear(); backwards.clear()
            x = {x}
{before}
            with contextlib.ExitStack() as stack:
{around}
                out = list(g(x, w))
            see(*out); see(x, w)
            try:
{after}
                {backward}
            except Refused:
                log.append(Refused.MARK)
                for m in modules: m.zero_grad()
                continue
            see(x.grad if x.is_leaf else None, w.grad)
            for look in backwards: look()
    finally:
        for undo in cleanup: undo()
"""
BACKWARDS = [
    "tried(lambda: sum(t.float().sum() for t in out if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_complex()).backward())",
    "tried(lambda: (out[0] * out[0]).sum().backward())",
    "[tried(lambda: t.sum().backward(retain_graph=True)) for t in out if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_complex()]",
    "pass",
]


@dataclasses.dataclass
class Program:
    seed: int
    kinds: list
    features: list
    calls: int = 3
    x: str = "make((2, 3), n).requires_grad_()"
    w: str = "w = make((2, 3), 7).requires_grad_()"
    start: str = "x * w"
    backward: str = BACKWARDS[0]

    @property
    def options(self):
        return {name: value for feature in self.features for name, value in feature.options.items()}

    def text(self):
        """The source of the program, which stands for itself."""
        gather = lambda place: [line for feature in self.features for line in getattr(feature, place)]
        indented = lambda lines, depth: textwrap.indent("\n".join(lines or ["pass"]), "    " * depth)
        around = [f"stack.enter_context({mode})" for mode in gather("around")]
        code = FRAME.format(
            w=self.w, x=self.x, start=self.start, calls=self.calls, backward=self.backward, options=self.options, setup=indented(gather("setup"), 1),
            body=indented(gather("body"), 2), before=indented(gather("before"), 3), around=indented(around, 4), after=indented(gather("after"), 4),
        )  # fmt: skip
        return f"# seed {self.seed}: {', '.join(self.kinds)}\n{PRELUDE}\n{code}"


def generate(seed, only=None):
    """The program of a seed; of one class of features besides arithmetic, if `only` names it."""
    rng = random.Random(seed)
    entries = [entry for entry in features.FEATURES if only is None or entry[0] in (only, "arithmetic")]
    special = [entry for entry in entries if entry[0] != "arithmetic"]
    plain = [entry for entry in entries if entry[0] == "arithmetic"]
    chosen = [rng.choice(special) for _ in range(rng.choice([1, 1, 1, 2]))]
    if any(kind == "sizes that are branched on" for kind, _ in chosen):
        chosen = [entry for entry in chosen if entry[0] == "sizes that are branched on"]
    chosen += [rng.choice(plain) for _ in range(rng.randint(0, 2))]
    rng.shuffle(chosen)
    drawn = [function(rng, str(place)) for place, (_, function) in enumerate(chosen)]
    program = Program(seed, [kind for kind, _ in chosen], drawn)
    program.backward = rng.choice(BACKWARDS)
    program.x = rng.choice(["make((2, 3), n).requires_grad_()", "make((2, 3), n)", "make((3, 2), n).t().requires_grad_()", "make((2, 3), n).requires_grad_() * 1", "make((2, 3), 0)"])
    program.start = rng.choice(["x * w", "x * 1", "x + w", "(x * w).sin()", "x * 2.0"])
    if features_decisions.KIND in program.kinds:  # enough calls that some take a path again
        program.calls = rng.choice([4, 7, 9])
        program.x = program.x.replace(", n)", rng.choice([", n)", ", n % 3)", ", n // 2)"]))
    if program.options.get("dynamic"):
        program.calls = 6
        rows = rng.choice([[4, 8, 16, 9, 12, 5], [3, 5, 7, 6, 10, 11], [6, 9, 12, 8, 15, 13], [10, 20, 30, 11, 14, 17], [2, 3, 4, 5, 6, 16]])
        program.x = f"make(({rows}[n], 3), n)" + rng.choice(["", ".requires_grad_()"])
        program.start = rng.choice(["x * w[0]", "x * 1"])
    return program


def simpler(program):
    """Programs that say less than this one."""
    for place in range(len(program.features)):
        kinds, parts = list(program.kinds), list(program.features)
        del kinds[place], parts[place]
        yield dataclasses.replace(program, kinds=kinds, features=parts)
    for calls in range(1, program.calls):
        yield dataclasses.replace(program, calls=calls)
    for change in ({"backward": "pass"}, {"x": "make((2, 3), n)"}, {"start": "x * 1"}, {"w": "w = make((2, 3), 7)"}):
        if any(getattr(program, name) != value for name, value in change.items()) and not (program.options and "x" in change):
            yield dataclasses.replace(program, **change)
