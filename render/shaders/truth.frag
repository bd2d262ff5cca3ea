#version 410 core
// Ground truth at the pixel's centre.
in vec3 world_position;
in vec3 world_normal;
flat in uvec2 body_and_part;

layout(location = 0) out float depth_m;
layout(location = 1) out uvec2 ids;
layout(location = 2) out vec4 camera_normal;

uniform mat4 world_to_camera;

void main() {
    depth_m = (world_to_camera * vec4(world_position, 1.0)).z;
    ids = body_and_part;
    camera_normal = vec4(normalize(mat3(world_to_camera) * world_normal), 0.0);
}
