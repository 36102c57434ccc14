/* Tsallis-INF with the reduced-variance estimator, written plainly.
 *
 * The probabilities are 1/(scale (loss - x))^2 with scale = rate/2 and rate = 4/sqrt(t). The x that
 * makes them sum to 1 is found by Newton's method, from the x of the round before.
 */
#include "program.h"
#include "drawing.h"

#define TOLERANCE 1e-12
#define BASELINE 0.5

static double losses[ARMS];

static double solve(double scale, double x, double weights[ARMS])
{
    double least = losses[0];
    for (int arm = 1; arm < ARMS; arm++)
        least = fmin(least, losses[arm]);
    double distance = fmax(1.0, scale * (least - x));
    double total;
    for (;;) {
        double slope = 0.0;
        total = 0.0;
        for (int arm = 0; arm < ARMS; arm++) {
            const double root = 1.0 / (scale * (losses[arm] - least) + distance);
            weights[arm] = root * root;
            total += weights[arm];
            slope += weights[arm] * root;
        }
        if (fabs(total - 1.0) < TOLERANCE)
            break;
        distance = fmax(1.0, distance + (total - 1.0) / (2.0 * slope));
    }
    for (int arm = 0; arm < ARMS; arm++)
        weights[arm] /= total;
    return least - distance / scale;
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    double x = 0.0, weights[ARMS];
    memset(losses, 0, sizeof losses);
    for (int64_t round = 1; round <= rounds; round++) {
        const double rate = 4.0 / sqrt((double)round), threshold = rate * rate;
        x = solve(0.5 * rate, x, weights);
        const int arm = draw_arm(generator, weights, 1.0);
        const double loss = 1.0 - draw_reward(generator, arm);
        const double baseline = weights[arm] >= threshold ? BASELINE : 0.0;
        plays[arm]++;
        for (int other = 0; other < ARMS; other++)
            if (weights[other] >= threshold)
                losses[other] += BASELINE;
        losses[arm] += (loss - baseline) / weights[arm];
    }
}
