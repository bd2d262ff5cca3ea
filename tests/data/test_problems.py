import pytest

from sim2cam.data.problems import AnnotationErrors
from sim2cam.errors import InputError, RepairWarning


def collect(problems, path, count):
    for number in range(count):
        with problems.collect():
            raise InputError(path, f"annotation {number} is empty.")


def test_up_to_ten_flaws_are_named_and_all_are_counted(tmp_path):
    problems = AnnotationErrors(tmp_path)
    collect(problems, tmp_path, 12)
    with pytest.raises(InputError) as caught:
        problems.report()
    lines = str(caught.value).splitlines()
    assert "12 annotations are flawed" in lines[0]
    assert lines[10] == "  annotation 9 is empty."
    assert lines[11] == "  … and 2 more"
    assert "--skip-invalid" in lines[12]


def test_skipped_flaws_become_one_warning_with_their_number(tmp_path):
    problems = AnnotationErrors(tmp_path, skip_invalid=True)
    collect(problems, tmp_path / "a.txt", 2)
    with pytest.warns(RepairWarning, match=r"2 flawed annotations are left out") as caught:
        problems.report()
    assert len(caught) == 1
    assert "a.txt: annotation 1 is empty." in str(caught[0].message)


def test_other_errors_are_not_collected(tmp_path):
    problems = AnnotationErrors(tmp_path)
    with pytest.raises(ValueError, match="x"), problems.collect():
        raise ValueError("x")
