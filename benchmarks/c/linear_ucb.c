/* LinUCB, written plainly: a ridge regression an arm, and the largest upper bound. */
#include "visitors.h"

#define RADIUS 1.0

static double inverses[ARMS][FEATURES][FEATURES], weights[ARMS][FEATURES];

static double score(int arm, const double x[FEATURES])
{
    double known = 0.0, square = 0.0;
    for (int i = 0; i < FEATURES; i++) {
        double part = 0.0;
        for (int j = 0; j < FEATURES; j++)
            part += inverses[arm][i][j] * x[j];
        square += part * x[i];
        known += weights[arm][i] * x[i];
    }
    return known + RADIUS * sqrt(fmax(square, 0.0));
}

static void learn(int arm, const double x[FEATURES], double reward)
{
    double image[FEATURES], square = 0.0, error = reward;
    for (int i = 0; i < FEATURES; i++) {
        image[i] = 0.0;
        for (int j = 0; j < FEATURES; j++)
            image[i] += inverses[arm][i][j] * x[j];
        square += image[i] * x[i];
        error -= weights[arm][i] * x[i];
    }
    for (int i = 0; i < FEATURES; i++) {
        const double scaled = image[i] / (1.0 + square);
        for (int j = 0; j < FEATURES; j++)
            inverses[arm][i][j] -= scaled * image[j];
        weights[arm][i] += scaled * error;
    }
}

static void play(int64_t rounds, Generator *generator, int64_t plays[ARMS])
{
    memset(inverses, 0, sizeof inverses);
    memset(weights, 0, sizeof weights);
    for (int arm = 0; arm < ARMS; arm++)
        for (int i = 0; i < FEATURES; i++)
            inverses[arm][i][i] = 1.0;
    for (int64_t round = 0; round < rounds; round++) {
        const int visitor = draw_visitor(generator);
        const double *x = kinds.vectors[visitor];
        int best = 0;
        double best_score = -INFINITY;
        for (int arm = 0; arm < ARMS; arm++) {
            const double found = score(arm, x);
            if (found > best_score) {
                best = arm;
                best_score = found;
            }
        }
        plays[best]++;
        learn(best, x, draw_reward(generator, visitor, best));
    }
}
