/* Prints the frequency of the TSC in kHz. VMs under software emulation have the TSC of the host. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

/* Reads both clocks together: the closest pair of 200 attempts. */
static void read_clocks(double *ns, double *ticks)
{
	unsigned long long shortest = -1ULL;
	for (int i = 0; i < 200; i++) {
		struct timespec t;
		unsigned long long a = __rdtsc(), b;
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		if ((b = __rdtsc()) - a >= shortest)
			continue;
		shortest = b - a;
		*ns = t.tv_sec * 1e9 + t.tv_nsec;
		*ticks = a + shortest / 2.0;
	}
}

int main(void)
{
	double n0, t0, n1, t1;
	struct timespec pause = { 0, 50 * 1000 * 1000 };
	read_clocks(&n0, &t0);
	nanosleep(&pause, NULL);
	read_clocks(&n1, &t1);
	printf("%.0f\n", (t1 - t0) / (n1 - n0) * 1e6);
	return 0;
}
