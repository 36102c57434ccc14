/* The optimistic logarithmic barrier, once for each leaf, written plainly.
 *
 * The probabilities are scale/(loss - x). The x that makes them sum to 1 is found by Newton's method
 * for the reciprocal of the sum, from the x of the leaf's round before.
 */
#include "visitors.h"

#define OPTIMISM 0.5
#define FIRST_SCALE 2.0
#define SCALE_GROWTH 0.25
#define TOLERANCE 1e-12

typedef struct {
    double losses[ARMS], lost[ARMS], plays[ARMS], variations[ARMS], variances[ARMS], own[ARMS];
    double pooled, rewards, x;
} Leader;

static Leader leaders[LEAVES];

static double prediction(const Leader *leader, int arm)
{
    return (0.5 + leader->lost[arm]) / (1.0 + leader->plays[arm]);
}

static void solve(Leader *leader, double growth, double weights[ARMS])
{
    double expected[ARMS], scales[ARMS];
    int best = 0;
    for (int arm = 0; arm < ARMS; arm++) {
        expected[arm] = leader->losses[arm] + prediction(leader, arm)
                        - OPTIMISM * sqrt(leader->variances[arm]);
        scales[arm] = FIRST_SCALE + sqrt(growth * leader->variations[arm]);
        if (expected[arm] < expected[best])
            best = arm;
    }
    const double least = expected[best];
    double distance = fmax(least - leader->x, scales[best]);
    for (;;) {
        double total = 0.0, slope = 0.0;
        for (int arm = 0; arm < ARMS; arm++) {
            const double root = 1.0 / (expected[arm] - least + distance);
            weights[arm] = scales[arm] * root;
            total += weights[arm];
            slope += weights[arm] * root;
        }
        if (fabs(total - 1.0) < TOLERANCE)
            break;
        distance = fmax(distance + total * (total - 1.0) / slope, scales[best]);
    }
    leader->x = least - distance;
}

static void learn(Leader *leader, const double weights[ARMS], int arm, double loss)
{
    const double error = loss - prediction(leader, arm);
    for (int other = 0; other < ARMS; other++) {
        const double p = weights[other];
        const double spread = fmax(leader->own[other], leader->pooled);
        leader->variances[other] += spread * (1.0 - p) / p;
        leader->losses[other] += prediction(leader, other);
        const double share = error * (other == arm ? 1.0 - p : p);
        leader->variations[other] += share * share;
    }
    leader->losses[arm] += error / weights[arm];
    leader->plays[arm] += 1.0;
    leader->lost[arm] += loss;
    leader->rewards += 1.0;
    leader->own[arm] += (error * error - leader->own[arm]) / (1.0 + leader->plays[arm]);
    leader->pooled += (error * error - leader->pooled) / (1.0 + leader->rewards);
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    const double growth = SCALE_GROWTH / log((double)rounds);
    memset(leaders, 0, sizeof leaders);
    for (int leaf = 0; leaf < LEAVES; leaf++) {
        leaders[leaf].pooled = 0.25;
        for (int arm = 0; arm < ARMS; arm++)
            leaders[leaf].own[arm] = 0.25;
    }
    for (int64_t round = 0; round < rounds; round++) {
        const int visitor = draw_visitor(generator);
        Leader *leader = &leaders[(int)kinds.leaves[visitor]];
        double weights[ARMS], level = uniform(generator);
        solve(leader, growth, weights);
        int arm = 0;
        while (arm < ARMS - 1 && level >= weights[arm])
            level -= weights[arm++];
        plays[arm]++;
        learn(leader, weights, arm, 1.0 - draw_reward(generator, visitor, arm));
    }
}
