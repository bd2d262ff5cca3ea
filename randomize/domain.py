"""A domain: every factor of a tabletop scene with the distribution it is drawn from.

A group is a frozen dataclass whose fields are distributions. Its factors are drawn from streams of
their own, named ``group/factor`` (``die/3/edge_m`` for the fourth die), so that adding a factor or
redrawing a group changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sim2cam.randomize.distributions import Distribution


@dataclass(frozen=True)
class LayoutFactors:
    """How many objects there are, and how they come to lie.

    Attributes:
        distractor_count: number of things that are not to be found.
        surface: ``table``, ``mat`` (on the table), ``tray`` (with walls), ``bin`` (floor and walls of
            one stuff) or ``shelf`` (boards above each other, open towards -y, with things on each).
        region_m: radius in which the objects are dropped.
        drop_height_m: height of the lowest one.
        speed_m_s, spin_rad_s: how fast they are thrown, sideways and around.
        surface_side_m: side of mat, tray, bin or shelf.
        aspect: its other side, over the first.
        wall_m: height of the walls of tray or bin, and from board to board of a shelf.
        shelf_count: boards of the shelf on which things lie.
        object_count: number of objects from files; none when it is left out.
        die_count, block_count, board_count, card_count, twisty_count, tin_count, carton_count, bolt_count,
            nut_count: number of each; none when it is left out.
        cable_count, paper_count, hand_count: number of each, which are in the way; none when it is left
            out.
        fixture_count: number of things that stand fixed; none when it is left out.
        decal_count: number of decals on all things together; none when it is left out.
        same_look: whether all dice look like the first one.
        arrangement: how what is to be found is let go, as ``arrange`` tells; ``throw`` when it is
            left out.
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
    """A material: two colours (hue, saturation, value, 0 to 1 each) in a pattern.

    Attributes:
        material: a family of ``families``, whose distributions take the place of the others here, or
            ``own`` for these.
        metallic, emission, relief: see ``scene.material``; 0 when they are left out.
        dust, scratches, stains, fingerprints, edges: see ``scene.material.Wear``; 0 when they are
            left out.
        picture: a name among the recipe's ``[pictures]``, in the place of colours and pattern, or
            ``none``.
        picture_m: how wide a picture is that does not say itself. On tables a wider one than half a
            metre lies in the middle, its mirror images around it.
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
    """Where one object is let go, and how its mass lies in it.

    Attributes:
        throw_angle_rad, throw_radius: where in the region it is dropped.
        azimuth_rad, share: direction and share of the layout's speed and spin.
        mass_offset_x, mass_offset_y, mass_offset_z: how far the centre of its mass is off the middle,
            over its sides along its own axes; 0 when it is left out.
        drag, spin_drag: share of velocity and spin that it loses in a second; 0 when it is left out.
        x_m, y_m, z_m: where a ``placed`` layout lets it go: its origin, and its lowest point above the
            table; 0 when it is left out.
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
    """An object that is let go turned anyhow.

    Attributes:
        rotation_a, rotation_b, rotation_c: three numbers of 0 to 1 that make a uniform rotation.
        yaw_rad: instead, how it is turned about the vertical, standing as its own frame has it.
    """

    rotation_a: Distribution
    rotation_b: Distribution
    rotation_c: Distribution
    yaw_rad: Distribution | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class FlatDropFactors(DropFactors):
    """A flat thing that is let go upper side up, or nearly.

    Attributes:
        yaw_rad: how it is turned about the vertical.
        lean_rad, lean_angle_rad: how far it leans then, and which way.
    """

    yaw_rad: Distribution
    lean_rad: Distribution
    lean_angle_rad: Distribution


@dataclass(frozen=True)
class DieFactors(TumblingDropFactors):
    """Shape and mechanics of one die; lengths over its edge except ``edge_m``.

    Attributes:
        pip_ace, pip_two, pip_three, pip_rows: as ``Pips`` has them; 1 without them.
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
    """Tones of one die: ``white``, ``black`` or ``color`` (then by hue, saturation, value).

    Attributes:
        pip_contrast: least distance between pips and what they stand on in sRGB, 0 to 1; pips nearer than
            that are moved towards white or black.
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
        mass_share, friction_share, restitution_share: how far within the interval of each asset, 0
            to 1; the asset says the interval.
        asset: its name, as ``sim2cam assets`` lists it; when left out all are alike.
        joints: for each joint of an asset, by its name, how far it is on its way from its lower (0) to
            its upper limit (1); those left out stand anywhere there.
    """

    mass_share: Distribution
    friction_share: Distribution
    restitution_share: Distribution
    asset: Distribution | None = None
    joints: Mapping[str, Distribution] = field(default_factory=dict)


@dataclass(frozen=True)
class FixtureFactors:
    """A thing of the recipe's ``[assets]`` that stands fixed: a robot, a piece of furniture.

    Attributes:
        x_m, y_m, z_m: where its origin is, from the middle of the table.
        yaw_rad: how it is turned about the vertical.
        labelled: whether it is to be found.
        friction_share, asset, joints: as an object has them.
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
    """One block: a cube, or a brick.

    Attributes:
        category: what it is labelled as, of the recipe's categories. With ``given``, colours and
            sides follow it.
        length_m: its first side.
        width, height: the others, over the first.
        rounding: radius of edges, over the shortest side.
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
    """One calibration board; see ``scene.asset.Board``.

    Attributes:
        ink: how much light its dark squares return.
        held: whether it hangs where it is let go, as if somebody held it there.
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
    """One playing card; see ``scene.asset.Card``.

    Attributes:
        face: rank and suit, as ``10H``.
        face_down: whether it shows its back.
        width_m, thickness_m: sides.
        aspect: its height over its width.
        corner: radius of its corners over its width.
        back_hue, back_saturation, back_value: colour of the print on its back.
        pictured: whether its face is the one of the recipe's ``[pictures]`` that is named as it is,
            as ``10H.jpg``, and its back ``back.jpg``, where there is one.
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
        scramble: number of the scramble that its colours have been through, 0 to ``SCRAMBLES - 1``.
        turned, turned_rad: the face that is not quite where it belongs, and how far it is turned.
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
    """The six colours of one twisty cube, before any move."""

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
    """What is printed on one tin, carton or paper; see ``scene.packages.Label``.

    Attributes:
        picture: a name among the recipe's ``[pictures]``, or ``none``.
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
        category: what it is labelled as and what it says, of the recipe's categories.
        radius_m: of it.
        height: its height over its width.
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
        category: what it is labelled as and what it says, of the recipe's categories.
        height_m: its upright side.
        width, depth: the others, along its front and from there to its back, over the first.
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
        category: what it is labelled as, of the recipe's categories.
        diameter_m: of its thread.
        length, pitch, head, head_height: over that.
        threaded: how much of its length has a thread.
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
        category: what it is labelled as, of the recipe's categories.
        diameter_m: of its thread.
        pitch, across, height: over that.
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
    """A thing that is not to be found.

    Attributes:
        shape: ``box``, ``cylinder``, ``sphere``, or ``asset``, which has a size of its own.
        size_m: its longest side.
        flatness: height over that.
        slimness: second side over the first.
        radius, angle_rad: where it is dropped, the radius over that of the objects.
        asset: the name of one of the recipe's ``[assets.clutter]``; when left out all are alike.
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
    """A cable that lies among the objects.

    Attributes:
        radius_m, length_m: of it.
        sway_rad, ripple_rad: how far its direction swings, in one wave and in another that is thrice
            as fast.
        phase_rad: where on these waves it begins.
        radius, angle_rad: where its middle lies, the radius over that of the objects.
        yaw_rad: how it is turned.
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
    """A sheet of paper, stiff, that is dropped on the objects.

    Attributes:
        width_m, thickness_m: of it.
        aspect: its height over its width.
        heading: what is written above the rest.
        radius, angle_rad: where its middle is dropped, the radius over that of the objects.
        yaw_rad: how it is turned.
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
    """A hand that is held over the objects; see ``Body.arrives_last``.

    Attributes:
        length_m: from the wrist to the tip of the middle finger.
        curl_rad: how far each finger is bent at its knuckle.
        spread_rad: how far the outer fingers lie off the middle.
        pointing: whether only the index finger is straight.
        left: whether it is a left hand.
        height_m: of its lowest point over the table.
        radius, angle_rad: over which point its fingers are, the radius over that of the objects.
        azimuth_rad: which way it points.
        pitch_rad: how far downwards.
        roll_rad: how far it is turned about its arm, 0 with the palm down.
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
    """One sticker, or line of print, on something in the scene; see ``scene.decal.Decal``.

    Attributes:
        on: what it is on: ``die``, ``board``, ``card``, ``tin``, ``carton``, ``paper``, ``mat`` (the
            floor of a tray or bin, too) or ``table`` (within half a metre). In a scene without any it is
            left out.
        which, side: which of these, and which of its sides, from 0, the first, to 1, the last.
        x, y: where on that side, from 0, at its left or upper edge, to 1.
        width_m: of it; smaller where that does not fit.
        angle_rad: how far it is turned.
        wear: how far it has come off from its edges.
        seed: where it has, and the characters of what says nothing.
        backed: whether letters stand on a ground, as on stickers.
        text: what it says; characters that ``seed`` draws when it is left out.
        length: how many of these; 8 when it is left out.
        picture: a name among the recipe's ``[pictures]``, in the place of letters, or ``none``.
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
    """A photo that stands upright behind the scene, lit as all else is; things cannot pass it.

    Attributes:
        picture: a name among the recipe's ``[pictures]``, or ``none``.
        width_m: of the photo; what it lacks to a square is its mirror image.
        distance_m: from the middle of the table.
        height_m: of its middle, above the table.
        azimuth_rad: from where it is looked at; that of a camera turns it towards that.
    """

    picture: Distribution
    width_m: Distribution
    distance_m: Distribution
    height_m: Distribution
    azimuth_rad: Distribution


@dataclass(frozen=True)
class LightFactors:
    """Sky and lamps; levels are relative, the camera's meter sets the exposure.

    Attributes:
        lamp_count: number of lamps.
        sky_level: radiance of the zenith.
        horizon: radiance of the horizon over that of the zenith.
        warmth: -1 blue to 1 orange.
        near_count: number of near lights; none when it is left out.
        temperature_k: colour of the sky as of a black body, in place of its warmth.
        white_k: that of light which is white to the camera; 6504 when it is left out.
        flicker_hz, flicker_phase_rad: see ``scene.light.Flicker``; none when the first is left out or 0.
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
    """One lamp of the light.

    Attributes:
        temperature_k: its colour as of a black body, in place of its warmth.
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
    """One light in the room, which shines at the middle of the table; see ``scene.light``.

    Attributes:
        kind: ``point``, ``spot`` or ``area``.
        level: irradiance there, on a surface that faces it.
        distance_m, elevation_rad, azimuth_rad: where it is, from the middle of the table.
        size_m: diameter of a point or spot, side of a square area.
        cone_rad: angle off its axis at which a spot ends; it shines fully up to four fifths of it.
        warmth: -1 blue to 1 orange.
        temperature_k, flicker: as of a lamp.
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
    """A photographed sky, in the place of that of the light and of its lamps.

    Attributes:
        turn_rad: how far it is turned about the vertical.
        level: radiance of the even sky that would shed as much on the table.
        picture: its name among the recipe's ``[skies]``, or ``none`` for the sky and the lamps of the
            light; any of them when it is left out.
        sun: whether its brightest spot is a lamp that casts shadows, where it is bright enough; it
            is when this is left out.
    """

    turn_rad: Distribution
    level: Distribution
    picture: Distribution | None = None
    sun: Distribution | None = None


@dataclass(frozen=True)
class WindowFactors:
    """A window, through which a time of day shines on the table; see ``illuminants``.

    The whole table lies in the sun when its middle sees the sun through the window.

    Attributes:
        hour: by the sun, 12 is noon.
        day: of the year.
        latitude_rad: of the place, north positive.
        transmittance: of the air straight up: 0.75 on the clearest days, 0.4 and less overcast.
        level: irradiance of the sun outside the air.
        facing_rad: where one looks who looks out, from north over east.
        azimuth_rad: where it is in the scene, from the middle of the table.
        distance_m, sill_m: from there, and its lower edge above the table.
        width_m, height_m: sides.
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
    """Air that scatters light; see ``scene.light.Haze``.

    Attributes:
        extinction_per_m: share of the light lost on a short way, over the way.
        brightness: radiance of air without end over that of the horizon.
    """

    extinction_per_m: Distribution
    brightness: Distribution


@dataclass(frozen=True)
class ViewFactors:
    """Where a camera stands.

    Attributes:
        fov_rad: horizontal field of view.
        tilt_rad: angle off the vertical.
        azimuth_rad, roll_rad: direction it looks from; turn of the image.
        aim_radius, aim_angle_rad: the point looked at, the radius over that of the objects.
        aim_height_m: how high above the table it is; 0 when it is left out.
        die_px: side of a 16 mm die in the middle of a picture 640 pixels wide; sets the distance.
        object_px: the same for the longest side of the middle one, by size, of the objects that the
            scene has. Either this one or ``die_px`` is there.
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
    """OpenCV's coefficients, and the principal point off the centre over the width.

    With ``k4`` and what follows lenses are rational, with ``s1`` and what follows they have a thin
    prism; what is left out is 0. ``aspect`` is the focal length down over that across, 1 when left out.
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
    """Kannala-Brandt coefficients; with them ``lens`` moves the principal point and bends nothing."""

    k1: Distribution
    k2: Distribution
    k3: Distribution
    k4: Distribution


@dataclass(frozen=True)
class ExposureFactors:
    """What the camera's automatics leave wrong; see ``scene.camera.Sensor``."""

    exposure_ev: Distribution
    red_gain: Distribution
    blue_gain: Distribution


@dataclass(frozen=True)
class SensorFactors:
    """Noise, sharpness, tone and compression; see ``scene.sensor.Sensor``.

    Responses that are left out are 1; the shoulder and the format are as they are there.
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
    """A colour filter before each pixel, and its noise; see ``scene.sensor.Mosaic``.

    What is left out is as it is there: nothing is added.
    """

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
    """What the camera's processor does besides; see ``scene.sensor.Processing``."""

    demosaic: Distribution | None = None
    shading_correction: Distribution | None = None
    color_correction: Distribution | None = None
    local_tone: Distribution | None = None
    chroma_blur_px: Distribution | None = None
    jpeg_subsampling: Distribution | None = None


@dataclass(frozen=True)
class AutomaticsFactors:
    """How the camera follows the light; see ``scene.sensor.Automatics``."""

    exposure_lag_s: Distribution | None = None
    white_balance: Distribution | None = None
    white_lag_s: Distribution | None = None
    fixed_gain: Distribution | None = None


@dataclass(frozen=True)
class DefocusFactors:
    """A thin lens; see ``scene.glass``.

    Attributes:
        aperture_m: diameter of the entrance pupil.
        focus: distance that is sharp, over that of the point looked at.
    """

    aperture_m: Distribution
    focus: Distribution


@dataclass(frozen=True)
class LateralColorFactors:
    """How much larger the pictures in red and in blue are; see ``scene.glass``."""

    red: Distribution | None = None
    blue: Distribution | None = None


@dataclass(frozen=True)
class FieldBlurFactors:
    """A point spread that grows towards the corners; see ``scene.glass``."""

    corner_px: Distribution


@dataclass(frozen=True)
class GlareFactors:
    """Light that goes astray in the lens; see ``scene.glass``."""

    veil: Distribution | None = None
    bloom: Distribution | None = None
    bloom_radius: Distribution | None = None
    ghost: Distribution | None = None
    ghost_scale: Distribution | None = None


@dataclass(frozen=True)
class DirtFactors:
    """Smears on the lens; see ``scene.glass``."""

    coverage: Distribution
    loss: Distribution
    size: Distribution | None = None
    seed: Distribution | None = None


@dataclass(frozen=True)
class DropletFactors:
    """Drops on the lens; see ``scene.glass``."""

    count: Distribution
    radius: Distribution
    seed: Distribution | None = None


@dataclass(frozen=True)
class StereoFactors:
    """A second eye at the camera's right; see ``scene.camera.Camera``."""

    baseline_m: Distribution


@dataclass(frozen=True)
class DepthCameraFactors:
    """A depth camera; see ``scene.depth_camera``. What is left out is as that kind has it.

    Attributes:
        kind: ``structured_light``, ``time_of_flight`` or ``active_stereo``.
        noise_seed: which noise.
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
    """When the rows of a picture gather light; see ``scene.camera.Shutter``."""

    exposure_s: Distribution
    readout_s: Distribution


@dataclass(frozen=True)
class MotionFactors:
    """How a camera moves, along and around its own axes (x right, y down, z forward).

    Attributes:
        right_m_s, down_m_s, forward_m_s: velocity.
        pitch_rad_s, yaw_rad_s, roll_rad_s: spin around x, y and z.
    """

    right_m_s: Distribution
    down_m_s: Distribution
    forward_m_s: Distribution
    pitch_rad_s: Distribution
    yaw_rad_s: Distribution
    roll_rad_s: Distribution


@dataclass(frozen=True)
class Domain:
    """All groups of a tabletop scene with dice, objects from files, blocks, boards, cards, twisty
    cubes, tins, cartons, bolts, nuts, or several.

    ``die``, ``die_color``, ``build_die_surface``, ``object``, ``object_surface`` (of those whose file has
    no colours), ``fixture``, ``fixture_surface``, ``block``, ``block_surface``, ``board``, ``board_surface``, ``card``,
    ``card_surface`` (what boards and cards are printed on), ``twisty``, ``twisty_color``,
    ``build_twisty_mesh`` (its bare plastic), ``tin``, ``tin_label``, ``build_tin_mesh`` (its bare ends),
    ``carton``, ``carton_label``, ``build_carton_mesh`` (how it shines),
    ``bolt``, ``build_bolt_mesh``, ``nut``, ``build_nut_mesh``, ``cable``, ``cable_surface``, ``paper``, ``paper_label``,
    ``paper_surface`` (how it shines), ``hand``, ``hand_surface``, ``distractor``, ``distractor_surface``,
    ``decal``, ``lamp`` and ``near_light`` are drawn for each instance; ``view``, ``lens``, ``fisheye``, ``exposure``, ``sensor``, ``shutter``,
    ``motion``, ``stereo``, ``depth_camera`` and what follows it for each view. Without ``fisheye``
    lenses are those of ``lens``, without ``shutter`` pictures are taken in an instant, without
    ``motion`` cameras stand still, without ``stereo`` they have one eye, and without
    ``depth_camera`` they measure no depth; without the groups that follow it they have no colour
    filters, no further processing and no lag, and lenses without faults.
    Without ``backdrop`` nothing stands behind the scene.
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
    """Yield the factors of a group and their distributions, without those that are left out.

    What a factor has for each of several names is a factor each: ``joints.elbow``.
    """
    for factor in fields(group) if group is not None else ():
        found = getattr(group, factor.name)
        if isinstance(found, Mapping):
            yield from ((f"{factor.name}.{name}", one) for name, one in found.items())
        elif found is not None:
            yield factor.name, found


def get_factor(domain: Domain, path: str) -> Distribution:
    """Return the distribution of the factor that a path (``die/3/edge_m``) leads to."""
    group, *_, factor = path.split("/")
    name, _, key = factor.partition(".")
    found = getattr(getattr(domain, group), name)
    distribution: Distribution = found[key] if key else found
    return distribution


SINGLETON_GROUPS = ("layout", "table", "mat", "wall", "light", "sky", "window", "haze", "backdrop")
"""Groups that a scene has one of; all others are drawn for each instance."""
