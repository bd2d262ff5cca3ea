"""The page of a domain."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.cli import main
from sim2cam.randomize.domain_survey import FactorHistogram
from sim2cam.report.charts import build_binned_chart
from sim2cam.report.domain_survey import write_domain_page

RGB = np.full((8, 8, 3), 90, np.uint8)
NUMBER = FactorHistogram(
    "light", "warmth", "{ kind = \"uniform\" }", (-1.0, 1.0), 10, (6, 4), (5.0, 5.0), (-1.0, 0.0, 1.0)
)  # fmt: skip
WORD = FactorHistogram(
    "layout", "surface", "<i>word</i>", ("table", "mat"), 5, (2, 3), None, options=("table", "mat")
)
FIXED = FactorHistogram("layout", "wall_m", "0.02", (0.02,), 5, (5,), (5.0,), (0.0, 1.0))


def test_the_page_shows_charts_images_and_fixed_factors(tmp_path, read_page):
    images = {("light", "warmth"): [("-1", RGB), ("1", RGB)]}
    write_domain_page("<b>x", 5, [NUMBER, WORD, FIXED], images, tmp_path / "p.html")
    page = read_page(tmp_path / "p.html")
    assert len(page.all("img")) == 2
    assert len(page.all("svg")) == 2
    assert "Fixed wall_m 0.02" in " ".join(page.text.split())
    assert "<b>x: sampled factors" in page.text
    assert "<i>word</i>" in page.text
    assert not page.all("i")
    lines = [path for path in page.all("path") if "stroke: var(--c1)" in path["style"]]
    assert len(lines) == 1  # expected counts
    assert all(address.startswith(("data:", "#")) for address in page.addresses())


def test_a_factor_that_was_not_sampled(tmp_path, read_page):
    none = replace(NUMBER, count=0, observed=(0, 0), expected=(0.0, 0.0))
    write_domain_page("x", 5, [none], {}, tmp_path / "p.html")
    assert "Not sampled in these scenes." in read_page(tmp_path / "p.html").text


def find_paths(chart, style):
    paths = re.findall(rf'd="M ([^"]*)"[^>]*style="{style}', chart.svg)
    return [[tuple(map(float, p.split())) for p in path.strip("z ").split("L")] for path in paths]


def test_observed_and_expected_counts_share_one_axis():
    chart = build_binned_chart("t", (0.0, 1.0, 2.0), (8, 4), (6.0, 6.0))
    (bars,) = find_paths(chart, r"fill: var\(--c0\)")
    (line,) = find_paths(chart, r"fill: none; stroke: var\(--c1\)")
    high, low, ground = sorted({y for _, y in bars})
    assert ground - high == pytest.approx(2 * (ground - low))
    (level,) = {y for _, y in line if y != ground}
    assert level == pytest.approx((high + low) / 2, abs=0.1)
    assert not find_paths(
        build_binned_chart("t", (0.0, 1.0), (8,)), r"fill: none; stroke: var\(--c1\)"
    )


RECIPE = """
base = "dice-fixed"
name = "few"
[domain.layout]
die_count = 2
[domain.exposure]
exposure_ev = { kind = "uniform", low = -1.0, high = 0.5 }
"""


def test_the_command_writes_it(tmp_path, capsys):
    (tmp_path / "r.toml").write_text(RECIPE)
    out = tmp_path / "p.html"
    show = ["domain", "show", str(tmp_path / "r.toml"), "--out", str(out), "--count", "2"]
    assert main([*show, "--images", "exposure", "--json"]) == 0
    assert out.read_text().count("data:image/jpeg") == 2
    assert '"page": ' in capsys.readouterr().out
    assert main([*show, "--images", "none", "--overwrite"]) == 0
    assert "data:image/jpeg" not in out.read_text()
    assert main([*show, "--images", "ligth", "--overwrite"]) == 2
    assert "--images: unknown group 'ligth'. Did you mean 'light'?" in capsys.readouterr().err
    assert main([*show, "--count", "0"]) == 2
