#version 410 core
flat in uint label;
layout(location = 0) out uvec4 words;

void main() {
    uint bit = 1u << ((label - 1u) % 32u);
    uint word = (label - 1u) / 32u;
    words = uvec4(word == 0u ? bit : 0u, word == 1u ? bit : 0u, word == 2u ? bit : 0u,
                  word == 3u ? bit : 0u);
}
