/* round_robin.c: one node stays where it is, the others move around it. */
#include "worker-sdk/check/round_robin.h"

/* An odd number of nodes gets an imaginary one. */
static int round_robin_even(int n)
{
	return n + n % 2;
}

int round_robin_rounds(int n)
{
	return n < 2 ? 0 : round_robin_even(n) - 1;
}

int round_robin_partner(int n, int round, int me)
{
	int last = round_robin_even(n) - 1, partner;

	if (me == last)
		return round;
	partner = ((2 * round - me) % last + last) % last;
	if (partner == me)
		partner = last;
	return partner < n ? partner : -1;
}
