"""Exceptions that veilflow raises besides `ValueError` and `TypeError`, and its warnings."""


class VeilflowError(Exception):
    """Base of all errors of veilflow."""


class PrivacyError(VeilflowError):
    """Going on would break a promised guarantee, or the guarantee could not be proved."""


class BudgetError(PrivacyError):
    """A request would spend more than is left of the budget. Nothing was read or spent."""


class NotPrivateWarning(UserWarning):
    """A result is about to be computed without any privacy, as requested."""


class FewRecordsWarning(UserWarning):
    """There are few records for the noise of a fit, which makes its result less reliable."""


class ArtifactError(VeilflowError):
    """A file is damaged, was not written by veilflow, or is newer than this version."""
