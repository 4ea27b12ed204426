"""The published systems, measured again: the paper's numbers beside ours, under a sound guarantee.

`veilflow reproduce dp-nf` (or `python -m reproductions dp-nf`) runs one in a checkout and leaves its
records, figures and page; with `--check` it tells which records miss what they must reach.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproductions.system import System

SYSTEMS = {
    "dp-nf": "reproductions.dp_nf",
    "dp-hflow": "reproductions.dp_hflow",
    "dp-lflow": "reproductions.dp_lflow",
    "expm-nf": "reproductions.expm_nf",
    "dp-nf-vi": "reproductions.dp_nf_vi",
    "anomaly": "reproductions.anomaly_detection",
}
"""The module of each system; its `SYSTEM` says what it consists of."""


def get(system: str) -> "System":
    """A system by its name.

    Raises:
        ValueError: There is none of that name; the message lists those there are.
    """
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {', '.join(SYSTEMS)}, got {system!r}.")
    return import_module(SYSTEMS[system]).SYSTEM
