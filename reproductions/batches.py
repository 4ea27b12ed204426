"""How batches were drawn, as far as a ledger tells."""

from veilflow.privacy.events import PoissonSampled, flat
from veilflow.privacy.ledger import Ledger

NO_BATCHES, POISSON = "no batches", "Poisson"


def sampling(ledger: Ledger) -> str:
    """How batches were drawn, in words, as far as the ledger tells."""
    if not ledger.entries:
        return ""
    sampled = any(isinstance(event, PoissonSampled) for event in flat(ledger.event))
    return POISSON if sampled else NO_BATCHES
