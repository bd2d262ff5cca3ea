#version 410 core
layout(location = 0) in vec3 position;
layout(location = 5) in mat4 body_to_world;
uniform mat4 world_to_clip;

void main() {
    gl_Position = world_to_clip * (body_to_world * vec4(position, 1.0));
}
