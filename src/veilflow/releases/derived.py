"""Work on released values that is too long to be done twice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from veilflow._core.errors import PrivacyError
from veilflow.releases.release import Monitor, Release, Tools


@dataclass(frozen=True, kw_only=True)
class Derived(Release):
    """A step of a plan that asks nothing of the records, so that it costs nothing.

    Post-processing of a second or two is simply done again when a run goes on. A step of minutes is
    an entry of the plan: it has a progress bar, and a checkpoint keeps what it made.

    Guarantee:
        It is handed no records, only values that were released before it.

    Attributes:
        steps: How far its monitor counts.
    """

    steps: int

    @property
    def event(self) -> None:
        return None

    @property
    def rounds(self) -> int:
        return self.steps

    def run(self, records: None, tools: Tools, *, make: Callable[[Monitor], Any]) -> Any:
        """Do the work.

        Args:
            records: None: there are none.
            tools: Of the run.
            make: The work, a function of released values; called with a monitor.

        Returns:
            Plain values, as those of a release.
        """
        if records is not None:
            raise PrivacyError(f"{self.purpose} is free, and was handed records.")
        return make(tools.monitor)
