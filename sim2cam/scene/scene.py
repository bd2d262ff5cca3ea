"""Complete description of a scene as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from sim2cam.errors import Sim2CamError, SpecError
from sim2cam.geometry.motion import RigidMotion, Twist
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.camera import Camera
from sim2cam.scene.decal import SIDE_COUNTS, Decal
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import Environment
from sim2cam.scene.material import Material
from sim2cam.scene.packages import Carton, Sheet, Tin
from sim2cam.scene.shape import Asset, Card, MeshFile


@dataclass(frozen=True)
class Body:
    """A rigid object.

    Attributes:
        name: Unique name in the scene.
        asset: Shape.
        material: Surface.
        pose: Object frame in the world.
        is_fixed: Whether it never moves; its mass is ignored.
        mass_kg: Mass.
        mass_offset_m: Offset of the centre of mass from that of the shape, in the object frame.
        friction, restitution: Coulomb coefficient and restitution. Contacts use the products of both bodies, so
            on a table with 1 and 1 a body has its own values.
        drag, spin_drag: Fraction of velocity and spin lost per second.
        velocity_m_s, spin_rad_s: Linear and angular velocity in the world.
        is_target: Whether it is labelled, with the category of its asset.
        arrives_last: Whether it is placed when all others are at rest; in sequences it is there before, without
            collisions.
        decals: Stickers and prints on its sides, later ones on top; None without them.
    """

    name: str
    asset: Asset
    material: Material
    pose: Pose
    is_fixed: bool = False
    mass_kg: float = 0.0
    friction: float = 0.5
    restitution: float = 0.2
    mass_offset_m: Vec3 = (0.0, 0.0, 0.0)
    drag: float = 0.0
    spin_drag: float = 0.0
    velocity_m_s: Vec3 = (0.0, 0.0, 0.0)
    spin_rad_s: Vec3 = (0.0, 0.0, 0.0)
    is_target: bool = False
    arrives_last: bool = False
    decals: tuple[Decal, ...] | None = None

    def __post_init__(self) -> None:
        sides = SIDE_COUNTS.get(self.asset.kind, 0)
        for decal in self.decals or ():
            if not 0 <= decal.side < sides:
                raise SpecError(
                    f"body '{self.name}', a {self.asset.kind}, has a decal on side {decal.side}. "
                    f"Number of its sides for decals: {sides}."
                )

    def get_motion(self) -> RigidMotion:
        """Return the motion over a short time without contacts."""
        return RigidMotion(self.pose, Twist(self.velocity_m_s, self.spin_rad_s))

    def advance(self, seconds: float) -> Body:
        """Return the body at a later time."""
        return replace(self, pose=self.get_motion().compute_pose(seconds))


@dataclass(frozen=True)
class Scene:
    """Bodies, light and cameras."""

    bodies: tuple[Body, ...]
    environment: Environment
    cameras: tuple[Camera, ...]

    def advance(self, seconds: float) -> Scene:
        """Return the scene a short time later; cameras do not move."""
        return replace(self, bodies=tuple(body.advance(seconds) for body in self.bodies))

    def replace_paths(self, paths: Mapping[str, str]) -> Scene:
        """Return the scene with file paths replaced by a mapping."""
        bodies = tuple(_replace_body_paths(body, paths) for body in self.bodies)
        return replace(self, bodies=bodies, environment=_replace_sky_path(self.environment, paths))

    def get_file_paths(self) -> tuple[str, ...]:
        """Return the paths of all files of the scene."""
        return tuple(file.path for file in self._collect_files())

    def get_file_digests(self) -> dict[str, str]:
        """Return the expected digest of each file by path."""
        return {file.path: file.digest for file in self._collect_files()}

    def _collect_files(self) -> tuple[MeshFile | ImageFile, ...]:
        meshes = [body.asset for body in self.bodies if isinstance(body.asset, MeshFile)]
        images = [image for body in self.bodies for image in _collect_body_images(body)]
        sky = self.environment.environment_map
        files = (*images, sky.file if sky else None)
        return (*meshes, *(file for file in files if file is not None))

    def to_json(self) -> str:
        """Return the scene as JSON for ``from_json``."""
        return _ADAPTER.dump_json(self, exclude_none=True).decode()

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """Return the scene of a JSON text.

        Raises:
            Sim2CamError: If the text is not a scene.
        """
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise Sim2CamError(f"not a scene: {error}") from error


def _collect_body_images(body: Body) -> tuple[ImageFile | None, ...]:
    """Return the images of a body's texture, print and decals."""
    printed: tuple[ImageFile | None, ...] = ()
    match body.asset:
        case Card():
            printed = (body.asset.face_image, body.asset.back_image)
        case Tin() | Carton() | Sheet():
            printed = (body.asset.label.image,)
    decal_images = (decal.image for decal in body.decals or ())
    return (body.material.texture.image, *printed, *decal_images)


def _replace_body_paths(body: Body, paths: Mapping[str, str]) -> Body:
    asset, material = body.asset, body.material

    def replace_image(file: ImageFile | None) -> ImageFile | None:
        return None if file is None else _replace_file_path(file, paths)

    match asset:
        case MeshFile():
            asset = replace(asset, path=paths.get(asset.path, asset.path))
        case Card():
            front, back = replace_image(asset.face_image), replace_image(asset.back_image)
            asset = replace(asset, face_image=front, back_image=back)
        case Tin() | Carton() | Sheet():
            label = replace(asset.label, image=replace_image(asset.label.image))
            asset = replace(asset, label=label)
    texture = replace(material.texture, image=replace_image(material.texture.image))
    decals = body.decals and tuple(
        replace(decal, image=replace_image(decal.image)) for decal in body.decals
    )
    return replace(body, asset=asset, material=replace(material, texture=texture), decals=decals)


def _replace_file_path(file: ImageFile, paths: Mapping[str, str]) -> ImageFile:
    return replace(file, path=paths.get(file.path, file.path))


def _replace_sky_path(environment: Environment, paths: Mapping[str, str]) -> Environment:
    if environment.environment_map is None:
        return environment
    file = _replace_file_path(environment.environment_map.file, paths)
    return replace(environment, environment_map=replace(environment.environment_map, file=file))


_ADAPTER: TypeAdapter[Scene] = TypeAdapter(Scene)
