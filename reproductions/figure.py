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
    """One picture: its file, its words, the runs it needs and how it is drawn."""

    name: str
    caption: str
    tasks: tuple[Any, ...]
    draw: Callable[[Path, Find, list[Record]], None]


def draw_figure(
    figure: Figure,
    folder: Path,
    find: Callable[[Any], Run | None],
    records: list[Record],
    say: Callable[[str], None],
) -> None:
    """Draw a figure if its runs are finished and fit together; else say why not."""
    found = {task: find(task) for task in figure.tasks}
    finished = {task: run for task, run in found.items() if run is not None}
    if len(finished) < len(found):
        say(f"{figure.name} is not drawn: {len(found) - len(finished)} of its runs are missing")
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        figure.draw(folder / f"{figure.name}.png", lambda task: finished[task], records)
    except (KeyError, ValueError) as error:  # older runs may not have what it shows
        say(f"{figure.name} is not drawn: {error}")
        return
    say(f"drew {figure.name}.png")
