"""What several tests of audits share."""

import jax
import pytest


@pytest.fixture
def optimized():
    """Programs as users get them: what is audited is what is released."""
    jax.config.update("jax_disable_most_optimizations", False)
