/* EXP3 with losses, written plainly: one weight an arm, of which only the played one changes. */
#include "program.h"
#include "drawing.h"

#define SMALLEST_WEIGHT 1e-100

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    const double rate = sqrt(2.0 * log(ARMS) / ((double)rounds * ARMS));
    double weights[ARMS];
    for (int arm = 0; arm < ARMS; arm++)
        weights[arm] = 1.0;
    for (int64_t round = 0; round < rounds; round++) {
        double total = 0.0, largest = 0.0;
        for (int arm = 0; arm < ARMS; arm++) {
            total += weights[arm];
            largest = fmax(largest, weights[arm]);
        }
        if (largest < SMALLEST_WEIGHT) {
            for (int arm = 0; arm < ARMS; arm++)
                weights[arm] /= largest;
            total /= largest;
        }
        const int arm = draw_arm(generator, weights, total);
        const double loss = 1.0 - draw_reward(generator, arm);
        plays[arm]++;
        weights[arm] *= exp(-rate * loss * total / weights[arm]);
    }
}
