"""What an audit found: an epsilon from below, beside the one that was claimed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INTERNAL = "INTERNAL: computed from private rows, and as private as they are. Do not publish it."


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A lower bound on epsilon, how sure it is, and the claim it is held against.

    A bound above the claim refutes the claim. A bound below it refutes nothing: a weak attack on a
    broken model finds nothing either.

    Attributes:
        method: The attack, in a word.
        bound: How counts became an epsilon: "one-run", "one-run-f-dp" or "clopper-pearson".
        lower_bound: Any smaller epsilon is ruled out, at `delta`.
        confidence: A mechanism that keeps its claim gets a bound above it with a probability of at
            most one minus this.
        delta: At which bound and claim are stated.
        claimed: The epsilon of the guarantee; infinite where there is none.
        counts: The whole numbers behind the bound.
        scores: Numbers that describe the attack.
        internal: Whether private rows were read.
        assumptions: What the bound rests on.
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
        found = (
            f"The {self.method} attack rules out an epsilon below {self.lower_bound:.3g} at delta "
            f"{self.delta:.3g}, with {100 * self.confidence:.4g} % confidence"
            if self.lower_bound > 0
            else f"The {self.method} attack rules out no epsilon, at delta {self.delta:.3g} and with "
            f"{100 * self.confidence:.4g} % confidence"
        )
        if math.isinf(self.claimed):
            return f"{found}; there is no claim to hold it against."
        if self.exceeds_claim:
            return f"{found}: THE CLAIM OF {self.claimed:.4g} IS REFUTED."
        return (
            f"{found}; the claim is {self.claimed:.4g}. "
            "This does not contradict the claim, and does not prove it."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; a claim that is infinite is null."""
        return {
            "method": self.method,
            "bound": self.bound,
            "lower_bound": self.lower_bound,
            "confidence": self.confidence,
            "delta": self.delta,
            "claimed": None if math.isinf(self.claimed) else self.claimed,
            "exceeds_claim": self.exceeds_claim,
            "counts": dict(self.counts),
            "scores": {n: v if math.isfinite(v) else None for n, v in self.scores.items()},
            "internal": self.internal,
            "assumptions": list(self.assumptions),
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        lines = [self.sentence, *(f"  assuming: {line}" for line in self.assumptions)]
        return "\n".join(([INTERNAL] if self.internal else []) + lines)
