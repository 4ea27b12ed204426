"""`veilflow spending`: what all models of each data set cost together."""

from typing import Any

from veilflow.cli import options
from veilflow.cli.fitting import policy_in_force
from veilflow.cli.output import emit, guarded, safe, statement


@guarded
def spending(
    file: options.File,
    dataset: str | None = None,
    delta: float | None = None,
    settle: bool = False,
    epsilon: float | None = None,
    policy: options.PolicyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Print what all models of each data set cost together.

    Flags:
        file: The file of --data-ledger.
        dataset: Only this data set.
        delta: The delta at which totals are stated.
        settle: Count a fit that is not in the file as all of its budget.
        epsilon: With --settle: the epsilon of that fit.
    """
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger, total_delta

    journal = DatasetLedger(file)
    if not file.is_file() and not settle:
        raise FileNotFoundError(2, "no such file", str(file))
    if settle:
        if dataset is None or epsilon is None or delta is None:
            raise ValueError("--settle needs --dataset, --epsilon and --delta, those of the fit.")
        journal.settle(Budget(epsilon, delta), dataset=dataset)
    elif epsilon is not None:
        raise ValueError("--epsilon is for --settle.")
    if delta is None:
        delta = total_delta(policy_in_force(policy), 1e-6)
    entries = journal.entries()
    names = dict.fromkeys(one.dataset for one in entries if dataset in (None, one.dataset))
    result: list[dict[str, Any]] = []
    lines = []
    for name in names:
        total = journal.total(dataset=name, delta=delta)
        states = [one.state for one in entries if one.dataset == name]
        result.append({"dataset": name, "guarantee": total.to_json(), "fits": states})
        open_ones = states.count("reserved")
        more = f", {open_ones} of them running or never ended" if open_ones else ""
        fits = "1 fit" if len(states) == 1 else f"{len(states)} fits"
        lines.append(f"{safe(name)}: {fits}{more}\n  {statement(total)}")
    emit({"datasets": result}, "\n".join(lines) or "nothing was spent", as_json=as_json)
