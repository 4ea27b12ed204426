"""What always holds in real rows, and how often in synthetic ones. As private as the rows."""

from veilflow.evaluation.structure.find import find_structure
from veilflow.evaluation.structure.statement import Statement, share_kept, shares_kept

__all__ = ["Statement", "find_structure", "share_kept", "shares_kept"]
