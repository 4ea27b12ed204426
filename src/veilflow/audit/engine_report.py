"""What measuring the engine's step gave: one check for each property that the proof needs."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property, measured."""

    name: str
    passed: bool
    measured: float
    allowed: str
    """What `measured` may be."""
    sentence: str
    """What was measured."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(self.__dict__)


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
