"""DP-LFlow (Jiang and Sun, 2023): Tables 1 to 4, Figures 1 to 3 and 6, and ablations of ours beside.

`veilflow reproduce dp-lflow` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/dp-lflow/runs/` and not done again; records, figures and the page come from them.
"""

from typing import Any

from reproductions.dp_lflow import fid, figures, page, probes, runs, tables
from reproductions.dp_lflow.data import FACTS
from reproductions.dp_lflow.runs import REAL, Task
from reproductions.dp_lflow.sharpening import RAW, SHARPENED
from reproductions.dp_lflow.targets import SMALL
from reproductions.system import System

MODEL, REFERENCE, DISTANCE = "model", "reference", "distance"


def _told(result: dict[str, Any]) -> str:
    if "images" in result:
        distance = f"FID {result['fid']:.1f}, " if "fid" in result else ""
        return f"{distance}{result['images_per_second']:.1f} images a second"
    return "; ".join(
        f"{part}: " + ", ".join(_numbers(found))
        for part, found in result.items()
        if part in (RAW, SHARPENED)
    )


def _numbers(found: dict[str, Any]) -> list[str]:
    accuracies = found.get("accuracies", {})
    distance = found["fidelity"].get("distance")
    return [f"{x} {of['mean']:.1f} %" for x, of in accuracies.items()] or [
        f"distance {distance:.3f}"
    ]


def _kind_of(task: fid.AnyTask) -> str:
    if not isinstance(task, Task):
        return DISTANCE
    return REFERENCE if task.method == REAL else MODEL


SYSTEM = System(
    name="dp-lflow",
    splits=1,
    most_splits=10,
    data=FACTS,
    blocks=tables.SHEET.blocks,
    kinds=(REFERENCE, MODEL, DISTANCE),
    kind_of=_kind_of,
    probes=probes.PROBES,
    runs=runs,
    told=_told,
    tables=tables,
    unmeasured=tables.SHEET.unmeasured,
    figures=figures,
    page=page,
    small=lambda splits: (tables.tasks((SMALL,), splits), figures.SMALL),
    fid=fid,
)
reproduce = SYSTEM.reproduce
