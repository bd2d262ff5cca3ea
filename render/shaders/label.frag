#version 410 core
in vec3 world_position;
layout(location = 0) out float depth_m;
layout(location = 1) out uint id;

uniform vec4 world_to_depth;
uniform uint body_id;

void main() {
    depth_m = dot(world_to_depth, vec4(world_position, 1.0));
    id = body_id;
}
