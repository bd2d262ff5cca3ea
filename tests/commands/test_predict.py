import functools
import json
import re
import threading
from dataclasses import asdict, replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
import pytest
import torch
import trimesh

import sim2cam
from sim2cam import images
from sim2cam.adapt.calibration.camera_fit import CameraFit, write_camera
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.cli import main
from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.data.photo_folder import scan_photo_folder
from sim2cam.errors import RepairWarning
from sim2cam.files import write_bytes
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.network.roi_classifier import SURFACE_BINS, SurfaceHead, SurfaceMaps

WEIGHTS = str(SHIPPED_WEIGHTS / "dice.safetensors")


@pytest.fixture(scope="module")
def photo():
    """Something for a detector to look at."""
    rng = np.random.default_rng(0)
    return cv2.resize(rng.integers(0, 256, (12, 16, 3), np.uint8), (128, 96))


@pytest.fixture
def photos(photo, tmp_path):
    folder = tmp_path / "photos"
    for name in ("a.jpg", "b.jpg"):
        write_bytes(folder / name, images.encode_jpeg(photo, 90))
    write_bytes(folder / "a.png", images.encode_png(photo))
    return folder


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def predict(*arguments):
    return main(["predict", WEIGHTS, *map(str, arguments), "--workers", "1", "-q"])


def test_each_picture_has_a_line_and_a_drawing(photos, tmp_path, capsys):
    out = tmp_path / "drawn"
    assert predict(photos, "--min-score", "0.05", "--out", out) == 0
    found = lines(capsys)
    assert [line["image"] for line in found] == ["a.jpg", "a.png", "b.jpg"]
    for detection in (d for line in found for d in line["detections"]):
        assert set(detection) == {"category", "box_xyxy", "score"}
        assert detection["box_xyxy"] == [round(side, 2) for side in detection["box_xyxy"]]
        assert 0.05 <= detection["score"] <= 1
    assert sorted(p.name for p in out.iterdir()) == ["a.jpg", "a.png.jpg", "b.jpg"]
    assert images.read_size(out / "a.jpg") == (960, 720)  # large enough for text


def test_what_is_less_sure_is_left_out(photos, capsys):
    assert predict(photos / "a.jpg", "--min-score", "1") == 0
    (line,) = lines(capsys)
    assert (line["image"], line["detections"]) == ("a.jpg", [])


def test_a_picture_that_cannot_be_read_is_left_out_and_told(photos, capsys):
    whole = (photos / "a.png").read_bytes()
    (photos / "a.png").write_bytes(whole[: len(whole) // 2])
    assert main(["predict", WEIGHTS, str(photos), "--workers", "1"]) == 1
    told = capsys.readouterr()
    assert [json.loads(line)["image"] for line in told.out.splitlines()] == ["a.jpg", "b.jpg"]
    first, *_, last = told.err.splitlines()
    assert first.startswith(f"{photos}/a.png: damaged image (")
    assert last == (
        f"sim2cam: {photos}: 1 images cannot be read and are skipped, such as a.png. Copy them again."
    )
    assert predict(photos / "a.png") == 1
    assert f"sim2cam: {photos}/a.png: damaged image (" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "pseudo-label"])
def test_pictures_of_formats_that_are_not_read_are_told(command, photos, tmp_path):
    (photos / "b.HEIC").write_bytes(b"heic")
    (photos / "c.gif").write_bytes(b"gif")
    (photos / "._b.HEIC").write_bytes(b"what macOS keeps beside it")
    flags = ["--out", str(tmp_path / "told"), "--workers", "1"]
    words = f"{photos}: images in unsupported formats are left out: 2 (first: b.HEIC). Convert them to one of {images.FORMAT_NAMES}."
    with pytest.warns(RepairWarning, match=re.escape(words)):
        assert main([command, "dice", str(photos), *flags]) == 0
    (photos / "b.HEIC").unlink()
    (photos / "c.gif").unlink()
    assert scan_photo_folder(photos).list_warnings() == []


def film(path, photo):
    """A video of five frames in which a picture moves."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (128, 96))
    for shift in range(5):
        writer.write(np.roll(photo[..., ::-1], shift, axis=1))
    writer.release()
    return path


def test_videos_are_read_frame_by_frame(photo, tmp_path, capsys):
    path = film(tmp_path / "film.avi", photo)
    frames = list(images.read_video(path))
    assert len(frames) == 5
    assert np.abs(frames[0].astype(float) - photo).mean() < 12  # RGB, but for JPEG's loss
    assert predict(path, "--limit", "3") == 0
    assert [line["image"] for line in lines(capsys)] == ["000000", "000001", "000002"]


def test_a_folder_that_holds_something_is_left_alone(photos, capsys):
    before = (photos / "a.jpg").read_bytes()
    assert predict(photos, "--out", photos) == 1
    assert "is not empty. Choose another --out, or add --overwrite." in capsys.readouterr().err
    assert (photos / "a.jpg").read_bytes() == before


CAMERA = CameraFit(
    "some phone", 128, 96, 20, 20, (),
    lens=FittedLens("brown_conrady", ("fx_px", "fy_px", "cx_px", "cy_px"), (120.0, 121.0, 63.0, 47.0),
                    ((0.0,) * 4,) * 4, 0.1, {}, {}, 1.0),
)  # fmt: skip


def one_side(_head, features, categories):
    """Says that close-ups show one side of an object in their middle, from straight before it."""
    cells = features.shape[-1]
    across = ((torch.arange(cells) + 0.5) / cells * 2 - 1).expand(len(categories), cells, cells)
    down = across.transpose(1, 2)
    points = torch.stack([across, down, -torch.ones_like(across)], 1)
    place = (points + 1) / 2 * (SURFACE_BINS - 1)
    away = (place[:, :, None] - torch.arange(SURFACE_BINS)[:, None, None]).abs()
    shown = 4 * (torch.maximum(across.abs(), down.abs()) < 0.7) - 2.0
    return SurfaceMaps(shown, (1 - away).clamp(min=1e-6).log())


@pytest.fixture
def posed(tmp_path, monkeypatch):
    """Weights of a detector that was never trained and finds poses everywhere."""
    monkeypatch.setattr(SurfaceHead, "forward", one_side)
    network = DetectorNetwork("nano", 1, torch.Generator().manual_seed(0), poses=True)
    with torch.no_grad():
        network.box_head[1].bias[0] = 4.0
    known = ObjectGeometry(((-0.02, -0.02, -0.02), (0.02, 0.02, 0.02)))
    card = DetectorCard("nano", ("cube",), 0, {}, (), objects={"cube": known})
    path = tmp_path / "posed.safetensors"
    save_detector(path, network.state_dict(), card)
    return path


def test_poses_come_with_a_camera(posed, photos, tmp_path, capsys):
    write_camera(tmp_path / "camera.json", CAMERA)
    command = ["predict", str(posed), str(photos), "--min-score=0", "--limit=1", "--workers=1"]
    assert main([*command, "--camera", str(tmp_path / "camera.json")]) == 0
    told = capsys.readouterr()
    assert "1 images; out-of-distribution: not measured" in told.err.splitlines()
    (line,) = map(json.loads, told.out.splitlines())
    poses = [detection["pose"] for detection in line["detections"]]
    found = [pose for pose in poses if pose is not None]
    assert found
    assert all(set(pose) == {"rotation_wxyz", "position_m"} for pose in found)
    assert all(pose["position_m"][2] > 0 for pose in found)
    turns = [2 * np.arccos(min(abs(pose["rotation_wxyz"][0]), 1.0)) for pose in found]
    assert np.median(turns) < 0.1  # but that pixels of this camera are not quite square
    assert main(command) == 0
    told = capsys.readouterr()
    assert (
        "1 images; out-of-distribution: not measured\n"
        "1 images have no poses, because their lens is unknown. Give it with --camera.\n"
    ) in told.err
    bare = [{k: v for k, v in d.items() if k != "pose"} for d in line["detections"]]
    assert json.loads(told.out)["detections"] == bare


def test_python_predicts_the_poses_of_the_command(posed, photos, tmp_path, capsys):
    write_camera(tmp_path / "camera.json", CAMERA)
    command = ["predict", str(posed), str(photos / "a.png"), "--min-score=0", "--workers=1"]
    assert main([*command, "--camera", str(tmp_path / "camera.json")]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    model = sim2cam.load(posed)
    result = model.predict(str(photos / "a.png"), min_score=0.0, lens=CAMERA.lens.to_lens())
    poses = json.loads(json.dumps([pose and asdict(pose) for pose in result.poses]))
    assert any(poses)
    assert poses == [detection["pose"] for detection in line["detections"]]
    assert [corners is None for corners in result.cuboids_px] == [not pose for pose in poses]
    without = model.predict(photos / "a.png", min_score=0.0)
    assert (without.poses, without.cuboids_px) == (None, None)
    assert not np.array_equal(result.plot(), without.plot())


def test_poses_are_brought_to_outlines_of_meshes(posed, photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    write_camera(tmp_path / "camera.json", CAMERA)
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    trimesh.creation.box((0.04, 0.04, 0.04)).export(meshes / "cube.ply")
    asked = []

    def refined_pose(rgb, lens, pose, surface, triangles_m):
        assert rgb.shape == (96, 128, 3)
        assert np.abs(triangles_m).max() == pytest.approx(0.02)
        asked.append(pose)
        return replace(pose, position_m=(0.0, 0.0, float(len(asked))))

    monkeypatch.setattr("sim2cam.models.inference.poses.refine_pose", refined_pose)
    command = ["predict", str(posed), str(photos), "--min-score=0", "--limit=1", "--workers=1"]
    command += ["--refine", str(meshes)]
    assert main([*command, "--camera", str(tmp_path / "camera.json")]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    poses = [detection["pose"] for detection in line["detections"] if detection["pose"]]
    assert asked
    assert [pose["position_m"][2] for pose in poses] == list(range(1, len(asked) + 1))
    assert predict(photos, "--refine", meshes) == 2
    assert "the weights predict no poses. Train with poses = true" in capsys.readouterr().err


def test_keypoints_and_masks_are_told_and_drawn(photos, tmp_path, capsys):
    network = DetectorNetwork(
        "nano", 1, torch.Generator().manual_seed(0), n_keypoints=2, masks=True
    )
    with torch.no_grad():
        network.box_head[1].bias[0] = 4.0
        network.mask_head[1].bias[1] = 4.0
    card = DetectorCard("nano", ("cup",), 0, {}, (), keypoints={"cup": ("rim", "foot")}, masks=True)
    save_detector(tmp_path / "shaped.safetensors", network.state_dict(), card)
    command = ["predict", str(tmp_path / "shaped.safetensors"), str(photos), "--limit", "1"]
    assert main([*command, "--min-score", "0", "--out", str(tmp_path / "drawn"), "-q"]) == 0
    (line,) = lines(capsys)
    assert line["detections"]
    for detection in line["detections"]:
        assert [point["name"] for point in detection["keypoints"]] == ["rim", "foot"]
        assert all(0 <= point["visibility_score"] <= 1 for point in detection["keypoints"])
        assert detection["mask"]["size"] == [96, 128]
    assert line["category_masks"]["cup"]["size"] == [96, 128]
    drawn, plain = (
        images.read_rgb(path) for path in (tmp_path / "drawn" / "a.jpg", photos / "a.jpg")
    )
    assert drawn.shape == (720, 960, 3)
    enlarged = cv2.resize(plain, (960, 720), interpolation=cv2.INTER_CUBIC)
    assert (np.abs(drawn.astype(int) - enlarged).max(axis=2) > 20).mean() > 0.5  # the tint of masks


def test_cameras_that_cannot_have_taken_the_pictures(posed, photos, tmp_path, capsys):
    path = tmp_path / "camera.json"
    for fit, text in (
        (replace(CAMERA, lens=None), "has no lens: no board was detected. Calibrate with photos of a "
         "chessboard."),
        (replace(CAMERA, width=640), "has an image size of 640x96, but a.jpg has 128x96. Use the file "
         "of the camera that took the image, at full size."),
    ):  # fmt: skip
        write_camera(path, fit)
        assert main(["predict", str(posed), str(photos), "--camera", str(path)]) == 1
        assert f"{path}: {text}" in capsys.readouterr().err
    assert predict(photos, "--camera", path) == 2
    assert "the weights predict no poses. Train with poses = true" in capsys.readouterr().err


def test_cameras_of_other_tools_place_objects_as_ours_do(posed, photos, tmp_path, capsys):
    write_camera(tmp_path / "camera.json", CAMERA)
    (tmp_path / "camera.yml").write_text(
        "{image_width: 128, image_height: 96, camera_matrix: {data: [120, 0, 63, 0, 121, 47, 0, 0, 1]}, "
        "distortion_coefficients: {data: [0, 0, 0, 0]}}"
    )
    one = (
        "{camera_model: pinhole, distortion_model: none, intrinsics: [120, 121, 63, 47], "
        "resolution: [128, 96]}"
    )
    (tmp_path / "two.yaml").write_text(f"cam0: {one}\ncam1: {one}\n")
    command = ["predict", str(posed), str(photos), "--min-score=0", "--limit=1", "--workers=1"]
    said = []
    for name in ("camera.json", "camera.yml"):
        assert main([*command, "--camera", str(tmp_path / name)]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert '"position_m"' in said[0]
    assert main([*command, "--camera", str(tmp_path / "two.yaml")]) == 1
    assert (
        f"{tmp_path / 'two.yaml'}: contains 2 cameras. Give a file with one camera."
        in capsys.readouterr().err
    )


def test_cameras_are_watched_by_their_number(photo, monkeypatch, capsys):
    class Camera:
        """A camera that is unplugged after three frames."""

        def __init__(self, number):
            assert number == 7
            self.left = 3

        def get(self, _what):
            return 1.0

        def read(self):
            self.left -= 1
            return self.left >= 0, photo[..., ::-1].copy()

        def release(self):
            self.left = None

    monkeypatch.setattr(cv2, "VideoCapture", Camera)
    assert predict("7") == 0
    assert [line["image"] for line in lines(capsys)] == ["000000", "000001", "000002"]


def test_cameras_are_watched_by_their_address(photo, tmp_path, capsys):
    film(tmp_path / "film.avi", photo)
    serve = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        assert predict(f"{address}/film.avi", "--limit", "2") == 0
        assert [line["image"] for line in lines(capsys)] == ["000000", "000001"]
        assert predict(f"{address}/nothing.avi") == 1
        server.shutdown()
    assert "/nothing.avi: not a stream that OpenCV can read. Check it." in capsys.readouterr().err


BAD = [
    (("nowhere",), 1, "no such file"),
    (("film.mp4",), 1, "film.mp4: no such file or folder. Check the path."),
    (("broken.mp4",), 1, "broken.mp4: not a video that OpenCV can read. Check it."),
    (("film.wmv",), 1, "film.wmv: is not a folder of images (.jpg, .jpeg, .jfif, .png, .bmp, .tif, "
     ".tiff, .webp, .ppm, .pgm, .tga, .jp2), a video (.mp4, .mov, .avi, .mkv, .webm, .m4v) or a COCO file (.json). Convert it, or give "
     "its folder."),
    (("99",), 1, "camera 99: no such camera, or it is used by another program. Check it."),
    (("broken.mp4", "--min-score", "1.5"), 2, "--min-score must be 0 to 1, not 1.5"),
    (("broken.mp4", "--limit", "0"), 2, "--limit must be 1 or more, not 0"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "message"), BAD)
def test_bad_input(arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    (tmp_path / "film.wmv").write_bytes(b"\x30\x26\xb2\x75")
    assert predict(*arguments) == code
    assert message in capsys.readouterr().err


def test_captures_are_labelled_by_weights_that_ship(photos, tmp_path, capsys):
    out = tmp_path / "told"
    command = ["pseudo-label", "dice", str(photos), "--out", str(out), "--workers", "1"]
    assert main([*command, "--min-score", "0.2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    file = json.loads((out / "train.json").read_text())
    assert told["labels"] == str(out / "train.json")
    assert told["images"] == len(file["images"]) == 3
    assert {image["origin"] for image in file["images"]} == {"pseudo-labelled"}
    assert told["confident"] + told["uncertain"] == len(file["annotations"])
    assert told["uncertain"] == sum(one["iscrowd"] for one in file["annotations"])
    assert main([*command, "-q"]) == 1
    assert "is not empty. Choose another --out, or add --overwrite." in capsys.readouterr().err


def test_labels_of_nothing_are_told(photos, tmp_path, capsys):
    command = ["pseudo-label", "dice", str(photos), "--out", str(tmp_path / "told"), "--workers=1"]
    assert main([*command, "--min-score", "1"]) == 0
    assert (
        "warning: dice detects no object with confidence, so these images cannot be trained on alone. "
        "Lower --min-score, or use other weights.\n"
    ) in capsys.readouterr().err


def test_a_score_that_labels_nothing_is_refused(photos, tmp_path, capsys):
    out = str(tmp_path / "told")
    assert main(["pseudo-label", "dice", str(photos), "--out", out, "--min-score", "0.05"]) == 2
    assert "--min-score must be 0.1 to 1, not 0.05" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["pseudo-label", "bench"])
def test_a_picture_that_is_cut_short_is_told_before_others_are_looked_at(
    command, photos, tmp_path, monkeypatch, capsys
):
    last = max(photos.iterdir())
    last.write_bytes(last.read_bytes()[:-200])
    monkeypatch.setattr(
        "sim2cam.models.inference.detector.predict_image", lambda *_, **__: pytest.fail("too early")
    )
    flags = {
        "pseudo-label": [str(photos), "--out", str(tmp_path / "told")],
        "bench": ["--captures", str(photos)],
    }
    assert main([command, "dice", *flags[command], "--workers", "1"]) == 1
    assert last.name in capsys.readouterr().err
    assert not (tmp_path / "told").exists()
