/* The Multi-layer Active Arm Elimination Race, written plainly.
 *
 * Layers run from the fastest (0) to the most robust (the last). In each round: sample a layer,
 * play its active arm with the fewest pulls, compute the confidence intervals of its active
 * arms, and delete those that lie below another one, also from all faster layers. An empty
 * layer plays the best mean of the fastest layer that is not empty, and learns nothing.
 */
#include "program.h"

#define MOST_LAYERS 64
#define DELTA 0.05

static int layers;
static double share[MOST_LAYERS];
static double log_term;
static int64_t pulls[MOST_LAYERS][ARMS];
static double sums[MOST_LAYERS][ARMS];
static int active[MOST_LAYERS][ARMS];
static int active_count[MOST_LAYERS];

static void start(int64_t rounds)
{
    layers = 1;
    while (layers < 62 && ((int64_t)1 << layers) < rounds)
        layers++;
    log_term = log(4.0 * ARMS * (double)rounds * layers / DELTA);
    share[0] = 1.0;
    for (int layer = 1; layer < layers; layer++) {
        share[layer] = ldexp(1.0, -layer - 1);
        share[0] -= share[layer];
    }
    memset(pulls, 0, sizeof pulls);
    memset(sums, 0, sizeof sums);
    for (int layer = 0; layer < layers; layer++) {
        active_count[layer] = ARMS;
        for (int arm = 0; arm < ARMS; arm++)
            active[layer][arm] = 1;
    }
}

static int sample_layer(Generator *generator)
{
    double level = uniform(generator);
    int layer = 0;
    while (layer < layers - 1 && level >= share[layer]) {
        level -= share[layer];
        layer++;
    }
    return layer;
}

static int least_pulled(int layer)
{
    int least = -1;
    for (int arm = 0; arm < ARMS; arm++)
        if (active[layer][arm] && (least < 0 || pulls[layer][arm] < pulls[layer][least]))
            least = arm;
    return least;
}

static double mean(int layer, int arm)
{
    return pulls[layer][arm] > 0 ? sums[layer][arm] / (double)pulls[layer][arm] : 0.0;
}

static int fallback(void)
{
    int layer = 0;
    while (active_count[layer] == 0)
        layer++;
    int best = -1;
    for (int arm = 0; arm < ARMS; arm++)
        if (active[layer][arm] && (best < 0 || mean(layer, arm) > mean(layer, best)))
            best = arm;
    return best;
}

static double half_width(int64_t n)
{
    if (n == 0)
        return INFINITY;
    return sqrt(log_term / (double)n) + log_term / (double)n;
}

static void eliminate(int layer)
{
    double width[ARMS];
    double highest_lower = -INFINITY;
    for (int arm = 0; arm < ARMS; arm++) {
        if (!active[layer][arm])
            continue;
        width[arm] = half_width(pulls[layer][arm]);
        highest_lower = fmax(highest_lower, mean(layer, arm) - width[arm]);
    }
    for (int arm = 0; arm < ARMS; arm++) {
        if (!active[layer][arm] || mean(layer, arm) + width[arm] >= highest_lower)
            continue;
        for (int faster = 0; faster <= layer; faster++) {
            active_count[faster] -= active[faster][arm];
            active[faster][arm] = 0;
        }
    }
}

#ifdef ATTACKED
#define LIKELY 0.5

static double spent;

/* The probability of each arm: layers that would play it next add their shares. */
static void distribution(double weights[ARMS])
{
    memset(weights, 0, ARMS * sizeof weights[0]);
    for (int layer = 0; layer < layers; layer++)
        weights[active_count[layer] > 0 ? least_pulled(layer) : fallback()] += share[layer];
}

/* Whether the attack sets the best arm's reward to 0 in this round; the change is charged. */
static int strikes(Generator *generator)
{
    double weights[ARMS];
    distribution(weights);
    if (weights[0] < LIKELY)
        return 0;
    spent += draw_reward(generator, 0);
    return 1;
}
#endif

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    start(rounds);
    for (int64_t round = 0; round < rounds; round++) {
#ifdef ATTACKED
        const int best_pays_nothing = strikes(generator);
#else
        const int best_pays_nothing = 0;
#endif
        const int layer = sample_layer(generator);
        const int learns = active_count[layer] > 0;
        const int arm = learns ? least_pulled(layer) : fallback();
        const double reward = arm == 0 && best_pays_nothing ? 0.0 : draw_reward(generator, arm);
        plays[arm]++;
        if (learns) {
            pulls[layer][arm]++;
            sums[layer][arm] += reward;
            eliminate(layer);
        }
    }
}
