"""The exceptions veilflow raises beside `ValueError` and `TypeError`, and a warning."""


class VeilflowError(Exception):
    """Base of all errors that are veilflow's own."""


class PrivacyError(VeilflowError):
    """Going on would break, or could not prove, a promised guarantee."""


class BudgetError(PrivacyError):
    """A request would spend more than the budget has left; nothing was touched."""


class NotPrivateWarning(UserWarning):
    """A result is about to be made without any privacy, because that was asked for."""


class ArtifactError(VeilflowError):
    """A model file or checkpoint is damaged, foreign or newer than this library."""
