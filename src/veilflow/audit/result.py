"""What an audit found: a lower bound on epsilon, or measurements of the engine's step."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

INTERNAL = "INTERNAL: computed from private rows, and as private as they are. Do not publish it."


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A lower bound on epsilon, its confidence, and the claim it is compared with.

    A bound above the claim refutes the claim. A bound below it does not support the claim: a weak
    attack on a broken model finds nothing either.

    Attributes:
        method: The name of the attack.
        bound: How counts became an epsilon: "one-run", "one-run-f-dp" or "clopper-pearson".
        lower_bound: Smaller epsilons are ruled out, at `delta`.
        confidence: A mechanism that keeps its claim has a bound above the claim with a probability of
            at most one minus the confidence.
        delta: The delta of bound and claim.
        claimed: The epsilon of the guarantee; infinite if there is none.
        counts: The counts from which the bound is computed.
        scores: Other statistics of the attack.
        internal: Whether private rows were read.
        assumptions: The assumptions of the bound.
    """

    method: str
    bound: str
    lower_bound: float
    confidence: float
    delta: float
    claimed: float
    counts: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    internal: bool
    assumptions: tuple[str, ...] = ()

    @property
    def exceeds_claim(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.claimed

    @property
    def sentence(self) -> str:
        """What was found, in plain words."""
        bound = (
            f"The {self.method} attack rules out an epsilon below {self.lower_bound:.3g} at delta "
            f"{self.delta:.3g}, with {100 * self.confidence:.4g} % confidence"
            if self.lower_bound > 0
            else f"The {self.method} attack rules out no epsilon, at delta {self.delta:.3g} and with "
            f"{100 * self.confidence:.4g} % confidence"
        )
        if math.isinf(self.claimed):
            return f"{bound}; there is no claim to compare it with."
        if self.exceeds_claim:
            return f"{bound}: THE CLAIM OF {self.claimed:.4g} IS REFUTED."
        return (
            f"{bound}; the claim is {self.claimed:.4g}. "
            "This does not contradict the claim, and does not prove it."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite claim is null."""
        return {
            **asdict(self),
            "claimed": None if math.isinf(self.claimed) else self.claimed,
            "exceeds_claim": self.exceeds_claim,
            "scores": {n: v if math.isfinite(v) else None for n, v in self.scores.items()},
            "assumptions": list(self.assumptions),
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        lines = [self.sentence, *(f"  assuming: {line}" for line in self.assumptions)]
        return "\n".join(([INTERNAL] if self.internal else []) + lines)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One measured property of the step."""

    name: str
    passed: bool
    measured: float
    allowed: str
    """The range of `measured` that passes."""
    sentence: str
    """What was measured."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """All checks of the step of one plan, on generated rows: nothing in it is private."""

    checks: tuple[Check, ...]
    plan: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every property holds."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the properties that do not hold."""
        return tuple(check.name for check in self.checks if not check.passed)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "passed": self.passed,
            "checks": [check.to_json() for check in self.checks],
            "plan": self.plan,
            "internal": False,
        }

    def __str__(self) -> str:
        lines = [
            f"{'ok  ' if c.passed else 'FAIL'}  {c.name}: {c.sentence} "
            f"{c.measured:.4g} (allowed: {c.allowed})"
            for c in self.checks
        ]
        return "\n".join(lines)
