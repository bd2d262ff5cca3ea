"""Cards and packages that are printed with a user's pictures."""

from dataclasses import replace

import numpy as np
import pytest
from solids import EXAMPLES, LABEL

from sim2cam.errors import InputError, RecipeError
from sim2cam.files import write_bytes
from sim2cam.images import compute_digest, encode_png
from sim2cam.objects.card import Card
from sim2cam.objects.tin import Tin
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.scene import Scene

CARD = EXAMPLES["card"]


def picture(path, low):
    """A picture that is green above and blue below, with a red of its own."""
    rgb = np.full((40, 30, 3), (low, 200, 0), np.uint8)
    rgb[20:] = (low, 0, 200)
    write_bytes(path, encode_png(rgb))
    return ImageFile(str(path), compute_digest(path))


@pytest.fixture
def file(tmp_path):
    return picture(tmp_path / "front.png", 10)


def shows(panel):
    """Whether a panel is the picture, the right way up."""
    upper, lower = (panel[rows].reshape(-1, 3).astype(int) for rows in (np.s_[:100], np.s_[-100:]))
    return np.ptp(upper, axis=0).max() <= 2 and upper[0, 1] > 190 and lower[-1, 2] > 190


@pytest.fixture
def packages(file):
    label = replace(LABEL, image=file)
    return [replace(EXAMPLES[kind], label=label) for kind in ("tin", "carton", "sheet")]


def test_a_card_has_its_images_the_right_way_up(make, file):
    texture = make.plain(make.GREY).texture
    plain, faced, backed = (
        np.split(card.render_maps(texture)[0], 2, axis=1)
        for card in (CARD, replace(CARD, face_image=file), replace(CARD, back_image=file))
    )
    assert shows(faced[0])
    assert np.array_equal(faced[1], plain[1])
    assert np.array_equal(backed[0], plain[0])
    assert shows(backed[1])


def test_fronts_of_packages_and_papers_are_the_image(make, packages):
    texture = make.plain(make.GREY).texture
    tin, carton, sheet = (package.render_maps(texture)[0] for package in packages)
    assert shows(tin[:384, 4:316])
    assert shows(tin[:384, 516:828])
    assert shows(carton[:256, 516:764])
    assert not shows(carton[:256, :256])  # small print stays
    assert shows(sheet[:, :512])
    assert not shows(sheet[:, 512:])


def test_an_image_that_changed_is_refused(make, file, tmp_path):
    picture(tmp_path / "front.png", 20)
    with pytest.raises(InputError, match=r"front\.png"):
        replace(CARD, face_image=file).render_maps(make.plain(make.GREY).texture)


def test_paths_of_printed_images_are_those_of_a_scene(make, file, packages):
    assets = [replace(CARD, face_image=file), *packages]
    bodies = tuple(make.body(asset.kind, asset, (0.0, 0.0, 0.1)) for asset in assets)
    scene = replace(make.scene(), bodies=bodies)
    assert scene.get_file_paths() == (file.path,) * 4
    moved = scene.replace_paths({file.path: "front.png"})
    assert moved.get_file_paths() == ("front.png",) * 4
    assert Scene.from_json(moved.to_json()).replace_paths({"front.png": file.path}) == scene


def recipe(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_recipe(str(path))


def test_cards_are_rendered_with_the_images_of_their_names(tmp_path):
    deck = tmp_path / "deck"
    for name in ("AS", "KD", "back"):
        picture(deck / f"{name}.png", 30)
    faces = '{ kind = "choice", options = ["AS", "KD"] }'
    mine = recipe(
        tmp_path,
        f'base = "cards"\n[pictures]\nfolder = "deck"\n[domain.card]\nface = {faces}\npictured = true\n',
    )
    scene = mine.compose_scene(sample_factors(mine.domain, 1, 0, views=1))
    cards = [body.asset for body in scene.bodies if isinstance(body.asset, Card)]
    assert cards
    for card in cards:
        assert card.face_image.path.endswith(f"{card.face}.png")
        assert card.back_image.path.endswith("back.png")


def test_labels_are_rendered_with_their_images(tmp_path):
    picture(tmp_path / "labels" / "soup.png", 30)
    mine = recipe(
        tmp_path,
        'base = "groceries"\n[pictures]\nfolder = "labels"\n[domain.layout]\ntin_count = 3\n'
        '[domain.tin_label]\npicture = "soup.png"\n',
    )
    scene = mine.compose_scene(sample_factors(mine.domain, 1, 0, views=1))
    tins = [body.asset for body in scene.bodies if isinstance(body.asset, Tin)]
    assert [tin.label.image.path[-8:] for tin in tins] == ["soup.png"] * 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "[domain.card]\nface = 'AS'\npictured = true",
            "'domain.card.pictured': [pictures] lacks AS. Name image files after the faces: AS.jpg.",
        ),
        (
            "[domain.card]\npictured = 2",
            "'domain.card.pictured' cannot be 2. Allowed: true, false.",
        ),
    ],
)
def test_cards_without_their_images_are_refused(tmp_path, lines, message):
    with pytest.raises(RecipeError) as error:
        recipe(tmp_path, f'base = "cards"\n{lines}\n')
    assert message in str(error.value)
