"""`veilflow report`: a card to publish, or, with data, a report to keep."""

import json
import os
from pathlib import Path
from typing import Any

from veilflow.cli import options
from veilflow.cli.classifier import is_classifier
from veilflow.cli.fitting import policy_in_force
from veilflow.cli.flags import refuse
from veilflow.cli.output import emit, guarded, note, tell
from veilflow.cli.records import is_series, read_labels, read_series

_LARGEST_AUDIT = 16 * 2**20


@guarded
def report(
    model: options.Model,
    out: Path,
    data: Path | None = None,
    test: Path | None = None,
    label: str | None = None,
    labels: Path | None = None,
    show_images: bool = False,
    audit: list[Path] | None = None,
    encoding: options.Encoding = None,
    publish: bool = False,
    policy: options.PolicyFile = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the release card of a model, which may be published; it reads no data.

    With --data it writes the curator's report instead, which compares the model with the records it was
    fitted to and must not be published.

    Flags:
        out: The folder to write into; created if it does not exist.
        data: The records of the fit: writes the INTERNAL curator's report instead.
        test: With --data: records held out, to measure with.
        label: With --data, for a classifier: the column of labels.
        labels: With --data, for images: the file of labels.
        show_images: With --data, for images: show some real ones.
        audit: With --data: what `veilflow audit --json` printed. Repeatable.
        publish: Refuse unless everything in the folder may be published.
    """
    if data is not None and publish:
        raise ValueError(
            "the curator's report is made from private data and is never published. Leave out "
            "--publish, or leave out --data for the release card."
        )
    only = {"--test": test, "--label": label, "--labels": labels, "--audit": audit}
    only |= {"--show-images": show_images, "--encoding": encoding}
    if data is None:
        refuse(only, "is for the curator's report: give --data, too.")
    from veilflow.models import artifact, registry
    from veilflow.reports.render import CARD_FILES, CURATOR_FILE

    _check_folder(out, CARD_FILES if data is None else (CURATOR_FILE,), force=force)
    content = artifact.read(model)
    rules = policy_in_force(policy)
    if data is None:
        if rules is not None:
            rules.check_guarantee(content.guarantee)
        _card(content, out, publish=publish, as_json=as_json)
        return
    fitted = registry.from_artifact(content)
    if rules is not None:  # an ensemble is never released: the guarantee of its answers counts
        rules.check_guarantee(fitted.guarantee)
    settings = {"label": label, "labels": labels, "show_images": show_images}
    settings["audit"] = [_read_audit(path) for path in audit or []]
    _curator(fitted, out, data, test, settings, encoding, as_json=as_json)


def _card(content: Any, out: Path, *, publish: bool, as_json: bool) -> None:
    from veilflow._core.errors import PrivacyError
    from veilflow.reports.card import release_card
    from veilflow.reports.render import check_publishable, write_card

    if publish and out.exists():
        check_publishable(out)
    card = release_card(content)
    if publish and not card.attacker.belief:
        raise PrivacyError("the data was used without privacy: there is nothing to publish.")
    paths = write_card(card, out)
    result = {"document": "release card", "internal": False, "files": list(paths.values())}
    lines = "\n".join(f"wrote {path}" for path in paths.values())
    tell(result, lines, card.guarantee, as_json=as_json)


def _curator(
    fitted: Any,
    out: Path,
    data: Path,
    test: Path | None,
    settings: dict[str, Any],
    encoding: str | None,
    *,
    as_json: bool,
) -> None:
    from veilflow.reports.curator import curator_report
    from veilflow.reports.render import write_curator

    files = {"data": data, "test": test}
    sources: dict[str, Any] = {
        name: None if file is None else options.as_text(file, encoding)
        for name, file in files.items()
    }
    measured = data if test is None else test
    if is_classifier(fitted) and is_series(measured):
        series = read_series(measured)
        sources = {"data": series, "test": None if test is None else series}
        settings = {**settings, "labels": read_labels(measured, None)}
    html = curator_report(fitted, **sources, **settings)
    note("INTERNAL: this report is made from private data, and no guarantee covers it")
    path = write_curator(html, out)
    result = {"document": "curator's report", "internal": True, "files": [path]}
    emit(result, f"wrote {path} (INTERNAL: do not publish)", as_json=as_json)


def _check_folder(out: Path, names: tuple[str, ...], *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is not a folder. Choose another name.")
    above = next(folder for folder in out.resolve().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"--out {out} cannot be created in {above}. Choose another folder.")
    for name in names:
        if (out / name).exists() and not force:
            raise ValueError(
                f"{out / name} exists. Choose another folder, or pass --force to replace it. Nothing "
                "was done."
            )


def _read_audit(path: Path) -> Any:
    with open(path, "rb") as file:
        data = file.read(_LARGEST_AUDIT + 1)
    try:
        if len(data) > _LARGEST_AUDIT:
            raise ValueError
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"--audit {path} is not what `veilflow audit --json` prints.") from None
