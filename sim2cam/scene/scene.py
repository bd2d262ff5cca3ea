"""Complete description of a scene as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from sim2cam.errors import Sim2CamError, SpecError
from sim2cam.geometry.motion import RigidMotion, Twist
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.camera import Camera
from sim2cam.scene.decal import Decal
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import Environment
from sim2cam.scene.material import Material
from sim2cam.scene.shape import AnyShape, File, collect_files, replace_file_paths


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
        is_target: Whether it is labelled.
        arrives_last: Whether it is placed when all others are at rest; in sequences it is there before, without
            collisions.
        decals: Stickers and prints on its sides, later ones on top; None without them.
        category: Category of the label unless the pose hides it; None for that of the asset.
    """

    name: str
    asset: AnyShape
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
    category: str | None = None

    def __post_init__(self) -> None:
        if self.arrives_last and not self.is_fixed:
            raise SpecError(
                f"body '{self.name}' has arrives_last, so it must be fixed. Set is_fixed."
            )
        sides = self.asset.side_count
        for decal in self.decals or ():
            if not 0 <= decal.side < sides:
                raise SpecError(
                    f"body '{self.name}', a {self.asset.kind}, has a decal on side {decal.side}. "
                    f"Number of its sides for decals: {sides}."
                )

    def get_category(self) -> str:
        """Return the category of the label, which may depend on the pose."""
        hidden = self.asset.get_hidden_category(self.pose)
        return hidden or self.category or self.asset.get_category(self.pose)

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
        return replace_file_paths(self, paths)

    def get_file_paths(self) -> tuple[str, ...]:
        """Return the paths of all files of the scene, meshes first."""
        return tuple(file.path for file in self._collect_files())

    def get_file_digests(self) -> dict[str, str]:
        """Return the expected digest of each file by path."""
        return {file.path: file.digest for file in self._collect_files()}

    def _collect_files(self) -> tuple[File, ...]:
        return tuple(sorted(collect_files(self), key=lambda file: isinstance(file, ImageFile)))

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


_ADAPTER: TypeAdapter[Scene] = TypeAdapter(Scene)
