"""Bodies with bounding volumes from sampled factors, before they are separated from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3
from sim2cam.objects.kind import DropFactors, ObjectInstance, ObjectKind, compute_yaw_rotation
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.solid import ORIGIN, Solid
from sim2cam.randomize.curves import make_cable, make_hand
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import (
    CableFactors,
    DistractorFactors,
    FileObjectFactors,
    FixtureFactors,
    HandFactors,
    PaperFactors,
)
from sim2cam.randomize.materials import make_material
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.material import Material
from sim2cam.scene.package_label import PackageLabelFactors
from sim2cam.scene.scene import Body

_DISTRACTOR_MASS_KG = 0.05  # of primitive shapes
_MIN_HEIGHT_M = 0.002  # thinner bodies sink into the table within one step
_CABLE_KG_M3, _PAPER_KG_M3 = 1500.0, 800.0


@dataclass(frozen=True)
class Placeable:
    """Body with its bounding volumes, in the frame of the body.

    Attributes:
        body: body; its pose gives the horizontal position and the rotation.
        center_m: centre of the bounding sphere.
        radius_m: radius of the bounding sphere.
        box_min_m, box_max_m: opposite corners of the bounding box.
        part_spheres: bounding spheres of its parts; empty for a single part.
    """

    body: Body
    center_m: Vec3
    radius_m: float
    box_min_m: Vec3
    box_max_m: Vec3
    part_spheres: tuple[tuple[Vec3, float], ...] = ()

    def get_bounding_spheres(self) -> list[tuple[NDArray[np.float64], float]]:
        """Return the bounding spheres of its parts at its pose: centres (3,) and radii."""
        spheres = self.part_spheres or ((self.center_m, self.radius_m),)
        return [(self.body.pose.apply(np.array([center]))[0], radius) for center, radius in spheres]

    @property
    def length_m(self) -> float:
        """Longest side of its bounding box."""
        return max(b - a for a, b in zip(self.box_min_m, self.box_max_m, strict=True))


@dataclass(frozen=True)
class Placeables:
    """All loose and fixed bodies of a scene, by role.

    Attributes:
        targets: labelled objects.
        distractors: unlabelled solids.
        cables: cables below targets and distractors.
        papers: sheets dropped on everything else.
        fixtures: fixed objects.
    """

    targets: Sequence[Placeable]
    distractors: Sequence[Placeable] = ()
    cables: Sequence[Placeable] = ()
    papers: Sequence[Placeable] = ()
    fixtures: Sequence[Placeable] = ()


def make_placeables(
    factors: FactorValues, domain: Domain, assets: Sequence[AssetInfo]
) -> Placeables:
    """Create all bodies of a scene except supports and hands.

    Args:
        factors: sampled values.
        domain: domain with the kinds of its objects.
        assets: available objects from files.
    """
    makers: dict[str, Callable[[int], Placeable]] = {
        name: _make_object_maker(factors, name, kind) for name, kind in domain.object_groups.items()
    }
    makers["object"] = lambda i: _make_file_object(factors, i, assets)
    targets = [
        placeable for name in sorted(makers) for placeable in _repeat(factors, name, makers[name])
    ]
    return Placeables(
        targets,
        _repeat(factors, "distractor", lambda i: _make_distractor(factors, i, assets)),
        _repeat(factors, "cable", lambda i: _make_cable_body(factors, i)),
        _repeat(factors, "paper", lambda i: _make_paper(factors, i)),
        _repeat(factors, "fixture", lambda i: _make_fixture(factors, i, assets)),
    )


def make_hands(factors: FactorValues) -> list[Body]:
    """Create the hands over the objects, at their final poses."""
    return [_make_hand_body(factors, i) for i in range(_count(factors, "hand"))]


def _repeat(factors: FactorValues, group: str, make: Callable[[int], Placeable]) -> list[Placeable]:
    return [make(i) for i in range(_count(factors, group))]


def _count(factors: FactorValues, group: str) -> int:
    return int(factors.get_float_or(f"layout/{group}_count", 0))


def compute_position(factors: FactorValues, radius: float, azimuth: float) -> Vec3:
    """Return a point on the table from polar factors.

    Args:
        factors: sampled values.
        radius: radius over ``layout/region_m``.
        azimuth: angle in radians.
    """
    r = factors.get_float("layout/region_m") * radius
    return r * math.cos(azimuth), r * math.sin(azimuth), 0.0


def _make_object_maker(
    factors: FactorValues, group: str, kind: type[ObjectKind]
) -> Callable[[int], Placeable]:
    """Return a function that creates the labelled object with a given number."""

    def make(i: int) -> Placeable:
        path, look = f"{group}/{i}", 0 if factors.values.get("layout/same_look", False) else i
        own = factors.read(kind.factors_type, path)
        instance = ObjectInstance(
            own,
            factors.read(kind.factors_type, f"{group}/{look}"),
            {
                suffix: factors.read(group_type, f"{group}_{suffix}/{look}")
                for suffix, group_type in kind.group_types.items()
            },
            make_material(factors, f"{group}_surface/{look}"),
            factors.surface_images,
        )
        solid = kind.from_instance(instance)
        body = _make_thrown_body(
            factors, path, solid, own, _tint(instance.material, kind, instance)
        )
        category = factors.values.get(f"{path}/category")
        return _wrap_solid(
            replace(
                body,
                mass_kg=own.density_kg_m3 * solid.volume_m3,
                friction=own.friction,
                restitution=own.restitution,
                is_target=True,
                is_fixed=own.is_held,
                category=None if category is None or hasattr(own, "category") else str(category),
            )
        )

    return make


def _tint(
    material: Material, kind: type[ObjectKind], instance: ObjectInstance[DropFactors]
) -> Material:
    """Return a material in the colour that the kind chooses; images keep theirs."""
    color = kind.choose_color(instance)
    if color is None or material.texture.image is not None:
        return material
    return replace(material, texture=replace(material.texture, color_a=color))


def _make_thrown_body(
    factors: FactorValues,
    path: str,
    asset: Solid | AssetInfo,
    drop: DropFactors,
    material: Material,
) -> Body:
    """Create a body with initial pose, velocities, centre of mass and damping.

    The centre of mass that an asset defines is moved by the sampled offset.
    """
    speed = drop.share * factors.get_float("layout/speed_m_s")
    spin = drop.share * factors.get_float("layout/spin_rad_s")
    angle = drop.azimuth_rad
    offset = (drop.mass_offset_x, drop.mass_offset_y, drop.mass_offset_z)
    shape, measured_offset_m = (
        (asset.mesh, asset.mass_offset_m or ORIGIN)
        if isinstance(asset, AssetInfo)
        else (asset, ORIGIN)
    )
    return Body(
        path,
        shape,
        material,
        Pose(
            drop.compute_rotation(),
            compute_position(factors, drop.throw_radius, drop.throw_angle_rad),
        ),
        velocity_m_s=(speed * math.cos(angle), speed * math.sin(angle), 0.0),
        spin_rad_s=(-spin * math.sin(angle), spin * math.cos(angle), 0.3 * spin),
        mass_offset_m=vec3(np.multiply(offset, asset.size_m) + measured_offset_m),
        drag=drop.drag,
        spin_drag=drop.spin_drag,
    )


def _select_asset(
    name: str, assets: Sequence[AssetInfo], joints: Mapping[str, float] | None = None
) -> AssetInfo:
    """Return the asset with a name, with its joints at the sampled positions."""
    (info,) = (asset for asset in assets if asset.name == name)
    return info.pose_joints(joints or {})


def _make_fixture(factors: FactorValues, i: int, assets: Sequence[AssetInfo]) -> Placeable:
    path = f"fixture/{i}"
    fixture = factors.read(FixtureFactors, path)
    info = _select_asset(fixture.asset, assets, fixture.joints)
    body = Body(
        path,
        info.mesh,
        make_material(factors, f"fixture_surface/{i}"),
        Pose(
            compute_yaw_rotation(fixture.yaw_rad),
            vec3(np.array((fixture.x_m, fixture.y_m, fixture.z_m))),
        ),
        is_fixed=True,
        friction=info.friction.interpolate(fixture.friction_share),
        restitution=1.0,  # coefficients multiply, so the falling body decides
        is_target=bool(info.mesh.category) and fixture.labelled,
    )
    return replace(_wrap_asset(body, info), part_spheres=info.compute_link_spheres())


def _make_file_object(factors: FactorValues, i: int, assets: Sequence[AssetInfo]) -> Placeable:
    path = f"object/{i}"
    own = factors.read(FileObjectFactors, path)
    info = _select_asset(own.asset, assets, own.joints)
    body = _make_thrown_body(
        factors, path, info, own, make_material(factors, f"object_surface/{i}")
    )
    return _wrap_asset(
        replace(
            body,
            mass_kg=info.mass_kg.interpolate(own.mass_share),
            friction=info.friction.interpolate(own.friction_share),
            restitution=info.restitution.interpolate(own.restitution_share),
            is_target=bool(info.mesh.category),
        ),
        info,
    )


def _make_distractor(factors: FactorValues, i: int, assets: Sequence[AssetInfo]) -> Placeable:
    path = f"distractor/{i}"
    own = factors.read(DistractorFactors, path)
    info = _select_asset(own.asset, assets) if own.shape == "asset" else None
    body = Body(
        path,
        _make_primitive(own) if info is None else info.mesh,
        make_material(factors, f"distractor_surface/{i}"),
        Pose(
            compute_yaw_rotation(own.yaw_rad), compute_position(factors, own.radius, own.angle_rad)
        ),
        mass_kg=_DISTRACTOR_MASS_KG if info is None else info.mass_kg.interpolate(0.5),
        mass_offset_m=ORIGIN if info is None else info.mass_offset_m or ORIGIN,
        friction=0.9,
        restitution=0.0,
    )
    return _wrap_solid(body) if info is None else _wrap_asset(body, info)


def _make_primitive(own: DistractorFactors) -> Cuboid | Cylinder | Sphere:
    height = max(_MIN_HEIGHT_M, own.size_m * own.flatness)
    match own.shape:
        case "box":
            return Cuboid((own.size_m, own.size_m * own.slimness, height))
        case "cylinder":
            return Cylinder(own.size_m / 2, height)
        case _:
            return Sphere(own.size_m / 2)


def _make_cable_body(factors: FactorValues, i: int) -> Placeable:
    path = f"cable/{i}"
    own = factors.read(CableFactors, path)
    return _wrap_solid(
        Body(
            path,
            make_cable(own),
            make_material(factors, f"cable_surface/{i}"),
            Pose(
                compute_yaw_rotation(own.yaw_rad),
                compute_position(factors, own.radius, own.angle_rad),
            ),
            mass_kg=_CABLE_KG_M3 * math.pi * own.radius_m**2 * own.length_m,
            friction=0.9,
            restitution=0.0,
        )
    )


def _make_paper(factors: FactorValues, i: int) -> Placeable:
    path = f"paper/{i}"
    own = factors.read(PaperFactors, path)
    size = (own.width_m, own.width_m * own.aspect, own.thickness_m)
    label = factors.read(PackageLabelFactors, f"paper_label/{i}")
    return _wrap_solid(
        Body(
            path,
            Sheet(size, label.to_label(own.heading, factors.surface_images)),
            make_material(factors, f"paper_surface/{i}"),
            Pose(
                compute_yaw_rotation(own.yaw_rad),
                compute_position(factors, own.radius, own.angle_rad),
            ),
            mass_kg=_PAPER_KG_M3 * math.prod(size),
            friction=0.6,
            restitution=0.0,
        )
    )


def _make_hand_body(factors: FactorValues, i: int) -> Body:
    path = f"hand/{i}"
    own = factors.read(HandFactors, path)
    asset = make_hand(own)
    # the hand points along its x: roll about the arm, then pitch, then azimuth
    rotation = Rotation.from_euler("ZYX", [own.azimuth_rad, own.pitch_rad, own.roll_rad])
    heights = [rotation.apply(strand.points_m)[:, 2] - strand.radii_m for strand in asset.strands]
    lowest = min(float(strand_heights.min()) for strand_heights in heights)
    x, y, _ = compute_position(factors, own.radius, own.angle_rad)
    pose = Pose(quaternion(rotation), (x, y, own.height_m - lowest))
    surface = make_material(factors, f"hand_surface/{i}")
    return Body(path, asset, surface, pose, is_fixed=True, arrives_last=True)


def _wrap_solid(body: Body) -> Placeable:
    """Return a solid with its bounding volumes."""
    assert isinstance(body.asset, Solid)
    return Placeable(body, body.asset.center_m, body.asset.bounding_radius_m, *body.asset.bounds_m)


def _wrap_asset(body: Body, info: AssetInfo) -> Placeable:
    """Return an object from a file with its bounding volumes."""
    return Placeable(body, info.center_m, info.radius_m, info.low_m, info.high_m)
