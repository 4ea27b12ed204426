"""Figures of a reproduction: what each needs, and drawing it once that is there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproductions.cache import Run
from reproductions.records import Record

Find = Callable[[Any], Run]
"""From a task to its finished run, which there is."""


@dataclass(frozen=True)
class Figure:
    """One picture.

    Attributes:
        name: Of its file.
        caption: Below it.
        tasks: The runs it needs.
        draw: Draws it, from finished runs and from records.
        by_records: Whether records are all that it shows, so that it can be drawn without the runs.
    """

    name: str
    caption: str
    tasks: tuple[Any, ...]
    draw: Callable[[Path, Find, list[Record]], None]
    by_records: bool = False


def draw_figure(
    figure: Figure,
    folder: Path,
    find: Callable[[Any], Run | None],
    records: list[Record],
    say: Callable[[str], None],
    *,
    recorded: bool = False,
) -> None:
    """Draw a figure if its runs are finished and fit together; else say why not.

    Args:
        figure: Which.
        folder: For the picture; one that is there stays if nothing is drawn.
        find: From a task to its finished run, if it is.
        records: What was measured.
        say: Where it is told what became of it.
        recorded: Whether records of runs that are not here count.
    """
    found = {task: find(task) for task in figure.tasks}
    finished = {task: run for task, run in found.items() if run is not None}
    enough = recorded and figure.by_records and bool(records)
    if len(finished) < len(found) and not enough:
        say(f"{figure.name} is not drawn: {len(found) - len(finished)} of its runs are missing")
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        figure.draw(folder / f"{figure.name}.png", lambda task: finished[task], records)
    except (KeyError, ValueError) as error:  # older runs may not have what it shows
        say(f"{figure.name} is not drawn: {error}")
        return
    say(f"drew {figure.name}.png")
