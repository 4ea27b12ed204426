"""Progress bars on standard error, for terminals only; the bar of training shows epsilon."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from veilflow.engine.plan import TrainingPlan
from veilflow.privacy.ledger import Ledger

Monitor = Callable[[int], None]
"""Called with the amount of work done so far."""


@contextmanager
def counting_bar(
    doing: str, total: int, *, note: Callable[[int], str] = lambda done: "", show: bool = True
) -> Generator[Monitor, None, None]:
    """A monitor that draws a bar inside the `with` block, if standard error is a terminal.

    Args:
        doing: A word for the work.
        total: The amount of work.
        note: Maps the work done so far to a few words beside the bar.
        show: Whether to draw at all.
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

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(doing, total=total, note=note(0))
        yield lambda done: bar.update(task, completed=done, note=note(done))


@contextmanager
def progress_bar(
    plan: TrainingPlan, ledger: Ledger, *, delta: float, total_epsilon: float, show: bool = True
) -> Generator[Monitor, None, None]:
    """A monitor for `train` that draws a bar inside the `with` block.

    The epsilon shown during a run is an upper bound by the fast RDP accountant, capped by the epsilon
    of the whole run. The final statement comes from the ledger.
    """
    marks: dict[int, str] = {}

    def spent(done: int) -> str:
        # a hundred values are enough: accounting must not slow training down
        mark = min(-(-done * 100 // plan.steps), 100)
        if mark not in marks:  # at the end of each hundredth, so that it is never too small
            upper = -(-mark * plan.steps // 100)
            marks[mark] = _spent(plan, ledger, upper, delta, total_epsilon)
        return f"epsilon {marks[mark]}" if plan.private else marks[mark]

    with counting_bar("training", plan.steps, note=spent, show=show) as monitor:
        yield monitor


def _spent(plan: TrainingPlan, ledger: Ledger, done: int, delta: float, total: float) -> str:
    if not plan.private:
        return "no privacy"
    so_far = ledger.spend(plan.event_after(done), purpose="training") if done else ledger
    return f"{min(total, so_far.epsilon(delta=delta, accountant='rdp')):.3g}"
