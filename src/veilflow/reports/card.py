"""The release card: what may be published about a model, and nothing else.

All of it comes from the model file, and only from parts that are public by their kind: the guarantee,
the ledger, declarations, and values that the ledger pays for. No data is read, and no number of rows,
loss, time or date is written: the same file gives the same card.
"""

import math
from dataclasses import dataclass
from typing import Any

from veilflow._core.errors import PrivacyError
from veilflow.models.artifact import Artifact
from veilflow.privacy.assumptions import conditions
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.reports import words
from veilflow.reports.attacker import AttackerBounds, attacker_bounds
from veilflow.reports.recompute import script
from veilflow.tabular.schema import Schema

FORMAT = 1
_ROUNDING = 1.001
"""Accountants may be discretized more finely in another version; a false claim is further off."""
_MOST_VALUES = 12
_NO_LINES = ("domain", "columns", "low", "high", "assembly")
"""Bounds have lines of their own; how a flow is put together is no declaration."""


@dataclass(frozen=True)
class Step:
    """One entry of the ledger: its purpose, its event, its epsilon alone and its share of the sum."""

    purpose: str
    event: str
    epsilon_alone: float
    share: float


@dataclass(frozen=True, kw_only=True)
class ReleaseCard:
    """Everything on a card, as values; `render` makes documents of it.

    Attributes:
        model: The class of the model.
        guarantee: The promise.
        ledger: Every release that went into the model.
        steps: The ledger, itemized.
        attacker: What the promise means for one person.
        facts: Declarations about the data, by name.
        script: A program that adds the ledger up again without veilflow.
    """

    model: str
    guarantee: Guarantee
    ledger: Ledger
    steps: tuple[Step, ...]
    attacker: AttackerBounds
    facts: tuple[tuple[str, str], ...]
    script: str

    @property
    def conditional(self) -> tuple[str, ...]:
        """The sentences that make the guarantee conditional; they are printed first."""
        return tuple(one.sentence for one in conditions(self.guarantee.assumptions))

    @property
    def usual(self) -> tuple[str, ...]:
        """The other assumptions: arithmetic, the generator, declared facts."""
        return tuple(one.sentence for one in self.guarantee.assumptions if not one.conditional)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinity is the word "inf"."""
        return {
            "document": "veilflow release card",
            "format": FORMAT,
            "model": self.model,
            "kind": words.kind(self.model),
            "guarantee": self.guarantee.to_json(),
            "conditional": list(self.conditional),
            "in_words": words.plain_words(self.guarantee),
            "in_symbols": words.symbols(self.guarantee),
            "unit": words.unit(self.guarantee),
            "adjacency": words.adjacency(self.guarantee),
            "steps": [
                {
                    "purpose": step.purpose,
                    "event": step.event,
                    "epsilon_alone": "inf"
                    if math.isinf(step.epsilon_alone)
                    else step.epsilon_alone,
                    "share": step.share,
                }
                for step in self.steps
            ],
            "ledger": self.ledger.to_json(),
            "attacker": {
                "belief_from_even_odds": self.attacker.belief,
                "correct_guess": self.attacker.correct,
                "found_at_false_alarms": {
                    f"{rate:g}": found for rate, found in self.attacker.found.items()
                },
                "by_curve": self.attacker.by_curve,
            },
            "declared": [{"name": name, "fact": fact} for name, fact in self.facts],
            "intended_use": list(words.uses(self.model)),
            "misuse": list(words.MISUSES),
            "recompute": self.script,
        }


def release_card(source: Any) -> ReleaseCard:
    """The card of a model.

    Args:
        source: A fitted model, or the artifact that `veilflow.models.artifact.read` gives.

    Raises:
        PrivacyError: The claim is below what the ledger adds up to, or there is none.
    """
    artifact = _artifact(source)
    guarantee, ledger = artifact.guarantee, artifact.ledger
    again = ledger.epsilon(delta=guarantee.delta)
    if guarantee.epsilon * _ROUNDING < again:
        raise PrivacyError(
            f"the model claims epsilon={guarantee.epsilon:.6g}, but its ledger adds up to "
            f"{again:.6g}. No card is written for it."
        )
    alone = {p: (epsilon, share) for p, epsilon, share in ledger.shares(guarantee.delta)}
    left = dict(alone)
    steps = []
    for entry in ledger.entries:
        # entries of one purpose are priced together, and the price is shown once
        epsilon, share = left.pop(entry.purpose, (0.0, 0.0))
        steps.append(Step(entry.purpose, words.event_in_words(entry.event), epsilon, share))
    return ReleaseCard(
        model=artifact.model,
        guarantee=guarantee,
        ledger=ledger,
        steps=tuple(steps),
        attacker=attacker_bounds(ledger, guarantee),
        facts=tuple(declared_facts(artifact)),
        script=script(ledger, guarantee),
    )


def _artifact(source: Any) -> Artifact:
    if isinstance(source, Artifact):
        return source
    if hasattr(source, "to_artifact"):
        return source.to_artifact()
    raise TypeError(
        f"a card is written about a fitted model or its file, not about {type(source).__name__}."
    )


def declared_facts(artifact: Artifact) -> list[tuple[str, str]]:
    """Public facts about the columns: declared before the data was read, or released and paid for."""
    schema = {"domain": artifact.manifest.get("plan", {}).get("domain"), **artifact.schema}
    if isinstance(images := schema.get("spec"), dict):
        return [(_title(name), _shown(value)) for name, value in images.items()]
    if isinstance(schema.get("schema"), dict) and isinstance(schema.get("vocabularies"), dict):
        return _of_table(schema)
    if isinstance(names := schema.get("parameters"), list):
        return [("parameters", _shown(names))]
    facts = _of_domain(schema)
    left = {k: v for k, v in schema.items() if k not in _NO_LINES}
    return facts + [(_title(name), _shown(value)) for name, value in left.items()]


def _of_table(schema: dict[str, Any]) -> list[tuple[str, str]]:
    columns = Schema.from_json(schema["schema"])
    lines = [(name, repr(column)) for name, column in columns.columns.items()]
    for name, values in schema["vocabularies"].items():
        lines.append((f"values of {name}, released and paid for", _shown(list(values))))
    if columns.label is not None:
        lines.append(("label", columns.label))
    return lines + [("every row fulfills", repr(one)) for one in columns.constraints]


def _of_domain(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Columns of numbers with their bounds: one for all columns, or one for each."""
    domain = schema.get("domain")
    names = schema.get("columns")
    if not isinstance(domain, dict):
        return [] if names is None else [("columns", _shown(names))]
    if domain.get("kind") != "Box":
        facts = [("largest norm of a row", _shown(domain.get("row_norm")))]
        return facts + ([] if names is None else [("columns", _shown(names))])
    low, high = (list(domain.get(end, [])) for end in ("low", "high"))
    if not isinstance(names, list) or len(low) not in (1, len(names)) or len(low) != len(high):
        return [("bounds", f"{_shown(low)} to {_shown(high)}")]
    if len(low) == 1:
        low, high = low * len(names), high * len(names)
    return [
        (str(name), f"{_shown(a)} to {_shown(b)}")
        for name, a, b in zip(names, low, high, strict=True)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        more = f", and {len(value) - _MOST_VALUES} more" if len(value) > _MOST_VALUES else ""
        return ", ".join(_shown(one) for one in value[:_MOST_VALUES]) + more
    if isinstance(value, dict):
        return ", ".join(f"{_title(name)} {_shown(one)}" for name, one in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _title(name: object) -> str:
    return str(name).replace("_", " ")
