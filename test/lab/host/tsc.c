/* Prints how many thousand ticks a second the TSC makes, which VMs under software emulation see as it is. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/* One reading of both clocks, of several that one in which least time passed. */
static void look(double *ns, double *ticks)
{
	unsigned long long least = -1ULL;
	for (int i = 0; i < 200; i++) {
		struct timespec t;
		unsigned long long a = __rdtsc(), b;
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		if ((b = __rdtsc()) - a >= least)
			continue;
		least = b - a;
		*ns = t.tv_sec * 1e9 + t.tv_nsec;
		*ticks = a + least / 2.0;
	}
}

int main(void)
{
	double n0, t0, n1, t1;
	struct timespec pause = { 0, 50 * 1000 * 1000 };
	look(&n0, &t0);
	nanosleep(&pause, NULL);
	look(&n1, &t1);
	printf("%.0f\n", (t1 - t0) / (n1 - n0) * 1e6);
	return 0;
}
