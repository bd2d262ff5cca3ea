"""Fourier domain adaptation: low frequencies take the amplitude of a style image.

Yang & Soatto, "FDA: Fourier Domain Adaptation for Semantic Segmentation", 2020. Unlike there, the window has a
fixed radius in frequency bins, so that it is the same for all image sizes, and fades out to avoid ringing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics
from sim2cam.errors import Sim2CamError

Spectrum = NDArray[np.complex128]

_MIN_AMPLITUDE = 1e-6  # amplitudes below have no meaningful phase


@dataclass(frozen=True)
class FourierTransfer:
    """Amplitude swap with a style image that is sampled for each frame; phases stay.

    Attributes:
        amplitudes: (n, 3, 2 radius + 1, 2 radius + 1), low-frequency amplitudes of n style images (0 to 1),
            divided by their pixel count, for frequencies from -radius to radius.
        radius: cycles per image at which the swap has faded out; 0 changes nothing.
    """

    amplitudes: NDArray[np.float64]
    radius: int

    @classmethod
    def fit(cls, style_images: Iterable[NDArray[np.uint8]], *, radius: int = 3) -> FourierTransfer:
        """Fit the transfer to RGB style images of any sizes.

        Raises:
            Sim2CamError: there is no style image, one is too small, or the radius is negative.
        """
        if radius < 0:
            raise Sim2CamError(f"The radius of a Fourier transfer must be 0 or more, not {radius}.")
        return cls(
            stack_style_statistics(_compute_amplitude(rgb, radius) for rgb in style_images), radius
        )

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the translated image, RGB of the size of ``frame``."""
        index = int(rng.integers(len(self.amplitudes)))
        height, width = frame.rgb.shape[:2]
        radius = min(self.radius, (min(height, width) - 1) // 2)
        inner = slice(self.radius - radius, self.radius + radius + 1)
        target = self.amplitudes[index][:, inner, inner]
        source = _compute_low_spectrum(frame.rgb / 255.0, radius)
        amplitude = np.abs(source)
        is_nonzero = amplitude > _MIN_AMPLITUDE
        ratio = np.divide(target, amplitude, out=np.ones_like(target), where=is_nonzero)
        fade = _build_window(self.radius)[inner, inner]
        change = _invert_spectrum((ratio - 1.0) * fade * source, height, width)
        return np.asarray(np.rint(frame.rgb + 255.0 * change).clip(0, 255), dtype=np.uint8)


def _compute_amplitude(rgb: NDArray[np.uint8], radius: int) -> NDArray[np.float64]:
    if min(rgb.shape[:2]) <= 2 * radius:
        raise Sim2CamError(
            f"A style image of {rgb.shape[1]}x{rgb.shape[0]} pixels is too small for the radius {radius}. "
            "Give larger real images or a smaller radius."
        )
    return np.abs(_compute_low_spectrum(rgb / 255.0, radius))


def _build_window(radius: int) -> NDArray[np.float64]:
    """Return the weight of the swap (2 radius + 1, 2 radius + 1): 1 at the centre, 0 at radius."""
    if radius == 0:
        return np.zeros((1, 1))
    frequency = np.arange(-radius, radius + 1)
    distance = np.hypot(frequency[:, None], frequency[None, :]) / radius
    return np.asarray(0.5 + 0.5 * np.cos(np.pi * distance.clip(max=1.0)))


def _compute_low_spectrum(image: NDArray[np.float64], radius: int) -> Spectrum:
    """Return the lowest coefficients (3, 2 radius + 1, 2 radius + 1) of an image (h, w, 3).

    A full FFT would compute many coefficients that stay unchanged.
    """
    height, width = image.shape[:2]
    rows = _build_fourier_basis(height, radius).conj() / height
    columns = _build_fourier_basis(width, radius).conj() / width
    return np.asarray(np.einsum("yf,yxc,xg->cfg", rows, image, columns, optimize=True))


def _invert_spectrum(spectrum: Spectrum, height: int, width: int) -> NDArray[np.float64]:
    """Return the image (height, width, 3) of low coefficients (3, 2 radius + 1, 2 radius + 1)."""
    radius = spectrum.shape[1] // 2
    rows, columns = _build_fourier_basis(height, radius), _build_fourier_basis(width, radius)
    return np.asarray(np.einsum("yf,cfg,xg->yxc", rows, spectrum, columns, optimize=True).real)


def _build_fourier_basis(size: int, radius: int) -> Spectrum:
    """Return the Fourier basis (size, 2 radius + 1) of frequencies -radius to radius."""
    frequency = np.arange(-radius, radius + 1)
    return np.asarray(np.exp(2j * np.pi * np.arange(size)[:, None] * frequency[None, :] / size))
