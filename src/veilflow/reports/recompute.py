"""A short Python script that adds a ledger up again with dp-accounting and nothing of ours.

Whoever reads a card runs it to check the epsilon. It spells every release out: the library's own
constructors where it has them, else the curve of delta over epsilon that the release is proved to
stay under, from which the library makes a distribution.
"""

import math

from veilflow.privacy import events as ev
from veilflow.privacy.events import Event
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

_FINEST = 1e-4
_MOST_POINTS = 1e6

_CURVE = """\
def curve(delta_at, top):  # the distribution whose delta at epsilon a is delta_at(a), |a| <= top
    k = np.arange(-math.ceil(top / h), math.ceil(top / h) + 1)
    d = np.where(k * h < -top, -np.expm1(k * h), delta_at(np.clip(k * h, -top, top)))
    return pld.PrivacyLossDistribution(pmf.create_pmf_pessimistic_connect_dots(h, k, d))
"""
_PURE = """\
def pure(e):  # the worst release of this epsilon: a coin that lies once in 1 + exp(e)
    return curve(lambda a: (math.exp(e) - np.exp(a)) / (1 + math.exp(e)), e)
"""
_CHOICE = """\
def choice(e):  # exponential mechanism: its losses lie in a range of e
    return curve(lambda a: (math.exp(e / 2) - np.exp(a / 2))**2 / math.expm1(e), e)
"""
_FAILS = """\
def fails(d):  # with probability d everything is revealed
    return pld.PrivacyLossDistribution.create_from_rounded_probability({0: 1 - d}, d, h)
"""
_ZCDP = """\
def zcdp(rho):  # the lower hull, over exp(a), of the smallest bound on delta at a of any order t
    top = rho + 2 * math.sqrt(45 * rho)
    a, t = np.linspace(0, top, 1500), 1 + np.geomspace(1e-4, 1e5, 4000)[:, None]
    log_d = (t - 1) * (t * rho - a) + t * np.log1p(-1 / t) - np.log(t - 1)
    d = np.exp(np.minimum(log_d.min(axis=0), 0))
    hull = []
    for x, y in zip([*-a[:0:-1], *a], [*(-np.expm1(-a) + np.exp(-a) * d)[:0:-1], *d]):
        while len(hull) > 1 and (y - hull[-1][1]) / math.expm1(x - hull[-1][0]) < (
                hull[-1][1] - hull[-2][1]) / -math.expm1(hull[-2][0] - hull[-1][0]):
            hull.pop()
        hull.append((x, y))
    x, y = np.transpose(hull)
    return curve(lambda a: np.interp(np.exp(a), np.exp(x), y), top)
"""
_DISTANCE = """\
epsilon = 0.0  # what ran is this far, in total variation, from what is described above
for _ in range(50):
    left = delta - (1 + math.exp(epsilon)) * distance
    epsilon = total.get_epsilon_for_delta(left) if left > 0 else math.inf
    if epsilon > 500: break
print(epsilon)
"""


def script(ledger: Ledger, guarantee: Guarantee) -> str:
    """The script; it prints one number, the epsilon at the guarantee's delta."""
    plain = [
        (entry.purpose, event, times)
        for entry in ledger.entries
        for event, times in ev.flat(entry.event).items()
    ]
    if any(isinstance(event, ev.NonPrivate) for _, event, _ in plain):
        return "# the data was used without privacy: there is nothing to add up\nprint('inf')\n"
    if not plain:
        return "# nothing was released\nprint(0.0)\n"
    if guarantee.delta == 0:
        return _sum_of_epsilons(plain)
    return _by_distributions(plain, guarantee.delta)


Plain = list[tuple[str, Event, int]]


def _sum_of_epsilons(plain: Plain) -> str:
    """At delta 0 epsilons add up, and nothing less is true."""
    lines = [
        "# at delta 0 epsilons add up: no library is needed",
        "import math",
        "print(math.fsum([",
    ]
    for purpose, event, times in plain:
        lines.append(f"    {times} * {_epsilon(event)},  # {_comment(purpose)}")
    return "\n".join([*lines, "]))", ""])


def _epsilon(event: Event) -> str:
    if isinstance(event, ev.PoissonSampled):
        return f"math.log1p({event.sampling_rate!r} * math.expm1({_epsilon(event.event)}))"
    if isinstance(event, ev.Laplace):
        return f"(1 / {float(event.noise_multiplier)!r})"
    if isinstance(event, ev.PureDP | ev.ExponentialMechanism):
        return repr(float(event.epsilon))
    if isinstance(event, ev.ApproximateDP) and event.delta == 0:
        return repr(float(event.epsilon))
    return "math.inf"


def _by_distributions(plain: Plain, delta: float) -> str:
    """Distributions of every release, composed one after another."""
    calls = [(purpose, *_call(event, times)) for purpose, event, times in _merged(plain)]
    used = "".join(call for _, call, _ in calls)
    distance = [
        f"{times} * {float(event.distance)!r}"
        for _, event, times in plain
        if isinstance(event, ev.TotalVariation)
    ]
    helpers = ""
    if any(name in used for name in ("pure(", "choice(", "zcdp(")):
        helpers += _CURVE
    for name, text in (
        ("pure(", _PURE),
        ("choice(", _CHOICE),
        ("fails(", _FAILS),
        ("zcdp(", _ZCDP),
    ):
        helpers += text if name in used else ""
    lines = ["# pip install dp-accounting==0.6.0"]
    lines += ["import math"] if helpers or distance else []
    lines += ["import numpy as np"] if _CURVE in helpers else []
    lines += ["from dp_accounting.pld import privacy_loss_distribution as pld"]
    lines += ["from dp_accounting.pld import pld_pmf as pmf"] if _CURVE in helpers else []
    lines += [f"delta, h = {delta!r}, {_spacing(plain)!r}  # h: spacing of losses"]
    lines += [helpers.rstrip("\n")] if helpers else []
    lines += ["total = pld.identity(h)"]
    for purpose, call, times in calls:
        call += f".self_compose({times}, 1e-15)" if times > 1 else ""
        lines += [f"# {_comment(purpose)}", f"total = total.compose({call}, 1e-15)"]
    if distance:
        lines += [f"distance = {' + '.join(distance)}", _DISTANCE]
    else:
        lines += ["print(total.get_epsilon_for_delta(delta))", ""]
    return "\n".join(lines)


def _merged(plain: Plain) -> Plain:
    """Plain Gaussians as one, and zCDP as one: their squares add up, exactly. The rest as it is."""
    squares = [
        (p, times * float(e.noise_multiplier) ** -2)
        for p, e, times in plain
        if isinstance(e, ev.Gaussian)
    ]
    rhos = [
        (p, times * float(e.rho)) for p, e, times in plain if isinstance(e, ev.ZeroConcentrated)
    ]
    kept: Plain = []
    if squares:
        noise = ev.Gaussian(math.fsum(s for _, s in squares) ** -0.5)
        kept.append((_names(squares) + ": Gaussians, one over squares add up", noise, 1))
    if rhos:
        total = ev.ZeroConcentrated(math.fsum(r for _, r in rhos))
        kept.append((_names(rhos) + ": zCDP, rho adds up", total, 1))
    alone = (ev.Gaussian, ev.ZeroConcentrated, ev.TotalVariation)
    counts: dict[Event, tuple[str, int]] = {}
    for purpose, event, times in plain:
        if not isinstance(event, alone):
            before = counts.get(event, (purpose, 0))
            counts[event] = (before[0], before[1] + times)
    return kept + [(purpose, event, times) for event, (purpose, times) in counts.items()]


def _names(parts: list[tuple[str, float]]) -> str:
    return ", ".join(dict.fromkeys(purpose for purpose, _ in parts))


def _call(event: Event, times: int) -> tuple[str, int]:
    """The expression that makes the distribution of a release, and how often to compose it."""
    how = "value_discretization_interval=h"
    rate = ""
    if isinstance(event, ev.PoissonSampled) and isinstance(event.event, ev.Gaussian):
        rate, event = f", sampling_prob={event.sampling_rate!r}", event.event
    if isinstance(event, ev.Gaussian):
        return f"pld.from_gaussian_mechanism({float(event.noise_multiplier)!r}{rate}, {how})", times
    if isinstance(event, ev.Laplace):
        return f"pld.from_laplace_mechanism({float(event.noise_multiplier)!r}, {how})", times
    if isinstance(event, ev.ZeroConcentrated):
        return f"zcdp({float(event.rho)!r})", times
    if isinstance(event, ev.ExponentialMechanism):
        return f"choice({float(event.epsilon)!r})", times
    if isinstance(event, ev.PoissonSampled):
        inner = event.event
        if isinstance(inner, ev.ApproximateDP):
            failure = f"fails({event.sampling_rate!r} * {float(inner.delta)!r})"
            epsilon = f"{event.sampling_rate!r} * math.expm1({float(inner.epsilon)!r})"
            return f"pure(math.log1p({epsilon})).compose({failure})", times
        return f"pure({_epsilon(event)})", times
    if isinstance(event, ev.ApproximateDP):
        failure = f"fails({float(event.delta)!r})"
        if event.epsilon == 0:
            return failure, times
        return f"pure({float(event.epsilon)!r}).compose({failure})", times
    assert isinstance(event, ev.PureDP), "no other kinds are left"
    return f"pure({float(event.epsilon)!r})", times


def _spacing(plain: Plain) -> float:
    """A spacing of losses that suits the spread of all releases, two digits of it."""
    variance = span = count = 0.0
    for _, event, times in plain:
        one, reach = _spread(event)
        variance, count = variance + times * one**2, count + times
        span = max(span, reach)
    fine = min(_FINEST, math.sqrt(variance / max(count, 1)) / 16)
    coarse = (span + 16 * math.sqrt(variance)) / _MOST_POINTS
    return float(f"{max(fine, coarse, 1e-9):.1e}")


def _spread(event: Event) -> tuple[float, float]:
    """Roughly the standard deviation and the range of one release's loss.

    The accountant has one of its own, for other curves: it turns zCDP and choices into others first,
    and a coin reaches further there than in the script.
    """
    if isinstance(event, ev.PoissonSampled):
        one, reach = _spread(event.event)
        return min(event.sampling_rate * math.sqrt(math.expm1(min(one**2, 50.0))), one), reach
    if isinstance(event, ev.Gaussian):
        one = 1 / float(event.noise_multiplier)
        return one, 20 * one + one**2
    if isinstance(event, ev.ZeroConcentrated):
        one = math.sqrt(2 * float(event.rho))
        return one, 20 * one + one**2
    if isinstance(event, ev.TotalVariation):
        return 0.0, 0.0
    one = 1 / float(event.noise_multiplier) if isinstance(event, ev.Laplace) else event.epsilon  # type: ignore[attr-defined]
    return float(one), float(one)


def _comment(text: str) -> str:
    """A purpose as a comment: it is from a file, so only what no language gives a meaning to stays."""
    return "".join(c if c.isalnum() or c in " .,:;_-+" else "?" for c in text)[:120]
