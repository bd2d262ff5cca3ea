"""Environment maps and furniture in packages of Debian and npm."""

import base64
import sys

import numpy as np
import pytest

from sim2cam import images
from sim2cam.assets.package_files import (
    find_furniture_libraries,
    find_panoramas,
)
from sim2cam.errors import InputError

WORLD = "blender/datafiles/studiolights/world"
HDRI = "@pmndrs/assets/hdri"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of unpacked packages, and a function that writes a file into it."""
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "packages"))
    monkeypatch.setenv("NODE_PATH", str(tmp_path / "packages"))

    def write(name, data):
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def encode_exr(tmp_path):
    """A function that encodes channels as OpenEXR, with the compression of the packages."""
    openexr = pytest.importorskip("OpenEXR")

    def encode(**channels):
        header = {"compression": openexr.DWAB_COMPRESSION, "type": openexr.scanlineimage}
        with openexr.File(header, channels) as file:
            file.write(str(tmp_path / "made.exr"))
        return (tmp_path / "made.exr").read_bytes()

    return encode


def test_maps_of_both_packages_are_found_with_their_licences(packages, encode_exr):
    rng = np.random.default_rng(0)
    radiance = rng.uniform(0.2, 3.0, (8, 16, 1)).astype(np.float32) * np.float32([1.0, 0.5, 0.25])
    data = encode_exr(RGB=radiance)
    packages(f"{WORLD}/city.exr", data)
    module = b"export default 'data:application/exr;base64," + base64.b64encode(data) + b"'\n"
    packages(f"{HDRI}/lab.exr.js", module)
    blender, pmndrs = find_panoramas()
    assert (blender.name, pmndrs.name) == ("blender-city", "pmndrs-lab")
    assert (blender.source.source, blender.source.licence) == ("blender-data: city.exr", "CC0-1.0")
    assert pmndrs.source.source == "@pmndrs/assets: lab.exr.js"
    for panorama in (blender, pmndrs):
        read = panorama.read()
        assert read.shape == (8, 16, 3)
        assert read.dtype == np.float32
        assert np.abs(read - radiance).max() < 0.2  # lossy
        assert read.mean(axis=(0, 1)) == pytest.approx(radiance.mean(axis=(0, 1)), rel=0.02)
    stored = packages("sky.hdr", images.encode_radiance(blender.read()))
    assert images.read_linear_rgb(stored) == pytest.approx(blender.read(), rel=0.02, abs=0.02)


def test_no_package_means_no_maps(packages, monkeypatch, tmp_path):
    packages("other.txt", b"")
    monkeypatch.setattr("sim2cam.assets.package_files._NODE_MODULES", ())
    monkeypatch.chdir(tmp_path)
    assert find_panoramas() == ()
    assert find_furniture_libraries() == ()


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (b"export default 'data:image/webp;base64,AAAA'", "holds no OpenEXR image"),
        (b"require('child_process').exec('x')", "holds no OpenEXR image"),
        (b"export default 'data:application/exr;base64,AA*A'", "is damaged"),
    ],
)
def test_modules_of_another_form_are_refused(packages, module, problem):
    packages(f"{HDRI}/lab.exr.js", module)
    (panorama,) = find_panoramas()
    with pytest.raises(InputError, match=rf"lab\.exr\.js: {problem}"):
        panorama.read()


def test_damaged_maps_name_the_file(packages, encode_exr):
    data = encode_exr(RGB=np.ones((8, 16, 3), np.float32))
    for name, broken in (
        ("short.exr", data[: len(data) // 2]),
        ("none.exr", b""),
        ("x.exr", b"x" * 99),
    ):
        path = packages(name, broken)
        with pytest.raises(InputError, match=f"{name}: damaged image"):
            images.read_linear_rgb(path)
    grey = packages("grey.exr", encode_exr(Z=np.ones((8, 16), np.float32)))
    with pytest.raises(InputError, match="has the channels Z, not R, G and B"):
        images.read_linear_rgb(grey)


def test_without_the_package_the_error_says_what_to_install(packages, monkeypatch):
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(InputError, match=r'pip install "sim2cam\[panoramas\]"'):
        images.read_linear_rgb(packages("a.exr", b"v/1\x01"))


def test_furniture_is_found(packages):
    packages("sweethome3d/furniture/B.sh3f", b"")
    packages("sweethome3d/furniture/A.sh3f", b"")
    assert [path.name for path in find_furniture_libraries()] == ["A.sh3f", "B.sh3f"]
