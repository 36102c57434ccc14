/* Thompson sampling with Beta posteriors, written plainly: a Beta number for every arm, every round.
 *
 * A Beta number is a ratio of two gamma numbers, and a gamma number is drawn by the method of
 * Marsaglia and Tsang (2000), with normal numbers by Marsaglia's polar method.
 */
#include "program.h"

static double spare;
static int has_spare;

static double normal(Generator *generator)
{
    if (has_spare) {
        has_spare = 0;
        return spare;
    }
    double x, y, square;
    do {
        x = 2.0 * uniform(generator) - 1.0;
        y = 2.0 * uniform(generator) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    const double radius = sqrt(-2.0 * log(square) / square);
    spare = y * radius;
    has_spare = 1;
    return x * radius;
}

/* Shapes of at least 1. */
static double gamma_number(Generator *generator, double shape)
{
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        const double x = normal(generator), v = 1.0 + c * x;
        if (v <= 0.0)
            continue;
        const double cube = v * v * v, square = x * x, level = 1.0 - uniform(generator);
        if (level < 1.0 - 0.0331 * square * square)
            return d * cube;
        if (log(level) < 0.5 * square + d * (1.0 - cube + log(cube)))
            return d * cube;
    }
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    double successes[ARMS] = {0.0}, failures[ARMS] = {0.0};
    has_spare = 0;
    for (int64_t round = 0; round < rounds; round++) {
        int best = 0;
        double best_draw = -1.0;
        for (int arm = 0; arm < ARMS; arm++) {
            const double one = gamma_number(generator, successes[arm] + 1.0);
            const double draw = one / (one + gamma_number(generator, failures[arm] + 1.0));
            if (draw > best_draw) {
                best = arm;
                best_draw = draw;
            }
        }
        const double reward = draw_reward(generator, best);
        plays[best]++;
        successes[best] += reward;
        failures[best] += 1.0 - reward;
    }
}
