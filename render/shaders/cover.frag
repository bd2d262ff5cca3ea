#version 410 core
layout(location = 0) out uvec4 words;
uniform uvec4 body_bits;

void main() {
    words = body_bits;
}
