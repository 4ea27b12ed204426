"""Fit a NumPyro model privately: `python examples/posterior_numpyro.py` takes a few seconds."""

import numpy as np
import numpyro
from numpyro import distributions as dist

import veilflow as vf


def model(visit):  # the model of ONE record: a patient's number of visits, by age
    rate = numpyro.sample("rate", dist.Normal(0.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("visits", dist.Poisson(np.e ** (rate + slope * visit["age"])), obs=visit["n"])


rng = np.random.default_rng(0)
age = rng.uniform(-1, 1, 5_000).astype("float32")
records = {"age": age, "n": rng.poisson(np.exp(0.8 + 0.5 * age)).astype("float32")}
problem = vf.NumpyroModel(model, {"age": 0.0, "n": 1.0})
posterior = vf.FlowPosterior(
    log_likelihood=problem.log_likelihood,
    log_prior=problem.log_prior,
    parameters=problem.parameters,
    budget=vf.Budget(epsilon=1.0, delta=1e-6),
).fit(records)
print(posterior.mean, posterior.interval(0.95), problem.constrained(posterior.sample(3)), sep="\n")
bill = [f"  {what}: epsilon {cost:.3g} alone" for what, cost, _ in posterior.ledger.shares(1e-6)]
print("\nledger", *bill, sep="\n")
print(f"guarantee\n  {posterior.guarantee}")
