"""pycocotools, which scores are held against."""

import contextlib
import io

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from sim2cam.metrics.instances import compute_shape_metrics


class IgnoringFaint(COCOeval):
    """As the fork of pycocotools that BOP scores with: what is ignored stays so without a group."""

    def _prepare(self):
        super()._prepare()
        for labels in self._gts.values():
            for label in labels:
                label["ignore"] = label["ignore"] or label["faint"]


def _nothing(coco):
    """What was found where nothing was, which loadRes does not take."""
    nothing = COCO()
    nothing.dataset = coco.dataset | {"annotations": []}
    nothing.createIndex()
    return nothing


@pytest.fixture(scope="session")
def pycoco_precision():
    """A function that returns average precision (thresholds, categories); -1 without objects."""

    def scored(kind, images, annotations, results, *, categories=1, sigmas=None):
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = {
                "info": {},
                "images": images,
                "categories": [{"id": i} for i in range(1, categories + 1)],
                "annotations": annotations,
            }
            coco.createIndex()
            scorer = IgnoringFaint(coco, coco.loadRes(results) if results else _nothing(coco), kind)
            if sigmas is not None:
                scorer.params.kpt_oks_sigmas = np.array(sigmas)
            scorer.evaluate()
            scorer.accumulate()
        return scorer.eval["precision"][:, :, :, 0, -1].mean(axis=1)

    return scored


@pytest.fixture(scope="session")
def same_as_pycoco():
    """A function that compares what is reported of shapes, and what resamples are made of, with precisions."""

    def compare(evaluator, precisions):
        expected = {name: p for name, p in precisions.items() if p[0] > -1}
        ours = evaluator.compute_scores(np.ones((1, evaluator.units.n_images), np.int64))
        score = compute_shape_metrics(evaluator, rng=np.random.default_rng(0), n_resamples=5)
        assert score.category_ap.keys() == expected.keys()
        for name, precision in expected.items():
            assert ours[f"ap/{name}"][0] == pytest.approx(precision.mean(), abs=1e-9)
            assert score.category_ap[name].value == pytest.approx(precision.mean(), abs=1e-9)
        each = np.array(list(expected.values()))
        values = {"ap": each.mean(), "ap50": each[:, 0].mean(), "ap75": each[:, 5].mean()}
        for name, value in values.items():
            assert ours[name][0] == pytest.approx(value, abs=1e-9), name
            assert getattr(score, name).value == pytest.approx(value, abs=1e-9), name
        return score

    return compare
