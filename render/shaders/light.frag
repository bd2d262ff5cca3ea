#version 410 core
#extension GL_ARB_shading_language_420pack : require
// Linear radiance of the surfaces drawn by attributes.frag, each lit once in a pixel: diffuse light
// of the sky and of shadowed beams, specular light of the sky and of the lamps' lobes. How many beams
// and lobes there are is known when it is compiled, and loops over them are unrolled: software
// rasterizers would fetch what a loop reads anew for each pixel, and compute both sides of every
// question.
const float PI = 3.14159265;
const float MOST_SPECULAR = 0.25;
const float TEXEL = 2.0 / SHADOW_PX;  // of a shadow map over the radius that it shows

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

struct Parallel {
    vec4 x, y, z;  // xyz: axes of its shadow map, z away from it; w: irradiance facing it
};
struct Placed {
    vec4 place;   // xyz: position; w: whether it lights only what its shadow map sees
    vec4 power;   // rgb: intensity; w: side of a shadow texel at distance 1
    vec4 axis;    // xyz: where it shines
    vec4 cone;    // cosines where it begins to fall off, where it ends; z: whether it falls as a
                  // surface's does
    mat4 to_shadow;
};
struct Lobe {
    vec4 place;   // xyz: unit vector towards it (w 0), or position (w 1)
    vec4 power;   // rgb: irradiance or intensity; w: radius, in radians or metres
    vec4 axis;    // as a placed beam's
    vec4 cone;
};
layout(std140) uniform Light {
    vec4 zenith;
    vec4 horizon;
    vec4 ground_radiance;
    vec4 harmonics[9];  // of the sky's irradiance
    vec4 sphere;        // xyz: middle of the casting bodies; w: one over its radius in shadow maps
    Parallel parallel[PARALLEL_LIMIT];
    Placed placed[PLACED_LIMIT];
    Lobe lobes[LOBES_LIMIT];
};
uniform mat4 clip_to_world;
uniform vec4 eye;   // where it is
uniform vec4 size;  // of the view, pixels

layout(location = 0) out vec4 radiance;

struct Surface {
    vec3 place;
    vec3 normal;
    vec3 color;
    float roughness, specular, metallic, emission;
};

// Share of its intensity that a placed beam sends towards a point, over the squared distance.
float arriving(vec3 to_beam, float away, vec3 axis, vec3 cone) {
    float along = -dot(to_beam, axis);
    float fall = cone.z > 0.0 ? max(along, 0.0) : smoothstep(cone.y, cone.x, along);
    return fall / (away * away);
}

// Share of a surface that a parallel beam reaches. Beside the bodies its map is empty, and beyond
// its edge as at its edge.
float reached(int i, vec3 at) {
    vec3 along = vec3(dot(parallel[i].x.xyz, at), dot(parallel[i].y.xyz, at),
                      dot(parallel[i].z.xyz, at));
    vec3 place = 0.5 + 0.5 * along;
    return texture(shadow_maps, vec4(place.xy, float(i), min(place.z, 1.0)));
}

float facing(int i, Surface s) { return max(-dot(parallel[i].z.xyz, s.normal), 0.0); }

// Adds light (1, its weight) of a part of the sky, and what of it arrives.
void add_dome(int i, Surface s, vec3 at, inout vec2 dome) {
    vec3 power = vec3(parallel[i].x.w, parallel[i].y.w, parallel[i].z.w);
    float weight = (power.r + power.g + power.b) * facing(i, s);
    dome += weight * vec2(reached(i, at), 1.0);
}

void add_lamp(int i, Surface s, vec3 at, inout vec3 irradiance, inout vec2 all) {
    vec3 light = vec3(parallel[i].x.w, parallel[i].y.w, parallel[i].z.w) * facing(i, s);
    float seen = reached(i, at);
    irradiance += light * seen;
    all += (light.r + light.g + light.b) * vec2(seen, 1.0);
}

void add_placed(int i, Surface s, inout vec3 irradiance, inout vec2 all) {
    vec3 to_beam = placed[i].place.xyz - s.place;
    float away = length(to_beam);
    to_beam /= away;
    float share = arriving(to_beam, away, placed[i].axis.xyz, placed[i].cone.xyz);
    vec3 light = placed[i].power.rgb * (max(dot(s.normal, to_beam), 0.0) * share);
    vec3 lifted = s.place + s.normal * placed[i].power.w * away;
    vec4 clip = placed[i].to_shadow * vec4(lifted, 1.0);
    vec3 at = clip.xyz / clip.w * 0.5 + 0.5;
    bool outside = clip.w <= 0.0 || any(lessThan(at.xy, vec2(0.0)))
                || any(greaterThan(at.xy, vec2(1.0)));
    float map = float(N_PARALLEL + i);
    float seen = texture(shadow_maps, vec4(at.xy, map, clamp(at.z, 0.0, 1.0)));
    seen = outside ? 1.0 - placed[i].place.w : seen;
    irradiance += light * seen;
    all += (light.r + light.g + light.b) * vec2(seen, 1.0);
}

// Irradiance of the open sky on a surface (Ramamoorthi and Hanrahan 2001).
vec3 from_sky(vec3 n) {
    vec3 e = harmonics[0].rgb + harmonics[1].rgb * n.y + harmonics[2].rgb * n.z
           + harmonics[3].rgb * n.x + harmonics[4].rgb * (n.x * n.y) + harmonics[5].rgb * (n.y * n.z)
           + harmonics[6].rgb * (3.0 * n.z * n.z - 1.0) + harmonics[7].rgb * (n.x * n.z)
           + harmonics[8].rgb * (n.x * n.x - n.y * n.y);
    return max(e, vec3(0.0));
}

// Adds what a rough mirror shows of a lamp: a Gaussian on the sphere (Wang et al. 2009).
void add_lobe(int i, Surface s, vec3 r, inout vec3 light) {
    vec3 to_lobe = lobes[i].place.xyz;
    float share = 1.0, radius = lobes[i].power.w;
#if N_PLACED > 0
    if (lobes[i].place.w > 0.0) {
        to_lobe -= s.place;
        float away = length(to_lobe);
        to_lobe /= away;
        share = arriving(to_lobe, away, lobes[i].axis.xyz, lobes[i].cone.xyz);
        radius /= away;
    }
#endif
    float alpha = s.roughness * s.roughness;
    float width = radius * radius + alpha * alpha;
    float off = 2.0 * (dot(r, to_lobe) - 1.0) / width;
    light += lobes[i].power.rgb * (share * exp(off) / (PI * width * (1.0 - exp(-4.0 / width))));
}

#define UP_TO_8(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define UP_TO_24(f) UP_TO_8(f) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) \
    f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23)
#define ADD_PARALLEL(i) if (i < N_DOME) add_dome(i, s, at, dome); \
    else if (i < N_PARALLEL) add_lamp(i, s, at, irradiance, all);
#define ADD_PLACED(i) if (i < N_PLACED) add_placed(i, s, irradiance, all);
#define ADD_LOBE(i) if (i < N_LOBES) add_lobe(i, s, r, light);

// Radiance reflected from direction r, blurred by the roughness (lobes widen, their energy stays).
vec3 reflected(Surface s, vec3 r) {
    float alpha = s.roughness * s.roughness;
    vec3 sky = mix(horizon.rgb, zenith.rgb, clamp(r.z, 0.0, 1.0));
    vec3 light = mix(ground_radiance.rgb, sky, smoothstep(-0.1 - alpha, 0.1 + alpha, r.z));
    UP_TO_8(ADD_LOBE)
    return light;
}

vec3 lit(Surface s) {
    vec3 v = normalize(eye.xyz - s.place);
    vec3 at = (s.place - sphere.xyz) * sphere.w + s.normal * TEXEL;
    vec2 dome = vec2(1e-6), all = vec2(0.0);  // light that arrives, and that would if all were open
    vec3 irradiance = vec3(0.0);
    UP_TO_24(ADD_PARALLEL)
    UP_TO_24(ADD_PLACED)
    all += dome;
    irradiance += from_sky(s.normal) * (dome.x / dome.y);
    irradiance += ground_radiance.rgb * PI * (0.5 - 0.5 * s.normal.z);
    float facing_eye = clamp(dot(s.normal, v), 0.0, 1.0);
    vec3 f0 = mix(vec3(s.specular), s.color, s.metallic);
    // Schlick's Fresnel term, held down on rough surfaces (Lagarde 2011).
    vec3 fresnel = f0 + (max(vec3(1.0 - s.roughness), f0) - f0) * pow(1.0 - facing_eye, 5.0);
    vec3 diffuse = s.color * (1.0 - s.metallic) * irradiance / PI;
    vec3 shine = fresnel * reflected(s, reflect(-v, s.normal)) * mix(1.0, all.x / all.y, 0.7);
    return s.color * s.emission + diffuse * (1.0 - fresnel) + shine;
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

// Returns the radiance of the surface of a sample.
vec3 radiance_of(int one, ivec2 at) {
    vec4 coat = texelFetch(coats, at, one);
    vec4 relief = texelFetch(reliefs, at, one);
    vec4 matter = texelFetch(matters, at, one);
    vec3 screen = vec3(gl_FragCoord.xy / size.xy, texelFetch(depths, at, one).x);
    vec4 place = clip_to_world * vec4(2.0 * screen - 1.0, 1.0);
    Surface surface = Surface(place.xyz / place.w, normalize(relief.xyz), coat.rgb * coat.rgb, coat.a,
                              matter.x * MOST_SPECULAR, matter.y, relief.w);
    return matter.z == 0.0 ? horizon.rgb : lit(surface);
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
        sum += float(bitCount(members)) * radiance_of(one, at);
        left &= ~members;
    }
#else
    vec3 sum = float(bitCount(members)) * radiance_of(0, at);
    gl_FragDepth = members == ALL ? 0.0 : 1.0;
#endif
    radiance = vec4(sum / float(N_SAMPLES), 1.0);
}
