"""Real data sets, read from the user's own folder and checked by hash; none is shipped.

`VEILFLOW_DATA` names the folder; by default it is `veilflow` in the user's cache folder.
"""

import hashlib
import os
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# name -> part -> (file under the data folder, SHA-256 of its bytes); npz files name their own parts
_FILES: dict[str, dict[str, tuple[str, str]]] = {
    "adult": {
        "train": (
            "adult/train.parquet",
            "e2a9fa64ba1e1937e2d6d89e41d26035e5d02466270dda6cfaadd68b0c059d70",
        ),
        "test": (
            "adult/test.parquet",
            "7673efb5bcdb23db68d78f4cd29fe559d7142bf1e6d41374562fec45204ae84e",
        ),
    },
    "census_income_kdd": {
        "train": (
            "census_income_kdd/train.parquet",
            "c473405a65323e6b420a53107bbcf553953ccb0294b4538539d9647bcfd212f3",
        ),
        "test": (
            "census_income_kdd/test.parquet",
            "860c99b372216839f91e4542864e7b6bd07bea87d2cbc65c3a84abcaca2226ab",
        ),
    },
    "covertype": {
        "all": (
            "covertype/covtype.parquet",
            "66797d75ecaece037b0f356bd74c4857efa234606dd9d625ea28d6fde4d27712",
        ),
    },
    "creditcard_fraud": {
        "all": (
            "creditcard_fraud/creditcard.parquet",
            "ae5ac2cad11eb4bb6491592a92a4aa049f152b120898af9c81cbd0b47141ac75",
        ),
    },
    "fashion_mnist": {
        "arrays": (
            "fashion_mnist/fashion_mnist.npz",
            "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
        ),
    },
    "gowalla": {
        "all": (
            "gowalla/gowalla_100k_std.parquet",
            "b7943a0294a4108ddd9343892e5bb511606370b689e46d7def56c2db97ddea3f",
        ),
    },
    "kddcup99": {
        "train": (
            "kddcup99/train_10percent.parquet",
            "5ebda290fa715009fd5d462048bfda92ee24fc8975e6a475d4783dff1ab7ef73",
        ),
        "test": (
            "kddcup99/test_corrected.parquet",
            "dc0e1ed56a02e42bf70a567a3e7297888797256e8e3f66773ef3cb5fef616adc",
        ),
    },
    "lifesci": {
        "all": (
            "lifesci/lifesci_ds1_10pca.parquet",
            "8f7e03cc8971b60e1b07bc69439e2c2246cf312a819dd55abc0e15a1dfc2f596",
        ),
    },
    "mnist": {
        "arrays": (
            "mnist/mnist.npz",
            "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
        ),
    },
    "physionet2012": {
        "events": (
            "physionet2012/events_long.parquet",
            "c64e611d7754dae27eba0908361a5eca97dd9ad19e1e3bf01d2d2b03b1e95c9f",
        ),
        "outcomes": (
            "physionet2012/outcomes.parquet",
            "2a096e3ae12a2ed7faf4e570da1b755adec1c98503c1aa7e87426d104d795571",
        ),
    },
    "power": {
        "all": (
            "power/household_power_2006-12-16_to_2007-06-30.parquet",
            "f37dd50b8b63569d81597853b3f765f1c3a9afd21658883a638de8af4f6ce1d1",
        ),
        "sample": (
            "power/power_100k_sample_seed0.parquet",
            "2614f132353149547062d59380363d0753ddec3157199805577564aff31bdb38",
        ),
    },
}


def available() -> tuple[str, ...]:
    """The names that `load` knows, whether or not their files are on this machine."""
    return tuple(sorted(_FILES))


def load(name: str) -> "dict[str, pd.DataFrame | np.ndarray]":
    """Read a real data set from the folder `VEILFLOW_DATA`, after checking its hash.

    Some of these sets hold rows of real people. They are read without any protection: what you
    compute from them is not private unless a mechanism made it so.

    Args:
        name: One of `available()`.

    Returns:
        The parts of the set by name: frames such as "train" and "test" (or "all" for a set without
        a split), or arrays such as "x_train" for sets of images.

    Raises:
        ValueError: If the name is unknown, or a file has another hash.
        FileNotFoundError: If there is no such file.
    """
    if name not in _FILES:
        raise ValueError(f"name must be one of {', '.join(available())}, got {name!r}.")
    parts: dict[str, pd.DataFrame | np.ndarray] = {}
    for part, (file, sha256) in _FILES[name].items():
        data = _checked(name, file, sha256)
        if file.endswith(".npz"):
            with np.load(BytesIO(data), allow_pickle=False) as arrays:
                parts.update({key: arrays[key] for key in arrays.files})
        else:
            from pandas import read_parquet

            parts[part] = read_parquet(BytesIO(data))
    return parts


def folder() -> Path:
    """The folder of real data sets."""
    path = os.environ.get("VEILFLOW_DATA")
    return Path(path) if path else _cache() / "veilflow"


def _checked(name: str, file: str, sha256: str) -> bytes:
    """The bytes of a file after checking their hash."""
    try:
        data = (folder() / file).read_bytes()
    except FileNotFoundError:
        where = (
            "the folder that VEILFLOW_DATA names"
            if os.environ.get("VEILFLOW_DATA")
            else "veilflow's cache folder (VEILFLOW_DATA is not set)"
        )
        raise FileNotFoundError(
            f"data set {name!r} needs the file {file} in {where}. Put it there, or point "
            "VEILFLOW_DATA at the folder that has it. Generated sets need no files: see "
            "datasets.moons, gaussians, pinwheel and correlated."
        ) from None
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise ValueError(
            f"{file} has SHA-256 {actual[:12]}..., but {name!r} is defined by {sha256[:12]}... It "
            "is another version or a damaged copy; results on it would not be comparable."
        )
    return data


def _cache() -> Path:
    """The user's cache folder on this operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
