"""How the suites judge: one call in eager and one of the compiled function on equal arguments, all that can be seen of both compared.

The interpreter runs eager's kernels, and has eager's bits. A backend that computes by other kernels than eager's is judged by the truth, which is what eager gives in float64: its error may be at most twice eager's.
Where that is little because eager was lucky, eager's error is also taken on inputs that differ in the last place: a function that makes errors large does so there.
A draw may still be eager's luck, so that both are compared on other inputs nearby then, and the errors of all of them together decide.
"""
import contextlib
import copy
import pathlib
import random
import sys
import traceback
import types
from functools import partial

import numpy
import torch
from torch.utils import _pytree

sys.path.append(str(pathlib.Path(__file__).parents[1]))

from as_near import WIDE, is_as_true, shaken, to_wide  # noqa: E402
import torch_for_tests  # noqa: E402, F401

OUTCOMES = ("passed", "eager refuses", "original", "refused", "wrong", "error", "slow", "crashed")  # from good to bad
EAGER_RAISES = "a result is returned, expected what eager raises:"
FAILED = ("[interpreter] node", "[backend ")  # what was captured does not run: no refusal, whatever the type
ESCAPED = "got a tensor that escaped from a trace"  # used where no binding of ours makes a UserError of it
#: backend: the one that compiled() uses; main() sets it. wide: whether eager runs in float64, for the truth. shaken: which digits eager's inputs
#: get in the last place, 0 for their own; shift: by how much, relative, None for one place. narrow: whether float64 results come from narrower numbers.
settings = types.SimpleNamespace(backend="interpreter", wide=False, shaken=0, shift=None, narrow=False)


def seed(number):
    """Seeds what the suites draw from: LibTorch's generator of the CPU, and those of Python and of numpy, from which models draw masks. torch.manual_seed()
    remembers each call with its traceback, for devices that may start later."""
    torch.default_generator.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


def compiled(function, **options):
    """The function compiled by the backend that the suite was asked for."""
    import diptych

    return diptych.aot_function(function, backend=settings.backend, **options)


def compiled_module(module):
    import diptych

    return diptych.aot_module(module, backend=settings.backend, eager_fallback=False)


def shake(tensor):
    """Changes a tensor a little while neighbours are observed."""
    if settings.shaken and tensor.dtype in WIDE and tensor.layout == torch.strided:
        tensor.copy_(shaken(tensor, settings.shaken, settings.shift))


def widened(tensor):
    """A tensor as the side that is being observed has it: while the truth is computed, in float64; for its neighbours, shaken."""
    shake(tensor)
    return to_wide(tensor) if settings.wide else tensor


@contextlib.contextmanager
def in_float64():
    """While entered, clone() and tangents give float64 for narrower floats."""
    settings.wide, usual = True, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        settings.wide = False
        torch.set_default_dtype(usual)


def tensors(tree):
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def clone(tree):
    """The tree with tensors of their own, laid out and requiring grad as before; one that occurs twice is one tensor again."""
    copies = {}

    def one(leaf):
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf) if isinstance(leaf, tuple) else leaf  # a tuple that is no node: a packed sequence
        if id(leaf) not in copies:
            fresh = leaf.detach().clone()
            if leaf.layout == torch.strided and fresh.stride() != leaf.stride() and not torch._debug_has_internal_overlap(leaf):
                fresh = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).copy_(leaf.detach())
            copies[id(leaf)] = widened(fresh).requires_grad_(leaf.requires_grad)
        return copies[id(leaf)]

    return _pytree.tree_map(one, tree)


class Seen(list):
    """What was seen of a call: (what it is, tensor or plain value) in order."""

    def note(self, label, value):
        self.append((label, value.detach().clone() if isinstance(value, torch.Tensor) else value))

    def note_all(self, label, values):
        for index, value in enumerate(values):
            self.note(f"{label} {index}", value)


def storage_of(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def note_result(seen, result, given, aliases):
    """Structure and values of a result and what autograd says of them; with `aliases`, what they share with what was given."""
    results = tensors(result)
    seen.note("structure", str(_pytree.tree_map(lambda leaf: "tensor" if isinstance(leaf, torch.Tensor) else repr(leaf), result)))
    objects = [id(tensor) for tensor in given + results]
    storages = [storage_of(tensor) for tensor in given + results]
    for index, tensor in enumerate(results):
        label, position = f"result {index}", len(given) + index
        seen.note(label, tensor)
        seen.note(f"{label}: dtype", tensor.dtype)
        seen.note(f"{label}: requires_grad, is_leaf", (tensor.requires_grad, tensor.is_leaf))
        if not aliases:
            continue
        if tensor.layout == torch.strided:
            seen.note(f"{label}: strides", tensor.stride())
        seen.note(f"{label}: is the tensor", objects.index(objects[position]))
        sharing = [other for other, storage in enumerate(storages) if storage == storages[position] and other != position]
        seen.note(f"{label}: shares the storage of", sharing)
        seen.note(f"{label}: is view", bool(sharing) and tensor._is_view())  # if nothing else has the storage, nobody can see it


def tangent_like(output, transposed):
    """A random tangent; transposed, its strides are the reverse of contiguous ones."""
    sizes = tuple(reversed(output.shape)) if transposed else output.shape
    narrow = {wide: narrow for narrow, wide in WIDE.items()} if settings.wide else {}  # the numbers that the other sides have
    tangent = widened(torch.randn(sizes, dtype=narrow.get(output.dtype, output.dtype)))
    return tangent.permute(*reversed(range(output.dim()))) if transposed else tangent


def note_gradients(seen, outputs, leaves, order, transposed=False, none_is_zero=False, around=contextlib.nullcontext):
    """Gradients of the outputs in the direction of random tangents, and theirs, up to `order`; each taken with `around` entered."""
    for depth in range(1, order + 1):
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        seed(7 + depth)
        # Drawn for all, so that an output has the same one whether or not those before it require grad.
        smooth = [output for output in outputs if output is not None and (output.is_floating_point() or output.is_complex())]
        pairs = [(output, tangent_like(output, transposed)) for output in smooth]
        pairs = [(output, tangent) for output, tangent in pairs if output.requires_grad]
        if not wanted or not (pairs or none_is_zero):
            return
        outputs = [output for output, _ in pairs]
        tangents = [tangent.requires_grad_(depth < order) for _, tangent in pairs]
        with around():
            found = torch.autograd.grad(outputs, wanted, tangents, create_graph=depth < order, allow_unused=True) if outputs else ()
        outputs = found or (None,) * len(wanted)
        noted = [torch.zeros_like(leaf) if none_is_zero and got is None else got for leaf, got in zip(wanted, outputs)]
        seen.note_all(f"gradient of order {depth}:", noted)


def observe(call, leaves, arguments, keywords, order, state=(), aliases=True, **how):
    """Calls, and notes the result, what became of the arguments and of `state`, and gradients with respect to `leaves`.
    order: 0 for values alone. aliases: whether strides and shared storages are observed. how: see note_gradients; transposed: whether tangents have odd
    strides; none_is_zero: whether an undefined gradient is one of zeros, as for a result that depends on data which of its inputs it uses."""
    seen = Seen()
    given = tensors((arguments, keywords)) + list(state)
    seed(7)
    result = call(*arguments, **keywords)
    note_result(seen, result, given, aliases)
    seen.note_all("argument after the call", given)
    seen.note_all("strides of argument after the call", [(t.stride() if t.layout == torch.strided else None, t.requires_grad) for t in given])
    seen.note_all("grad of leaf", [leaf.grad for leaf in leaves])
    changed = [tensor for tensor in given if tensor.grad_fn is not None]
    note_gradients(seen, tensors(result) + changed, leaves, order, **how)
    return seen


def is_as_true_nearby(index, draws):
    """Whether the errors of a result over several draws, squared and summed, are at most four times eager's. draws: (eager, ours, truth) for each of them, the
    one that is in question among them. False where the three are not alike, or not finite in the same places."""
    errors = {"eager": 0.0, "ours": 0.0}
    for observed in draws:
        if len({seen[index][0] for seen in observed}) > 1 or len({seen[index][1].shape for seen in observed}) > 1:
            return False
        x, y, exact = (seen[index][1] for seen in observed)
        finite = x.isfinite()
        if not (torch.equal(finite, y.isfinite()) and torch.equal(finite, exact.isfinite()) and finite.any()):
            return False
        own = float((x[finite] - exact[finite]).abs().max())
        if own > 1e-2 * float(exact[finite].abs().max()):
            return False  # the truth is of another draw
        errors["eager"] += own**2
        errors["ours"] += float((y[finite] - exact[finite]).abs().max()) ** 2
    return len(draws) > 1 and errors["ours"] <= 4 * errors["eager"]


def difference(expected, got, find_truth=lambda: (), find_neighbours=lambda: (), find_moved=lambda: ()):
    """The first thing in which two observations differ, in words; None if they agree. find_truth() observes eager in float64, find_neighbours() on inputs that
    differ in the last place, several times; find_moved() observes both sides and the truth on inputs nearby."""
    truth = neighbours = moved = None
    scale = max((float(one.abs().nan_to_num(0, 0, 0).max()) for _, one in expected if isinstance(one, torch.Tensor) and one.dtype in WIDE and one.numel()), default=0.0)
    for index, ((label, x), (other, y)) in enumerate(zip(expected, got)):
        if label != other:
            return f"'{other}' was seen, expected '{label}'"
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor) or x != y:
                return f"{label} is {summary(y)}, expected {summary(x)}"
            continue
        if is_same(x, y):
            continue
        if x.dtype in WIDE and not torch.equal(x, y):
            truth = list(find_truth()) if truth is None else truth
            true = is_as_true(y, x, truth[index][1] if index < len(truth) and truth[index][0] == label else None, scale)
            if true is False:
                neighbours = find_neighbours() if neighbours is None else neighbours
                true = is_as_true(y, x, truth[index][1], scale, [near[index][1] for near in neighbours if index < len(near) and near[index][0] == label])
            if true is False and x.shape == y.shape and x.dtype == y.dtype:
                moved = find_moved() if moved is None else moved
                true = is_as_true_nearby(index, [(expected, got, truth), *moved])
            if true:
                continue
            if true is False and x.shape == y.shape and x.dtype == y.dtype:
                wide, exact = x.to(truth[index][1].dtype), truth[index][1]
                return f"{label}: the error is {(y - exact).abs().max():.3g}, eager's {(wide - exact).abs().max():.3g}, the largest {exact.abs().max():.3g}"
        is_exact = x.dtype in (torch.float64, torch.complex128) and not settings.narrow
        tolerance = 1e-9 if is_exact else 1e-2 if x.dtype in (torch.float16, torch.bfloat16) else 1e-5
        tolerance = 0 if settings.backend == "interpreter" else tolerance  # its kernels are eager's
        try:
            torch.testing.assert_close(y, x, equal_nan=True, rtol=tolerance, atol=tolerance, check_stride=False)
        except AssertionError as error:
            return f"{label}: {' '.join(str(error).split())[:160]}"
    if len(expected) != len(got):
        return f"{len(got)} things were seen, expected {len(expected)}"
    return None


def is_same(x, y):
    """Whether all that assert_close() looks at is the same, in a tenth of its time; a NaN is left to it, and what equal() does not know."""
    alike = (x.dtype, x.layout, x.device, x.shape) == (y.dtype, y.layout, y.device, y.shape)
    return alike and x.layout == torch.strided and x.dtype != torch.complex32 and torch.equal(x, y)


def summary(value):
    return f"a tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else str(value)[:200]


class Calls:
    """Which calls ran the function itself, of those that are made while this is there. An outcome of theirs that would be "passed" is "original" then: eager's result,
    and no graph."""

    def __init__(self):
        import diptych

        self.count = diptych.eager_calls
        self.before, self.compiled = self.count(), []

    def watch(self, function):
        """`function`, whose statistics count if it is a compiled one."""
        if hasattr(function, "stats"):
            self.compiled.append(function)
        return function

    def outcome(self, outcome):
        reasons = [function.stats().last_original for function in self.compiled if function.stats().originals]
        reasons += [why for why, count in self.count().items() if count != self.before.get(why, 0)]
        return ("original", reasons[0].splitlines()[0]) if outcome[0] == "passed" and reasons else outcome


def words(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:300]


def observe_truth(eager):
    """What eager gives in float64; nothing where it can't."""
    try:
        with in_float64():
            return eager()
    except Exception:
        return ()


def observe_neighbours(eager):
    """What eager gives on inputs that differ in the last place, four times."""
    found = []
    try:
        for settings.shaken in range(1, 5):
            found.append(list(eager()))
    except Exception:
        pass  # a value next to the last one that the function takes
    finally:
        settings.shaken = 0
    return found


def observe_moved(eager, ours):
    """What eager gives, what the compiled function gives and the truth, on eight inputs nearby, a thousandth away."""
    found = []
    settings.shift = 2.0**-10
    try:
        for settings.shaken in range(1, 9):
            found.append((list(eager()), list(ours()), list(observe_truth(eager))))
    except Exception:
        pass  # as above
    finally:
        settings.shaken, settings.shift = 0, None
    return [row for row in found if len(row[0]) == len(row[1]) == len(row[2])]


def judge_to_order(eager, ours, order):
    """judge() for two functions of the order, which falls to the highest at which eager differentiates."""
    outcome = judge(lambda: eager(order), lambda: ours(order))
    if order > 1 and outcome[1].startswith(EAGER_RAISES) or outcome[0] == "eager refuses":
        lower = judge_to_order(eager, ours, order - 1) if order > 0 else outcome
        return outcome if lower[0] == "eager refuses" else lower
    return outcome


def judge(eager, ours):
    """Outcome and words for two thunks that observe. Where eager raises, the compiled function must raise as well, and no fault of ours."""
    import diptych

    expected = refusal = None
    try:
        expected = eager()
    except Exception as error:  # whatever it is, eager says so
        refusal = words(error)
    try:
        got = ours()
    except Exception as error:
        if refusal and not isinstance(error, diptych.InternalError):
            return "eager refuses", refusal
        if (isinstance(error, diptych.UserError) and not str(error).startswith(FAILED)) or ESCAPED in str(error):
            return "refused", words(error)
        return "error", words(error) + " | " + " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-2:])
    if refusal:
        return "wrong", f"{EAGER_RAISES} {refusal}"
    rounds = settings.backend != "interpreter"
    wrong = difference(expected, got, *((partial(observe_truth, eager), partial(observe_neighbours, eager), partial(observe_moved, eager, ours)) if rounds else ()))
    return ("wrong", wrong) if wrong else ("passed", "")


def worst(outcomes):
    """The worst of some (outcome, words); passed for none."""
    return max(outcomes, key=lambda outcome: OUTCOMES.index(outcome[0]), default=("eager refuses", "no samples"))
