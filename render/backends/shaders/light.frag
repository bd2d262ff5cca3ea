#version 410 core
#extension GL_ARB_shading_language_420pack : require
#extension GL_ARB_derivative_control : enable
// Linear radiance of the surfaces drawn by surface.frag: diffuse and specular light of sky, lamps and
// local lights. Each surface is lit once per pixel. The numbers of lights are compile-time constants,
// so that loops unroll: software rasterizers are slow at dynamic loops and branches.
const float PI = 3.14159265;
const vec3 UP = vec3(0.0, 0.0, 1.0);
const float MAX_SPECULAR = 0.25;
const float SPECULAR_OCCLUSION = 0.7;  // share of sky occlusion that applies to reflections, too
const float SHADOW_TEXEL = 2.0 / SHADOW_PX;  // texel of a shadow map, in units of its half extent

#ifdef GL_ARB_derivative_control
#define TO_RIGHT dFdxFine
#define TO_BELOW dFdyFine
#else
#define TO_RIGHT dFdx
#define TO_BELOW dFdy
#endif

#if N_SAMPLES > 1
#define AttributeTexture sampler2DMS
#else
#define AttributeTexture sampler2D
#endif
layout(binding = 0) uniform AttributeTexture colors;
layout(binding = 1) uniform AttributeTexture normals;
layout(binding = 2) uniform AttributeTexture materials;
layout(binding = 3) uniform AttributeTexture depths;
layout(binding = 4) uniform sampler2DArrayShadow shadow_maps;
layout(binding = 5) uniform sampler2D split_sum;
layout(binding = 7) uniform sampler2DArrayShadow nearest_maps;  // the same, with nearest filtering
#ifdef ENVIRONMENT_MAP
layout(binding = 6) uniform samplerCube sky_map;  // one mip level per roughness
#endif

struct DirectionalBeam {
    vec4 x, y, z;  // xyz: axes of the shadow map, z away from the light; w: irradiance (r, g, b)
};
struct LocalBeam {
    vec4 position;  // xyz; w: 1 if it lights only the field of its shadow map
    vec4 power;   // rgb: intensity; w: side of a shadow texel at distance 1
    vec4 axis;    // xyz: direction; w: source radius, metres
    vec4 cone;    // xy: cosines where the falloff begins and ends; z: 1 for cosine falloff
    mat4 to_shadow;
};
struct Lamp {
    vec4 position;  // xyz: unit vector to the lamp; w: radius, radians
    vec4 power;   // rgb: irradiance on a facing surface
};
layout(std140) uniform Light {
    vec4 zenith;
    vec4 horizon;
    vec4 ground_radiance;
    vec4 harmonics[9];  // spherical harmonics of the sky's irradiance
    vec4 sphere;        // xyz: centre of the shadow casters; w: 1 / half extent of shadow maps
    DirectionalBeam directional_beams[MAX_DIRECTIONAL];
    LocalBeam local_beams[MAX_LOCAL];
    Lamp lamps[MAX_LAMPS];
    vec4 sky_rotation;  // environment map: cosine and sine of its rotation, radiance scale
    vec4 sky_powers[MAX_DIRECTIONAL];  // power of each sky beam, per rotation
};
uniform mat4 clip_to_world;
uniform vec4 eye;   // position
uniform vec4 size;  // of the view, pixels

layout(location = 0) out vec4 radiance;

struct Surface {
    vec3 position, normal, view_direction;
    vec3 color, f0;  // albedo; reflectance at normal incidence
    float alpha, emission;
    float roughness, metallic;
    float body;  // body number / 255
};

// Reflectance at grazing incidence: 1, or less where f0 is below that of real dielectrics.
vec3 grazing_reflectance(Surface s) { return clamp(50.0 * s.f0, 0.0, 1.0); }

// Specular radiance per unit irradiance of a light with an angular radius: GGX (Walter et al. 2007),
// widened by the radius, with height-correlated masking and shadowing (Heitz 2014).
vec3 specular_radiance(Surface s, vec3 to_light, float radius) {
    vec3 h = normalize(s.view_direction + to_light);
    float nl = max(dot(s.normal, to_light), 0.0), nv = max(dot(s.normal, s.view_direction), 1e-3);
    float nh = dot(s.normal, h), away = 1.0 - dot(s.view_direction, h);
    float alpha_squared = min(s.alpha * s.alpha + 0.25 * radius * radius, 1.0), rest = 1.0 - alpha_squared;
    float d = 1.0 - nh * nh * rest;
    float masking = nl * sqrt(nv * nv * rest + alpha_squared) + nv * sqrt(nl * nl * rest + alpha_squared);
    vec3 fresnel = s.f0 + (grazing_reflectance(s) - s.f0) * away * away * away * away * away;  // Schlick 1994
    return fresnel * (alpha_squared * nl / (2.0 * PI * d * d * max(masking, 1e-5)));
}

// Reflectance of a uniform environment (split sum, Karis 2013).
vec3 environment_brdf(Surface s) {
    float nv = clamp(dot(s.normal, s.view_direction), 0.0, 1.0);
    vec2 at = (vec2(nv, s.roughness) * (TABLE_SIZE - 1.0) + 0.5) / TABLE_SIZE;
    vec2 split = textureLod(split_sum, at, 0.0).xy;
    return s.f0 * split.x + grazing_reflectance(s) * split.y;
}

// Relative intensity of a local beam towards a point, over the squared distance.
float local_falloff(vec3 to_beam, float away, vec3 axis, vec3 cone) {
    float along = -dot(to_beam, axis);
    float fall = cone.z > 0.0 ? max(along, 0.0) : smoothstep(cone.y, cone.x, along);
    return fall / (away * away);
}

// Visibility of a directional beam. Texels outside the bodies are empty, also at the border of the map.
float visibility(sampler2DArrayShadow maps, int i, int map, vec3 at) {
    vec3 along = vec3(dot(directional_beams[i].x.xyz, at), dot(directional_beams[i].y.xyz, at),
                      dot(directional_beams[i].z.xyz, at));
    vec3 position = 0.5 + 0.5 * along;
    return texture(maps, vec4(position.xy, float(map), min(position.z, 1.0)));
}

float facing_cosine(int i, vec3 normal) { return max(-dot(directional_beams[i].z.xyz, normal), 0.0); }

vec3 power(int i) { return vec3(directional_beams[i].x.w, directional_beams[i].y.w, directional_beams[i].z.w); }

// Rotation of sky beams around the zenith, and of lamp beams around the lamp, in quarter turns. The four
// pixels of a 2 x 2 block use all four rotations.
int rotation_index() { return (int(gl_FragCoord.x) & 1) + 2 * (int(gl_FragCoord.y) & 1); }

// Rotates a vector back to the frame of the unrotated beams.
vec3 unrotate(vec3 v, vec3 axis) {
    int rotation = rotation_index();
    float c = float(rotation == 0) - float(rotation == 2), s = float(rotation == 1) - float(rotation == 3);
    vec3 along = axis * dot(axis, v);
    return along + c * (v - along) - s * cross(axis, v);
}

// Mean facing cosine of a beam over all four rotations.
float mean_facing_cosine(int i, vec3 normal, vec3 axis) {
    vec3 towards = -directional_beams[i].z.xyz;
    float along = dot(axis, towards) * dot(axis, normal);
    float a = dot(towards, normal) - along, b = dot(towards, cross(axis, normal));
    vec4 four = max(along + vec4(a, b, -a, -b), 0.0);
    return 0.25 * (four.x + four.y + four.z + four.w);
}

// Adds the visible and the total light of a sky beam.
void add_sky_beam(int i, vec3 normal, vec3 at, inout vec2 open) {
#ifdef ENVIRONMENT_MAP
    float level = sky_powers[i][rotation_index()] * facing_cosine(i, normal);
#else
    vec3 light = power(i) * facing_cosine(i, normal);
    float level = light.r + light.g + light.b;
#endif
    open += level * vec2(visibility(nearest_maps, i, i + N_DOME * rotation_index(), at), 1.0);
}

// Mean over the pixels of a 2 x 2 block that show the same body.
float block_mean(float value, float body) {
    vec2 to_other = 0.5 - mod(floor(gl_FragCoord.xy), 2.0);
    float of_row = TO_RIGHT(body) == 0.0 ? value + to_other.x * TO_RIGHT(value) : value;
    float below = TO_BELOW(of_row);
    return TO_BELOW(body) == 0.0 ? of_row + to_other.y * below : of_row;
}

// Adds facing cosine, visible and total light of a lamp beam. Diffuse and specular light are added once
// per lamp, scaled by its visibility.
void add_lamp_beam(int i, vec3 axis, vec3 normal, vec3 at, inout float faces, inout vec2 open) {
    int map = i + (N_ROTATIONS - 1) * N_DOME;
    if (N_LAMP_ROTATIONS == 1) {
        faces += facing_cosine(i, normal);
        open += vec2(visibility(shadow_maps, i, map, at), 1.0);
        return;
    }
    map += (N_DIRECTIONAL - N_DOME) * rotation_index();
    faces += mean_facing_cosine(i, normal, axis);
    float level = facing_cosine(i, unrotate(normal, axis));
    open += level * vec2(visibility(shadow_maps, i, map, unrotate(at, axis)), 1.0);
}

// Adds diffuse and specular light of a lamp.
void shade_lamp(int k, Surface s, float faces, vec2 open, inout vec3 irradiance, inout vec3 specular) {
    float seen = open.x / open.y;
#ifndef OTHER_SURFACES
    if (N_LAMP_ROTATIONS > 1) seen = block_mean(seen, s.body);
#endif
    irradiance += lamps[k].power.rgb * (seen * faces / float(BEAMS_PER_LAMP));
    specular += lamps[k].power.rgb * seen * specular_radiance(s, lamps[k].position.xyz, lamps[k].position.w);
}

void shade_local_beam(int i, Surface s, inout vec3 irradiance, inout vec3 specular) {
    vec3 to_beam = local_beams[i].position.xyz - s.position;
    float away = length(to_beam);
    to_beam /= away;
    vec3 lifted = s.position + s.normal * local_beams[i].power.w * away;
    vec4 clip = local_beams[i].to_shadow * vec4(lifted, 1.0);
    vec3 at = clip.xyz / clip.w * 0.5 + 0.5;
    bool outside = clip.w <= 0.0 || any(lessThan(at.xy, vec2(0.0)))
                || any(greaterThan(at.xy, vec2(1.0)));
    float map = float(N_ROTATIONS * N_DOME + N_LAMP_ROTATIONS * (N_DIRECTIONAL - N_DOME) + i);
    float seen = texture(shadow_maps, vec4(at.xy, map, clamp(at.z, 0.0, 1.0)));
    seen = outside ? 1.0 - local_beams[i].position.w : seen;
    vec3 light = local_beams[i].power.rgb
               * (seen * local_falloff(to_beam, away, local_beams[i].axis.xyz, local_beams[i].cone.xyz));
    irradiance += light * max(dot(s.normal, to_beam), 0.0);
    specular += light * specular_radiance(s, to_beam, local_beams[i].axis.w / away);
}

// Irradiance of the open sky (Ramamoorthi and Hanrahan 2001).
vec3 sky_irradiance(vec3 n) {
    vec3 e = harmonics[0].rgb + harmonics[1].rgb * n.y + harmonics[2].rgb * n.z
           + harmonics[3].rgb * n.x + harmonics[4].rgb * (n.x * n.y) + harmonics[5].rgb * (n.y * n.z)
           + harmonics[6].rgb * (3.0 * n.z * n.z - 1.0) + harmonics[7].rgb * (n.x * n.z)
           + harmonics[8].rgb * (n.x * n.x - n.y * n.y);
    return max(e, vec3(0.0));
}

#define UP_TO_4(f) f(0) f(1) f(2) f(3)
#define UP_TO_12(f) UP_TO_4(f) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define UP_TO_24(f) UP_TO_12(f) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23)
#define ADD_DIRECTIONAL(i) if (i < N_DOME) add_sky_beam(i, sky_normal, sky_at, sky_open); \
    else if (i < N_DIRECTIONAL) \
        add_lamp_beam(i, lamps[LAMP_OF(i)].position.xyz, s.normal, at, faces[LAMP_OF(i)], open_to[LAMP_OF(i)]);
#define LAMP_OF(i) clamp((i - N_DOME) / BEAMS_PER_LAMP, 0, MAX_LAMPS - 1)
#define SHADE_LOCAL(i) if (i < N_LOCAL) shade_local_beam(i, s, irradiance, specular);
#define SHADE_LAMP(i) if (i < N_LAMPS) shade_lamp(i, s, faces[i], open_to[i], irradiance, specular);

#ifdef ENVIRONMENT_MAP
vec3 environment_radiance(vec3 d, float roughness) {
    vec3 at = vec3(sky_rotation.x * d.x + sky_rotation.y * d.y, sky_rotation.x * d.y - sky_rotation.y * d.x, d.z);
    return textureLod(sky_map, at, roughness * (SKY_LEVELS - 1.0)).rgb * sky_rotation.z;
}
#endif

// Radiance of sky and table from direction r, blurred by roughness.
vec3 reflected_radiance(Surface s, vec3 r) {
#ifdef ENVIRONMENT_MAP
    vec3 sky = environment_radiance(r, s.roughness);
#else
    vec3 sky = mix(horizon.rgb, zenith.rgb, clamp(r.z, 0.0, 1.0));
#endif
    return mix(ground_radiance.rgb, sky, smoothstep(-0.1 - s.alpha, 0.1 + s.alpha, r.z));
}

vec3 shade(Surface s) {
    vec3 at = (s.position - sphere.xyz) * sphere.w + s.normal * SHADOW_TEXEL;
    vec3 sky_at = unrotate(at, UP), sky_normal = unrotate(s.normal, UP);
    vec2 sky_open = vec2(1e-6);
    float faces[MAX_LAMPS];
    vec2 open_to[MAX_LAMPS];
    for (int i = 0; i < MAX_LAMPS; ++i) { faces[i] = 0.0; open_to[i] = vec2(1e-6); }
    vec3 irradiance = vec3(0.0), specular = vec3(0.0);
    UP_TO_12(ADD_DIRECTIONAL)
    UP_TO_24(SHADE_LOCAL)
    UP_TO_4(SHADE_LAMP)
    float open = sky_open.x / sky_open.y;
#ifndef OTHER_SURFACES
    open = block_mean(open, s.body);
#endif
    // Occluders of the sky hide the table, too, in proportion to how far the surface faces up.
    float down = 0.5 - 0.5 * s.normal.z;
    vec3 from_table = ground_radiance.rgb * PI * down * mix(open, 1.0, down);
    irradiance += sky_irradiance(s.normal) * open + from_table;
    vec3 share = environment_brdf(s);
    specular += share * reflected_radiance(s, reflect(-s.view_direction, s.normal)) * mix(1.0, open, SPECULAR_OCCLUSION);
    return s.color * s.emission + s.color * (1.0 - s.metallic) * irradiance / PI * (1.0 - share) + specular;
}

// Returns the remaining samples (one bit each) on the surface of a sample.
uint find_surface_samples(int index, uint left, ivec2 at) {
    vec2 kind = texelFetch(materials, at, index).zw;
    uint members = 0u;
    for (int i = 0; i < N_SAMPLES; ++i) {
        if (texelFetch(materials, at, i).zw == kind) members |= 1u << i;
    }
    return members & left;
}

// Returns the radiance of the surface that covers some samples, at the pixel centre and their mean
// depth. The depth of a single sample would lie off the surface, in its own shadow.
vec3 shade_samples(int index, uint members, ivec2 at) {
    float depth = 0.0;
    for (int i = 0; i < N_SAMPLES; ++i) {
        if ((members & (1u << i)) != 0u) depth += texelFetch(depths, at, i).x;
    }
    depth /= float(bitCount(members));
    vec4 color_roughness = texelFetch(colors, at, index);
    vec4 normal_emission = texelFetch(normals, at, index);
    vec4 material = texelFetch(materials, at, index);
    vec3 screen = vec3(gl_FragCoord.xy / size.xy, depth);
    vec4 position = clip_to_world * vec4(2.0 * screen - 1.0, 1.0);
    Surface s;
    s.position = position.xyz / position.w;
    s.normal = normalize(normal_emission.xyz);
    s.view_direction = normalize(eye.xyz - s.position);
    s.color = color_roughness.rgb * color_roughness.rgb;
    s.roughness = color_roughness.a;
    s.alpha = color_roughness.a * color_roughness.a;
    s.metallic = material.y;
    s.body = material.z;
    s.emission = normal_emission.w;
    s.f0 = mix(vec3(material.x * MAX_SPECULAR), s.color, s.metallic);
#ifdef ENVIRONMENT_MAP
    return material.z == 0.0 ? environment_radiance(-s.view_direction, 0.0) : shade(s);
#else
    return material.z == 0.0 ? horizon.rgb : shade(s);
#endif
}

// Most pixels show one surface. Further surfaces are added by a second pass, compiled with
// OTHER_SURFACES; the depth written here limits it to pixels that need it. Loops are slow in software.
void main() {
    const uint ALL = (1u << N_SAMPLES) - 1u;
    ivec2 at = ivec2(gl_FragCoord.xy);
    uint members = find_surface_samples(0, ALL, at);
#ifdef OTHER_SURFACES
    vec3 sum = vec3(0.0);
    uint left = ALL & ~members;
    while (left != 0u) {
        int index = findLSB(left);
        members = find_surface_samples(index, left, at);
        sum += float(bitCount(members)) * shade_samples(index, members, at);
        left &= ~members;
    }
#else
    vec3 sum = float(bitCount(members)) * shade_samples(0, members, at);
    gl_FragDepth = members == ALL ? 0.0 : 1.0;
#endif
    radiance = vec4(sum / float(N_SAMPLES), 1.0);
}
