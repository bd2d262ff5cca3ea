"""Factors of scene, light and camera, with their ranges; those of objects are in ``sim2cam.objects``.

Each group is a frozen dataclass whose fields are factors. Groups of the camera are the dataclasses of ``sim2cam.scene``
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from sim2cam.objects.kind import Coordinate, TumblingFactors
from sim2cam.scene.camera import CameraModel, Shutter
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES, StructuredLight
from sim2cam.scene.lens_effects import Dirt, Droplets, Falloff, FieldBlur, Glare, LateralColor
from sim2cam.scene.material import TextureFamily
from sim2cam.scene.package_label import PackageLabelFactors
from sim2cam.scene.parameters import (
    MAX_TEXT_LENGTH,
    Between,
    Fraction,
    NameOf,
    Parameter,
    Positive,
    Printable,
    Seed,
    list_parameters,
)
from sim2cam.scene.sensor import Automatics, Mosaic, Processing, Sensor

MAX_INSTANCES = 128
"""Largest number of objects of one group."""

GOALPOST = "goalpost"
"""Category of the posts of goals."""

Arrangement = Literal["throw", "pile", "stack", "scatter", "placed"]
"""Initial placement of the targets.

``throw``: each above its own position, with the layout's speed and spin. ``pile``: at rest, above each other near the
centre. ``stack``: flat on each other, the largest at the bottom. ``scatter``: flat, side by side where space permits.
``placed``: at rest at ``x_m``, ``y_m`` and ``z_m``. Stacked and scattered objects lie on their lowest side. On a shelf
all objects are scattered, distributed over the boards in turn.
"""

Count = Annotated[int, Between(0, MAX_INSTANCES)]
FewCount = Annotated[int, Between(0, 4)]
ClutterCount = Annotated[int, Between(0, 16)]
DropRadius = Annotated[float, Between(0, 5)]
Level = Annotated[float, Between(0, 1e6)]
Warmth = Annotated[float, Between(-1, 1)]
Temperature = Annotated[float, Between(1500, 20000)]
Elevation = Annotated[float, Between(0, math.pi / 2)]
AssetName = Annotated[str, NameOf("asset")]
ImageName = Annotated[str, NameOf("texture_image")]


@dataclass(frozen=True)
class LayoutFactors:
    """Object counts, supporting surface and initial placement.

    Each group of labelled objects adds its count, as ``die_count``.

    Attributes:
        distractor_count: Number of unlabelled distractors.
        surface: ``table``, ``mat`` (on the table), ``tray`` (with walls), ``bin`` (floor and walls of one material),
            ``shelf`` (boards above each other, open towards -y, with objects on each) or ``field`` (a soccer field in
            a hall, which the groups ``field`` and ``hall`` describe; the ground is the table).
        region_m: Radius of the drop region.
        drop_height_m: Height of the lowest object.
        speed_m_s, spin_rad_s: Initial horizontal velocity and spin.
        surface_side_m: Side of mat, tray, bin or shelf.
        aspect: Second side of the surface over the first.
        wall_m: Height of the walls of a tray or bin; distance between the boards of a shelf.
        object_count: Number of objects from files.
        same_look: Whether all objects of a group share the look of its first one.
        cable_count, paper_count, hand_count: Number of occluders.
        fixture_count: Number of fixed objects.
        decal_count: Number of decals on all objects together.
        shelf_count: Number of shelf boards with objects.
        arrangement: Initial placement of the targets.
    """

    distractor_count: Count
    surface: Literal["table", "mat", "tray", "bin", "shelf", "field"]
    region_m: Positive
    drop_height_m: Annotated[float, Between(0, 2)]
    speed_m_s: float
    spin_rad_s: float
    surface_side_m: Annotated[float, Between(0.02, 5)]
    aspect: Annotated[float, Between(0.05, 20)]
    wall_m: Annotated[float, Between(0.002, 1)]
    object_count: Annotated[int, Between(1, MAX_INSTANCES)] = 0
    same_look: bool = False
    cable_count: ClutterCount = 0
    paper_count: ClutterCount = 0
    hand_count: FewCount = 0
    fixture_count: Annotated[int, Between(1, 16)] = 0
    decal_count: Count = 0
    shelf_count: Annotated[int, Between(1, 8)] = 0
    arrangement: Arrangement = "throw"


@dataclass(frozen=True)
class SurfaceFactors:
    """Surface material: a pattern of two colours (hue, saturation and value).

    Attributes:
        family: Kind of pattern.
        hue, saturation, value: First colour; hues repeat after 1.
        second_hue, second_saturation, second_value: Second colour.
        scale_m: Size of the largest feature of the pattern.
        contrast: 0 for the first colour alone, 1 for the full range to the second.
        sharpness: 0 for soft transitions, 1 for hard edges.
        seed: Seed of the pattern and of the wear.
        roughness: 0.05 (mirror-like) to 1 (matt).
        specular: Reflectance at normal incidence, 0.02 to 0.08 for dielectrics.
        metallic: 0 for dielectrics, 1 for metals, whose colour tints the reflection.
        emission: Emitted radiance over the colour. It does not light other bodies.
        relief: Height of the pattern over its scale.
        material: A family of ``material_families``, whose distributions replace the others of this group, or ``own``
            to keep them.
        dust: Uneven matt grey film.
        scratches: Fine bright lines, mostly in one direction.
        stains: Darker and smoother patches.
        fingerprints: Greasy prints, visible on glossy surfaces.
        edges: Pale and matt edges; for dice, boards, cards, tins, cartons and sheets.
        picture: Name of an image in the recipe's ``[pictures]``, which replaces colours and pattern, or ``none``.
        picture_m: Width of images that do not define one. On tables, an image wider than 0.5 m is centred and
            continued by its mirror images.
    """

    family: TextureFamily
    hue: float
    saturation: Fraction
    value: Fraction
    second_hue: float
    second_saturation: Fraction
    second_value: Fraction
    scale_m: Annotated[float, Between(1e-4, 10)]
    contrast: Fraction
    sharpness: Fraction
    roughness: Annotated[float, Between(0.02, 1)]
    specular: Annotated[float, Between(0, 0.2)]
    seed: Seed
    material: Annotated[str, NameOf("material")] | None = None
    metallic: Fraction = 0.0
    emission: Annotated[float, Between(0, 1000)] = 0.0
    relief: Annotated[float, Between(0, 0.5)] = 0.0
    dust: Fraction = 0.0
    scratches: Fraction = 0.0
    stains: Fraction = 0.0
    fingerprints: Fraction = 0.0
    edges: Fraction = 0.0
    picture: ImageName | None = None
    picture_m: Annotated[float, Between(0.005, 10)] = 0.3


@dataclass(frozen=True)
class FileObjectFactors(TumblingFactors):
    """One object of the recipe's ``[assets]``.

    Attributes:
        mass_share, friction_share, restitution_share: Position within the range that the asset defines.
        asset: Name of the asset, as listed by ``sim2cam assets``; by default all with equal probability.
        joints: Position of each joint, by name, from its lower (0) to its upper limit (1); by default uniform.
    """

    mass_share: Fraction
    friction_share: Fraction
    restitution_share: Fraction
    asset: AssetName = ""
    joints: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class FixtureFactors:
    """One fixed object of the recipe's ``[assets]``, such as a robot or furniture.

    Attributes:
        x_m, y_m, z_m: Position of its origin relative to the centre of the table.
        yaw_rad: Rotation about the vertical.
        labelled: Whether it is a labelled target.
        friction_share: Position within the range that the asset defines.
        asset: Name of the asset, as listed by ``sim2cam assets``; by default all with equal probability.
        joints: Position of each joint, by name, from its lower (0) to its upper limit (1); by default uniform.
    """

    x_m: Coordinate
    y_m: Coordinate
    z_m: Coordinate
    yaw_rad: float
    labelled: bool
    friction_share: Fraction
    asset: AssetName = ""
    joints: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class DistractorFactors:
    """One unlabelled distractor.

    Attributes:
        shape: Shape; an ``asset`` has its own size.
        size_m: Longest side.
        flatness: Height over the longest side.
        slimness: Second side over the longest.
        radius, angle_rad: Drop position, polar; radius over ``layout.region_m``.
        yaw_rad: Rotation about the vertical.
        asset: Name of one of the recipe's ``[assets.clutter]``; by default all with equal probability.
    """

    shape: Literal["box", "cylinder", "sphere", "asset"]
    size_m: Annotated[float, Between(0.002, 0.5)]
    flatness: Annotated[float, Between(0, 5)]
    slimness: Annotated[float, Between(0.02, 5)]
    radius: float
    angle_rad: float
    yaw_rad: float
    asset: AssetName = ""


@dataclass(frozen=True)
class CableFactors:
    """One cable among the objects.

    Attributes:
        radius_m, length_m: Radius and length.
        sway_rad, ripple_rad: Amplitudes of its direction: one wave, and one of three times its frequency.
        phase_rad: Phase of both waves at its start.
        radius, angle_rad: Position of its centre, polar; radius over ``layout.region_m``.
        yaw_rad: Rotation about the vertical.
    """

    radius_m: Annotated[float, Between(5e-4, 0.02)]
    length_m: Annotated[float, Between(0.02, 3)]
    sway_rad: Annotated[float, Between(0, 2)]
    ripple_rad: Fraction
    phase_rad: float
    radius: DropRadius
    angle_rad: float
    yaw_rad: float


@dataclass(frozen=True)
class PaperFactors:
    """One rigid sheet of paper dropped on the objects.

    Attributes:
        width_m, thickness_m: Width and thickness.
        aspect: Height over width.
        heading: Text of the heading.
        radius, angle_rad: Drop position of its centre, polar; radius over ``layout.region_m``.
        yaw_rad: Rotation about the vertical.
    """

    width_m: Annotated[float, Between(0.01, 1)]
    aspect: Annotated[float, Between(0.05, 20)]
    thickness_m: Annotated[float, Between(2e-4, 0.1)]
    heading: Annotated[str, Printable()]
    radius: DropRadius
    angle_rad: float
    yaw_rad: float


@dataclass(frozen=True)
class HandFactors:
    """One hand held over the objects; see ``scene.scene.Body.arrives_last``.

    Attributes:
        length_m: From the wrist to the tip of the middle finger.
        curl_rad: Bend of each finger at its knuckle.
        spread_rad: Angle of the outer fingers to the middle.
        pointing: Whether only the index finger is straight.
        left: Whether it is a left hand.
        height_m: Height of its lowest point above the table.
        radius, angle_rad: Point under its fingers, polar; radius over ``layout.region_m``.
        azimuth_rad: Direction in which it points.
        pitch_rad: Downward angle.
        roll_rad: Rotation about the arm, 0 with the palm down.
    """

    length_m: Annotated[float, Between(0.05, 0.3)]
    curl_rad: Annotated[float, Between(0, 1.2)]
    spread_rad: Annotated[float, Between(0, 0.4)]
    pointing: bool
    left: bool
    height_m: Annotated[float, Between(0.002, 1)]
    radius: DropRadius
    angle_rad: float
    azimuth_rad: float
    pitch_rad: Annotated[float, Between(-0.2, 1.5)]
    roll_rad: float


@dataclass(frozen=True)
class DecalFactors:
    """One sticker or line of print on a surface of the scene; see ``scene.decal.Decal``.

    Attributes:
        on: Target: a group of objects whose sides take decals, ``paper``, ``mat`` (also the floor of a tray or bin)
            or ``table`` (within 0.5 m). Scenes without the target get no decal.
        which, side: Target instance and its side, from 0 (first) to 1 (last).
        x, y: Position on that side, from 0 (left or upper edge) to 1.
        width_m: Width; reduced where it does not fit.
        angle_rad: Rotation on the side.
        wear: Fraction that has come off, starting at the edges.
        seed: Seed of the wear and of random text.
        backed: Whether letters have a background, as on stickers.
        letter_hue, letter_saturation, letter_value: Colour of the letters.
        ground_hue, ground_saturation, ground_value: Colour of the background.
        text: Text; by default random characters.
        length: Number of random characters.
        picture: Name of an image in the recipe's ``[pictures]``, which replaces the text, or ``none``.
    """

    on: Annotated[str, NameOf("decal_target")]
    which: Fraction
    side: Fraction
    x: Fraction
    y: Fraction
    width_m: Annotated[float, Between(0.001, 1)]
    angle_rad: float
    wear: Fraction
    seed: Seed
    backed: bool
    letter_hue: float
    letter_saturation: Fraction
    letter_value: Fraction
    ground_hue: float
    ground_saturation: Fraction
    ground_value: Fraction
    text: Annotated[str, Printable()] | None = None
    length: Annotated[int, Between(1, MAX_TEXT_LENGTH)] = 8
    picture: ImageName | None = None


@dataclass(frozen=True)
class FieldFactors:
    """A soccer field with two goals; lines and goals have the material of ``mat``.

    Attributes:
        length_m, width_m: Sides of the field.
        x_m, y_m, yaw_rad: Position of its centre, and direction of its length.
        margin_m: Distance of the walls of the hall from the lines.
        line_m: Width of the lines.
        circle_m: Radius of the centre circle.
        area_m, area_width_m: Depth and width of the penalty areas; the goal areas are smaller by 0.4 and 0.6.
        corner_m: Radius of the corner arcs.
        goal_width_m, goal_height_m: Opening of the goals.
        goal_depth_m: Depth of the goals at the ground.
        post_m: Side of the square posts and crossbars.
        goal_board_m: Height of the boards around the base of the goals.
        net_m, strand_m: Distance and width of the strands of the nets.
    """

    length_m: Annotated[float, Between(2, 40)]
    width_m: Annotated[float, Between(2, 40)]
    x_m: Annotated[float, Between(-40, 40)]
    y_m: Annotated[float, Between(-40, 40)]
    yaw_rad: float
    margin_m: Annotated[float, Between(0.3, 20)]
    line_m: Annotated[float, Between(0.01, 0.3)]
    circle_m: Annotated[float, Between(0.3, 5)]
    area_m: Annotated[float, Between(0.3, 10)]
    area_width_m: Annotated[float, Between(0.5, 20)]
    corner_m: Annotated[float, Between(0.2, 3)]
    goal_width_m: Annotated[float, Between(0.3, 10)]
    goal_height_m: Annotated[float, Between(0.2, 4)]
    goal_depth_m: Annotated[float, Between(0.1, 3)]
    post_m: Annotated[float, Between(0.01, 0.3)]
    goal_board_m: Annotated[float, Between(0.01, 1)]
    net_m: Annotated[float, Between(0.03, 1)]
    strand_m: Annotated[float, Between(0.001, 0.05)]


@dataclass(frozen=True)
class HallFactors:
    """Walls and ceiling around a field, with the material of ``wall``; see ``objects.hall``.

    Attributes:
        height_m: Height.
        board_m: Height of the white boards around the floor; 0 for none.
        posters: Number of posters per wall.
        people: People per metre of wall.
        lamps: Lamps along the length of the ceiling.
        lamp_level: Radiance of lamps over that of a white wall.
        brightness: Radiance of a white wall without the lights of the scene.
        ceiling: Brightness of the ceiling over that of the walls.
        seed: Seed of everything on walls and ceiling.
    """

    height_m: Annotated[float, Between(2, 30)]
    board_m: Annotated[float, Between(0, 5)]
    posters: Annotated[int, Between(0, 50)]
    people: Annotated[float, Between(0, 10)]
    lamps: Annotated[int, Between(0, 20)]
    lamp_level: Annotated[float, Between(1, 200)]
    brightness: Annotated[float, Between(0, 1000)]
    ceiling: Annotated[float, Between(0, 2)]
    seed: Seed


@dataclass(frozen=True)
class BackgroundImageFactors:
    """An upright photo behind the scene, lit like all surfaces and solid.

    Attributes:
        picture: Name of an image in the recipe's ``[pictures]``, or ``none``.
        width_m: Width of the photo, which mirror images extend to a square.
        distance_m: Distance from the centre of the table.
        height_m: Height of its centre above the table.
        azimuth_rad: Direction from which it is viewed; the azimuth of a camera turns it to that camera.
    """

    picture: ImageName
    width_m: Annotated[float, Between(0.5, 10)]
    distance_m: Annotated[float, Between(0.1, 10)]
    height_m: Annotated[float, Between(-5, 5)]
    azimuth_rad: float


@dataclass(frozen=True)
class LightFactors:
    """Sky and lamps; levels are relative because auto exposure scales the image.

    Attributes:
        lamp_count: Number of lamps.
        sky_level: Radiance of the zenith.
        horizon: Radiance of the horizon over that of the zenith.
        warmth: -1 (blue) to 1 (orange).
        near_count: Number of near lights.
        temperature_k: Black-body temperature of the sky, which replaces its warmth.
        white_k: Colour temperature that the camera renders as white.
        flicker_hz: Flicker frequency of the lights, twice that of the mains; 0 for none.
        flicker_phase_rad: Phase of the flicker at the middle of the exposure of the image centre.
    """

    lamp_count: FewCount
    sky_level: Positive
    horizon: Annotated[float, Between(0, 100)]
    warmth: Warmth
    near_count: FewCount = 0
    temperature_k: Temperature | None = None
    white_k: Annotated[float, Between(2500, 10000)] = 6504.0
    flicker_hz: Annotated[float, Between(0, 1000)] = 0.0
    flicker_phase_rad: float = 0.0


@dataclass(frozen=True)
class LampFactors:
    """One distant lamp; see ``scene.light.Lamp``.

    Attributes:
        level: Irradiance on a surface that faces the lamp.
        elevation_rad, azimuth_rad: Direction towards the lamp.
        radius_rad: Angular radius.
        warmth: -1 (blue) to 1 (orange).
        temperature_k: Black-body temperature, which replaces its warmth.
        flicker: Depth of the flicker.
    """

    level: Level
    elevation_rad: Elevation
    azimuth_rad: float
    radius_rad: Annotated[float, Between(1e-3, math.pi / 2)]
    warmth: Warmth
    temperature_k: Temperature | None = None
    flicker: Fraction = 0.0


@dataclass(frozen=True)
class NearLightFactors:
    """One light in the room, directed at the centre of the table; see ``scene.light``.

    Attributes:
        kind: Point, spot or area light.
        level: Irradiance at the centre of the table, on a surface that faces the light.
        distance_m, elevation_rad, azimuth_rad: Position relative to the centre of the table.
        size_m: Diameter of a point or spot light, side of a square area light.
        cone_rad: Half angle of a spot; full intensity up to 0.8 of it.
        warmth: -1 (blue) to 1 (orange).
        temperature_k: Black-body temperature, which replaces its warmth.
        flicker: Depth of the flicker.
    """

    kind: Literal["point", "spot", "area"]
    level: Level
    distance_m: Annotated[float, Between(0.3, 100)]
    elevation_rad: Elevation
    azimuth_rad: float
    size_m: Annotated[float, Between(0, 2)]
    cone_rad: Annotated[float, Between(0.02, 1.5)]
    warmth: Warmth
    temperature_k: Temperature | None = None
    flicker: Fraction = 0.0


@dataclass(frozen=True)
class SkyFactors:
    """Environment map that replaces the sky and the lamps of ``light``.

    Attributes:
        turn_rad: Rotation about the vertical.
        level: Radiance of the uniform sky with the same irradiance on the table.
        picture: Name of an image in the recipe's ``[skies]``, or ``none`` to keep sky and lamps of ``light``; by
            default all with equal probability.
        sun: Whether a sufficiently bright spot becomes a lamp that casts shadows.
    """

    turn_rad: float
    level: Positive
    picture: Annotated[str, NameOf("environment_map")] | None = None
    sun: bool = True


@dataclass(frozen=True)
class WindowFactors:
    """Window that lets in daylight of one time and place; see ``illuminants``.

    If the sun is visible through the window from the centre of the table, it lights the whole table.

    Attributes:
        hour: Solar time, 12 is noon.
        day: Day of the year.
        latitude_rad: Latitude, north positive.
        transmittance: Of the atmosphere at the zenith: 0.75 on the clearest days, up to 0.4 if overcast.
        level: Solar irradiance outside the atmosphere.
        facing_rad: Compass direction of the view out of the window, from north over east.
        azimuth_rad: Direction of the window from the centre of the table, in the scene.
        distance_m, sill_m: Distance from the centre of the table; height of the lower edge above it.
        width_m, height_m: Width and height.
    """

    hour: Annotated[float, Between(0, 24)]
    day: Annotated[float, Between(0, 366)]
    latitude_rad: Annotated[float, Between(-math.pi / 2, math.pi / 2)]
    transmittance: Annotated[float, Between(0.05, 0.8)]
    level: Level
    facing_rad: float
    azimuth_rad: float
    distance_m: Annotated[float, Between(0.3, 20)]
    sill_m: Annotated[float, Between(-1, 5)]
    width_m: Annotated[float, Between(0.05, 10)]
    height_m: Annotated[float, Between(0.05, 10)]


@dataclass(frozen=True)
class HazeFactors:
    """Participating medium that scatters light; see ``scene.light.Haze``.

    Attributes:
        extinction_per_m: Extinction coefficient.
        brightness: Airlight radiance over that of the horizon.
    """

    extinction_per_m: Annotated[float, Between(0, 100)]
    brightness: Annotated[float, Between(0, 100)]


@dataclass(frozen=True)
class ViewFactors:
    """Pose and field of view of one camera.

    Attributes:
        fov_rad: Horizontal field of view.
        tilt_rad: Angle off the vertical; a camera looks up beyond pi / 2.
        azimuth_rad, roll_rad: Direction from which it looks; rotation of the image.
        aim_radius, aim_angle_rad: Look-at point, polar; radius over ``layout.region_m``.
        die_px: Side of a 16 mm die in the centre of an image 640 pixels wide; sets the distance.
        object_px: Longest side of the object of median size in the centre of such an image, instead of
            ``die_px``.
        distance_m: Distance of the camera from the look-at point. Exactly one of ``die_px``, ``object_px`` and
            ``distance_m`` is required.
        aim_height_m: Height of the look-at point above the table.
    """

    fov_rad: Annotated[float, Between(0.05, 3.0)]
    tilt_rad: Annotated[float, Between(0, 2)]
    azimuth_rad: float
    roll_rad: float
    aim_radius: float
    aim_angle_rad: float
    die_px: Positive | None = None
    object_px: Annotated[float, Between(1, 600)] | None = None
    distance_m: Annotated[float, Between(0.01, 100)] | None = None
    aim_height_m: Annotated[float, Between(0, 10)] = 0.0


@dataclass(frozen=True)
class LensFactors:
    """OpenCV distortion coefficients, and principal point offset over the image width.

    ``k4`` to ``k6`` select the rational model, ``s1`` to ``s4`` the thin prism model. Distortion from
    ranges is reduced where it would fold back within the image.

    Attributes:
        k1, k2, k3: Radial coefficients.
        p1, p2: Tangential coefficients.
        k4, k5, k6: Radial coefficients of the denominator.
        s1, s2, s3, s4: Thin prism coefficients.
        shift_x, shift_y: Principal point offset.
        aspect: Vertical focal length over the horizontal one.
    """

    k1: float
    k2: float
    p1: float
    p2: float
    shift_x: float
    shift_y: float
    k3: float = 0.0
    k4: float = 0.0
    k5: float = 0.0
    k6: float = 0.0
    s1: float = 0.0
    s2: float = 0.0
    s3: float = 0.0
    s4: float = 0.0
    aspect: Annotated[float, Between(0.2, 5)] = 1.0


@dataclass(frozen=True)
class FisheyeFactors:
    """Kannala-Brandt coefficients; with them ``lens`` sets only the principal point.

    Distortion from ranges is reduced where it would fold back within the image.

    Attributes:
        k1, k2, k3, k4: Coefficients of the third, fifth, seventh and ninth power of the angle to the axis.
    """

    k1: float
    k2: float
    k3: float
    k4: float


@dataclass(frozen=True)
class HoodFactors:
    """Parts of a camera's own mount that are visible around its field of view; see ``objects.lens_hood``.

    Attributes:
        edge: Angle of its edge off the axis over half the horizontal field of view.
        tilt_x_rad, tilt_y_rad: Rotations of its axis about those of the camera.
        lumps: Number of lumps on its edge, mostly above and below the image.
        lump_rad: Largest height of a lump.
        value: Value of its grey.
        seed: Seed of the lumps.
    """

    edge: Annotated[float, Between(0.3, 3)]
    tilt_x_rad: Annotated[float, Between(-0.5, 0.5)]
    tilt_y_rad: Annotated[float, Between(-0.5, 0.5)]
    lumps: Annotated[int, Between(0, 20)]
    lump_rad: Fraction
    value: Fraction
    seed: Seed


@dataclass(frozen=True)
class DefocusFactors:
    """Thin-lens defocus; see ``scene.lens_effects``.

    Attributes:
        aperture_m: Diameter of the entrance pupil.
        focus: Focus distance over the distance of the look-at point.
    """

    aperture_m: Annotated[float, Between(0, 0.1)]
    focus: Annotated[float, Between(0.1, 100)]


@dataclass(frozen=True)
class StereoFactors:
    """Second camera to the right of the first.

    Attributes:
        baseline_m: Distance of both cameras.
    """

    baseline_m: Annotated[float, Between(0.001, 10)]


@dataclass(frozen=True)
class MotionFactors:
    """Camera motion along and around its own axes (x right, y down, z forward).

    Attributes:
        right_m_s, down_m_s, forward_m_s: Linear velocity.
        pitch_rad_s, yaw_rad_s, roll_rad_s: Angular velocity around x, y and z.
    """

    right_m_s: float
    down_m_s: float
    forward_m_s: float
    pitch_rad_s: float
    yaw_rad_s: float
    roll_rad_s: float


def _omit(parameters: Mapping[str, Parameter], names: Iterable[str]) -> dict[str, Parameter]:
    return {name: p for name, p in parameters.items() if name not in names}


def _merge_depth_cameras() -> dict[str, Parameter]:
    """Return the parameters of all kinds of depth cameras."""
    merged: dict[str, Parameter] = {}
    for camera_type in DEPTH_CAMERA_TYPES.values():
        merged = {**list_parameters(camera_type), **merged}
    required = {
        "kind": Parameter(
            "kind",
            "text",
            choices=tuple(DEPTH_CAMERA_TYPES),
            documentation="Measuring principle, which determines the other factors.",
        ),
        "noise_seed": replace(merged["noise_seed"], is_required=True),
    }
    return {**required, **_omit(merged, (*required, *_MATCHING_PARAMETERS))}


_MATCHING_PARAMETERS = ("window_px", "uniqueness_percent", "left_right_px")
"""Parameters of stereo matching that are not randomized."""
_EXPOSURE_PARAMETERS = ("exposure_ev", "red_gain", "blue_gain")

_SENSOR = list_parameters(Sensor)

GROUP_TYPES: Mapping[str, type] = {
    "layout": LayoutFactors,
    "table": SurfaceFactors,
    "mat": SurfaceFactors,
    "wall": SurfaceFactors,
    "light": LightFactors,
    "lamp": LampFactors,
    "distractor": DistractorFactors,
    "distractor_surface": SurfaceFactors,
    "view": ViewFactors,
    "lens": LensFactors,
    "exposure": Sensor,
    "sensor": Sensor,
    "object": FileObjectFactors,
    "object_surface": SurfaceFactors,
    "fixture": FixtureFactors,
    "fixture_surface": SurfaceFactors,
    "cable": CableFactors,
    "cable_surface": SurfaceFactors,
    "paper": PaperFactors,
    "paper_label": PackageLabelFactors,
    "paper_surface": SurfaceFactors,
    "hand": HandFactors,
    "hand_surface": SurfaceFactors,
    "decal": DecalFactors,
    "backdrop": BackgroundImageFactors,
    "field": FieldFactors,
    "hall": HallFactors,
    "near_light": NearLightFactors,
    "sky": SkyFactors,
    "window": WindowFactors,
    "haze": HazeFactors,
    "fisheye": FisheyeFactors,
    "hood": HoodFactors,
    "shutter": Shutter,
    "motion": MotionFactors,
    "stereo": StereoFactors,
    "depth_camera": StructuredLight,
    "mosaic": Mosaic,
    "processing": Processing,
    "automatics": Automatics,
    "defocus": DefocusFactors,
    "lateral_color": LateralColor,
    "field_blur": FieldBlur,
    "glare": Glare,
    "dirt": Dirt,
    "droplets": Droplets,
    "falloff": Falloff,
    "camera_model": CameraModel,
}
"""Class that declares the factors of each group; those of ``exposure`` are a part of ``Sensor``, and those of
``depth_camera`` are of several classes."""

SCENE_GROUPS: Mapping[str, Mapping[str, Parameter]] = {
    **{name: list_parameters(owner) for name, owner in GROUP_TYPES.items()},
    "exposure": {name: _SENSOR[name] for name in _EXPOSURE_PARAMETERS},
    "sensor": _omit(_SENSOR, _EXPOSURE_PARAMETERS),
    "depth_camera": _merge_depth_cameras(),
}
"""Factors of each group besides those of object kinds."""

REQUIRED_GROUPS = (
    "layout", "table", "mat", "wall", "light", "lamp", "distractor", "distractor_surface", "view",
    "lens", "exposure", "sensor",
)  # fmt: skip
SINGLETON_GROUPS = (
    "layout", "table", "mat", "wall", "light", "sky", "window", "haze", "backdrop", "field", "hall",
)  # fmt: skip
"""Groups sampled once per scene; all others are sampled for each instance."""
PER_VIEW_GROUPS = (
    "view", "lens", "fisheye", "hood", "exposure", "sensor", "shutter", "motion", "stereo", "depth_camera",
    "mosaic", "processing", "automatics",
    "defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets", "falloff",
    "camera_model",
)  # fmt: skip
"""Groups sampled once per camera."""
REPEATED_GROUPS: Mapping[str, tuple[str, ...]] = {
    "layout/object_count": ("object", "object_surface"),
    "layout/fixture_count": ("fixture", "fixture_surface"),
    "layout/cable_count": ("cable", "cable_surface"),
    "layout/paper_count": ("paper", "paper_label", "paper_surface"),
    "layout/hand_count": ("hand", "hand_surface"),
    "layout/distractor_count": ("distractor", "distractor_surface"),
    "layout/decal_count": ("decal",),
    "light/lamp_count": ("lamp",),
    "light/near_count": ("near_light",),
}
"""Groups sampled once per instance, by the factor with their number of instances."""
SURFACE_PARAMETERS = list_parameters(SurfaceFactors)
