"""A guarantee and its ledger in plain words, for readers who have nothing else at hand."""

import math

from veilflow.privacy import events as ev
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.unit import Adjacency, Unit

_UNITS = {
    Unit.ROW: "one row; the curator vouches that nobody has two",
    Unit.IMAGE: "one image with its label; the curator vouches that nobody is on two",
    Unit.RECORD: "one record; the curator vouches that nobody has two",
    Unit.USER: "all records of one person",
}
_ADJACENCIES = {
    Adjacency.ADD_REMOVE: "data sets are compared that differ by {} added or removed",
    Adjacency.REPLACE_ONE: "data sets are compared in which {} is exchanged for another",
}
_SUBJECT = {
    Unit.ROW: "a row",
    Unit.IMAGE: "an image",
    Unit.RECORD: "a record",
    Unit.USER: "a person's records",
}

_MODELS = {
    "DensityFlow": (
        "a density of rows of numbers (DP-NF)",
        "densities and synthetic rows of the population, research, tests of software",
    ),
    "MixtureDensity": (
        "a mixture of normals, as a density of rows of numbers (DP-MoG)",
        "a coarse density of the population, a baseline to compare others with",
    ),
    "TableFlow": (
        "a generator of synthetic tables (DP-HFlow)",
        "synthetic tables for analysis of the population, teaching, tests of software",
    ),
    "ImageFlow": (
        "a generator of synthetic images (DP-LFlow)",
        "synthetic images by class, for research and to train classifiers",
    ),
    "ExpMechClassifier": (
        "a classifier drawn by the exponential mechanism (ExpM+NF)",
        "predictions for new records of the same population",
    ),
    "FlowPosterior": (
        "a posterior of the parameters of a scientific model (DP-NF-VI)",
        "what the population tells about parameters, with its uncertainty",
    ),
    "ChainedImputer": (
        "regressions that fill missing cells",
        "filling gaps in rows of the same population",
    ),
    "EnsembleDetector": (
        "a detector of anomalies, by an ensemble of densities (DP-AD)",
        "scores of new records of the same population",
    ),
    "LikelihoodDetector": (
        "a detector of anomalies, by the likelihood of a density (DP-AD)",
        "scores of new records of the same population",
    ),
}
"""What each kind of model is, and what it is meant for."""
_UNKNOWN = ("a model of a class that this version does not know", "what its authors say")
MISUSES = (
    "Do not take a synthetic or predicted value for a fact about a person.",
    "Do not read rare groups off it: noise hides what few records say.",
    "Do not publish scores, densities or errors of the private records beside it: those are new "
    "answers about them, which this guarantee does not cover.",
    "Do not judge several releases of the same data by one card each: their epsilons compose.",
)


def plain_words(guarantee: Guarantee) -> str:
    """What the guarantee promises, without symbols."""
    who = _SUBJECT[guarantee.unit]
    if not guarantee.private:
        return (
            "There is no privacy. The data was used as it is: whoever has this model may learn about "
            "single records, and it must not be published."
        )
    factor = math.exp(guarantee.epsilon) if guarantee.epsilon < 700 else math.inf
    slack = ""
    if guarantee.delta > 0:
        slack = f", up to a probability of {guarantee.delta:.3g}"
    return (
        f"Whoever sees this model, and everything made from it, learns almost the same as if {who} had "
        "never been there: any outcome is at most "
        f"{factor:.3g} times as likely with the data of one as without it, or the other way "
        f"round{slack}. This holds whatever else is known, now or later, and for everyone in the data."
    )


def symbols(guarantee: Guarantee) -> str:
    """The definition, with the numbers of this guarantee."""
    if not guarantee.private:
        return "no privacy: ε = ∞, which bounds nothing"
    return (
        "P[M(D) ∈ S] ≤ exp(ε) · P[M(D') ∈ S] + δ for all S and neighbors D, D', "
        f"with ε = {guarantee.epsilon:.6g} and δ = {guarantee.delta:.3g}"
    )


def unit(guarantee: Guarantee) -> str:
    """Whom the guarantee protects."""
    return _UNITS[guarantee.unit]


def adjacency(guarantee: Guarantee) -> str:
    """Which data sets are neighbors."""
    return _ADJACENCIES[guarantee.adjacency].format(f"one {guarantee.unit.value}")


def kind(model: str) -> str:
    """What a kind of model is."""
    return _MODELS.get(model, _UNKNOWN)[0]


def uses(model: str) -> tuple[str, ...]:
    """What a kind of model is meant for."""
    return _MODELS.get(model, _UNKNOWN)[1:]


def event_in_words(event: Event) -> str:
    """One release in words, the outermost part first."""
    match event:
        case ev.Repeated(times=times, event=inner):
            return f"{times} times: {event_in_words(inner)}"
        case ev.PoissonSampled(sampling_rate=rate, event=inner):
            return (
                f"batches that a record enters with probability {rate:.4g}, {event_in_words(inner)}"
            )
        case ev.Together(events=parts):
            return "; ".join(_grouped(parts))
        case ev.Gaussian(noise_multiplier=noise):
            return f"Gaussian noise of {noise:.4g} times the sensitivity"
        case ev.Laplace(noise_multiplier=noise):
            return f"Laplace noise of {noise:.4g} times the sensitivity"
        case ev.ZeroConcentrated(rho=rho):
            return f"a release of zCDP, rho {rho:.4g}"
        case ev.PureDP(epsilon=epsilon):
            return f"a release of epsilon {epsilon:.4g}"
        case ev.ExponentialMechanism(epsilon=epsilon):
            return f"a choice by the exponential mechanism, epsilon {epsilon:.4g}"
        case ev.ApproximateDP(epsilon=epsilon, delta=delta):
            return f"a release of epsilon {epsilon:.4g} and delta {delta:.3g}"
        case ev.TotalVariation(distance=distance):
            return f"noise that is within {distance:.3g} of what is described, in total variation"
    return "use of the data without privacy"


def _grouped(parts: tuple[Event, ...]) -> list[str]:
    """Several releases; equal ones are named once, in the order of their first appearance."""
    counts = ev.flat(parts)
    noises = [one for one in counts if isinstance(one, ev.Gaussian)]
    if len(noises) < 3:
        return [_times(one, times) for one, times in counts.items()]
    low, high = (end(one.noise_multiplier for one in noises) for end in (min, max))
    many = sum(counts[one] for one in noises)
    first = f"{many} times: Gaussian noise of {low:.4g} to {high:.4g} times the sensitivity"
    return [first, *(_times(one, n) for one, n in counts.items() if one not in noises)]


def _times(event: Event, times: int) -> str:
    return event_in_words(event if times == 1 else ev.Repeated(times, event))
