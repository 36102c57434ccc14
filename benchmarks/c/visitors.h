/* What the programs for visitors who differ share, as program.h for those who are alike.
 *
 *   PROGRAM ROUNDS REPLICATIONS SEED FILE
 *
 * plays Bernoulli arms whose means are those of a visitor, drawn in each round from the kinds in
 * FILE: the vectors of all, then the mean rewards of all, then the leaves, as doubles. Prints a JSON
 * array with an object a replication: seconds of the processor and pulls of each arm.
 */
#ifndef VISITORS_H
#define VISITORS_H

#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random.h"

#define KINDS 4096
#define FEATURES 10
#define ARMS 5
#define LEAVES 8

static struct {
    double vectors[KINDS][FEATURES], means[KINDS][ARMS], leaves[KINDS];
} kinds;

/* Play `rounds` rounds and count how often each arm was played. */
static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS]);

static inline int draw_visitor(Generator *generator)
{
    return (int)(next_word(generator) >> 52);
}

static inline double draw_reward(Generator *generator, int visitor, int arm)
{
    return uniform(generator) < kinds.means[visitor][arm] ? 1.0 : 0.0;
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **words)
{
    FILE *file = count == 5 ? fopen(words[4], "rb") : NULL;
    if (file == NULL || fread(&kinds, sizeof kinds, 1, file) != 1) {
        fprintf(stderr, "usage: %s ROUNDS REPLICATIONS SEED FILE\n", words[0]);
        return 2;
    }
    const int replications = atoi(words[2]);
    for (int replication = 0; replication < replications; replication++) {
        int64_t plays[ARMS] = {0};
        Generator generator = make_generator(strtoull(words[3], NULL, 10) + (uint64_t)replication);
        const double started = processor_seconds();
        play(atoll(words[1]), &generator, plays);
        printf("%s{\"seconds\": %.9f, \"pulls\": [", replication == 0 ? "[" : ",\n ",
               processor_seconds() - started);
        for (int arm = 0; arm < ARMS; arm++)
            printf("%s%lld", arm ? ", " : "", (long long)plays[arm]);
        printf("]}");
    }
    printf("]\n");
    return 0;
}

#endif
