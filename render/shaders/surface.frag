#version 410 core
#extension GL_ARB_shading_language_420pack : require
// Ground truth at the pixel's centre and, with RADIANCE, linear radiance: diffuse light of shadowed
// beams, specular light of the environment and of the lamps' lobes. Lights that have a place are known
// with PLACED alone: without, software rasterizers would compute both sides of every question.
const int MAX_BEAMS = BEAMS_LIMIT;
const int MAX_LOBES = LOBES_LIMIT;
const float PI = 3.14159265;

in vec3 world_position;
in vec3 world_normal;
in vec3 world_tangent;
in vec2 texture_uv;
flat in uvec2 body_and_part;

layout(location = 0) out vec4 radiance;
layout(location = 1) out float depth_m;
layout(location = 2) out uvec2 ids;
layout(location = 3) out vec4 camera_normal;

uniform mat4 world_to_camera;

#ifdef RADIANCE
struct Beam {
    vec4 place;   // xyz: unit vector towards it (w 0), or position (w 1)
    vec4 power;   // rgb: irradiance facing it (w of place 0), or intensity; w: whether it lights only
                  // what its shadow map sees
    vec4 axis;    // xyz: where it shines; w: side of a shadow texel, at distance 1 when placed
    vec4 cone;    // cosines where it begins to fall off, where it ends; z: whether it falls as a
                  // surface's does
    mat4 to_shadow;
};
struct Lobe {
    vec4 place;   // xyz: unit vector towards it (w 0), or position (w 1)
    vec4 power;   // rgb: irradiance or intensity; w: radius, in radians or metres
    vec4 axis;    // as a beam's
    vec4 cone;
};
layout(std140) uniform Light {
    vec4 zenith;
    vec4 horizon;
    vec4 ground_radiance;
    ivec4 counts;  // of beams, of lobes
    Beam beams[MAX_BEAMS];
    Lobe lobes[MAX_LOBES];
};
layout(binding = 0) uniform sampler2D color_map;
layout(binding = 1) uniform sampler2D normal_map;
layout(binding = 2) uniform sampler2DArrayShadow shadow_maps;
uniform vec3 eye;
uniform vec4 surface;  // roughness, specular, metallic, what uvs are multiplied by

float visibility(int i, float away, vec3 normal) {
    vec3 lifted = world_position + normal * beams[i].axis.w * away;
    vec4 clip = beams[i].to_shadow * vec4(lifted, 1.0);
#ifdef PLACED
    if (clip.w <= 0.0) return 1.0 - beams[i].power.w;
    clip.xyz /= clip.w;
#endif
    vec3 place = clip.xyz * 0.5 + 0.5;
    bool outside = any(lessThan(place.xy, vec2(0.0))) || any(greaterThan(place.xy, vec2(1.0)));
    if (outside) return 1.0 - beams[i].power.w;
    return texture(shadow_maps, vec4(place.xy, float(i), clamp(place.z, 0.0, 1.0)));
}

// Share of its intensity that a placed beam sends towards a point, over the squared distance.
float arriving(vec3 to_beam, float away, vec3 axis, vec3 cone) {
    float along = -dot(to_beam, axis);
    float fall = cone.z > 0.0 ? max(along, 0.0) : smoothstep(cone.y, cone.x, along);
    return fall / (away * away);
}

// Radiance reflected from direction r, blurred by the roughness (lobes widen, their energy stays).
vec3 reflected(vec3 r, float alpha) {
    vec3 sky = mix(horizon.rgb, zenith.rgb, clamp(r.z, 0.0, 1.0));
    vec3 light = mix(ground_radiance.rgb, sky, smoothstep(-0.1 - alpha, 0.1 + alpha, r.z));
    for (int i = 0; i < counts.y; ++i) {
        vec3 to_lobe = lobes[i].place.xyz;
        vec3 power = lobes[i].power.rgb;
        float radius = lobes[i].power.w;
#ifdef PLACED
        if (lobes[i].place.w > 0.0) {
            to_lobe -= world_position;
            float away = length(to_lobe);
            to_lobe /= away;
            power *= arriving(to_lobe, away, lobes[i].axis.xyz, lobes[i].cone.xyz);
            radius /= away;
        }
#endif
        float width = radius * radius + alpha * alpha;
        float off = acos(clamp(dot(r, to_lobe), -1.0, 1.0));
        light += power / (PI * width) * exp(-off * off / width);
    }
    return light;
}

vec3 shaded() {
    vec2 at = texture_uv * surface.w;
    vec3 n0 = normalize(world_normal);
    vec3 t = normalize(world_tangent - n0 * dot(world_tangent, n0));
    vec3 bump = texture(normal_map, at).xyz * 2.0 - 1.0;
    vec3 n = normalize(bump.x * t + bump.y * cross(n0, t) + bump.z * n0);
    vec3 v = normalize(eye - world_position);
    vec3 base = texture(color_map, at).rgb;

    vec3 irradiance = ground_radiance.rgb * PI * (0.5 - 0.5 * n.z);
    float open = 0.0, all = 1e-4;
    for (int i = 0; i < counts.x; ++i) {
        vec3 to_beam = beams[i].place.xyz;
        float away = 1.0, share = 1.0;
#ifdef PLACED
        if (beams[i].place.w > 0.0) {
            to_beam -= world_position;
            away = length(to_beam);
            to_beam /= away;
            share = arriving(to_beam, away, beams[i].axis.xyz, beams[i].cone.xyz);
        }
#endif
        float facing = max(dot(n, to_beam), 0.0) * share;
        if (facing <= 0.0) continue;
        float seen = visibility(i, away, n0);
        vec3 light = beams[i].power.rgb * facing;
        irradiance += light * seen;
        float weight = dot(light, vec3(1.0));
        open += weight * seen;
        all += weight;
    }
    float alpha = surface.x * surface.x;
    float facing_eye = clamp(dot(n, v), 0.0, 1.0);
    vec3 f0 = mix(vec3(surface.y), base, surface.z);
    // Schlick's Fresnel term, held down on rough surfaces (Lagarde 2011).
    vec3 fresnel = f0 + (max(vec3(1.0 - surface.x), f0) - f0) * pow(1.0 - facing_eye, 5.0);
    vec3 diffuse = base * (1.0 - surface.z) * irradiance / PI;
    vec3 shine = fresnel * reflected(reflect(-v, n), alpha) * mix(1.0, open / all, 0.7);
    return diffuse * (1.0 - fresnel) + shine;
}
#endif

void main() {
#ifdef RADIANCE
    radiance = vec4(shaded(), 1.0);
#endif
    depth_m = (world_to_camera * vec4(world_position, 1.0)).z;
    ids = body_and_part;
    camera_normal = vec4(normalize(mat3(world_to_camera) * world_normal), 0.0);
}
