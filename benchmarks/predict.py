"""Prediction time of each detector size at 640x640, compared with other detectors.

    python benchmarks/predict.py [--repeats N] [--sizes lite0 nano small base]

Each case runs in a separate process on one and two cores, and on a GPU if there is one. Weights are
random and the 300 most confident peaks are kept, more than any image has: an upper bound at one input
scale. A second, halved scale, as cards with sizes request it, adds a third. The cost of RoI crop
classification is measured with the shipped weights on an image of dice. Peers are our export in
onnxruntime and torchvision's SSDlite320, which reduces the image to a quarter of its area. SSDlite320
runs only if torchvision's compiled operators load. Writes ``predict.json`` to ``benchmarks/results``.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
import tyro
from rendering.spread import Clock, compute_spread
from result_files import RESULTS, write_results

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.learn.device import use_threads
from sim2cam.models.card import DetectorCard
from sim2cam.models.compat import has_operators
from sim2cam.models.inference.detector import (
    SHIPPED_WEIGHTS,
    NativeDetector,
    load_detector,
    predict_image,
    require_native_detector,
)
from sim2cam.models.inference.export import export_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.pipeline.recipe import RECIPES_FOLDER

SIDE_PX = 640
CORES = (1, 2)
CATEGORIES = ("1", "2", "3", "4", "5", "6")
AIM_CPU_MS = 150.0  # `nano` on one core
PEER = "torchvision SSDlite320-MobileNetV3"
AS_SHIPPED = "`dice` as it ships, an image of the stand-in camera"
SCORE_FLOOR = 0.5  # the default of ``sim2cam predict``
_WARM_UPS = 2

Predict = Callable[[], object]


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    repeats: int = 20
    """Timed predictions per case, after two warm-up predictions."""
    sizes: tuple[Literal["lite0", "nano", "small", "base"], ...] = (
        "lite0",
        "nano",
        "small",
        "base",
    )
    """Detector sizes."""
    out: Path = RESULTS / "predict.json"
    """File of the results."""


@dataclass(frozen=True)
class Case:
    """A detector on a device.

    Attributes:
        size: detector size; empty for other detectors.
    """

    kind: str
    size: str
    device: str
    cores: int

    @property
    def name(self) -> str:
        """Name in the results table."""
        return f"{self.kind}, `{self.size}`" if self.size else self.kind


def main(arguments: Arguments) -> None:
    """Time every case and write the results."""
    devices = [("cpu", cores) for cores in CORES]
    devices += [("cuda", 1)] if torch.cuda.is_available() else []
    cases = [Case("sim2cam", size, *device) for size in arguments.sizes for device in devices]
    cases += [Case(AS_SHIPPED, "", *device) for device in devices]
    cases += [Case("onnxruntime", size, "cpu", n) for size in arguments.sizes for n in CORES]
    not_run = []
    if has_operators():
        cases += [Case(PEER, "", *device) for device in devices]
    else:
        not_run = [{"name": PEER, "reason": "its compiled operators do not load beside this torch"}]
    spawn = multiprocessing.get_context("spawn")
    results = []
    for case in cases:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            results.append(pool.submit(measure, case, arguments.repeats).result())
        cpu_ms, wall_ms = results[-1]["cpu_ms"]["value"], results[-1]["wall_ms"]["value"]
        device = f"{case.device}, threads: {case.cores}"
        print(f"{case.name:<40} {device}: {cpu_ms:.0f} CPU-ms, {wall_ms:.0f} ms", flush=True)
    facts = {"environment": collect_environment(None, max(CORES)), "side_px": SIDE_PX}
    write_results(
        arguments.out, facts | {"aim_cpu_ms": AIM_CPU_MS, "cases": results, "not_run": not_run}
    )


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Return the cost of a prediction; run in a separate process."""
    use_threads(case.cores)
    makers = {
        "sim2cam": _make_native, AS_SHIPPED: _make_shipped, "onnxruntime": _make_exported, PEER: _make_ssdlite,
    }  # fmt: skip
    predict, weights = makers[case.kind](case)
    clock = Clock()
    for number in range(_WARM_UPS + repeats):
        with clock("warm-up" if number < _WARM_UPS else "prediction"):
            predict()
    return {
        "name": case.name,
        "device": case.device,
        "cores": case.cores,
        "weights": weights,
        "cpu_ms": asdict(compute_spread(clock.cpu_ms["prediction"])),
        "wall_ms": asdict(compute_spread(clock.wall_ms["prediction"])),
    }


def _make_detector(size: str, device: str = "cpu") -> NativeDetector:
    network = (
        DetectorNetwork(size, len(CATEGORIES), torch.Generator().manual_seed(0)).eval().to(device)
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return NativeDetector(network, DetectorCard(size, CATEGORIES, 0, {}, ()))


def _make_native(case: Case) -> tuple[Predict, int]:
    detector, rgb = _make_detector(case.size, case.device), _make_noise_image()
    return lambda: predict_image(detector, rgb, score_floor=0.0), _count_weights(detector.network)


def _make_shipped(case: Case) -> tuple[Predict, int]:
    """Return the shipped detector on an image of dice, which classifies four crops of each object."""
    detector = require_native_detector(
        load_detector(SHIPPED_WEIGHTS / "dice.safetensors", device=case.device), "times"
    )
    rgb = images.read_rgb(read_real_images(RECIPES_FOLDER / "standin" / "test.json").samples[0].rgb)
    return lambda: predict_image(detector, rgb, score_floor=SCORE_FLOOR), _count_weights(
        detector.network
    )


def _make_exported(case: Case) -> tuple[Predict, int]:
    import onnxruntime

    detector, rgb = _make_detector(case.size), _make_noise_image()[None]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.cores
    with tempfile.TemporaryDirectory() as folder:
        export_detector(detector, Path(folder) / "detector.onnx")
        session = onnxruntime.InferenceSession(
            (Path(folder) / "detector.onnx").read_bytes(),
            options,
            providers=["CPUExecutionProvider"],
        )
    return lambda: session.run(None, {"rgb": rgb}), _count_weights(detector.network)


def _make_ssdlite(case: Case) -> tuple[Predict, int]:
    from torchvision.models.detection import (  # noqa: TID251 (compat must be imported first)
        ssdlite320_mobilenet_v3_large,
    )

    network = ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=1 + len(CATEGORIES)
    )
    network.eval().to(case.device)
    image = torch.from_numpy(_make_noise_image()).permute(2, 0, 1).float() / 255

    @torch.inference_mode()
    def predict() -> object:
        (predictions,) = network([image.to(case.device)])
        return {name: values.cpu() for name, values in predictions.items()}

    return predict, _count_weights(network)


def _make_noise_image() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a noise image: prediction time does not depend on the content."""
    return np.random.default_rng(0).integers(0, 256, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8)


def _count_weights(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
