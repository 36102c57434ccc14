/* Draws that several algorithms share. */
#ifndef DRAWING_H
#define DRAWING_H

#include "program.h"

/* An arm with probability proportional to its weight; `total` is the sum of the weights. */
static inline int draw_arm(Generator *generator, const double weights[ARMS], double total)
{
    double level = uniform(generator) * total;
    int arm = 0;
    while (arm < ARMS - 1 && level >= weights[arm]) {
        level -= weights[arm];
        arm++;
    }
    return arm;
}

#endif
