import html
import json
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from sim2cam.data.card import ValueRange, build_card, write_card
from sim2cam.data.reader import read_dataset
from sim2cam.data.set_operations import merge_datasets
from sim2cam.errors import InputError
from tests.support.errors import error_text

SCENE = {
    "attempt": 2,
    "rejections": ["a die leans by 38.1 degrees", "a die leans by 4e-2 degrees"],
    "sampled_values": {"die/0/edge_m": 0.01, "die/1/edge_m": 0.03, "die/0/mirrored": True, "name":
     "x"},
    "scene": {"bodies": [{"asset": {"kind": "die"}}, {"asset": {"kind": "mesh", "path":
     "mugs/a|b.glb"}}, {"asset": {"kind": "mesh", "path": "mugs/c.glb"}}]},
}  # fmt: skip


@pytest.fixture
def recorded(native):
    """The data set with something recorded of its first scene, and a licence of one mesh."""
    path = native / "shards/000000/scenes.jsonl"
    path.write_text(json.dumps({"scene_index": 0} | SCENE) + "\n")
    header = json.loads((native / "dataset.json").read_text())
    header["licences"] = {"mugs/c.glb": "CC0-1.0"}
    (native / "dataset.json").write_text(json.dumps(header))
    return native


def test_everything_is_counted(recorded):
    dataset = read_dataset(recorded)
    card = build_card(dataset)
    assert (card.image_count, card.scene_count, card.object_count, card.unlabelled_count) == (
        4,
        2,
        8,
        0,
    )
    assert (card.origin_counts, card.size_counts) == ({"sim": 4}, {"48x32": 4})
    assert card.channel_counts == {"depth": 4, "ids": 4}
    assert card.category_counts == {"square": 4, "disc": 4}
    assert card.object_ranges["side_px"] == pytest.approx(
        ValueRange(96**0.5, (96**0.5 + 12) / 2, 12)
    )
    assert card.object_ranges["distance_m"].low == pytest.approx((0.01 + 0.25) ** 0.5)
    assert card.object_ranges["visible_fraction"] == ValueRange(2 / 3, pytest.approx(5 / 6), 1.0)
    assert card.rejections == {"a die leans by N degrees": 2}
    assert card.sampled_value_ranges == {"die/edge_m": ValueRange(0.01, 0.02, 0.03)}
    assert card.asset_licences == {
        "die": "made by sim2cam",
        "mugs/a|b.glb": "licence not recorded",
        "mugs/c.glb": "CC0-1.0",
    }
    files = [p for p in recorded.rglob("*") if p.suffix in (".jpg", ".png")]
    assert card.bytes_on_disk == sum(path.stat().st_size for path in files)
    assert (
        json.loads(json.dumps(card.to_json()))["sampled_value_ranges"]["die/edge_m"]["high"] == 0.03
    )


def test_a_translated_set_has_its_parents_scenes_once(recorded, tiny, tmp_path):
    adapted = tiny.write_adapted(tmp_path / "adapted", recorded)
    assert build_card(read_dataset(adapted)).rejections == {"a die leans by N degrees": 2}
    both = merge_datasets([read_dataset(recorded), read_dataset(adapted)])
    card = build_card(both)
    assert card.rejections == {"a die leans by N degrees": 2}
    assert (card.scene_count, card.origin_counts) == (2, {"adapted": 4, "sim": 4})


def test_it_is_written_as_tables(recorded, tmp_path):
    write_card(build_card(read_dataset(recorded)), tmp_path)
    lines = (tmp_path / "card.md").read_text().splitlines()
    assert lines[0] == "# Dataset"
    assert "4 images of 2 scenes with 8 objects" in lines[2]
    assert "| mugs/a\\|b.glb | licence not recorded |" in lines
    assert "| die/edge_m | 0.01, 0.02, 0.03 |" in lines


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![a](http://x/y.png)", "[a](javascript:1)",
        "**a** _b_ __c__ ~~d~~ `e` $f$", "a|b\\|c", "&lt;b&gt; &#60;", "one\ntwo\r\n# three", "a_b_c/d_e.glb",
        "\\`a\\`",
    ],
)  # fmt: skip
def test_names_are_shown_as_they_are(native, name):
    """A page of Markdown shows a name letter by letter, whatever markup it holds."""
    dataset = replace(read_dataset(native), categories=("square", "disc", name))
    (row,) = (
        line for line in build_card(dataset).to_markdown().splitlines() if line.endswith("| 0 |")
    )
    page = MarkdownIt("gfm-like", {"linkify": False}).render(f"| | |\n|---|---|\n{row}\n")
    cells = re.findall(r"<td>(.*)</td>", page)
    assert [html.unescape(cell) for cell in cells] == [" ".join(name.split()), "0"]
    assert "<" not in cells[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1 is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
              "(char 1)). Run its command again with --resume to replace damaged shards."),
        ("[]", "line 1 is not a scene. Run its command again with --resume to replace damaged shards."),
        ("{}", "scene_index is missing. Generate the dataset again."),
        ('{"scene_index": 0, "sampled_values": 3}', "sampled_values: Input should be a valid dictionary (found 3). "
                                            "Generate the dataset again."),
        ('{"scene_index": 0, "scene": {"bodies": [{}]}}', "scene.bodies[0].asset is missing. Generate "
                                                          "the dataset again."),
    ],
)  # fmt: skip
def test_a_broken_record_is_answered_exactly(native, line, problem):
    path = native / "shards/000000/scenes.jsonl"
    path.write_text(line)
    assert error_text(lambda: build_card(read_dataset(native))) == f"{path}: {problem}"


def test_a_broken_list_of_licences_is_answered_exactly(native):
    header = json.loads((native / "dataset.json").read_text()) | {"licences": [1]}
    (native / "dataset.json").write_text(json.dumps(header))
    with pytest.raises(InputError) as caught:
        read_dataset(native)
    problem = (
        "licences: Input should be a valid dictionary (found [1]). Generate the dataset again."
    )
    assert str(caught.value) == f"{native / 'dataset.json'}: {problem}"


def test_a_part_tells_of_its_own_scenes(tmp_path, tiny):
    native = tiny.write_native(tmp_path / "native")
    for shard, kind in enumerate(("die", "nut")):
        drawn = {"sampled_values": {"die/edge_m": 0.01 * (1 + shard)}, "rejections": [f"no {kind}"]}
        made = {"scene": {"bodies": [{"asset": {"kind": kind}}]}}
        path = native / f"shards/{shard:06d}/scenes.jsonl"
        path.write_text(json.dumps({"scene_index": shard} | drawn | made) + "\n")
    whole = read_dataset(native)
    adapted = read_dataset(tiny.write_adapted(tmp_path / "adapted", native))
    other = read_dataset(tiny.write_native(tmp_path / "other", unlike))
    merged = merge_datasets([other, merge_datasets([whole, adapted])])
    for dataset in (whole, adapted, merged):
        names = [s.name for s in dataset.samples if "000002" in s.name and "other" not in s.name]
        card = build_card(dataset.select_by_name(names))
        assert card.asset_licences == {"nut": "made by sim2cam"}
        assert card.rejections == {"no nut": 1}
        assert card.sampled_value_ranges == {"die/edge_m": ValueRange(0.02, 0.02, 0.02)}
        assert build_card(dataset).asset_licences.keys() == {"die", "nut"}
    parts = (whole.select_by_name(["000000"]), whole.select_by_name(["000002"]))
    assert build_card(*parts).asset_licences.keys() == {"die", "nut"}


def unlike(sample):
    """A sample of another picture."""
    return replace(sample, image_bytes=sample.image_bytes + b"\0")
