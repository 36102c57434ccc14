/* KL-UCB, written plainly: the index of every arm, every round.
 *
 * The index q of an arm with mean p after n plays solves kl(p, q) = ln(t)/n. Newton's method starts
 * from the index of the round before, so that a step or two are enough.
 */
#include "program.h"

#define TOLERANCE 1e-10
#define TIE 1e-12
#define LARGEST (1.0 - 1e-15)

static int64_t pulls[ARMS];
static double sums[ARMS];
static double indices[ARMS];

static double divergence(double p, double q)
{
    double sum = 0.0;
    if (p > 0.0)
        sum += p * log(p / q);
    if (p < 1.0)
        sum += (1.0 - p) * log((1.0 - p) / (1.0 - q));
    return sum;
}

/* kl(p, q) is convex in q > p: a step from above the root stays above it, one from below passes it. */
static double upper_end(double p, double level, double start)
{
    const double highest = fmin(LARGEST, p + sqrt(0.5 * level)); /* Pinsker */
    double q = start > p && start < highest ? start : highest;
    if (p >= LARGEST)
        return 1.0;
    for (int step = 0; step < 50; step++) {
        const double change = (divergence(p, q) - level) * q * (1.0 - q) / (q - p);
        const double next = q - change;
        q = next > highest ? highest : (next <= p ? 0.5 * (p + q) : next);
        if (fabs(change) < TOLERANCE)
            break;
    }
    return q;
}

static int choose(int64_t round)
{
    if (round <= ARMS)
        return (int)round - 1;
    const double threshold = log((double)round);
    int best = 0;
    double best_index = -INFINITY;
    for (int arm = 0; arm < ARMS; arm++) {
        const double n = (double)pulls[arm];
        indices[arm] = upper_end(sums[arm] / n, threshold / n, indices[arm]);
        if (indices[arm] > best_index + TIE) {
            best = arm;
            best_index = indices[arm];
        }
    }
    return best;
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    memset(pulls, 0, sizeof pulls);
    memset(sums, 0, sizeof sums);
    memset(indices, 0, sizeof indices);
    for (int64_t round = 1; round <= rounds; round++) {
        const int arm = choose(round);
        pulls[arm]++;
        sums[arm] += draw_reward(generator, arm);
    }
    memcpy(plays, pulls, sizeof pulls);
}
