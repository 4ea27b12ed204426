"""Two documents about a model that cannot be confused: a card to publish, a report to keep.

The release card holds public and paid-for facts only. The curator's report compares with private
data, and says INTERNAL wherever one looks.
"""

from veilflow.reports.attacker import AttackerBounds, attacker_bounds
from veilflow.reports.card import ReleaseCard, release_card
from veilflow.reports.curator import curator_report
from veilflow.reports.recompute import script
from veilflow.reports.render import write_card, write_curator

__all__ = [
    "AttackerBounds",
    "ReleaseCard",
    "attacker_bounds",
    "curator_report",
    "release_card",
    "script",
    "write_card",
    "write_curator",
]
