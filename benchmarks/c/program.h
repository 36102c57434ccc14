/* What all programs share: the problem, the timing, the output.
 *
 *   PROGRAM ROUNDS REPLICATIONS SEED BEST OTHERS
 *
 * plays Bernoulli arms, the first with mean BEST, the others with mean OTHERS, and prints a JSON
 * array with an object a replication: seconds of the processor, pulls of each arm and the
 * pseudo-regret. The number of arms is known to the compiler.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random.h"

#define ARMS 10

static double means[ARMS];

/* Play `rounds` rounds and count how often each arm was played. */
static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS]);

static inline double draw_reward(Generator *generator, int arm)
{
    return uniform(generator) < means[arm] ? 1.0 : 0.0;
}

static double processor_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void print_replication(double seconds, const int64_t plays[ARMS])
{
    double regret = 0.0;
    printf("{\"seconds\": %.9f, \"pulls\": [", seconds);
    for (int arm = 0; arm < ARMS; arm++) {
        printf("%s%lld", arm ? ", " : "", (long long)plays[arm]);
        regret += (means[0] - means[arm]) * (double)plays[arm];
    }
    printf("], \"pseudo_regret\": %.3f}", regret);
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: %s ROUNDS REPLICATIONS SEED BEST OTHERS\n", words[0]);
        return 2;
    }
    const int64_t rounds = atoll(words[1]);
    const int replications = atoi(words[2]);
    const uint64_t seed = strtoull(words[3], NULL, 10);
    for (int arm = 0; arm < ARMS; arm++)
        means[arm] = atof(words[arm == 0 ? 4 : 5]);
    for (int replication = 0; replication < replications; replication++) {
        int64_t plays[ARMS] = {0};
        Generator generator = make_generator(seed + (uint64_t)replication);
        const double started = processor_seconds();
        play(rounds, &generator, plays);
        printf("%s", replication == 0 ? "[" : ",\n ");
        print_replication(processor_seconds() - started, plays);
    }
    printf("]\n");
    return 0;
}

#endif
