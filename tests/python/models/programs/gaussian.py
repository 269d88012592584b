"""gpytorch's exact Gaussian process, and botorch's acquisition functions of one."""
import torch
from harness import STEPS, judge, note_state, program, train
from torch import nn


def points(rows=8, columns=2, number=0):
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(number))


def values(x):
    return (3 * x).sin().sum(1)


@program("gpytorch")
def exact_gaussian_process(way):
    """Trained by the marginal likelihood, and asked for a prediction."""
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x, likelihood = points(), gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, values(x), likelihood).train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    seen = train(way, model, [(x, values(x))] * STEPS, lambda model, x, y: -marginal(model(x), y), rate=0.1)
    with torch.no_grad():
        seen.note("prediction", likelihood(model.eval()(points(3, number=5))).mean)
    return seen


class Best(nn.Module):
    """An acquisition function as a module, which is called with candidates."""

    def __init__(self, acquisition):
        super().__init__()
        self.acquisition = acquisition

    def forward(self, candidates):
        return self.acquisition(candidates)


@program("botorch.models", "botorch.acquisition", "botorch.optim")
def acquisition_functions(way):
    """Expected improvement, of one point and of two, and its optimum from points that are given."""
    from botorch.acquisition import ExpectedImprovement, qExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler

    x = points()
    process = SingleTaskGP(x, values(x)[:, None])
    best, sampler = values(x).max(), SobolQMCNormalSampler(torch.Size([8]), seed=1)
    seen, bounds = judge.Seen(), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    for count, acquisition in ((1, ExpectedImprovement(process, best)), (2, qExpectedImprovement(process, best, sampler=sampler))):
        model, step = way.module(Best(acquisition)), way.function(lambda model, candidates: model(candidates))
        judge.seed(4)
        candidates = points(4 * count, 2, 7).reshape(4, count, 2).requires_grad_()
        for _ in range(STEPS):
            gradient, = torch.autograd.grad(step(model, candidates).sum(), candidates)
            seen.note("gradient", gradient)
        if count == 1:  # each line search is a graph of its own to Dynamo
            starts, options = candidates.detach(), {"maxiter": 2, "nonnegative": True}
            found = optimize_acqf(lambda candidates: step(model, candidates), bounds, q=1, num_restarts=4, batch_initial_conditions=starts, options=options)
            seen.note_all("optimum", found)
    return note_state(seen)
