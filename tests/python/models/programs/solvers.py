"""torchdiffeq's and torchsde's solvers, of a small net as the field."""
import torch
from harness import STEPS, program, train
from torch import nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y) - 0.1 * t * y


class Solved(nn.Module):
    """The field, solved from a start on."""

    def __init__(self, solve):
        super().__init__()
        self.field, self.solve = Field(), solve

    def forward(self, start, times):
        return self.solve(self.field, start, times).square().mean()


def train_solved(way, solve):
    starts = torch.randn(STEPS, 3, 2, generator=torch.Generator().manual_seed(2))
    return train(way, Solved(solve), [(start, torch.linspace(0, 1, 4)) for start in starts])


@program("torchdiffeq")
def ode_by_rk4(way):
    from torchdiffeq import odeint

    return train_solved(way, lambda *arguments: odeint(*arguments, method="rk4"))


@program("torchdiffeq")
def ode_by_dopri5(way):
    from torchdiffeq import odeint

    return train_solved(way, lambda *arguments: odeint(*arguments, method="dopri5", rtol=1e-4, atol=1e-5))


@program("torchdiffeq")
def ode_by_dopri5_and_its_adjoint(way):
    from torchdiffeq import odeint_adjoint

    return train_solved(way, lambda *arguments: odeint_adjoint(*arguments, method="dopri5", rtol=1e-4, atol=1e-5))


class Stochastic(nn.Module):
    """An equation whose noise is of one interval of a Brownian motion, drawn by its own seed."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.diffusion = nn.Linear(2, 2), nn.Linear(2, 2)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.diffusion(y).sigmoid() * 0.3

    def forward(self, start, times):
        import torchsde

        motion = torchsde.BrownianInterval(0.0, 1.0, size=start.shape, dtype=start.dtype, entropy=5)
        return torchsde.sdeint(self, start, times, bm=motion, dt=0.25, method="euler").square().mean()


@program("torchsde")
def sde_with_a_brownian_interval(way):
    starts = torch.randn(STEPS, 3, 2, generator=torch.Generator().manual_seed(2))
    return train(way, Stochastic(), [(start, torch.linspace(0, 1, 3)) for start in starts])
