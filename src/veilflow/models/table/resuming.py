"""What the checkpoint of a fit of a table keeps beside the state of its training.

Discoveries and choices of marginals are drawn from the operating system: no secret draws them again,
and another draw would be another spend. So what the start released is kept itself, as plain JSON and
arrays: released values only, never rows, and nothing that reading it would run. The file is there from
the end of the start on. A run that was killed before has left nothing; the next one starts anew.
"""

import base64
import os
from pathlib import Path
from typing import Any

from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint
from veilflow.engine.checkpoint import Saved
from veilflow.models.table import files
from veilflow.models.table.starting import Started
from veilflow.privacy.guarantees import Sensitive
from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.schema import Schema


def opened(path: str | os.PathLike[str], *, steps: int, hardened: bool) -> Checkpoint:
    """The checkpoint at `path`, if a fit like this can keep one there.

    Raises:
        PrivacyError: The fit is hardened, so that its noise is not replayed.
        ValueError: It has no training to go on with.
        OSError: Nothing can be written there.
    """
    file = Checkpoint(path)
    file.check_replayable(hardened=hardened)
    if not steps:
        raise ValueError(
            "a fit without steps keeps no checkpoint: all of it is released at once, and there is "
            "nothing to go on with. Leave checkpoint out, or give steps above 0."
        )
    # now, and not when the start has been paid for
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist. Create it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"nothing may be written to the folder of {path}. Choose another.")
    return file


def keep(
    file: Checkpoint,
    started: Started,
    secret: Secret,
    *,
    settings: str,
    rows: Sensitive[EncodedRows],
) -> None:
    """Write down what the start released, whose rows it was of, and the secret of the rest."""
    from safetensors.numpy import save

    arrays = save(files.arrays_of(started.density))
    context = {
        "for": settings,
        "table": files.schema_of(started.schema, started.vocabularies),
        "num_records": started.num_records,
        "density": files.settings_of(started.density),
        "arrays": base64.b64encode(arrays).decode(),
    }
    file.begin(secret, context, records=_arrays(rows))


def resumed(saved: Saved, *, settings: str, declared: Schema) -> Started:
    """What `keep` wrote.

    Raises:
        PrivacyError: It belongs to a fit with other settings.
        ArtifactError: It is not what a fit writes.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if saved.context.get("for") != settings:
        raise PrivacyError(
            "the checkpoint belongs to other settings. Going on would reuse its noise. "
            "Use the settings of the interrupted run, or another checkpoint path."
        )
    try:
        schema, vocabularies = files.read_schema(saved.context["table"])
        known = {name: declared.columns[name] for name in declared.open}
        if schema.with_columns(known) != declared:
            raise ValueError("more than what was open is not as it was declared.")
        arrays = load(base64.b64decode(saved.context["arrays"], validate=True))
        coder = files.read_coder(arrays, schema, vocabularies)
        density = files.read_density(saved.context["density"], arrays, coder)
        num_records = saved.context["num_records"]
        if type(num_records) is not int or num_records < 1:
            raise ValueError("the number of records is none.")
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"the checkpoint does not hold the start of a fit ({type(error).__name__}). Nothing was "
            "changed. Delete it to start the run afresh, which is a new spend."
        ) from None
    return Started(schema, vocabularies, num_records, density)


def check_rows(file: Checkpoint, saved: Saved, rows: Sensitive[EncodedRows]) -> None:
    """Raise unless the checkpoint was begun with these rows.

    Raises:
        PrivacyError: They are others.
    """
    file.check_records(saved, _arrays(rows))


def _arrays(rows: Sensitive[EncodedRows]) -> Sensitive[Any]:
    return rows.map(lambda encoded: (encoded.codes, encoded.positions))
