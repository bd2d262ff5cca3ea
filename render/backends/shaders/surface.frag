#version 410 core
#extension GL_ARB_shading_language_420pack : require
// Labels of the visible surface at the pixel centre (WITH_LABELS), and its attributes for light.frag
// (WITH_MATERIAL). Shading is deferred: small triangles would otherwise shade whole pixel blocks.
in vec3 world_position;
in vec3 world_normal;
in vec3 world_tangent;
in vec2 texture_uv;
flat in uvec2 body_and_part;

#if WITH_LABELS
layout(location = 0) out float depth_m;
layout(location = 1) out uvec2 ids;
layout(location = 2) out vec4 camera_normal;

uniform mat4 world_to_camera;

// Maximum relative depth change between pixels. Only faces seen edge-on are steeper; software rasterizers
// extrapolate wildly on those thinner than a pixel, so they are discarded.
const float MAX_SLOPE = 0.2;

void write_labels() {
    depth_m = (world_to_camera * vec4(world_position, 1.0)).z;
    if (fwidth(depth_m) > MAX_SLOPE * depth_m) discard;
    ids = body_and_part;
    camera_normal = vec4(normalize(mat3(world_to_camera) * world_normal), 0.0);
}
#endif

#if WITH_MATERIAL
layout(location = 3) out vec4 color_roughness;  // rgb: square roots of the reflectance; a: roughness
layout(location = 4) out vec4 normal_emission;  // xyz: normal; w: emission over the reflectance
layout(location = 5) out vec4 material;         // specular / MAX_SPECULAR, metallic, body, bin of the normal

layout(binding = 0) uniform sampler2D color_map;
layout(binding = 1) uniform sampler2D normal_map;
uniform vec4 surface;       // roughness, specular, metallic, emission
uniform vec4 uv_transform;  // xy: scale of uvs; zw: offset

const float MAX_SPECULAR = 0.25;

void write_material() {
    vec2 at = texture_uv * uv_transform.xy + uv_transform.zw;
    vec3 n = normalize(world_normal);
    vec3 t = normalize(world_tangent - n * dot(world_tangent, n));
#if HAS_MATERIAL_MAPS
    vec4 color = texture(color_map, at), normal_metallic = texture(normal_map, at);
    float roughness = color.a, metallic = normal_metallic.a;
    vec3 bump = normal_metallic.xyz * 2.0 - 1.0;
    bump.xy *= 1.0 - 2.0 * mod(floor(at), 2.0);  // every other copy is mirrored
    color_roughness = vec4(sqrt(color.rgb), roughness);
#else
    float metallic = surface.z;
    vec3 bump = texture(normal_map, at).xyz * 2.0 - 1.0;
    color_roughness = vec4(sqrt(texture(color_map, at).rgb), surface.x);
#endif
    vec3 surface_normal = normalize(bump.x * t + bump.y * cross(n, t) + bump.z * n);
    normal_emission = vec4(surface_normal, surface.w);
    // An odd number of bins centres axis-aligned normals in a bin.
    vec3 bin = floor((surface_normal + 1.0) * 2.499);
    float body = float(1u + (body_and_part.x - 1u) % 255u);
    material = vec4(surface.y / MAX_SPECULAR, metallic, body / 255.0, dot(bin, vec3(1, 5, 25)) / 255.0);
}
#endif

void main() {
#if WITH_LABELS
    write_labels();
#endif
#if WITH_MATERIAL
    write_material();
#endif
}
