"""What eager refuses: calls of PyTorch's operator database with one argument made wrong, and the wrong calls that the database lists itself.

    python tests/python/suites/refusal_db.py [--only add,mul] [--list] [--all] [--backend xla]

One argument of a sample is changed: a tensor to another dtype, by an element, by a rank, an index to one out of range, a number to one that makes no sense.
Where eager raises, the compiled function raises an error of the same class, or a UserError; XLA checks no values of tensors (docs/xla.md). Where eager computes,
as with most operands of mixed dtypes, the compiled function has its results, or refuses. A run takes a part of the operators, and of each some of the changes,
by each backend in turn; --all takes everything.
"""
import itertools
import random
import zlib

import judge
import rotation
import suite
import torch
from device import DEVICE
from samples import name_of, operators, samples, wrong_samples
from torch.utils import _pytree

BACKENDS = ("interpreter", "native", "xla")
#: Their results are memory as it was, or other storages.
WITHOUT_VALUES = ("empty", "new_empty", "resize", "resize_as")
#: Their kernels check too little and read or write beside their memory: eager itself crashes, or gives what lies there.
BEYOND_MEMORY = ("torch._scaled_mm", "grid_sampler", "lu_unpack", "ormqr", "geqrf", "linalg.householder_product", "_segment_reduce", "nn.functional.ctc_loss", "nn.functional.embedding_bag", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "nn.functional.pdist", "nn.functional.nll_loss")
#: What is set apart, and why: (operator, part of what is said).
APART = {
    ("linalg.eig", "gradient"): "LAPACK takes another path for values alone, and whether a loss depends on the phase of a vector is seen by values",
    ("linalg.eig", "eigenvectors in the complex case"): "as above",
    ("linalg.svd", "singular vectors"): "as above",
    ("clamp", "doesn't match the broadcast shape"): "eager's gradient fails where the bounds have more dimensions; ours does not",
    ("index_fill", "Index to scalar"): "eager fails in a gradient that nobody asks for",
    ("masked_fill", "gradient of order 1: 1"): "eager sums what the mask selects, a trace all elements",
    ("nn.functional.binary_cross_entropy_with_logits", "gradient of order 1: 0"): "eager rounds to halves in place, a trace after the formula",
    ("prod", "gradient of order 1: 0"): "eager's formula depends on whether there are zeros",
    ("kthvalue", "result 1"): "which of equal elements is found is not said",
    ("argsort", "result 0"): "as above",
    ("pca_lowrank", "result"): "vectors up to signs and turns",
    ("logit", "result 0: the error is nan"): "a bound that is no number",
    ("fft.", "MKL FFT error"): "of no elements there is nothing to compute",
    ("fft.", "strides is (0,"): "a result without elements",
    ("nn.functional.rrelu", "strides is"): "as above",
    ("nn.functional.conv", "strides is"): "as above",
    ("nn.functional.channel_shuffle", "shares the storage"): "as above",
    ("nn.functional.multilabel_margin_loss", "forward_out_frame\" not implemented for 'Half'"): "XLA has halves, which eager's kernel has not",
    ("nn.functional.grid_sample", "Autograd not support dtype"): "refused as in eager, by autograd in place of the kernel",
    ("nn.functional.conv_transpose", "output padding must be smaller"): "oneDNN's kernel takes it",
}
NARROW, WHOLE = (torch.bfloat16, torch.float16), (torch.int64, torch.uint8, torch.bool)
FAMILIES = (*NARROW, torch.float64, *WHOLE, torch.complex64)
#: Eager's words about values of tensors.
OF_VALUES = ("out of bounds", "out of range", "Target", "must be in", "probability", "index", "all elements")
OF_INDEX = {"beyond": 1000, "below": -1000}


def sizes_of(tensor):
    """Tensors of almost the size."""
    yield "a rank more", tensor[None]
    if tensor.dim() == 0:
        return
    for dim in sorted({0, tensor.dim() - 1}):
        if tensor.size(dim):
            yield f"longer in {dim}", torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim)
            yield f"shorter in {dim}", tensor.narrow(dim, 1, tensor.size(dim) - 1).clone()
            yield f"nothing in {dim}", tensor.narrow(dim, 0, 0).clone()
    if tensor.size(0):
        yield "a rank less", tensor[0].clone()


def changes_of(leaf):
    """(what is changed, the leaf that comes of it)."""
    if isinstance(leaf, torch.Tensor):
        if leaf.layout != torch.strided:
            return
        plain = leaf.detach()
        yield from ((f"to {str(dtype)[6:]}", plain.to(dtype)) for dtype in (*FAMILIES, torch.float32) if dtype != leaf.dtype)
        yield from ((name, change) for name, change in sizes_of(plain))
        if leaf.dtype == torch.int64:
            yield from ((name, plain + offset) for name, offset in OF_INDEX.items())
    elif isinstance(leaf, bool):
        yield "not", not leaf
    elif isinstance(leaf, int):
        yield from (("a whole number above", leaf + 7), ("a whole number below", -leaf - 9), ("a fraction", leaf + 0.5))
    elif isinstance(leaf, float):
        yield from (("a number above", abs(leaf) + 1.5), ("a number below", -abs(leaf) - 0.5), ("no number", float("nan")))
    elif isinstance(leaf, str):
        yield "a word", "nonsense"


def changed_samples(right):
    """(words, arguments) with one leaf of a sample changed."""
    for place, sample in enumerate(right):
        leaves, spec = _pytree.tree_flatten((sample.arguments, sample.keywords))
        for index, leaf in enumerate(leaves):
            for name, changed in changes_of(leaf):
                needs = isinstance(leaf, torch.Tensor) and leaf.requires_grad and (changed.is_floating_point() or changed.is_complex())
                changed = changed.requires_grad_() if needs else changed
                yield f"{place}.{index} {name}", _pytree.tree_unflatten([*leaves[:index], changed, *leaves[index + 1 :]], spec)


def judge_call(op, given, order, backend):
    """The outcome of a call by a backend."""
    judge.settings.backend, raised = backend, {}
    judge.settings.narrow = any(tensor.dtype in judge.WIDE for tensor in judge.tensors(given))  # beside which others are double

    def observation(who, function):
        arguments, keywords = judge.clone(given)
        try:
            return judge.observe(function, judge.tensors((arguments, keywords)), arguments, keywords, order)
        except Exception as error:
            raised[who] = error
            raise

    function = lambda *args, **kwargs: op.op(*args, **kwargs)  # noqa: E731
    outcome = judge.judge(lambda: observation("eager", function), lambda: observation("ours", judge.compiled(function)))
    outcome = by_class(outcome, backend, **raised)
    is_apart = outcome[0] == "wrong" and any(op.name.startswith(name) and part in outcome[1] for name, part in APART)
    return ("passed", "") if is_apart else outcome


def by_class(outcome, backend, eager=None, ours=None):
    import diptych

    if eager is None:
        return outcome
    if outcome[0] == "wrong" and backend == "xla" and any(part in outcome[1] for part in OF_VALUES):
        return "eager refuses", outcome[1]
    if isinstance(ours, (type(eager), diptych.UserError)) or outcome[0] != "eager refuses":
        return outcome
    return "wrong", f"{judge.words(ours)} | expected what eager raises: {judge.words(eager)}"


def calls_of(op, options):
    needs = op.supports_autograd and torch.float32 in op.supported_backward_dtypes(DEVICE)
    right = samples(op, torch.float32 if op.supports_dtype(torch.float32, DEVICE) else torch.int64, needs, 2)
    listed = [(f"listed {place}", (sample.arguments, sample.keywords)) for place, sample in enumerate(wrong_samples(op))]
    found = [*listed, *changed_samples(right)]
    backends = itertools.cycle(BACKENDS) if options.backend is None else itertools.repeat(options.backend)
    if options.all:
        return [(words, given, backend) for words, given in found for backend in (BACKENDS if options.backend is None else (options.backend,))], needs
    random.Random(zlib.crc32(op.name.encode())).shuffle(found)
    return [(words, given, backend) for (words, given), backend in zip(found[: options.calls], backends)], needs


def entry_of(op, options):
    def entry():
        def outcomes():
            found = []
            calls, needs = calls_of(op, options)
            for words, given, backend in calls:
                outcome, said = judge_call(op, given, 1 if needs else 0, backend)
                found.append((outcome, f"{backend}, {words}: {said}"))
                if options.each and judge.OUTCOMES.index(outcome) >= judge.OUTCOMES.index("refused"):
                    print(f"{outcome:8} {op.name}.{op.variant_test_name} {found[-1][1]}", flush=True)
            return judge.worst(found)

        yield "calls", outcomes

    return entry


def entries(options):
    chosen = [op for op in operators() if not op.name.startswith(WITHOUT_VALUES + BEYOND_MEMORY)]
    for op in rotation.rotating(chosen):
        yield name_of(op), entry_of(op, options)


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="every change, by every backend")
    parser.add_argument("--calls", type=int, default=12, help="how many changes of each operator")
    parser.add_argument("--each", action="store_true", help="prints each call that did not pass")


if __name__ == "__main__":
    suite.main("refusal_db", __doc__, entries, add_arguments)
