"""A scene: everything a picture is made from, as plain values."""

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
        name: unique in the scene.
        asset: its shape.
        material: its surface.
        pose: the object's frame in the world.
        is_fixed: never moves, has no mass.
        mass_kg: mass of one that moves.
        mass_offset_m: in its own frame, where the centre of its mass is from that of its shape.
        friction, restitution: Coulomb coefficient and bounce; of two bodies that touch, the products
            count, so that one on a table with 1 and 1 has its own.
        drag, spin_drag: share of its velocity and of its spin that it loses in a second.
        velocity_m_s, spin_rad_s: linear and angular velocity in the world.
        is_target: labelled, by the category that its asset shows.
        arrives_last: held, and put there when all others are at rest; in a film it is there before and
            touches nothing.
        decals: what is stuck to or printed on its sides, later ones over earlier ones; None for nothing.
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
                    f"Sides that it has for them: {sides}."
                )

    def get_motion(self) -> RigidMotion:
        """Return where it is over a short time, in which nothing stops it."""
        return RigidMotion(self.pose, Twist(self.velocity_m_s, self.spin_rad_s))

    def advance(self, seconds: float) -> Body:
        """Return it that much later."""
        return replace(self, pose=self.get_motion().compute_pose(seconds))


@dataclass(frozen=True)
class Scene:
    """Bodies, light and the cameras that look at them."""

    bodies: tuple[Body, ...]
    environment: Environment
    cameras: tuple[Camera, ...]

    def advance(self, seconds: float) -> Scene:
        """Return the scene a short time later; its cameras stay where they are."""
        return replace(self, bodies=tuple(body.advance(seconds) for body in self.bodies))

    def replace_paths(self, paths: Mapping[str, str]) -> Scene:
        """Return the scene with other paths of files, by those that they have."""
        bodies = tuple(_replace_body_paths(body, paths) for body in self.bodies)
        return replace(self, bodies=bodies, environment=_replace_sky_path(self.environment, paths))

    def get_file_paths(self) -> tuple[str, ...]:
        """Return the paths of all files that it is made of."""
        return tuple(file.path for file in self._collect_files())

    def get_file_digests(self) -> dict[str, str]:
        """Return what each of its files has to hold, by its path."""
        return {file.path: file.digest for file in self._collect_files()}

    def _collect_files(self) -> tuple[MeshFile | ImageFile, ...]:
        meshes = [body.asset for body in self.bodies if isinstance(body.asset, MeshFile)]
        pictures = [picture for body in self.bodies for picture in _collect_body_images(body)]
        sky = self.environment.environment_map
        files = (*pictures, sky.file if sky else None)
        return (*meshes, *(file for file in files if file is not None))

    def to_json(self) -> str:
        """Return the scene as JSON; ``from_json`` gives an equal one back."""
        return _ADAPTER.dump_json(self, exclude_none=True).decode()

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """Return the scene of a JSON text.

        Raises:
            Sim2CamError: the text is not a scene.
        """
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise Sim2CamError(f"not a scene: {error}") from error


def _collect_body_images(body: Body) -> tuple[ImageFile | None, ...]:
    """Return the pictures of a body's surface, and those printed on it."""
    printed: tuple[ImageFile | None, ...] = ()
    match body.asset:
        case Card():
            printed = (body.asset.face_image, body.asset.back_image)
        case Tin() | Carton() | Sheet():
            printed = (body.asset.label.image,)
    stuck = (decal.image for decal in body.decals or ())
    return (body.material.texture.image, *printed, *stuck)


def _replace_body_paths(body: Body, paths: Mapping[str, str]) -> Body:
    asset, material = body.asset, body.material

    def there(file: ImageFile | None) -> ImageFile | None:
        return None if file is None else _replace_file_path(file, paths)

    match asset:
        case MeshFile():
            asset = replace(asset, path=paths.get(asset.path, asset.path))
        case Card():
            front, back = there(asset.face_image), there(asset.back_image)
            asset = replace(asset, face_image=front, back_image=back)
        case Tin() | Carton() | Sheet():
            label = replace(asset.label, image=there(asset.label.image))
            asset = replace(asset, label=label)
    texture = replace(material.texture, image=there(material.texture.image))
    decals = body.decals and tuple(replace(one, image=there(one.image)) for one in body.decals)
    return replace(body, asset=asset, material=replace(material, texture=texture), decals=decals)


def _replace_file_path(file: ImageFile, paths: Mapping[str, str]) -> ImageFile:
    return replace(file, path=paths.get(file.path, file.path))


def _replace_sky_path(environment: Environment, paths: Mapping[str, str]) -> Environment:
    if environment.environment_map is None:
        return environment
    file = _replace_file_path(environment.environment_map.file, paths)
    return replace(environment, environment_map=replace(environment.environment_map, file=file))


_ADAPTER: TypeAdapter[Scene] = TypeAdapter(Scene)
