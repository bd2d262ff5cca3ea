import cv2
import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism

SIZE = (640, 480)
LENSES = {
    "pinhole": BrownConrady(500.0, 505.0, 322.0, 236.0),
    "kannala_brandt": KannalaBrandt(230.0, 231.0, 318.0, 242.0, 0.05, -0.02, 0.01, -0.002),
    "brown_conrady": BrownConrady(500.0, 502.0, 322.0, 236.0, -0.2, 0.06, 0.001, -0.0005, -0.01),
    "rational": Rational(500.0, 502.0, 322.0, 236.0, 0.1, -0.05, 0.001, 0.0, 0.01, 0.3, -0.03, 0.0),
    "thin_prism": ThinPrism(
        500.0, 502.0, 322.0, 236.0, 0.1, -0.05, 0.001, 0.0, 0.01, 0.3, -0.03, 0.0, 0.01, 0.0, -0.01, 0.0
    ),
}  # fmt: skip


def see_boards(lens, count, rng, noise_px=0.1):
    """Returns boards of 8 x 5 corners all over the picture, as a lens shows them."""
    grid = np.zeros((40, 3))
    grid[:, :2] = np.mgrid[:8, :5].T.reshape(-1, 2)
    found = []
    while len(found) < count:
        turn = Rotation.from_rotvec(rng.normal(0, 0.4, 3)).as_matrix()
        place = np.array([rng.uniform(-11, 4), rng.uniform(-8, 3), rng.uniform(4, 12)])
        points = grid @ turn.T + place
        if not lens.can_project(points).all():
            continue
        pixels = lens.project(points)
        if (pixels < 0).any() or (pixels > np.array(SIZE) - 1).any():
            continue
        noisy = pixels + rng.normal(0, noise_px, pixels.shape)
        found.append(BoardDetection(f"{len(found):02d}.jpg", grid, noisy, (8, 5)))
    return found


def chessboard_picture(columns=8, rows=6, square=50, margin=60, turn=0.1):
    """Returns a grey picture of a chessboard, turned and seen at a slant, and its inner corners (n, 2)."""
    fine = 4
    cells = np.indices((rows, columns)).sum(axis=0) % 2
    board = np.kron(cells, np.ones((square * fine, square * fine))) * 200 + 30
    board = np.pad(board, margin * fine, constant_values=230).astype(np.uint8)
    height, width = board.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    shift = np.array([[40, 30], [-30, 10], [-10, -20], [20, -40]], np.float32) * turn * 10
    target = corners + shift * fine
    warp = cv2.getPerspectiveTransform(corners, target.astype(np.float32))
    large = cv2.warpPerspective(board, warp, (width, height), borderValue=230)
    picture = cv2.resize(large, None, fx=1 / fine, fy=1 / fine, interpolation=cv2.INTER_AREA)
    picture = cv2.GaussianBlur(picture, (0, 0), 0.8)
    inner = np.indices((rows - 1, columns - 1)).reshape(2, -1)[::-1].T + 1
    places = (inner * square * fine + margin * fine - 0.5).astype(np.float64)
    return picture, (cv2.perspectiveTransform(places[None], warp)[0] + 0.5) / fine - 0.5
