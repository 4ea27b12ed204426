"""`veilflow inspect`: what is in a model file, and whether its claim adds up."""

from typing import TYPE_CHECKING, Any

from veilflow._core.codec import plain
from veilflow.cli import options
from veilflow.cli.account import Accountant, AccountantFlag
from veilflow.cli.output import claim, emit, guarded, safe, statement, table

if TYPE_CHECKING:
    from veilflow.models.artifact import Artifact
    from veilflow.privacy.events import Event
    from veilflow.privacy.guarantees import Guarantee
    from veilflow.privacy.ledger import Ledger
    from veilflow.releases.plan import FitPlan
    from veilflow.releases.release import Release

# Accountants may be discretized more finely in another version; a false claim is further off.
_ROUNDING = 1.001
_NOT_SHOWN = ("kind", "purpose", "epsilon")


@guarded
def inspect(
    model: options.Model,
    recompute: bool = False,
    accountant: AccountantFlag = Accountant.PLD,
    as_json: options.AsJson = False,
) -> None:
    """Show a model file: class, guarantee with its assumptions, ledger, schema. Runs no model.

    With --recompute the exit code is 1 if the claimed epsilon is below the recomputed one, and both
    come from the same accountant; a looser accountant may honestly compute more.

    Flags:
        recompute: Add the ledger up again and compare the sum with the claim.
    """
    from veilflow.models import artifact

    content = artifact.read(model)
    claimed, ledger = content.guarantee, content.ledger
    result: dict[str, Any] = {
        "model": content.model,
        "guarantee": claimed.to_json(),
        "ledger": describe_ledger(ledger, delta=claimed.delta),
        "schema": content.schema,
        "num_parameters": int(sum(array.size for array in content.arrays.values())),
    }
    again = None
    if recompute:
        again = ledger.guarantee(delta=claimed.delta, accountant=accountant.value)
        holds = again.epsilon <= claimed.epsilon * _ROUNDING
        comparable = again.accountant == claimed.accountant
        result["recomputed"] = {**again.to_json(), "holds": holds if comparable else None}
    emit(result, *(() if as_json else _shown(content, result, again)), as_json=as_json)
    if again is not None and result["recomputed"]["holds"] is False:
        from veilflow._core.errors import PrivacyError

        raise PrivacyError(
            f"the file claims epsilon={claimed.epsilon:.6g}, but its ledger adds up to "
            f"{again.epsilon:.6g}. Do not rely on the claim."
        )


def describe_ledger(ledger: "Ledger", *, delta: float) -> list[dict[str, Any]]:
    """One record per entry: purpose, event, the purpose's epsilon alone and its share."""
    alone = {purpose: (epsilon, share) for purpose, epsilon, share in ledger.shares(delta)}
    return [
        {
            "purpose": entry.purpose,
            "event": describe_event(entry.event),
            "epsilon_alone": alone[entry.purpose][0],
            "share": alone[entry.purpose][1],
        }
        for entry in ledger.entries
    ]


def describe_event(event: "Event") -> str:
    """An event in words, the outermost first."""
    from veilflow.privacy import events

    if isinstance(event, events.Repeated):
        return f"{event.times} x {describe_event(event.event)}"
    if isinstance(event, events.PoissonSampled):
        return f"Poisson batch (rate {event.sampling_rate:.4g}), {describe_event(event.event)}"
    if isinstance(event, events.Together):
        return " + ".join(describe_event(part) for part in event.events)
    values = {k: v for k, v in event.to_json().items() if k != "kind"}
    inside = ", ".join(f"{k.replace('_', ' ')} {v:.4g}" for k, v in values.items())
    return f"{event.kind} ({inside})" if inside else event.kind


def ledger_table(records: list[dict[str, Any]]) -> Any:
    """The ledger as a table for people."""
    numbers = ("epsilon alone", "share")
    rows = (
        (safe(one["purpose"]), one["event"], f"{one['epsilon_alone']:.4g}", f"{one['share']:.1%}")
        for one in records
    )
    return table(("purpose", "event", *numbers), rows, numbers=numbers)


def show_plan(plan: "FitPlan", *, as_json: bool) -> None:
    """Print what a fit would ask and cost, and what its guarantee rests on.

    Raises:
        BudgetError: A fit would be refused.
    """
    from veilflow.releases.run import warn_before

    warn_before(plan)
    plan = plan.checked()
    entries = describe_ledger(plan.ledger, delta=plan.budget.delta)
    result = {"plan": plain(plan), "guarantee": plan.guarantee.to_json(), "ledger": entries}
    shown = _choices(plan) | {release.purpose: _settings(release) for release in plan.releases}
    settings = [f"  {name}: {text}" for name, text in shown.items() if text]
    opening = f"nothing was spent. A fit would be\n{statement(plan.guarantee)}"
    about = plan.takes()
    if about is not None:
        result["about"] = {"seconds": about[0], "gigabytes": about[1]}
        opening += f"\nand takes {duration(*about)}"
    emit(result, opening, ledger_table(entries), *settings, as_json=as_json)


def duration(seconds: float, gigabytes: float) -> str:
    """About how long, and how much memory."""
    amount = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    return f"about {amount} on two cores, and {gigabytes:.2g} GB of memory"


def _choices(plan: "FitPlan") -> dict[str, str]:
    """The fields that a plan of one kind of model adds to those of all plans."""
    from veilflow.releases.plan import FitPlan

    own = plan.__dataclass_fields__.keys() - FitPlan.__dataclass_fields__.keys()
    values = {name: x for name, x in plain(plan).items() if name in own and x is not None}
    return {
        name.replace("_", " "): _listed(x) if isinstance(x, dict) else str(x)
        for name, x in values.items()
    }


def _settings(release: "Release") -> str:
    """The settings of a release, except its noise, which is in the ledger."""
    values = plain(release)
    values |= values.pop("settings", {})
    shown = {
        name: x for name, x in values.items() if name not in _NOT_SHOWN and "noise" not in name
    }
    return _listed(shown)


def _listed(values: dict[str, Any]) -> str:
    shown = {name: x for name, x in values.items() if x is not None}
    return ", ".join(f"{name.replace('_', ' ')} {x}" for name, x in shown.items())


def _shown(content: "Artifact", result: dict[str, Any], again: "Guarantee | None") -> list[Any]:
    """A model file for people: texts, and the ledger as a table."""
    lines = [f"model {safe(content.model)}, {result['num_parameters']} parameters"]
    lines.append(statement(content.guarantee))
    if again is not None:
        holds = result["recomputed"]["holds"]
        verdict = {True: "the claim holds", False: "THE CLAIM IS TOO LOW", None: "for comparison"}
        lines.append(f"recomputed: {claim(again)} ({verdict[holds]})")
    facts = [f"  {safe(name)}: {safe(value)}" for name, value in _facts(content.schema)]
    return [*lines, "", ledger_table(result["ledger"]), "", "schema", *facts]


def _facts(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of a schema; for a table, one for each column and for the values discovered in it."""
    if isinstance(images := schema.get("spec"), dict):
        return [(name, str(value)) for name, value in images.items()]
    declared, words = schema.get("schema"), schema.get("vocabularies")
    if not isinstance(declared, dict) or not isinstance(words, dict):
        return [(name, str(value)) for name, value in schema.items()]
    from veilflow.tabular.schema import Schema

    columns = Schema.from_json(declared)
    lines = [(name, repr(column)) for name, column in columns.columns.items()]
    lines += [(f"discovered of {name}", ", ".join(map(str, x))) for name, x in words.items()]
    lines += [("label", columns.label)] if columns.label is not None else []
    return lines + [("always", repr(constraint)) for constraint in columns.constraints]
