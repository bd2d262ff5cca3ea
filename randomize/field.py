"""Soccer field from sampled factors: lines, goals, and the hall around them."""

from __future__ import annotations

import math
from dataclasses import replace

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.field_lines import FieldLines
from sim2cam.objects.goal_frame import GoalFrame
from sim2cam.objects.hall import Hall
from sim2cam.objects.kind import compute_yaw_rotation
from sim2cam.objects.primitives import Cuboid
from sim2cam.randomize.factors import GOALPOST, FieldFactors, HallFactors
from sim2cam.randomize.materials import make_material
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import Shape

_LINE_HEIGHT_M = 0.003  # above the ground, which would hide lines at the same height


def make_field(factors: FactorValues) -> list[Body]:
    """Return lines, goals and hall; the posts of the goals are labelled."""
    field, hall = factors.read(FieldFactors, "field"), factors.read(HallFactors, "hall")
    frame = Pose(compute_yaw_rotation(field.yaw_rad), (field.x_m, field.y_m, 0.0))
    paint = make_material(factors, "mat")
    sides = field.length_m + 2 * field.margin_m, field.width_m + 2 * field.margin_m
    room = Hall(
        (*sides, hall.height_m),
        hall.board_m,
        hall.posters,
        hall.people,
        hall.lamps,
        hall.lamp_level,
        hall.ceiling,
        hall.seed,
    )
    walls = replace(make_material(factors, "wall"), emission=hall.brightness * hall.lamp_level)
    lines = FieldLines(
        field.length_m,
        field.width_m,
        field.line_m,
        field.circle_m,
        ((field.area_m, field.area_width_m), (0.4 * field.area_m, 0.6 * field.area_width_m)),
        field.corner_m,
    )
    return [
        Body("hall", room, walls, frame, is_fixed=True),
        Body(
            "lines",
            lines,
            paint,
            frame @ Pose(position_m=(0.0, 0.0, _LINE_HEIGHT_M)),
            is_fixed=True,
        ),
        *_make_goal(field, 0, frame, factors),
        *_make_goal(field, 1, frame @ Pose(compute_yaw_rotation(math.pi)), factors),
    ]


def _make_goal(field: FieldFactors, number: int, frame: Pose, factors: FactorValues) -> list[Body]:
    """Return two labelled posts and the rest of a goal at the positive end of a field."""
    paint, post = make_material(factors, "mat"), field.post_m
    height = field.goal_height_m + post

    def place(name: str, shape: Shape, position: Vec3) -> Body:
        pose = frame @ Pose(position_m=(field.length_m / 2 + position[0], *position[1:]))
        return Body(name, shape, paint, pose, is_fixed=True)

    goal = GoalFrame(
        field.goal_width_m,
        field.goal_height_m,
        field.goal_depth_m,
        post,
        field.goal_board_m,
        field.net_m,
        field.strand_m,
    )
    posts = []
    for side in (0, 1):
        across = (2 * side - 1) * (field.goal_width_m + post) / 2
        body = place(
            f"post/{2 * number + side}",
            Cuboid((post, post, height)),
            (post / 2, across, height / 2),
        )
        posts.append(replace(body, is_target=True, category=GOALPOST))
    return [place(f"goal/{number}", goal, (0.0, 0.0, 0.0)), *posts]
