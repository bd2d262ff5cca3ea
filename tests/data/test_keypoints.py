from dataclasses import replace
from pathlib import Path

import pytest

from sim2cam.data.keypoints import find_flip_indices, get_keypoint_names
from sim2cam.data.sample import Dataset, Keypoint, ObjectLabel, Sample
from sim2cam.metrics.keypoints import PERSON_SIGMAS


def test_a_mirror_swaps_what_differs_in_left_and_right():
    assert find_flip_indices(("nose", "left_eye", "right_eye")) == (0, 2, 1)
    assert find_flip_indices(("Left Ear", "tail", "Right Ear")) == (2, 1, 0)
    people = tuple(PERSON_SIGMAS)
    order = find_flip_indices(people)
    assert order[people.index("left_hip")] == people.index("right_hip")
    assert [order[number] for number in order] == list(range(17))


@pytest.mark.parametrize(
    "names", [(), ("head", "tip"), ("bright", "bleft"), ("left_eye", "nose"), ("a_left", "A_LEFT")]
)
def test_names_that_do_not_tell_left_from_right_have_no_mirror(names):
    assert find_flip_indices(names) is None


def test_names_come_in_the_order_in_which_labels_have_them():
    box = (0.0, 0.0, 9.0, 9.0)

    def label(category, *names):
        points = tuple(Keypoint(name, (1.0, 2.0), 2) for name in names)
        return ObjectLabel(category, box, 81.0, keypoints=points)

    objects = (
        label("cup", "rim", "handle"),
        label("cup", "lid", "rim"),
        ObjectLabel("die", box, 9.0),
    )
    sample = Sample("x", Path("x.jpg"), 9, 9, objects, "sim")
    data = Dataset(Path("set"), ("cup", "die"), (sample,))
    unlabelled = replace(data, samples=(replace(sample, objects=None),))
    assert get_keypoint_names([unlabelled, data]) == {"cup": ("rim", "handle", "lid"), "die": ()}
