#version 410 core
// Attribute order and the per-instance matrix are those of pyrender's Primitive.
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec4 tangent;
layout(location = 3) in vec2 uv;
layout(location = 4) in mat4 body_to_world;

uniform mat4 world_to_clip;
uniform float uv_scale;

out vec3 world_position;
out vec3 world_normal;
out vec3 world_tangent;
out vec2 texture_uv;

void main() {
    vec4 world = body_to_world * vec4(position, 1.0);
    mat3 turn = mat3(body_to_world);
    world_position = world.xyz;
    world_normal = turn * normal;
    world_tangent = turn * tangent.xyz;
    texture_uv = uv * uv_scale;
    gl_Position = world_to_clip * world;
}
