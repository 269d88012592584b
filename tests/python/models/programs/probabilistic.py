"""pyro: variational autoencoders, Hamiltonian Monte Carlo, and losses whose parameters are in pyro's store."""
import judge
import torch
from harness import STEPS, note_state, program, train
from torch import nn

SIZE, LATENT = 6, 2


def data(number=0, rows=5):
    return torch.rand(rows, SIZE, generator=torch.Generator().manual_seed(number))


class Vae(nn.Module):
    """The loss of a variational autoencoder by pyro's model and guide."""

    def __init__(self, elbo):
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(SIZE, 8), nn.Softplus(), nn.Linear(8, 2 * LATENT)), nn.Sequential(nn.Linear(LATENT, 8), nn.Softplus(), nn.Linear(8, SIZE))
        self.elbo = elbo

    def model(self, x):
        import pyro
        from pyro import distributions

        pyro.module("decoder", self.decoder)
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("z", distributions.Normal(x.new_zeros(x.shape[0], LATENT), x.new_ones(x.shape[0], LATENT)).to_event(1))
            pyro.sample("x", distributions.Bernoulli(logits=self.decoder(z), validate_args=False).to_event(1), obs=x)

    def guide(self, x):
        import pyro
        from pyro import distributions

        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            mean, scale = self.encoder(x).chunk(2, -1)
            pyro.sample("z", distributions.Normal(mean, scale.exp()).to_event(1))

    def forward(self, x):
        return self.elbo.differentiable_loss(self.model, self.guide, x)


def train_vae(way, validate):
    import pyro
    from pyro.infer import Trace_ELBO

    pyro.clear_param_store()
    with pyro.validation_enabled(validate):
        return train(way, Vae(Trace_ELBO()), [(data(number),) for number in range(STEPS)], rate=0.01)


@program("pyro.infer")
def pyro_vae(way):
    return train_vae(way, True)


@program("pyro.infer")
def pyro_vae_without_validation(way):
    return train_vae(way, False)


class Energy(nn.Module):
    """The potential of a linear regression: what a sampler differentiates."""

    def __init__(self):
        super().__init__()
        self.register_buffer("x", torch.linspace(-1, 1, 16).reshape(8, 2))
        self.register_buffer("y", self.x @ torch.tensor([1.0, -0.5]))

    def forward(self, parameters):
        error = self.y - self.x @ parameters["weight"] - parameters["bias"]
        return (error.square().sum() / 0.5 + parameters["weight"].square().sum() + parameters["bias"].square()) / 2


@program("pyro.infer.mcmc")
def pyro_nuts_on_a_regression(way):
    import pyro
    from pyro import distributions
    from pyro.infer import MCMC, NUTS

    class Regression(nn.Module):
        def forward(self, x, y):
            weight = pyro.sample("weight", distributions.Normal(torch.zeros(2), torch.ones(2)).to_event(1))
            scale = pyro.sample("scale", distributions.HalfNormal(1.0))
            with pyro.plate("data", x.shape[0]):
                return pyro.sample("y", distributions.Normal(x @ weight, scale), obs=y)

    pyro.clear_param_store()
    energy, model = Energy(), way.module(Regression())
    step = way.function(lambda model, x, y: model(x, y))
    sampler = MCMC(NUTS(lambda x, y: step(model, x, y), max_tree_depth=3), num_samples=3, warmup_steps=2, disable_progbar=True)
    judge.seed(7)
    sampler.run(energy.x, energy.y)
    seen = judge.Seen()
    for name, samples in sorted(sampler.get_samples().items()):
        seen.note(name, samples)
    return note_state(seen)


@program("pyro.infer.mcmc")
def pyro_hmc_potential(way):
    from pyro.infer import HMC, MCMC

    model = way.module(Energy())
    potential = way.function(lambda model, parameters: model(parameters))
    kernel = HMC(potential_fn=lambda parameters: potential(model, parameters), step_size=0.1, num_steps=3, adapt_step_size=True)
    sampler = MCMC(kernel, num_samples=4, warmup_steps=3, initial_params={"weight": torch.zeros(2), "bias": torch.zeros(())}, disable_progbar=True)
    judge.seed(7)
    sampler.run()
    seen = judge.Seen()
    for name, samples in sorted(sampler.get_samples().items()):
        seen.note(name, samples)
    return note_state(seen)


class InStore(nn.Module):
    """A model and a guide whose parameters are in pyro's store alone."""

    def model(self, x):
        import pyro
        from pyro import distributions

        weight = pyro.param("weight", lambda: torch.full((SIZE,), 0.1))
        z = pyro.sample("z", distributions.Normal(0.0, 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("x", distributions.Normal(x[:, 1:] @ weight[1:] + z, 1.0), obs=x[:, 0])

    def guide(self, x):
        import pyro
        from pyro import distributions
        from torch.distributions import constraints

        scale = pyro.param("scale", torch.tensor(0.5), constraint=constraints.positive)
        return pyro.sample("z", distributions.Normal(pyro.param("mean", torch.tensor(0.3)), scale))

    def forward(self, x):
        from pyro.infer import Trace_ELBO

        return Trace_ELBO().differentiable_loss(self.model, self.guide, x)


def note_store(seen):
    import pyro

    for name, value in sorted(pyro.get_param_store().named_parameters()):
        seen.note(name, value)
        seen.note(f"{name}'s gradient", value.grad)
    return note_state(seen)


@program("pyro.infer")
def pyro_parameters_in_the_store(way):
    import pyro

    pyro.clear_param_store()
    seen = judge.Seen()
    model, step = way.module(InStore()), way.function(lambda model, x: model(x))
    for number in range(STEPS):
        judge.seed(20 + number)
        loss = step(model, data(number))
        loss.backward()
        seen.note("loss", loss)
        parameters = [value for _, value in pyro.get_param_store().named_parameters()]
        torch.optim.SGD(parameters, 0.01).step()
    return note_store(seen)


@program("pyro.infer")
def pyro_trace_of_a_guide(way):
    import pyro
    from pyro import poutine

    class Guide(InStore):
        def forward(self, x):
            return self.guide(x)

    pyro.clear_param_store()
    seen = judge.Seen()
    model, step = way.module(Guide()), way.function(lambda model, x: model(x))
    for number in range(STEPS):
        judge.seed(20 + number)
        trace = poutine.trace(step).get_trace(model, data(number))
        seen.note("sites", tuple(sorted(trace.nodes)))
        loss = trace.log_prob_sum() * trace.nodes["_RETURN"]["value"]
        loss.backward()
        seen.note("loss", loss)
    return note_store(seen)
