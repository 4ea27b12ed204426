"""Attacks on what is released, and measurements of the engine that releases it.

An audit gives a lower bound on epsilon, which can refute a claim but never prove it. Whatever is
computed from private rows is as private as they are, and marked so.
"""

from veilflow.audit.attributes import audit_attribute
from veilflow.audit.canaries import fair_coins, image_canaries, table_canaries
from veilflow.audit.canary_audits import (
    audit_gradients,
    audit_training,
    canary_scorer,
    with_epsilon,
)
from veilflow.audit.engine_check import engine_check
from veilflow.audit.lira import Shadows, audit_with_shadows, fit_shadows
from veilflow.audit.membership import audit
from veilflow.audit.replay import unpaid_differences
from veilflow.audit.result import AuditResult, Check, EngineReport

__all__ = [
    "AuditResult",
    "Check",
    "EngineReport",
    "Shadows",
    "audit",
    "audit_attribute",
    "audit_gradients",
    "audit_training",
    "audit_with_shadows",
    "canary_scorer",
    "engine_check",
    "fair_coins",
    "fit_shadows",
    "image_canaries",
    "table_canaries",
    "unpaid_differences",
    "with_epsilon",
]
