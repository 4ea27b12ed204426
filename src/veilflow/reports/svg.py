"""Small drawings as text inside a page: they follow its colors and need no file."""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

_WIDTH, _HEIGHT = 320, 120


def histogram(
    real: np.ndarray,
    synthetic: np.ndarray | None,
    *,
    labels: Sequence[str],
    alt: str,
    marks: Sequence[float] = (),
) -> str:
    """Two histograms in one frame: bars for the real one, a stepped line for the other.

    Args:
        real: Shares of the real rows, one for each bin.
        synthetic: Shares of the synthetic rows; None to draw only one histogram.
        labels: Labels for the first and the last bin, or for each one.
        alt: What a screen reader says; escaped here.
        marks: Where upright lines stand, as shares of the width.
    """
    others = np.zeros(0) if synthetic is None else synthetic
    top = max(float(real.max(initial=0)), float(others.max(initial=0)), 1e-9)
    step = _WIDTH / len(real)
    height = [_HEIGHT * float(share) / top for share in real]
    bars = "".join(
        f'<rect x="{i * step + 0.5:.1f}" y="{_HEIGHT - h:.1f}" width="{max(step - 1, 0.5):.1f}" '
        f'height="{h:.1f}"/>'
        for i, h in enumerate(height)
    )
    path = f"M0 {_HEIGHT}"
    for i, share in enumerate(others):
        y = _HEIGHT - _HEIGHT * float(share) / top
        path += f"V{y:.1f}H{(i + 1) * step:.1f}"
    stroke = 'vector-effect="non-scaling-stroke"'
    line = f'<path class="synthetic" d="{path}V{_HEIGHT}" {stroke}/>' if len(others) else ""
    upright = "".join(
        f'<path class="upright" d="M{_WIDTH * min(max(at, 0.0), 1.0):.1f} -4V{_HEIGHT}" {stroke}/>'
        for at in marks
    )
    texts = "".join(f"<span>{_escaped(text)}</span>" for text in labels)
    each = " each" if len(labels) == len(real) else ""
    return (
        f'<svg viewBox="0 -4 {_WIDTH} {_HEIGHT + 5}" role="img" aria-label="{_escaped(alt)}" '
        f'preserveAspectRatio="none"><g class="real">{bars}</g>{line}{upright}</svg>'
        f'<p class="axis{each}" aria-hidden="true">{texts}</p>'
    )


def heat(shares: np.ndarray, *, color: tuple[int, int, int], alt: str) -> str:
    """A matrix of shares as an image of varying opacity, first row at the bottom."""
    strength = np.sqrt(
        shares / max(float(shares.max(initial=0)), 1e-12)
    )  # so that rare cells are visible, too
    alpha = np.flipud(np.rint(255 * strength).astype(np.uint8))
    pixels = np.empty((*alpha.shape, 4), np.uint8)
    pixels[..., :3], pixels[..., 3] = color, alpha
    return _image(pixels, alt)


def signed(matrix: np.ndarray, *, alt: str) -> str:
    """Numbers in [-1, 1] as an image: one color for above 0, another for below."""
    value = np.nan_to_num(np.clip(matrix, -1, 1))
    pixels = np.empty((*value.shape, 4), np.uint8)
    pixels[..., :3] = np.where(value[..., None] >= 0, (32, 110, 180), (200, 90, 20))
    pixels[..., 3] = np.rint(255 * np.abs(value) ** 0.7).astype(np.uint8)
    return _image(pixels, alt)


def gray(image: np.ndarray, *, alt: str) -> str:
    """An image of values in [0, 1], one channel or three."""
    return _image(_opaque(image), alt)


def strip(images: Sequence[np.ndarray], *, alt: str) -> str:
    """Images of one size side by side, as for `gray`, with a transparent pixel between them."""
    parts = [np.pad(_opaque(image), ((0, 0), (0, 1), (0, 0))) for image in images]
    return _image(np.concatenate(parts, axis=1)[:, :-1], alt, kind="pixels strip")


def _opaque(image: np.ndarray) -> np.ndarray:
    bytes_ = np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)
    pixels = np.full((*image.shape[:2], 4), 255, np.uint8)
    pixels[..., :3] = bytes_ if bytes_.ndim == 3 else bytes_[..., None]
    return pixels


def _image(pixels: np.ndarray, alt: str, *, kind: str = "pixels") -> str:
    data = base64.b64encode(_png(pixels)).decode()
    return f'<img class="{kind}" src="data:image/png;base64,{data}" alt="{_escaped(alt)}">'


def _png(pixels: np.ndarray) -> bytes:
    """RGBA bytes as a PNG file."""
    height, width = pixels.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def visible(text: object) -> str:
    """Text from a file without control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _escaped(text: str) -> str:
    return escape(visible(text), quote=True)
