"""What a prediction costs: each size of detector at 640x640, beside others in the same run.

    python benchmarks/predict.py [--repeats N] [--sizes nano small base]

Each case runs in a process of its own, on one core and on two; on a GPU too where there is one. Weights
are drawn, not trained, and all of the surest 300 peaks are kept, more than any picture has: the most that a
prediction costs at one magnification; the halved ones that cards with sizes ask for are a third more. What categories
cost that are read from close-ups, the weights show that ship, on a picture with dice. Others are our own export in onnxruntime and, where its compiled operators load,
torchvision's SSDlite320, which makes the picture a quarter as large before it looks at it. Writes
``predict.json`` to ``benchmarks/results``.
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
from rendering.spread import Clock, spread
from scoring_log import RESULTS

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.writer import write_json
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
AIM_CPU_MS = 150.0  # of `nano` on one core
PEER = "torchvision SSDlite320-MobileNetV3"
AS_SHIPPED = "`dice` as it ships, a picture of the stand-in camera"
SURE = 0.5  # as ``sim2cam predict`` has it
_WARM_UPS = 2

Look = Callable[[], object]


@dataclass(frozen=True)
class Arguments:
    """What is looked at, and how long."""

    repeats: int = 20
    """Timed predictions of each case, after two that are not."""
    sizes: tuple[Literal["nano", "small", "base"], ...] = ("nano", "small", "base")
    """Of detectors."""
    out: Path = RESULTS / "predict.json"
    """File of the results."""


@dataclass(frozen=True)
class Case:
    """One way to predict.

    Attributes:
        kind: what predicts.
        size: of the detector; empty of others.
        device: ``cpu`` or ``cuda``.
        cores: threads.
    """

    kind: str
    size: str
    device: str
    cores: int

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"{self.kind}, `{self.size}`" if self.size else self.kind


def main(arguments: Arguments) -> None:
    """Time every case and writes what came of it."""
    places = [("cpu", cores) for cores in CORES]
    places += [("cuda", 1)] if torch.cuda.is_available() else []
    cases = [Case("sim2cam", size, *place) for size in arguments.sizes for place in places]
    cases += [Case(AS_SHIPPED, "", *place) for place in places]
    cases += [Case("onnxruntime", size, "cpu", n) for size in arguments.sizes for n in CORES]
    not_run = []
    if has_operators():
        cases += [Case(PEER, "", *place) for place in places]
    else:
        not_run = [{"name": PEER, "reason": "its compiled operators do not load beside this torch"}]
    spawn = multiprocessing.get_context("spawn")
    found = []
    for case in cases:
        with ProcessPoolExecutor(1, mp_context=spawn) as alone:
            found.append(alone.submit(timed, case, arguments.repeats).result())
        cpu_ms, wall_ms = found[-1]["cpu_ms"]["value"], found[-1]["wall_ms"]["value"]
        where = f"{case.device}, threads: {case.cores}"
        print(f"{case.name:<40} {where}: {cpu_ms:.0f} CPU-ms, {wall_ms:.0f} ms", flush=True)
    facts = {"environment": collect_environment(None, max(CORES)), "side_px": SIDE_PX}
    write_json(
        arguments.out, facts | {"aim_cpu_ms": AIM_CPU_MS, "cases": found, "not_run": not_run}
    )


def timed(case: Case, repeats: int) -> dict[str, Any]:
    """Return what a prediction costs; runs in a process of its own."""
    use_threads(case.cores)
    makers = {
        "sim2cam": _ours, AS_SHIPPED: _shipped, "onnxruntime": _exported, PEER: _ssdlite,
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
        "cpu_ms": asdict(spread(clock.cpu_ms["prediction"])),
        "wall_ms": asdict(spread(clock.wall_ms["prediction"])),
    }


def _detector(size: str, device: str = "cpu") -> NativeDetector:
    network = (
        DetectorNetwork(size, len(CATEGORIES), torch.Generator().manual_seed(0)).eval().to(device)
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return NativeDetector(network, DetectorCard(size, CATEGORIES, 0, {}, ()))


def _ours(case: Case) -> tuple[Look, int]:
    detector, rgb = _detector(case.size, case.device), _picture()
    return lambda: predict_image(detector, rgb, score_floor=0.0), _weights(detector.network)


def _shipped(case: Case) -> tuple[Look, int]:
    """Look at a picture, and at each object in it four times."""
    detector = require_native_detector(
        load_detector(SHIPPED_WEIGHTS / "dice.safetensors", device=case.device), "times"
    )
    rgb = images.read_rgb(read_real_images(RECIPES_FOLDER / "standin" / "test.json").samples[0].rgb)
    return lambda: predict_image(detector, rgb, score_floor=SURE), _weights(detector.network)


def _exported(case: Case) -> tuple[Look, int]:
    import onnxruntime

    detector, rgb = _detector(case.size), _picture()[None]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.cores
    with tempfile.TemporaryDirectory() as folder:
        export_detector(detector, Path(folder) / "detector.onnx")
        session = onnxruntime.InferenceSession(
            (Path(folder) / "detector.onnx").read_bytes(),
            options,
            providers=["CPUExecutionProvider"],
        )
    return lambda: session.run(None, {"rgb": rgb}), _weights(detector.network)


def _ssdlite(case: Case) -> tuple[Look, int]:
    from torchvision.models.detection import (  # noqa: TID251 (after compat, which lets it load)
        ssdlite320_mobilenet_v3_large,
    )

    network = ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=1 + len(CATEGORIES)
    )
    network.eval().to(case.device)
    picture = torch.from_numpy(_picture()).permute(2, 0, 1).float() / 255

    @torch.inference_mode()
    def predict() -> object:
        (found,) = network([picture.to(case.device)])
        return {name: values.cpu() for name, values in found.items()}

    return predict, _weights(network)


def _picture() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return noise: what a picture shows costs nothing."""
    return np.random.default_rng(0).integers(0, 256, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8)


def _weights(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
