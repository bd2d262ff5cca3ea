#version 410 core
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec3 tangent;
layout(location = 3) in vec2 uv;
layout(location = 4) in uint part;
layout(location = 5) in mat4 body_to_world;
layout(location = 9) in uvec2 numbers;  // body number, label id

uniform mat4 world_to_clip;

out vec3 world_position;
out vec3 world_normal;
out vec3 world_tangent;
out vec2 texture_uv;
flat out uvec2 body_and_part;
flat out uint label;

void main() {
    vec4 world = body_to_world * vec4(position, 1.0);
    mat3 turn = mat3(body_to_world);
    world_position = world.xyz;
    world_normal = turn * normal;
    world_tangent = turn * tangent;
    texture_uv = uv;
    body_and_part = uvec2(numbers.x, part);
    label = numbers.y;
    gl_Position = world_to_clip * world;
}
