/* UCB1, written plainly: the index of every arm, every round. */
#include "program.h"

static int64_t pulls[ARMS];
static double sums[ARMS];

static int choose(int64_t round)
{
    if (round <= ARMS)
        return (int)round - 1;
    const double scale = 2.0 * log((double)round);
    int best = 0;
    double best_index = -INFINITY;
    for (int arm = 0; arm < ARMS; arm++) {
        const double n = (double)pulls[arm];
        const double index = sums[arm] / n + sqrt(scale / n);
        if (index > best_index) {
            best = arm;
            best_index = index;
        }
    }
    return best;
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    memset(pulls, 0, sizeof pulls);
    memset(sums, 0, sizeof sums);
    for (int64_t round = 1; round <= rounds; round++) {
        const int arm = choose(round);
        pulls[arm]++;
        sums[arm] += draw_reward(generator, arm);
    }
    memcpy(plays, pulls, sizeof pulls);
}
