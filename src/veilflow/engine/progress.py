"""A progress bar that shows steps, epsilon spent and time left; on standard error, never in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from veilflow.engine.plan import TrainingPlan
from veilflow.privacy.ledger import Ledger


@contextmanager
def progress_bar(
    plan: TrainingPlan, ledger: Ledger, *, delta: float, total_epsilon: float, show: bool = True
) -> Iterator[Callable[[int], None]]:
    """A monitor for `train` that draws a bar while the block lasts.

    The epsilon shown for a run that is under way is a bound, by the fast RDP accountant and capped by
    the epsilon of the whole run; the final statement comes from the ledger.
    """
    if not show:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epsilon {task.fields[spent]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=not console.is_terminal) as bar:
        task = bar.add_task("training", total=plan.steps, spent="0")
        marks: dict[int, str] = {}

        def monitor(done: int) -> None:
            # a hundred marks are enough: accounting must not slow training down
            mark = min(-(-done * 100 // plan.steps), 100)
            if mark not in marks:  # at the end of the hundredth: what is shown is never too small
                upper = -(-mark * plan.steps // 100)
                marks[mark] = _spent(plan, ledger, upper, delta, total_epsilon)
            bar.update(task, completed=done, spent=marks[mark])

        yield monitor


def _spent(plan: TrainingPlan, ledger: Ledger, done: int, delta: float, total: float) -> str:
    if not plan.private:
        return "infinite"
    so_far = ledger.spend(plan.event_after(done), purpose="training") if done else ledger
    return f"{min(total, so_far.epsilon(delta=delta, accountant='rdp')):.3g}"
