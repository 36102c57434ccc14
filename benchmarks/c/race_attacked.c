/* The race under zero-best-when-likely: the best arm pays 0 in every round in which the race plays it
 * with probability 1/2 or more. The attack is shown the whole distribution, computed every round.
 */
#define ATTACKED
#include "race.c"
