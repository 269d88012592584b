"""Whether results are as near to the truth as eager's are: the judge of results that are not computed by eager's kernels, on any CPU.

Eager has other numbers on other CPUs, so that no number typed in here would be right on all of them: Note [As near as eager] in tests/testing/as_near.h.
"""
import torch

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}
ULPS = 8  # of the dtype that is computed in: float32 for halves
NEIGHBOURS = 6


def is_inexact(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def same_numbers(a, b):
    """Element by element, all NaN being one."""
    return (a == b) | (a.isnan() & b.isnan())


def to_wide(tensor):
    return tensor.to(WIDE.get(tensor.dtype, tensor.dtype))


def unit(dtype):
    return torch.finfo(dtype).eps


def _computed_in(dtype):
    return dtype if dtype in (torch.float64, torch.complex128) else torch.float32


def is_near(got, truth, moved):
    """Element by element: whether a result is the truth rounded, or no farther from it than `moved`, a rounding to its dtype and some in the one that is computed in."""
    dtype, computed = got.dtype, _computed_in(got.dtype)
    units = ULPS * unit(computed) + (unit(dtype) if dtype in (torch.float16, torch.bfloat16) else 0)
    least = torch.finfo(torch.float16).smallest_normal * unit(dtype) if dtype == torch.float16 else torch.finfo(computed).tiny  # denormals may be zeros
    rounded = truth.to(dtype)
    near = (got.to(truth.dtype) - truth).abs() <= moved + truth.abs() * units + least
    return same_numbers(got, rounded) | (rounded.isfinite() & got.isfinite() & near)


def _narrow(tensor):
    return tensor.to({torch.float64: torch.float32, torch.complex128: torch.complex64}.get(tensor.dtype, tensor.dtype))


def _apart(tensor):
    """With gaps between the elements, so that kernels take them one by one."""
    return torch.stack([tensor, tensor], -1).select(-1, 0) if is_inexact(tensor) else tensor


def _beside(tensor, seed):
    """Each inexact number up to a thousandth larger or smaller."""
    if not is_inexact(tensor):
        return tensor
    shift = torch.rand(tensor.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - 0.5
    return (to_wide(tensor) * (1 + shift / 512)).to(tensor.dtype)


def _error(rounded, exact):
    """What a result is wrong by, besides that it is rounded to its dtype; nothing where it is not finite."""
    truth = to_wide(exact)
    error = (rounded.to(truth.dtype) - truth).abs() - truth.abs() * (unit(rounded.dtype) / 2)
    return torch.where(error.isfinite(), error, 0).clamp(min=0)


class Judge:
    """Judges results of a function of tensors at some inputs, element by element."""

    def __init__(self, function, inputs):
        self.function, self.inputs = function, list(inputs)
        self.truths = self.sights = None

    def wrong(self, got, expected):
        """The elements of a compiled function's result that are wrong, and their places; None if there are none. `expected` is eager's."""
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (got.dtype, got.shape, expected.dtype, expected.shape)
        right = same_numbers(got, expected)
        if is_inexact(expected) and not right.all():
            self._look(expected)
            own = _error(expected, self.truths[0])
            for rounded, exact in self.sights:
                if rounded.shape == own.shape and rounded.dtype.is_floating_point | rounded.dtype.is_complex:
                    own = torch.maximum(own, _error(rounded, exact) * min(unit(expected.dtype) / unit(rounded.dtype), 1))
            for truth in self.truths:
                right = right | is_near(got, truth, 2 * own)
        return None if right.all() else (got[~right], expected[~right], (~right).nonzero().tolist())

    def _results(self, convert):
        """None where eager has none."""
        try:
            return self.function(*map(convert, self.inputs))
        except RuntimeError:
            return None

    def _look(self, expected):
        if self.truths is not None:
            return
        # Integers are converted before they are computed with.
        wide = to_wide if any(map(is_inexact, self.inputs)) else lambda x: x.to(expected.dtype).to(torch.float64)
        truths = [self._results(wide), self._results(lambda x: _apart(wide(x)))]
        self.truths = [to_wide(truth).to(to_wide(expected).dtype) for truth in truths if truth is not None and truth.shape == expected.shape]
        self.truths = self.truths or [to_wide(expected)]
        moves = [lambda x: x] + [lambda x, seed=seed: _beside(x, seed) for seed in range(1, NEIGHBOURS + 1)]
        sights = [(self._results(lambda x: _narrow(move(x))), self._results(lambda x: to_wide(_narrow(move(x))))) for move in moves]
        self.sights = [(rounded, exact) for rounded, exact in sights if rounded is not None and exact is not None]


def is_as_true(got, expected, truth, scale, neighbours=()):
    """Whether the error of a whole tensor against the truth is at most twice that of `expected`, or of a neighbour, give or take some ulps; of `scale`, the largest
    of all that was seen, where the truth is zero, as terms that cancel are. Where either is not finite, the result is as eager's or as the truth. None where
    `truth` is not what the two round: other numbers were drawn, or a dtype was written into the function."""
    if not (isinstance(truth, torch.Tensor) and truth.shape == expected.shape and truth.dtype == WIDE.get(expected.dtype) and expected.layout == torch.strided):
        return None
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    rounded = truth.to(expected.dtype)
    finite = got.isfinite() & rounded.isfinite()
    if not (same_numbers(got, expected) | same_numbers(got, rounded))[~finite].all():
        return False
    if not finite.any():
        return True
    exact, largest = truth[finite], truth[finite].abs().max()
    own = torch.where(expected[finite].isfinite(), (expected[finite] - exact).abs(), 0).max()
    if own > 1e-2 * largest:
        return None
    about = torch.finfo(expected.dtype)
    errors = [(near[finite] - exact).abs().max() for near in neighbours if isinstance(near, torch.Tensor) and near.shape == expected.shape]
    own = max([own, *(error for error in errors if error <= 1e-2 * largest)])
    return bool((got[finite] - exact).abs().max() <= 2 * own + ULPS * about.eps * (largest or scale) + about.tiny)  # denormals may be zeros


def shaken(tensor, seed, shift=None):
    """The tensor with each number a place, or `shift` relative to it, larger or smaller."""
    ups = torch.rand(tensor.shape, dtype=torch.float32, generator=torch.Generator().manual_seed(seed)) < 0.5
    shift = shift or torch.finfo(tensor.dtype).eps
    return (to_wide(tensor) * torch.where(ups, 1.0, -1.0).double().mul(shift).add(1)).to(tensor.dtype)


def assert_as_true(got, expected, truth, neighbours=()):
    """For lists of tensors: eager's results, the same in float64, and some more on inputs that differ in the last place."""
    assert len(got) == len(expected) == len(truth)
    scale = max((float(one.detach().abs().max()) for one in expected), default=0.0)
    for index, (ours, eager, exact) in enumerate(zip(got, expected, truth)):
        near = [seen[index].detach() for seen in neighbours]
        assert is_as_true(ours.detach(), eager.detach(), exact.detach(), scale, near), (index, ours, eager, exact)
