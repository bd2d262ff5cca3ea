#version 410 core
#extension GL_ARB_shading_language_420pack : require
#extension GL_ARB_derivative_control : enable
// Linear radiance of the surfaces drawn by surface.frag, each lit once in a pixel: diffuse and
// specular light of the sky, of lamps and of near lights. How many there are is known when it is
// compiled, and loops over them are unrolled: software rasterizers would fetch what a loop reads anew
// for each pixel, and compute both sides of every question.
const float PI = 3.14159265;
const vec3 UP = vec3(0.0, 0.0, 1.0);
const float MOST_SPECULAR = 0.25;
const float OCCLUDED_SHINE = 0.7;  // how much of what hides the sky hides its reflections too
const float TEXEL = 2.0 / SHADOW_PX;  // of a shadow map over the radius that it shows

#ifdef GL_ARB_derivative_control
#define TO_RIGHT dFdxFine
#define TO_BELOW dFdyFine
#else
#define TO_RIGHT dFdx
#define TO_BELOW dFdy
#endif

#if N_SAMPLES > 1
#define Samples sampler2DMS
#else
#define Samples sampler2D
#endif
layout(binding = 0) uniform Samples coats;
layout(binding = 1) uniform Samples reliefs;
layout(binding = 2) uniform Samples matters;
layout(binding = 3) uniform Samples depths;
layout(binding = 4) uniform sampler2DArrayShadow shadow_maps;
layout(binding = 5) uniform sampler2D split_sum;
layout(binding = 7) uniform sampler2DArrayShadow nearest_maps;  // the same, not interpolated
#ifdef PICTURED
layout(binding = 6) uniform samplerCube sky_picture;  // a level of detail for each roughness
#endif

struct Parallel {
    vec4 x, y, z;  // xyz: axes of its shadow map, z away from it; w: irradiance facing it
};
struct Placed {
    vec4 place;   // xyz: position; w: whether it lights only what its shadow map sees
    vec4 power;   // rgb: intensity; w: side of a shadow texel at distance 1
    vec4 axis;    // xyz: where it shines; w: radius, metres
    vec4 cone;    // cosines where it begins to fall off, where it ends; z: whether it falls as a
                  // surface's does
    mat4 to_shadow;
};
struct Lamp {
    vec4 place;   // xyz: unit vector towards it; w: radius, radians
    vec4 power;   // rgb: irradiance facing it
};
layout(std140) uniform Light {
    vec4 zenith;
    vec4 horizon;
    vec4 ground_radiance;
    vec4 harmonics[9];  // of the sky's irradiance
    vec4 sphere;        // xyz: middle of the casting bodies; w: one over its radius in shadow maps
    Parallel parallel[PARALLEL_LIMIT];
    Placed placed[PLACED_LIMIT];
    Lamp lamps[LAMPS_LIMIT];
    vec4 turn;          // xy: cosine and sine by which a pictured sky is turned; z: its level
    vec4 dome[PARALLEL_LIMIT];  // power of each of its beams, in each of the four skies
};
uniform mat4 clip_to_world;
uniform vec4 eye;   // where it is
uniform vec4 size;  // of the view, pixels

layout(location = 0) out vec4 radiance;

struct Surface {
    vec3 place, normal, to_eye;
    vec3 color, f0;  // reflectance; what a mirror of it reflects straight back
    float alpha, emission;
    float roughness, metallic;
    float body;  // which, over 255
};

// What a mirror of the surface reflects at grazing angles: all light, or, where no real dielectric
// reflects as little straight back, less.
vec3 edge(Surface s) { return clamp(50.0 * s.f0, 0.0, 1.0); }

// Radiance that a lamp or light of a radius, in radians, reflects to the eye for each irradiance that
// it would shed on a surface that faces it: GGX (Walter et al. 2007), as wide as to blur the radius
// in, and masking and shadowing by height (Heitz 2014).
vec3 glint(Surface s, vec3 to_light, float radius) {
    vec3 h = normalize(s.to_eye + to_light);
    float nl = max(dot(s.normal, to_light), 0.0), nv = max(dot(s.normal, s.to_eye), 1e-3);
    float nh = dot(s.normal, h), away = 1.0 - dot(s.to_eye, h);
    float wide = min(s.alpha * s.alpha + 0.25 * radius * radius, 1.0), rest = 1.0 - wide;
    float d = 1.0 - nh * nh * rest;
    float hidden = nl * sqrt(nv * nv * rest + wide) + nv * sqrt(nl * nl * rest + wide);
    vec3 fresnel = s.f0 + (edge(s) - s.f0) * away * away * away * away * away;  // Schlick 1994
    return fresnel * (wide * nl / (2.0 * PI * d * d * max(hidden, 1e-5)));
}

// Share of an even environment that a surface reflects (Karis 2013).
vec3 mirrored_share(Surface s) {
    float nv = clamp(dot(s.normal, s.to_eye), 0.0, 1.0);
    vec2 at = (vec2(nv, s.roughness) * (TABLE_SIZE - 1.0) + 0.5) / TABLE_SIZE;
    vec2 split = textureLod(split_sum, at, 0.0).xy;
    return s.f0 * split.x + edge(s) * split.y;
}

// Share of its intensity that a placed beam sends towards a point, over the squared distance.
float arriving(vec3 to_beam, float away, vec3 axis, vec3 cone) {
    float along = -dot(to_beam, axis);
    float fall = cone.z > 0.0 ? max(along, 0.0) : smoothstep(cone.y, cone.x, along);
    return fall / (away * away);
}

// Share of a surface that a parallel beam reaches. Beside the bodies its map is empty, and beyond
// its edge as at its edge.
float reached(sampler2DArrayShadow maps, int i, int map, vec3 at) {
    vec3 along = vec3(dot(parallel[i].x.xyz, at), dot(parallel[i].y.xyz, at),
                      dot(parallel[i].z.xyz, at));
    vec3 place = 0.5 + 0.5 * along;
    return texture(maps, vec4(place.xy, float(map), min(place.z, 1.0)));
}

float facing(int i, vec3 normal) { return max(-dot(parallel[i].z.xyz, normal), 0.0); }

vec3 power(int i) { return vec3(parallel[i].x.w, parallel[i].y.w, parallel[i].z.w); }

// Which of four skies a pixel sees, each with its beams a quarter turn further around the zenith: the
// four pixels of a block see all of them. So it is with lamps, whose beams turn around their middle.
int quarter() { return (int(gl_FragCoord.x) & 1) + 2 * (int(gl_FragCoord.y) & 1); }

// Turns what is known of the scene back, so that all four have the beams of the first.
vec3 turned_back(vec3 v, vec3 axis) {
    int turn = quarter();
    float c = float(turn == 0) - float(turn == 2), s = float(turn == 1) - float(turn == 3);
    vec3 along = axis * dot(axis, v);
    return along + c * (v - along) - s * cross(axis, v);
}

// Mean over all four turns of how far a beam faces a surface.
float facing_ring(int i, vec3 normal, vec3 axis) {
    vec3 towards = -parallel[i].z.xyz;
    float along = dot(axis, towards) * dot(axis, normal);
    float a = dot(towards, normal) - along, b = dot(towards, cross(axis, normal));
    vec4 four = max(along + vec4(a, b, -a, -b), 0.0);
    return 0.25 * (four.x + four.y + four.z + four.w);
}

// Adds what of a part of the sky arrives, and what would if all were open.
void add_dome(int i, vec3 normal, vec3 at, inout vec2 open) {
#ifdef PICTURED
    float level = dome[i][quarter()] * facing(i, normal);
#else
    vec3 light = power(i) * facing(i, normal);
    float level = light.r + light.g + light.b;
#endif
    open += level * vec2(reached(nearest_maps, i, i + N_DOME * quarter(), at), 1.0);
}

// Mean of a block's pixels, of those next to each other that show the same body.
float block_mean(float value, float body) {
    vec2 to_other = 0.5 - mod(floor(gl_FragCoord.xy), 2.0);
    float of_row = TO_RIGHT(body) == 0.0 ? value + to_other.x * TO_RIGHT(value) : value;
    float below = TO_BELOW(of_row);
    return TO_BELOW(body) == 0.0 ? of_row + to_other.y * below : of_row;
}

// Adds a part of a lamp: how far it faces the surface, and what of it arrives and would if all were
// open. Its light and its shine are added once, for the share that is seen.
void add_lamp(int i, vec3 axis, vec3 normal, vec3 at, inout float faces, inout vec2 open) {
    int map = i + (TURNS - 1) * N_DOME;
    if (RINGS == 1) {
        faces += facing(i, normal);
        open += vec2(reached(shadow_maps, i, map, at), 1.0);
        return;
    }
    map += (N_PARALLEL - N_DOME) * quarter();
    faces += facing_ring(i, normal, axis);
    float level = facing(i, turned_back(normal, axis));
    open += level * vec2(reached(shadow_maps, i, map, turned_back(at, axis)), 1.0);
}

// Adds the light and the shine of a lamp.
void add_light(int k, Surface s, float faces, vec2 open, inout vec3 irradiance, inout vec3 shine) {
    float seen = open.x / open.y;
#ifndef REST
    if (RINGS > 1) seen = block_mean(seen, s.body);
#endif
    irradiance += lamps[k].power.rgb * (seen * faces / float(LAMP_PARTS));
    shine += lamps[k].power.rgb * seen * glint(s, lamps[k].place.xyz, lamps[k].place.w);
}

void add_placed(int i, Surface s, inout vec3 irradiance, inout vec3 shine) {
    vec3 to_beam = placed[i].place.xyz - s.place;
    float away = length(to_beam);
    to_beam /= away;
    vec3 lifted = s.place + s.normal * placed[i].power.w * away;
    vec4 clip = placed[i].to_shadow * vec4(lifted, 1.0);
    vec3 at = clip.xyz / clip.w * 0.5 + 0.5;
    bool outside = clip.w <= 0.0 || any(lessThan(at.xy, vec2(0.0)))
                || any(greaterThan(at.xy, vec2(1.0)));
    float map = float(TURNS * N_DOME + RINGS * (N_PARALLEL - N_DOME) + i);
    float seen = texture(shadow_maps, vec4(at.xy, map, clamp(at.z, 0.0, 1.0)));
    seen = outside ? 1.0 - placed[i].place.w : seen;
    vec3 light = placed[i].power.rgb
               * (seen * arriving(to_beam, away, placed[i].axis.xyz, placed[i].cone.xyz));
    irradiance += light * max(dot(s.normal, to_beam), 0.0);
    shine += light * glint(s, to_beam, placed[i].axis.w / away);
}

// Irradiance of the open sky on a surface (Ramamoorthi and Hanrahan 2001).
vec3 from_sky(vec3 n) {
    vec3 e = harmonics[0].rgb + harmonics[1].rgb * n.y + harmonics[2].rgb * n.z
           + harmonics[3].rgb * n.x + harmonics[4].rgb * (n.x * n.y) + harmonics[5].rgb * (n.y * n.z)
           + harmonics[6].rgb * (3.0 * n.z * n.z - 1.0) + harmonics[7].rgb * (n.x * n.z)
           + harmonics[8].rgb * (n.x * n.x - n.y * n.y);
    return max(e, vec3(0.0));
}

#define UP_TO_4(f) f(0) f(1) f(2) f(3)
#define UP_TO_12(f) UP_TO_4(f) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define UP_TO_24(f) UP_TO_12(f) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23)
#define ADD_PARALLEL(i) if (i < N_DOME) add_dome(i, sky_normal, sky_at, sky_open); \
    else if (i < N_PARALLEL) \
        add_lamp(i, lamps[LAMP_OF(i)].place.xyz, s.normal, at, faces[LAMP_OF(i)], open_to[LAMP_OF(i)]);
#define LAMP_OF(i) clamp((i - N_DOME) / LAMP_PARTS, 0, LAMPS_LIMIT - 1)
#define ADD_PLACED(i) if (i < N_PLACED) add_placed(i, s, irradiance, shine);
#define ADD_LIGHT(i) if (i < N_LAMPS) add_light(i, s, faces[i], open_to[i], irradiance, shine);

#ifdef PICTURED
vec3 pictured(vec3 d, float roughness) {
    vec3 at = vec3(turn.x * d.x + turn.y * d.y, turn.x * d.y - turn.y * d.x, d.z);
    return textureLod(sky_picture, at, roughness * (SKY_LEVELS - 1.0)).rgb * turn.z;
}
#endif

// Radiance of sky and table from direction r, blurred by the roughness.
vec3 around(Surface s, vec3 r) {
#ifdef PICTURED
    vec3 sky = pictured(r, s.roughness);
#else
    vec3 sky = mix(horizon.rgb, zenith.rgb, clamp(r.z, 0.0, 1.0));
#endif
    return mix(ground_radiance.rgb, sky, smoothstep(-0.1 - s.alpha, 0.1 + s.alpha, r.z));
}

vec3 lit(Surface s) {
    vec3 at = (s.place - sphere.xyz) * sphere.w + s.normal * TEXEL;
    vec3 sky_at = turned_back(at, UP), sky_normal = turned_back(s.normal, UP);
    vec2 sky_open = vec2(1e-6);
    float faces[LAMPS_LIMIT];
    vec2 open_to[LAMPS_LIMIT];
    for (int i = 0; i < LAMPS_LIMIT; ++i) { faces[i] = 0.0; open_to[i] = vec2(1e-6); }
    vec3 irradiance = vec3(0.0), shine = vec3(0.0);
    UP_TO_12(ADD_PARALLEL)
    UP_TO_24(ADD_PLACED)
    UP_TO_4(ADD_LIGHT)
    float open = sky_open.x / sky_open.y;
#ifndef REST
    open = block_mean(open, s.body);
#endif
    // What hides the sky from a surface hides the table, too, as far as it faces the sky at all.
    float down = 0.5 - 0.5 * s.normal.z;
    vec3 from_table = ground_radiance.rgb * PI * down * mix(open, 1.0, down);
    irradiance += from_sky(s.normal) * open + from_table;
    vec3 share = mirrored_share(s);
    shine += share * around(s, reflect(-s.to_eye, s.normal)) * mix(1.0, open, OCCLUDED_SHINE);
    return s.color * s.emission + s.color * (1.0 - s.metallic) * irradiance / PI * (1.0 - share) + shine;
}

// Returns which of the samples that are left, one bit each, lie on the surface of one of them.
uint alike(int one, uint left, ivec2 at) {
    vec2 kind = texelFetch(matters, at, one).zw;
    uint members = 0u;
    for (int i = 0; i < N_SAMPLES; ++i) {
        if (texelFetch(matters, at, i).zw == kind) members |= 1u << i;
    }
    return members & left;
}

// Returns the radiance of the surface of a sample and of the others that lie on it. It is lit at the
// mean of their depths: that of one of them, beside the pixel's middle, would be before the surface
// or behind it, in its own shadow.
vec3 radiance_of(int one, uint members, ivec2 at) {
    float depth = 0.0;
    for (int i = 0; i < N_SAMPLES; ++i) {
        if ((members & (1u << i)) != 0u) depth += texelFetch(depths, at, i).x;
    }
    depth /= float(bitCount(members));
    vec4 coat = texelFetch(coats, at, one);
    vec4 relief = texelFetch(reliefs, at, one);
    vec4 matter = texelFetch(matters, at, one);
    vec3 screen = vec3(gl_FragCoord.xy / size.xy, depth);
    vec4 place = clip_to_world * vec4(2.0 * screen - 1.0, 1.0);
    Surface s;
    s.place = place.xyz / place.w;
    s.normal = normalize(relief.xyz);
    s.to_eye = normalize(eye.xyz - s.place);
    s.color = coat.rgb * coat.rgb;
    s.roughness = coat.a;
    s.alpha = coat.a * coat.a;
    s.metallic = matter.y;
    s.body = matter.z;
    s.emission = relief.w;
    s.f0 = mix(vec3(matter.x * MOST_SPECULAR), s.color, s.metallic);
#ifdef PICTURED
    return matter.z == 0.0 ? pictured(-s.to_eye, 0.0) : lit(s);
#else
    return matter.z == 0.0 ? horizon.rgb : lit(s);
#endif
}

// Most pixels show one surface: what more a pixel shows is added by a second pass, compiled with
// REST, which the depth written here keeps from all others. Loops are slow in software.
void main() {
    const uint ALL = (1u << N_SAMPLES) - 1u;
    ivec2 at = ivec2(gl_FragCoord.xy);
    uint members = alike(0, ALL, at);
#ifdef REST
    vec3 sum = vec3(0.0);
    uint left = ALL & ~members;
    while (left != 0u) {
        int one = findLSB(left);
        members = alike(one, left, at);
        sum += float(bitCount(members)) * radiance_of(one, members, at);
        left &= ~members;
    }
#else
    vec3 sum = float(bitCount(members)) * radiance_of(0, members, at);
    gl_FragDepth = members == ALL ? 0.0 : 1.0;
#endif
    radiance = vec4(sum / float(N_SAMPLES), 1.0);
}
