"""The exceptions veilflow raises beside `ValueError` and `TypeError`, and its warnings."""


class VeilflowError(Exception):
    """Base of all errors that are veilflow's own."""


class PrivacyError(VeilflowError):
    """Going on would break, or could not prove, a promised guarantee."""


class BudgetError(PrivacyError):
    """A request would spend more than the budget has left; nothing was touched."""


class NotPrivateWarning(UserWarning):
    """A result is about to be made without any privacy, because that was asked for."""


class FewRecordsWarning(UserWarning):
    """There are few records for the noise of a fit, and its result is less sure for it."""


class ArtifactError(VeilflowError):
    """A model file or checkpoint is damaged, foreign or newer than this library."""
