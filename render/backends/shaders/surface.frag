#version 410 core
#extension GL_ARB_shading_language_420pack : require
// Of the surface that is seen: the ground truth, taken at the pixel's centre (N_TRUTH), and what
// light.frag needs to know (N_LOOK). Light is not computed here, where each of many small triangles
// would pay for all pixels of the blocks that it touches.
in vec3 world_position;
in vec3 world_normal;
in vec3 world_tangent;
in vec2 texture_uv;
flat in uvec2 body_and_part;

#if N_TRUTH
layout(location = 0) out float depth_m;
layout(location = 1) out uvec2 ids;
layout(location = 2) out vec4 camera_normal;

uniform mat4 world_to_camera;

// Of the depth, from one pixel to the next. Only faces that are seen edge-on are steeper; over those thinner than
// a pixel software rasterizers interpolate wildly, so these are left to what lies behind them.
const float MOST_SLOPE = 0.2;

void tell_truth() {
    depth_m = (world_to_camera * vec4(world_position, 1.0)).z;
    if (fwidth(depth_m) > MOST_SLOPE * depth_m) discard;
    ids = body_and_part;
    camera_normal = vec4(normalize(mat3(world_to_camera) * world_normal), 0.0);
}
#endif

#if N_LOOK
layout(location = 3) out vec4 coat;     // rgb: square roots of the reflectance; a: roughness
layout(location = 4) out vec4 relief;   // xyz: normal; w: emission over the reflectance
layout(location = 5) out vec4 matter;   // specular / MOST_SPECULAR, metallic; kind of surface: body, direction

layout(binding = 0) uniform sampler2D color_map;
layout(binding = 1) uniform sampler2D normal_map;
uniform vec4 surface;  // roughness, specular, metallic, emission
uniform vec4 turns;    // xy: what uvs are multiplied by; zw: what is added then

const float MOST_SPECULAR = 0.25;

void tell_look() {
    vec2 at = texture_uv * turns.xy + turns.zw;
    vec3 n = normalize(world_normal);
    vec3 t = normalize(world_tangent - n * dot(world_tangent, n));
#if N_FINISH
    vec4 color = texture(color_map, at), lie = texture(normal_map, at);
    float roughness = color.a, metallic = lie.a;
    vec3 bump = lie.xyz * 2.0 - 1.0;
    bump.xy *= 1.0 - 2.0 * mod(floor(at), 2.0);  // every second copy is mirrored
    coat = vec4(sqrt(color.rgb), roughness);
#else
    float metallic = surface.z;
    vec3 bump = texture(normal_map, at).xyz * 2.0 - 1.0;
    coat = vec4(sqrt(texture(color_map, at).rgb), surface.x);
#endif
    vec3 bumped = normalize(bump.x * t + bump.y * cross(n, t) + bump.z * n);
    relief = vec4(bumped, surface.w);
    // An odd number of bins, so that what is level or upright lies in the middle of one.
    vec3 bin = floor((bumped + 1.0) * 2.499);
    float body = float(1u + (body_and_part.x - 1u) % 255u);
    matter = vec4(surface.y / MOST_SPECULAR, metallic, body / 255.0, dot(bin, vec3(1, 5, 25)) / 255.0);
}
#endif

void main() {
#if N_TRUTH
    tell_truth();
#endif
#if N_LOOK
    tell_look();
#endif
}
