"""Factor groups of a tabletop scene: one distribution per factor.

A group is a frozen dataclass whose fields are distributions. Each factor is sampled from its own
random stream, named ``group/factor`` (``die/3/edge_m`` for the fourth die). Adding a factor or
resampling a group therefore changes no other value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sim2cam.randomize.distributions import Distribution


@dataclass(frozen=True)
class LayoutFactors:
    """Object counts, supporting surface and initial placement.

    Attributes:
        distractor_count: number of unlabelled distractors.
        surface: ``table``, ``mat`` (on the table), ``tray`` (with walls), ``bin`` (floor and walls
            of one material) or ``shelf`` (boards above each other, open towards -y, with objects on
            each).
        region_m: radius of the drop region.
        drop_height_m: height of the lowest object.
        speed_m_s, spin_rad_s: initial horizontal velocity and spin.
        surface_side_m: side of mat, tray, bin or shelf.
        aspect: second side of the surface over the first.
        wall_m: height of the walls of a tray or bin; distance between the boards of a shelf.
        shelf_count: number of shelf boards with objects.
        object_count: number of objects from files; default 0.
        die_count, block_count, board_count, card_count, twisty_count, tin_count, carton_count,
            bolt_count, nut_count: number of objects of each kind; default 0.
        cable_count, paper_count, hand_count: number of occluders of each kind; default 0.
        fixture_count: number of fixed objects; default 0.
        decal_count: number of decals on all objects together; default 0.
        same_look: whether all dice share the appearance of the first one.
        arrangement: initial placement of the targets, one of ``Arrangement``; default ``throw``.
    """

    distractor_count: Distribution
    surface: Distribution
    region_m: Distribution
    drop_height_m: Distribution
    speed_m_s: Distribution
    spin_rad_s: Distribution
    surface_side_m: Distribution
    aspect: Distribution
    wall_m: Distribution
    object_count: Distribution | None = None
    die_count: Distribution | None = None
    same_look: Distribution | None = None
    block_count: Distribution | None = None
    board_count: Distribution | None = None
    card_count: Distribution | None = None
    twisty_count: Distribution | None = None
    tin_count: Distribution | None = None
    carton_count: Distribution | None = None
    bolt_count: Distribution | None = None
    nut_count: Distribution | None = None
    cable_count: Distribution | None = None
    paper_count: Distribution | None = None
    hand_count: Distribution | None = None
    fixture_count: Distribution | None = None
    decal_count: Distribution | None = None
    shelf_count: Distribution | None = None
    arrangement: Distribution | None = None


@dataclass(frozen=True)
class SurfaceFactors:
    """Surface material: a pattern of two colours (hue, saturation and value, 0 to 1 each).

    Attributes:
        material: a family of ``material_families``, whose distributions replace the others of this
            group, or ``own`` to keep them.
        metallic, emission, relief: see ``scene.material``; default 0.
        dust, scratches, stains, fingerprints, edges: see ``scene.material.Wear``; default 0.
        picture: name of an image in the recipe's ``[pictures]``, which replaces colours and
            pattern, or ``none``.
        picture_m: width of images that do not define one. On tables, an image wider than 0.5 m is
            centred and continued by its mirror images.
    """

    family: Distribution
    hue: Distribution
    saturation: Distribution
    value: Distribution
    second_hue: Distribution
    second_saturation: Distribution
    second_value: Distribution
    scale_m: Distribution
    contrast: Distribution
    sharpness: Distribution
    roughness: Distribution
    specular: Distribution
    seed: Distribution
    material: Distribution | None = None
    metallic: Distribution | None = None
    emission: Distribution | None = None
    relief: Distribution | None = None
    dust: Distribution | None = None
    scratches: Distribution | None = None
    stains: Distribution | None = None
    fingerprints: Distribution | None = None
    edges: Distribution | None = None
    picture: Distribution | None = None
    picture_m: Distribution | None = None


@dataclass(frozen=True)
class DropFactors:
    """Initial position, motion and mass distribution of one object.

    Attributes:
        throw_angle_rad, throw_radius: position in the drop region, polar.
        azimuth_rad, share: direction of motion, and share of the layout's speed and spin.
        mass_offset_x, mass_offset_y, mass_offset_z: offset of the centre of mass from the centre,
            over the side along the same axis of the object; default 0.
        drag, spin_drag: share of linear and angular velocity lost per second; default 0.
        x_m, y_m, z_m: position in a ``placed`` layout: origin in x and y, lowest point above the
            table in z; default 0.
    """

    throw_angle_rad: Distribution
    throw_radius: Distribution
    azimuth_rad: Distribution
    share: Distribution
    mass_offset_x: Distribution | None = field(default=None, kw_only=True)
    mass_offset_y: Distribution | None = field(default=None, kw_only=True)
    mass_offset_z: Distribution | None = field(default=None, kw_only=True)
    drag: Distribution | None = field(default=None, kw_only=True)
    spin_drag: Distribution | None = field(default=None, kw_only=True)
    x_m: Distribution | None = field(default=None, kw_only=True)
    y_m: Distribution | None = field(default=None, kw_only=True)
    z_m: Distribution | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class TumblingDropFactors(DropFactors):
    """Drop of an object in any orientation.

    Attributes:
        rotation_a, rotation_b, rotation_c: three numbers from 0 to 1 that define a uniform
            rotation.
        yaw_rad: rotation about the vertical that replaces the uniform rotation; the object stands
            upright in its own frame.
    """

    rotation_a: Distribution
    rotation_b: Distribution
    rotation_c: Distribution
    yaw_rad: Distribution | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class FlatDropFactors(DropFactors):
    """Drop of a flat object with its upper side up, or nearly so.

    Attributes:
        yaw_rad: rotation about the vertical.
        lean_rad, lean_angle_rad: tilt off the vertical, and its direction.
    """

    yaw_rad: Distribution
    lean_rad: Distribution
    lean_angle_rad: Distribution


@dataclass(frozen=True)
class DieFactors(TumblingDropFactors):
    """Shape and mechanics of one die; lengths relative to its edge except ``edge_m``.

    Attributes:
        pip_ace, pip_two, pip_three, pip_rows: scales of ``scene.shape.Pips``; default 1.
    """

    edge_m: Distribution
    rounding: Distribution
    corner_cut: Distribution
    mirrored: Distribution
    pip_shape: Distribution
    pip_radius: Distribution
    pip_spread: Distribution
    pip_depth: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution
    pip_ace: Distribution | None = None
    pip_two: Distribution | None = None
    pip_three: Distribution | None = None
    pip_rows: Distribution | None = None


@dataclass(frozen=True)
class DieColorFactors:
    """Body and pip colours of one die: ``white``, ``black`` or ``color`` (hue, saturation, value).

    Attributes:
        pip_contrast: minimum sRGB distance between pips and body, each channel from 0 to 1. Pips
            closer than this are moved towards white or black.
    """

    body_tone: Distribution
    pip_tone: Distribution
    pip_hue: Distribution
    pip_saturation: Distribution
    pip_value: Distribution
    pip_contrast: Distribution


@dataclass(frozen=True)
class FileObjectFactors(TumblingDropFactors):
    """One object of the recipe's ``[assets]``.

    Attributes:
        mass_share, friction_share, restitution_share: position within the interval that the asset
            defines, 0 to 1.
        asset: name of the asset, as listed by ``sim2cam assets``; default: all with equal
            probability.
        joints: position of each joint, by name, from its lower (0) to its upper limit (1); default:
            uniform.
    """

    mass_share: Distribution
    friction_share: Distribution
    restitution_share: Distribution
    asset: Distribution | None = None
    joints: Mapping[str, Distribution] = field(default_factory=dict)


@dataclass(frozen=True)
class FixtureFactors:
    """One fixed object of the recipe's ``[assets]``, such as a robot or furniture.

    Attributes:
        x_m, y_m, z_m: position of its origin relative to the centre of the table.
        yaw_rad: rotation about the vertical.
        labelled: whether it is a labelled target.
        friction_share, asset, joints: as in ``FileObjectFactors``.
    """

    x_m: Distribution
    y_m: Distribution
    z_m: Distribution
    yaw_rad: Distribution
    labelled: Distribution
    friction_share: Distribution
    asset: Distribution | None = None
    joints: Mapping[str, Distribution] = field(default_factory=dict)


@dataclass(frozen=True)
class BlockFactors(TumblingDropFactors):
    """One cuboid block.

    Attributes:
        category: label, one of the recipe's categories. Colours and sides can depend on it with
            ``given``.
        length_m: first side.
        width, height: other sides, over the first.
        rounding: edge radius, over the shortest side.
    """

    category: Distribution
    length_m: Distribution
    width: Distribution
    height: Distribution
    rounding: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class BoardFactors(FlatDropFactors):
    """One calibration board; see ``scene.shape.Board``.

    Attributes:
        ink: reflectance of its dark squares.
        held: whether it is fixed in its initial pose, as if held by a person.
    """

    pattern: Distribution
    columns: Distribution
    rows: Distribution
    square_m: Distribution
    marker_share: Distribution
    dictionary: Distribution
    first_marker: Distribution
    margin_m: Distribution
    thickness_m: Distribution
    ink: Distribution
    held: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class CardFactors(FlatDropFactors):
    """One playing card; see ``scene.shape.Card``.

    Attributes:
        face: rank and suit, as ``10H``.
        face_down: whether its back is up.
        width_m, thickness_m: width and thickness.
        aspect: height over width.
        corner: corner radius over width.
        back_hue, back_saturation, back_value: colour of the print on its back.
        pictured: whether to use images of the recipe's ``[pictures]``: the one named after the face
            (``10H.jpg``) and, if present, ``back.jpg``.
    """

    face: Distribution
    face_down: Distribution
    width_m: Distribution
    aspect: Distribution
    thickness_m: Distribution
    corner: Distribution
    back_hue: Distribution
    back_saturation: Distribution
    back_value: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution
    pictured: Distribution | None = None


@dataclass(frozen=True)
class TwistyFactors(TumblingDropFactors):
    """One twisty cube; see ``scene.twisty.TwistyCube``.

    Attributes:
        scramble: number of the scramble, 0 to ``N_SCRAMBLES - 1``.
        turned, turned_rad: face that is not aligned, and its angle.
    """

    edge_m: Distribution
    layers: Distribution
    scramble: Distribution
    turned: Distribution
    turned_rad: Distribution
    rounding: Distribution
    sticker: Distribution
    sticker_corner: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class TwistyColorFactors:
    """Six face colours of one twisty cube before any move."""

    up_hue: Distribution
    up_saturation: Distribution
    up_value: Distribution
    right_hue: Distribution
    right_saturation: Distribution
    right_value: Distribution
    front_hue: Distribution
    front_saturation: Distribution
    front_value: Distribution
    down_hue: Distribution
    down_saturation: Distribution
    down_value: Distribution
    left_hue: Distribution
    left_saturation: Distribution
    left_value: Distribution
    back_hue: Distribution
    back_saturation: Distribution
    back_value: Distribution


@dataclass(frozen=True)
class PrintFactors:
    """Print on one tin, carton or paper; see ``scene.packages.PackageLabel``.

    Attributes:
        picture: name of an image in the recipe's ``[pictures]``, or ``none``.
    """

    seed: Distribution
    ground_hue: Distribution
    ground_saturation: Distribution
    ground_value: Distribution
    letter_hue: Distribution
    letter_saturation: Distribution
    letter_value: Distribution
    pattern_hue: Distribution
    pattern_saturation: Distribution
    pattern_value: Distribution
    picture: Distribution | None = None


@dataclass(frozen=True)
class TinFactors(TumblingDropFactors):
    """One tin.

    Attributes:
        category: label and printed text, one of the recipe's categories.
        radius_m: radius.
        height: height over diameter.
    """

    category: Distribution
    radius_m: Distribution
    height: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class CartonFactors(TumblingDropFactors):
    """One printed box.

    Attributes:
        category: label and printed text, one of the recipe's categories.
        height_m: upright side.
        width, depth: side along the front and side from front to back, over the height.
    """

    category: Distribution
    height_m: Distribution
    width: Distribution
    depth: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class BoltFactors(TumblingDropFactors):
    """One bolt; see ``scene.fasteners.Bolt``.

    Attributes:
        category: label, one of the recipe's categories.
        diameter_m: thread diameter.
        length, pitch, head, head_height: over the diameter.
        threaded: threaded share of its length.
    """

    category: Distribution
    diameter_m: Distribution
    length: Distribution
    pitch: Distribution
    head: Distribution
    head_height: Distribution
    threaded: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class NutFactors(TumblingDropFactors):
    """One nut; see ``scene.fasteners.Nut``.

    Attributes:
        category: label, one of the recipe's categories.
        diameter_m: thread diameter.
        pitch, across, height: over the diameter.
    """

    category: Distribution
    diameter_m: Distribution
    pitch: Distribution
    across: Distribution
    height: Distribution
    density_kg_m3: Distribution
    friction: Distribution
    restitution: Distribution


@dataclass(frozen=True)
class DistractorFactors:
    """One unlabelled distractor.

    Attributes:
        shape: ``box``, ``cylinder``, ``sphere`` or ``asset`` (which has its own size).
        size_m: longest side.
        flatness: height over the longest side.
        slimness: second side over the longest.
        radius, angle_rad: drop position, polar; radius over ``layout.region_m``.
        asset: name of one of the recipe's ``[assets.clutter]``; default: all with equal
            probability.
    """

    shape: Distribution
    size_m: Distribution
    flatness: Distribution
    slimness: Distribution
    radius: Distribution
    angle_rad: Distribution
    yaw_rad: Distribution
    asset: Distribution | None = None


@dataclass(frozen=True)
class CableFactors:
    """One cable among the objects.

    Attributes:
        radius_m, length_m: radius and length.
        sway_rad, ripple_rad: amplitudes of its direction: one wave, and one of three times its
            frequency.
        phase_rad: phase of both waves at its start.
        radius, angle_rad: position of its centre, polar; radius over ``layout.region_m``.
        yaw_rad: rotation about the vertical.
    """

    radius_m: Distribution
    length_m: Distribution
    sway_rad: Distribution
    ripple_rad: Distribution
    phase_rad: Distribution
    radius: Distribution
    angle_rad: Distribution
    yaw_rad: Distribution


@dataclass(frozen=True)
class PaperFactors:
    """One rigid sheet of paper dropped on the objects.

    Attributes:
        width_m, thickness_m: width and thickness.
        aspect: height over width.
        heading: text of the heading.
        radius, angle_rad: drop position of its centre, polar; radius over ``layout.region_m``.
        yaw_rad: rotation about the vertical.
    """

    width_m: Distribution
    aspect: Distribution
    thickness_m: Distribution
    heading: Distribution
    radius: Distribution
    angle_rad: Distribution
    yaw_rad: Distribution


@dataclass(frozen=True)
class HandFactors:
    """One hand held over the objects; see ``scene.scene.Body.arrives_last``.

    Attributes:
        length_m: from the wrist to the tip of the middle finger.
        curl_rad: bend of each finger at its knuckle.
        spread_rad: angle of the outer fingers to the middle.
        pointing: whether only the index finger is straight.
        left: whether it is a left hand.
        height_m: height of its lowest point above the table.
        radius, angle_rad: point under its fingers, polar; radius over ``layout.region_m``.
        azimuth_rad: direction in which it points.
        pitch_rad: downward angle.
        roll_rad: rotation about the arm, 0 with the palm down.
    """

    length_m: Distribution
    curl_rad: Distribution
    spread_rad: Distribution
    pointing: Distribution
    left: Distribution
    height_m: Distribution
    radius: Distribution
    angle_rad: Distribution
    azimuth_rad: Distribution
    pitch_rad: Distribution
    roll_rad: Distribution


@dataclass(frozen=True)
class DecalFactors:
    """One sticker or line of print on a surface of the scene; see ``scene.decal.Decal``.

    Attributes:
        on: target: ``die``, ``board``, ``card``, ``tin``, ``carton``, ``paper``, ``mat`` (also the
            floor of a tray or bin) or ``table`` (within 0.5 m). Scenes without the target get no
            decal.
        which, side: target instance and its side, from 0 (first) to 1 (last).
        x, y: position on that side, from 0 (left or upper edge) to 1.
        width_m: width; reduced where it does not fit.
        angle_rad: rotation on the side.
        wear: share that has come off, starting at the edges.
        seed: seed of the wear and of random text.
        backed: whether letters have a background, as on stickers.
        text: text; default: random characters.
        length: number of random characters; default 8.
        picture: name of an image in the recipe's ``[pictures]``, which replaces the text, or
            ``none``.
    """

    on: Distribution
    which: Distribution
    side: Distribution
    x: Distribution
    y: Distribution
    width_m: Distribution
    angle_rad: Distribution
    wear: Distribution
    seed: Distribution
    backed: Distribution
    letter_hue: Distribution
    letter_saturation: Distribution
    letter_value: Distribution
    ground_hue: Distribution
    ground_saturation: Distribution
    ground_value: Distribution
    text: Distribution | None = None
    length: Distribution | None = None
    picture: Distribution | None = None


@dataclass(frozen=True)
class BackgroundImageFactors:
    """An upright photo behind the scene, lit like all surfaces and solid.

    Attributes:
        picture: name of an image in the recipe's ``[pictures]``, or ``none``.
        width_m: width of the photo, which mirror images extend to a square.
        distance_m: distance from the centre of the table.
        height_m: height of its centre above the table.
        azimuth_rad: direction from which it is viewed; the azimuth of a camera turns it to that
            camera.
    """

    picture: Distribution
    width_m: Distribution
    distance_m: Distribution
    height_m: Distribution
    azimuth_rad: Distribution


@dataclass(frozen=True)
class LightFactors:
    """Sky and lamps; levels are relative because auto exposure scales the image.

    Attributes:
        lamp_count: number of lamps.
        sky_level: radiance of the zenith.
        horizon: radiance of the horizon over that of the zenith.
        warmth: -1 (blue) to 1 (orange).
        near_count: number of near lights; default 0.
        temperature_k: black-body temperature of the sky, which replaces its warmth.
        white_k: colour temperature that the camera renders as white; default 6504.
        flicker_hz, flicker_phase_rad: see ``scene.light.Flicker``; without the first, or at 0, no
            flicker.
    """

    lamp_count: Distribution
    sky_level: Distribution
    horizon: Distribution
    warmth: Distribution
    near_count: Distribution | None = None
    temperature_k: Distribution | None = None
    white_k: Distribution | None = None
    flicker_hz: Distribution | None = None
    flicker_phase_rad: Distribution | None = None


@dataclass(frozen=True)
class LampFactors:
    """One distant lamp.

    Attributes:
        temperature_k: black-body temperature, which replaces its warmth.
        flicker: see ``scene.light.Lamp``.
    """

    level: Distribution
    elevation_rad: Distribution
    azimuth_rad: Distribution
    radius_rad: Distribution
    warmth: Distribution
    temperature_k: Distribution | None = None
    flicker: Distribution | None = None


@dataclass(frozen=True)
class NearLightFactors:
    """One light in the room, directed at the centre of the table; see ``scene.light``.

    Attributes:
        kind: ``point``, ``spot`` or ``area``.
        level: irradiance at the centre of the table, on a surface that faces the light.
        distance_m, elevation_rad, azimuth_rad: position relative to the centre of the table.
        size_m: diameter of a point or spot light, side of a square area light.
        cone_rad: half angle of a spot; full intensity up to 0.8 of it.
        warmth: -1 (blue) to 1 (orange).
        temperature_k, flicker: as in ``LampFactors``.
    """

    kind: Distribution
    level: Distribution
    distance_m: Distribution
    elevation_rad: Distribution
    azimuth_rad: Distribution
    size_m: Distribution
    cone_rad: Distribution
    warmth: Distribution
    temperature_k: Distribution | None = None
    flicker: Distribution | None = None


@dataclass(frozen=True)
class SkyFactors:
    """Environment map that replaces the sky and the lamps of ``light``.

    Attributes:
        turn_rad: rotation about the vertical.
        level: radiance of the uniform sky with the same irradiance on the table.
        picture: name of an image in the recipe's ``[skies]``, or ``none`` to keep sky and lamps of
            ``light``; default: all with equal probability.
        sun: whether a sufficiently bright spot becomes a lamp that casts shadows; default true.
    """

    turn_rad: Distribution
    level: Distribution
    picture: Distribution | None = None
    sun: Distribution | None = None


@dataclass(frozen=True)
class WindowFactors:
    """Window that lets in daylight of one time and place; see ``illuminants``.

    If the sun is visible through the window from the centre of the table, it lights the whole
    table.

    Attributes:
        hour: solar time, 12 is noon.
        day: day of the year.
        latitude_rad: latitude, north positive.
        transmittance: of the atmosphere at the zenith: 0.75 on the clearest days, up to 0.4 if
            overcast.
        level: solar irradiance outside the atmosphere.
        facing_rad: compass direction of the view out of the window, from north over east.
        azimuth_rad: direction of the window from the centre of the table, in the scene.
        distance_m, sill_m: distance from the centre of the table; height of the lower edge above
            it.
        width_m, height_m: width and height.
    """

    hour: Distribution
    day: Distribution
    latitude_rad: Distribution
    transmittance: Distribution
    level: Distribution
    facing_rad: Distribution
    azimuth_rad: Distribution
    distance_m: Distribution
    sill_m: Distribution
    width_m: Distribution
    height_m: Distribution


@dataclass(frozen=True)
class HazeFactors:
    """Participating medium that scatters light; see ``scene.light.Haze``.

    Attributes:
        extinction_per_m: extinction coefficient.
        brightness: airlight radiance over that of the horizon.
    """

    extinction_per_m: Distribution
    brightness: Distribution


@dataclass(frozen=True)
class ViewFactors:
    """Pose and field of view of one camera.

    Attributes:
        fov_rad: horizontal field of view.
        tilt_rad: angle off the vertical.
        azimuth_rad, roll_rad: direction from which it looks; rotation of the image.
        aim_radius, aim_angle_rad: look-at point, polar; radius over ``layout.region_m``.
        aim_height_m: height of the look-at point above the table; default 0.
        die_px: side of a 16 mm die in the centre of an image 640 pixels wide; sets the distance.
        object_px: the same for the longest side of the object of median size. Exactly one of
            ``die_px`` and ``object_px`` is required.
    """

    fov_rad: Distribution
    tilt_rad: Distribution
    azimuth_rad: Distribution
    roll_rad: Distribution
    aim_radius: Distribution
    aim_angle_rad: Distribution
    die_px: Distribution | None = None
    object_px: Distribution | None = None
    aim_height_m: Distribution | None = None


@dataclass(frozen=True)
class LensFactors:
    """OpenCV distortion coefficients, and principal point offset over the image width.

    ``k4`` to ``k6`` select the rational model, ``s1`` to ``s4`` the thin prism model; omitted
    coefficients are 0. ``aspect`` is the vertical focal length over the horizontal one; default 1.
    """

    k1: Distribution
    k2: Distribution
    p1: Distribution
    p2: Distribution
    shift_x: Distribution
    shift_y: Distribution
    k3: Distribution | None = None
    k4: Distribution | None = None
    k5: Distribution | None = None
    k6: Distribution | None = None
    s1: Distribution | None = None
    s2: Distribution | None = None
    s3: Distribution | None = None
    s4: Distribution | None = None
    aspect: Distribution | None = None


@dataclass(frozen=True)
class FisheyeFactors:
    """Kannala-Brandt coefficients; with them ``lens`` sets only the principal point."""

    k1: Distribution
    k2: Distribution
    k3: Distribution
    k4: Distribution


@dataclass(frozen=True)
class ExposureFactors:
    """Errors of auto exposure and white balance; see ``scene.sensor.Sensor``."""

    exposure_ev: Distribution
    red_gain: Distribution
    blue_gain: Distribution


@dataclass(frozen=True)
class SensorFactors:
    """Noise, sharpness, tone curve and compression; see ``scene.sensor.Sensor``.

    Omitted responses are 1; tone shoulder and file format have the defaults of ``Sensor``.
    """

    vignetting: Distribution
    blur_px: Distribution
    full_well_e: Distribution
    read_noise_e: Distribution
    denoise: Distribution
    tone_contrast: Distribution
    saturation: Distribution
    sharpening: Distribution
    jpeg_quality: Distribution
    noise_seed: Distribution
    red_response: Distribution | None = None
    blue_response: Distribution | None = None
    tone_shoulder: Distribution | None = None
    file_format: Distribution | None = None


@dataclass(frozen=True)
class MosaicFactors:
    """Colour filter array and its noise; see ``scene.sensor.Mosaic`` for defaults."""

    pattern: Distribution
    bits: Distribution | None = None
    black_share: Distribution | None = None
    crosstalk: Distribution | None = None
    prnu: Distribution | None = None
    dsnu_e: Distribution | None = None
    row_noise_e: Distribution | None = None
    dark_e: Distribution | None = None
    hot_share: Distribution | None = None
    hot_e: Distribution | None = None
    pattern_seed: Distribution | None = None


@dataclass(frozen=True)
class ProcessingFactors:
    """Further image processing of the camera; see ``scene.sensor.Processing``."""

    demosaic: Distribution | None = None
    shading_correction: Distribution | None = None
    color_correction: Distribution | None = None
    local_tone: Distribution | None = None
    chroma_blur_px: Distribution | None = None
    jpeg_subsampling: Distribution | None = None


@dataclass(frozen=True)
class AutomaticsFactors:
    """Auto exposure and white balance over time; see ``scene.sensor.Automatics``."""

    exposure_lag_s: Distribution | None = None
    white_balance: Distribution | None = None
    white_lag_s: Distribution | None = None
    fixed_gain: Distribution | None = None


@dataclass(frozen=True)
class DefocusFactors:
    """Thin-lens defocus; see ``scene.lens_effects``.

    Attributes:
        aperture_m: diameter of the entrance pupil.
        focus: focus distance over the distance of the look-at point.
    """

    aperture_m: Distribution
    focus: Distribution


@dataclass(frozen=True)
class LateralColorFactors:
    """Relative scale of the red and the blue image; see ``scene.lens_effects``."""

    red: Distribution | None = None
    blue: Distribution | None = None


@dataclass(frozen=True)
class FieldBlurFactors:
    """Point spread that grows towards the corners; see ``scene.lens_effects``."""

    corner_px: Distribution


@dataclass(frozen=True)
class GlareFactors:
    """Veiling glare, bloom and ghosts; see ``scene.lens_effects``."""

    veil: Distribution | None = None
    bloom: Distribution | None = None
    bloom_radius: Distribution | None = None
    ghost: Distribution | None = None
    ghost_scale: Distribution | None = None


@dataclass(frozen=True)
class DirtFactors:
    """Smears on the lens; see ``scene.lens_effects``."""

    coverage: Distribution
    loss: Distribution
    size: Distribution | None = None
    seed: Distribution | None = None


@dataclass(frozen=True)
class DropletFactors:
    """Drops on the lens; see ``scene.lens_effects``."""

    count: Distribution
    radius: Distribution
    seed: Distribution | None = None


@dataclass(frozen=True)
class StereoFactors:
    """Second camera to the right of the first; see ``scene.camera.Camera``."""

    baseline_m: Distribution


@dataclass(frozen=True)
class DepthCameraFactors:
    """Depth camera; see ``scene.depth_camera`` for the defaults of each kind.

    Attributes:
        kind: ``structured_light``, ``time_of_flight`` or ``active_stereo``.
        noise_seed: seed of the noise.
    """

    kind: Distribution
    noise_seed: Distribution
    pattern_seed: Distribution | None = None
    baseline_m: Distribution | None = None
    projector_m: Distribution | None = None
    disparity_step_px: Distribution | None = None
    axial_noise_m: Distribution | None = None
    axial_growth_per_m: Distribution | None = None
    axial_nearest_m: Distribution | None = None
    axial_slant_m: Distribution | None = None
    lateral_noise_px: Distribution | None = None
    lateral_slant_px: Distribution | None = None
    min_return: Distribution | None = None
    max_return: Distribution | None = None
    max_incidence_rad: Distribution | None = None
    modulation_hz: Distribution | None = None
    ambiguity_m: Distribution | None = None
    modulation_contrast: Distribution | None = None
    signal_e: Distribution | None = None
    ambient_e: Distribution | None = None
    min_amplitude_e: Distribution | None = None
    scatter_share: Distribution | None = None
    blur_px: Distribution | None = None
    max_error_px: Distribution | None = None
    dot_spacing_rad: Distribution | None = None
    dot_radius_rad: Distribution | None = None
    ambient_share: Distribution | None = None
    speckle_contrast: Distribution | None = None
    full_well_e: Distribution | None = None
    read_noise_e: Distribution | None = None
    min_range_m: Distribution | None = None
    max_range_m: Distribution | None = None
    depth_unit_m: Distribution | None = None


@dataclass(frozen=True)
class ShutterFactors:
    """Exposure and readout time of a rolling shutter; see ``scene.camera.Shutter``."""

    exposure_s: Distribution
    readout_s: Distribution


@dataclass(frozen=True)
class MotionFactors:
    """Camera motion along and around its own axes (x right, y down, z forward).

    Attributes:
        right_m_s, down_m_s, forward_m_s: linear velocity.
        pitch_rad_s, yaw_rad_s, roll_rad_s: angular velocity around x, y and z.
    """

    right_m_s: Distribution
    down_m_s: Distribution
    forward_m_s: Distribution
    pitch_rad_s: Distribution
    yaw_rad_s: Distribution
    roll_rad_s: Distribution


@dataclass(frozen=True)
class Domain:
    """All factor groups of a tabletop scene.

    The groups of ``SINGLETON_GROUPS`` are sampled once per scene. The groups of
    ``sampling.PER_VIEW_GROUPS`` are sampled once per camera, and all others once per instance.
    Optional groups that are omitted are absent from the scene; a ``*_count`` of the layout requires
    the groups of its kind. Without ``fisheye`` lenses follow ``lens``, without ``shutter`` exposure
    is instantaneous, without ``motion`` cameras are static, and without ``backdrop`` there is no
    background image.

    Attributes:
        die, die_color, die_surface: dice.
        object, object_surface: objects from files, and the surface of those without colours.
        fixture, fixture_surface: fixed objects from files.
        block, block_surface: cuboid blocks.
        board, board_surface: calibration boards, and the material they are printed on.
        card, card_surface: playing cards, and the material they are printed on.
        twisty, twisty_color, twisty_surface: twisty cubes, their face colours and bare plastic.
        tin, tin_label, tin_surface: tins, their labels and bare ends.
        carton, carton_label, carton_surface: cartons, their print and its gloss.
        bolt, bolt_surface, nut, nut_surface: bolts and nuts.
        cable, cable_surface: cables among the objects.
        paper, paper_label, paper_surface: sheets on the objects, their print and its gloss.
        hand, hand_surface: hands over the objects.
        distractor, distractor_surface: unlabelled distractors.
        decal: stickers and print on other surfaces.
        lamp, near_light: distant lamps and lights in the room.
        stereo, depth_camera: second camera and depth camera.
        mosaic, processing, automatics: colour filter array, further processing and camera
        automatics.
        defocus, lateral_color, field_blur, glare, dirt, droplets: lens effects.
    """

    layout: LayoutFactors
    table: SurfaceFactors
    mat: SurfaceFactors
    wall: SurfaceFactors
    light: LightFactors
    lamp: LampFactors
    distractor: DistractorFactors
    distractor_surface: SurfaceFactors
    view: ViewFactors
    lens: LensFactors
    exposure: ExposureFactors
    sensor: SensorFactors
    die: DieFactors | None = None
    die_color: DieColorFactors | None = None
    die_surface: SurfaceFactors | None = None
    object: FileObjectFactors | None = None
    object_surface: SurfaceFactors | None = None
    fixture: FixtureFactors | None = None
    fixture_surface: SurfaceFactors | None = None
    block: BlockFactors | None = None
    block_surface: SurfaceFactors | None = None
    board: BoardFactors | None = None
    board_surface: SurfaceFactors | None = None
    card: CardFactors | None = None
    card_surface: SurfaceFactors | None = None
    twisty: TwistyFactors | None = None
    twisty_color: TwistyColorFactors | None = None
    twisty_surface: SurfaceFactors | None = None
    tin: TinFactors | None = None
    tin_label: PrintFactors | None = None
    tin_surface: SurfaceFactors | None = None
    carton: CartonFactors | None = None
    carton_label: PrintFactors | None = None
    carton_surface: SurfaceFactors | None = None
    bolt: BoltFactors | None = None
    bolt_surface: SurfaceFactors | None = None
    nut: NutFactors | None = None
    nut_surface: SurfaceFactors | None = None
    cable: CableFactors | None = None
    cable_surface: SurfaceFactors | None = None
    paper: PaperFactors | None = None
    paper_label: PrintFactors | None = None
    paper_surface: SurfaceFactors | None = None
    hand: HandFactors | None = None
    hand_surface: SurfaceFactors | None = None
    decal: DecalFactors | None = None
    backdrop: BackgroundImageFactors | None = None
    near_light: NearLightFactors | None = None
    sky: SkyFactors | None = None
    window: WindowFactors | None = None
    haze: HazeFactors | None = None
    fisheye: FisheyeFactors | None = None
    shutter: ShutterFactors | None = None
    motion: MotionFactors | None = None
    stereo: StereoFactors | None = None
    depth_camera: DepthCameraFactors | None = None
    mosaic: MosaicFactors | None = None
    processing: ProcessingFactors | None = None
    automatics: AutomaticsFactors | None = None
    defocus: DefocusFactors | None = None
    lateral_color: LateralColorFactors | None = None
    field_blur: FieldBlurFactors | None = None
    glare: GlareFactors | None = None
    dirt: DirtFactors | None = None
    droplets: DropletFactors | None = None


def iterate_factors(group: Any) -> Iterator[tuple[str, Distribution]]:
    """Yield name and distribution of each factor of a group, without omitted factors.

    A mapping field yields one factor per key: ``joints.elbow``.
    """
    for factor in fields(group) if group is not None else ():
        value = getattr(group, factor.name)
        if isinstance(value, Mapping):
            yield from ((f"{factor.name}.{key}", inner) for key, inner in value.items())
        elif value is not None:
            yield factor.name, value


def get_factor(domain: Domain, path: str) -> Distribution:
    """Return the distribution at a factor path such as ``die/3/edge_m``."""
    group, *_, factor = path.split("/")
    name, _, key = factor.partition(".")
    value = getattr(getattr(domain, group), name)
    distribution: Distribution = value[key] if key else value
    return distribution


SINGLETON_GROUPS = ("layout", "table", "mat", "wall", "light", "sky", "window", "haze", "backdrop")
"""Groups sampled once per scene; all others are sampled for each instance."""
