#version 410 core
#extension GL_ARB_shading_language_420pack : require
// Linear radiance: diffuse light of shadowed parallel lights, specular light of the environment.
const int MAX_RAYS = RAYS_LIMIT;
const int MAX_LAMPS = LAMPS_LIMIT;
const float PI = 3.14159265;

in vec3 world_position;
in vec3 world_normal;
in vec3 world_tangent;
in vec2 texture_uv;
out vec4 radiance;

layout(binding = 0) uniform sampler2D color_map;
layout(binding = 1) uniform sampler2D normal_map;
layout(binding = 2) uniform sampler2DArrayShadow shadow_maps;
uniform vec3 eye;
uniform float roughness;
uniform float specular;
uniform float metallic;

uniform int ray_count;
uniform vec3 ray_directions[MAX_RAYS];
uniform vec3 ray_irradiances[MAX_RAYS];
uniform mat4 world_to_shadow[MAX_RAYS];
uniform float shadow_texel_m;

uniform vec3 zenith;
uniform vec3 horizon;
uniform vec3 ground_radiance;
uniform int lamp_count;
uniform vec3 lamp_directions[MAX_LAMPS];
uniform vec3 lamp_irradiances[MAX_LAMPS];
uniform float lamp_radii[MAX_LAMPS];

vec3 linear_of_srgb(vec3 c) {
    return mix(c / 12.92, pow((c + 0.055) / 1.055, vec3(2.4)), greaterThan(c, vec3(0.04045)));
}

float visibility(int i, vec3 normal) {
    vec3 lifted = world_position + normal * shadow_texel_m;
    vec3 place = (world_to_shadow[i] * vec4(lifted, 1.0)).xyz * 0.5 + 0.5;
    if (any(lessThan(place.xy, vec2(0.0))) || any(greaterThan(place.xy, vec2(1.0)))) return 1.0;
    return texture(shadow_maps, vec4(place.xy, float(i), clamp(place.z, 0.0, 1.0)));
}

// Radiance reflected from direction r, blurred by the roughness (lobes widen, their energy stays).
vec3 reflected(vec3 r, float alpha) {
    vec3 sky = mix(horizon, zenith, clamp(r.z, 0.0, 1.0));
    vec3 light = mix(ground_radiance, sky, smoothstep(-0.1 - alpha, 0.1 + alpha, r.z));
    for (int i = 0; i < lamp_count; ++i) {
        float width = lamp_radii[i] * lamp_radii[i] + alpha * alpha;
        float away = acos(clamp(dot(r, lamp_directions[i]), -1.0, 1.0));
        light += lamp_irradiances[i] / (PI * width) * exp(-away * away / width);
    }
    return light;
}

void main() {
    vec3 n0 = normalize(world_normal);
    vec3 t = normalize(world_tangent - n0 * dot(world_tangent, n0));
    vec3 bump = texture(normal_map, texture_uv).xyz * 2.0 - 1.0;
    vec3 n = normalize(bump.x * t + bump.y * cross(n0, t) + bump.z * n0);
    vec3 v = normalize(eye - world_position);
    vec3 base = linear_of_srgb(texture(color_map, texture_uv).rgb);

    vec3 irradiance = ground_radiance * PI * (0.5 - 0.5 * n.z);
    float open = 0.0, all = 1e-4;
    for (int i = 0; i < ray_count; ++i) {
        float facing = max(dot(n, ray_directions[i]), 0.0);
        if (facing <= 0.0) continue;
        float seen = visibility(i, n0);
        irradiance += ray_irradiances[i] * facing * seen;
        float weight = facing * dot(ray_irradiances[i], vec3(1.0));
        open += weight * seen;
        all += weight;
    }
    float alpha = roughness * roughness;
    float facing_eye = clamp(dot(n, v), 0.0, 1.0);
    vec3 f0 = mix(vec3(specular), base, metallic);
    // Schlick's Fresnel term, held down on rough surfaces (Lagarde 2011).
    vec3 fresnel = f0 + (max(vec3(1.0 - roughness), f0) - f0) * pow(1.0 - facing_eye, 5.0);
    vec3 diffuse = base * (1.0 - metallic) * irradiance / PI;
    vec3 shine = fresnel * reflected(reflect(-v, n), alpha) * mix(1.0, open / all, 0.7);
    radiance = vec4(diffuse * (1.0 - fresnel) + shine, 1.0);
}
