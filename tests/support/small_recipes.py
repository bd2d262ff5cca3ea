"""Recipes that simulate and render fast: two dice without distractors, in small images."""

from dataclasses import replace

from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant

FEW_BODIES = {"layout/die_count": Constant(2), "layout/distractor_count": Constant(0)}
PLAIN = load_recipe("dice")
TWO_DICE = replace(
    PLAIN,
    domain=PLAIN.domain.replace_factors(FEW_BODIES),
    render=replace(PLAIN.render, width=96, height=80, views=2),
)
TWO_DICE_TOML = """base = "dice"
[domain.layout]
die_count = 2
distractor_count = 0
[render]
width = 96
height = 80
views = 2
"""
"""``TWO_DICE`` as a file."""
