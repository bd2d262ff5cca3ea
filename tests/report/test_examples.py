"""Which pictures are chosen."""

from dataclasses import replace

from sim2cam.images import read_rgb
from sim2cam.metrics.detection import Detection
from sim2cam.report.examples import (
    build_image_rows,
    select_differing_examples,
    select_examples,
)


def right(label):
    return Detection(label.category, label.box_xyxy, 0.9)


def test_best_and_worst(make_dataset, label):
    one = label("a", (0.0, 0.0, 10.0, 10.0))
    two = label("b", (20.0, 20.0, 40.0, 40.0))
    captures = make_dataset([(one,), (one, two), (one, two), (one, two), ()], origin="real")
    a, b = right(one), right(two)
    found = {"000": (a,), "001": (a, b), "002": (a,), "003": (), "004": ()}
    chosen = select_examples(captures, found, 0.5, count=2)
    assert [e.name for e in chosen.best] == ["001", "000"]
    assert [e.name for e in chosen.worst] == ["003", "002"]
    assert chosen.worst[1].objects == (one, two)
    assert chosen.worst[1].detections == (right(one),)
    assert chosen.best[0].rgb.shape == (48, 64, 3)


def test_no_image_is_shown_twice_and_none_without_error_is_among_the_worst(make_dataset, label):
    one = label()
    captures = make_dataset([(one,)] * 3, origin="real")
    all_right = {s.name: (right(one),) for s in captures.samples}
    assert select_examples(captures, all_right, 0.5, count=5).worst == ()
    all_wrong = {s.name: () for s in captures.samples}
    chosen = select_examples(captures, all_wrong, 0.5, count=5)
    names = [e.name for e in (*chosen.best, *chosen.worst)]
    assert sorted(names) == ["000", "001", "002"]


def test_images_with_the_largest_difference_are_compared(make_dataset, label):
    one, two = label("a", (0.0, 0.0, 10.0, 10.0)), label("b", (20.0, 20.0, 40.0, 40.0))
    captures = make_dataset([(one,), (one, two), (one, two), ()], origin="real")
    full = {s.name: tuple(map(right, s.objects)) for s in captures.samples}
    part = full | {"000": (), "001": ()}
    examples = select_differing_examples(captures, ("x", "y"), (part, full), count=3)
    assert [first.name for first, _ in examples.pairs] == ["001", "000"]
    assert [len(d.detections) for pair in examples.pairs for d in pair] == [0, 2, 0, 1]
    assert select_differing_examples(captures, ("x", "y"), (full, full), count=3).pairs == ()


def test_translations_stand_beside_their_renders(make_dataset):
    sim = make_dataset([()] * 6)
    translations = (
        replace(s, origin="adapted", digest=f"new{s.name}", parent=s.digest)
        for s in sim.samples[3:5]
    )
    adapted = replace(sim, samples=tuple(translations))
    rows = build_image_rows(sim, adapted, sim.take(1), count=4)
    assert len(rows) == 2
    assert all((row.sim == row.adapted).all() for row in rows)
    assert [row.capture is None for row in rows] == [False, True]


def test_without_a_translation(make_dataset):
    sim = make_dataset([()] * 5)
    rows = build_image_rows(sim, None, sim, count=2)
    assert [row.adapted for row in rows] == [None, None]
    assert (rows[0].sim != rows[1].sim).any()


def test_renders_that_show_nothing_are_passed_over(make_dataset, label):
    one = label("a", (0.0, 0.0, 10.0, 10.0))
    sim = make_dataset([(), (one,), (), (one,)])
    rows = build_image_rows(sim, None, sim, count=4)
    assert len(rows) == 2
    for row, index in zip(rows, (1, 3), strict=True):
        assert (row.sim == read_rgb(sim.samples[index].rgb)).all()
