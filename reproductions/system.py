"""A system that is measured again: what it consists of, and what all of them do with that."""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.provenance import ROOT

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import Cache, Run
from reproductions.figure import Figure, draw_figure
from reproductions.probing import Probe
from reproductions.records import FOLDER, Record
from reproductions.running import Outcome, Say
from reproductions.tasks import Finished, Task

PAGES = ROOT / "docs" / "reproductions"
_NO_INCEPTION = "Inception is not installed here; run pip install 'veilflow[fid]'"

Find = Callable[[Any], Run | None]
"""From a task to its finished run, if it is."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What a reproduction consists of. Its modules all have the same names in them.

    Attributes:
        name: On the command line, of its page, and of its folder of runs, records and figures.
        splits: On how many splits or seeds it runs unless told,
        most_splits: and on how many it may.
        data: The data sets that a filter may name.
        blocks: Its tables; those with a number are the paper's.
        kinds: Its kinds of runs: those that go through the same code. Each has a probe.
        kind_of: From a task to its kind.
        probes: Runs of seconds, at least one for each kind.
        runs: `Task` and `perform`.
        told: What is said of a result.
        tables: `tasks` of blocks on splits, `keys` of its cells, and `records` from finished runs.
        unmeasured: From the records there are to those of cells that must be measured and are not.
        figures: `all_figures` on splits.
        page: `sections` of the page, from the folder and the records.
        small: From splits to the runs and figures that need no GPU and no files.
        fid: A second pass over finished runs: `is_possible` and `perform`; `tables.distances` are
            its tasks.
    """

    name: str
    splits: int
    most_splits: int
    data: Collection[str]
    blocks: Sequence[Any]
    kinds: tuple[str, ...]
    kind_of: Callable[[Any], str]
    probes: tuple[Probe, ...]
    runs: ModuleType
    told: Callable[[dict[str, Any]], str]
    tables: ModuleType
    unmeasured: Callable[[list[Record]], list[Record]]
    figures: ModuleType
    page: ModuleType
    small: Callable[[int], tuple[Sequence[Task], Sequence[Figure]]] | None = None
    fid: ModuleType | None = None

    @property
    def out(self) -> Path:
        """The folder of its runs, records and figures, where no other is given."""
        return FOLDER / self.name

    def perform(self, task: Any, find: Find) -> Finished:
        """Make the run of a task; `find` is for a task that is about other runs."""
        if self.fid is not None and not isinstance(task, self.runs.Task):
            return self.fid.perform(task, find)
        return self.runs.perform(task)

    def reproduce(
        self,
        *,
        splits: int | None = None,
        table: Iterable[int] = (),
        figure: bool = False,
        only: Iterable[str] = (),
        out: Path | None = None,
        small: bool = False,
        fid: bool = False,
        say: Say = print,
    ) -> Outcome:
        """Run what is not finished yet, then write records, figures and the page.

        Args:
            splits: On how many splits, or with how many seeds, from 1; `splits` of the system where
                not given. What takes long may have fewer.
            table: Which tables of the paper; with neither these nor figures nor `only`, everything.
            figure: Draw the figures, after the runs they need.
            only: Selects the runs that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
            out: The folder for runs, records and figures; the system's own where not given.
            small: Only what needs no GPU and no files.
            fid: Fit nothing: measure the FID of finished runs, which needs the extra `[fid]`.
            say: Where progress is told.

        Raises:
            ValueError: A number of splits, a table, a filter or an option that there is not; or no
                way to an FID.
        """
        table, only, out = tuple(table), tuple(only), out or self.out
        splits = self.splits if splits is None else splits
        self._check(splits, table, only, small=small, fid=fid)
        chosen, drawn = self.chosen(
            splits, table=table, figure=figure, only=only, small=small, fid=fid
        )
        cache = Cache(out / "runs")

        def find(task: Any) -> Run | None:
            return cache.find(task.name, task.settings)

        def perform(tasks: Sequence[Any]) -> list[str]:
            return running.perform_missing(
                tasks,
                cache=cache,
                perform=lambda task: self.perform(task, find),
                told=self.told,
                say=say,
            )

        failures = [] if fid else perform(chosen)
        if self.fid is not None:
            failures += perform(self._distances(chosen, find, say))
        found = functools.cache(find)  # a run fills many cells
        made = self.tables.records(found, splits)
        kept = running.keep(out / "results.json", made, unmeasured=self.unmeasured, say=say)
        for each in drawn:
            draw_figure(each, out / "figures", found, made, say)
        if kept and out.resolve() == self.out.resolve():
            self.write_page(out)
        return Outcome(kept, made, failures)

    def draw(self, *, out: Path | None = None, say: Say = print) -> list[Record]:
        """Run nothing: draw the figures that records and finished runs suffice for, and write the page.

        Args:
            out: The folder of runs, records and figures; the system's own where not given.
            say: Where it is told which figures are drawn, and which are not.

        Returns:
            The records there are.
        """
        out = out or self.out
        cache, records = Cache(out / "runs"), record_files.read(out / "results.json")

        @functools.cache
        def find(task: Any) -> Run | None:
            return cache.find(task.name, task.settings)

        for each in self.figures.all_figures(1):
            draw_figure(each, out / "figures", find, records, say, recorded=True)
        if records and out.resolve() == self.out.resolve():
            self.write_page(out)
        return records

    def chosen(
        self,
        splits: int,
        *,
        table: Collection[int] = (),
        figure: bool = False,
        only: Collection[str] = (),
        small: bool = False,
        fid: bool = False,
    ) -> tuple[list[Any], Sequence[Figure]]:
        """The runs and the figures that are asked for; arguments as those of `reproduce`."""
        if small and self.small is not None:
            wanted, drawn = self.small(splits)
        else:
            everything = not (table or only or fid)
            drawn = self.figures.all_figures(splits) if figure or everything else ()
            numbers = {str(number) for number in table}
            blocks = [b for b in self.blocks if str(b.table) in numbers or not (table or figure)]
            wanted = self.tables.tasks(blocks, splits)
        both = dict.fromkeys([*wanted, *(task for each in drawn for task in each.tasks)])
        return [task for task in both if running.matches(task, only)], drawn

    def write_page(self, out: Path | None = None) -> Path:
        """Write the page, and the overview of all, from the records and figures that are there."""
        from reproductions import index  # it reads every system

        out, path = out or self.out, PAGES / f"{self.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.page_text(out, record_files.read(out / "results.json")), "utf-8")
        index.write(PAGES / index.NAME)
        return path

    def page_text(self, folder: Path, records: list[Record]) -> str:
        """The page, from records and the figures in a folder."""
        return "\n".join(section for section in self.page.sections(folder, records) if section)

    def _check(
        self, splits: int, table: Sequence[int], only: Sequence[str], *, small: bool, fid: bool
    ) -> None:
        for name, up in (("small", small), ("fid", fid)):
            if up and getattr(self, name) is None:
                raise ValueError(f"{self.name} has no --{name}. Leave it out.")
        running.check_splits(splits, self.most_splits)
        numbers = {int(block.table) for block in self.blocks if str(block.table).isdigit()}
        running.check_tables(table, sorted(numbers))
        running.check_only(only, self.data)
        if small and table:
            raise ValueError("small is a table of its own: leave out either small or the tables.")
        if fid and self.fid is not None and not self.fid.is_possible():
            raise ValueError(f"the FID is not measured: {_NO_INCEPTION}.")

    def _distances(self, chosen: list[Any], find: Find, say: Say) -> list[Any]:
        """The second pass over finished runs, where it is possible here."""
        tasks = self.tables.distances(chosen, find)
        if self.fid is None or self.fid.is_possible():
            return tasks
        left = sum(find(task) is None for task in tasks)
        if left:
            say(f"{left} runs for the FID are left: {_NO_INCEPTION}; then pass --fid")
        return []
