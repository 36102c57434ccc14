/* xoshiro256++ of Blackman and Vigna (2019), seeded by splitmix64. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

typedef struct {
    uint64_t word[4];
} Generator;

static inline uint64_t rotate_left(uint64_t x, int places)
{
    return (x << places) | (x >> (64 - places));
}

static inline uint64_t next_word(Generator *generator)
{
    uint64_t *s = generator->word;
    const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    const uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Uniform on [0, 1) with 53 random bits. */
static inline double uniform(Generator *generator)
{
    return (double)(next_word(generator) >> 11) * 0x1.0p-53;
}

static inline Generator make_generator(uint64_t seed)
{
    Generator generator;
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        generator.word[i] = z ^ (z >> 31);
    }
    return generator;
}

#endif
