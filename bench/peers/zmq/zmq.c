/* One side of a measurement through ZeroMQ's multicast transport epgm, for
 * zmq.go:
 *
 *   zmq pub|sub ADDRESS SIZE SECONDS RATE SNDBUF RCVBUF
 *
 * RATE 0 is a full load. Messages are those of package worker: number, when due
 * or filler, filler, scrambled number. It prints "ready"; a subscriber ends with
 * the last message, or shortly after "stop" on its standard input. Results are
 * one line "result messages lost gaps bad start end timed", then, with a rate,
 * one latency in nanoseconds a line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static const uint64_t STEP = 0x9e3779b97f4a7c15ull, LAST = 1ull << 63;

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void die(const char *what) {
	fprintf(stderr, "zmq: %s: %s\n", what, zmq_strerror(errno));
	exit(1);
}

static void set(void *s, int option, int value, const char *what) {
	if (zmq_setsockopt(s, option, &value, sizeof value)) die(what);
}

static void leave(int signal) {
	(void)signal;
	_exit(0);
}

static int stopped(void) {
	struct pollfd p = {0, POLLIN, 0};
	return poll(&p, 1, 0) > 0;
}

static void publish(void *s, int size, double seconds, double rate) {
	unsigned char *m = calloc(1, size);
	int64_t start = now(), end = start + (int64_t)(seconds * 1e9);
	uint64_t n = 0, total = rate > 0 ? (uint64_t)(seconds * rate) : UINT64_MAX;
	for (;; n++) {
		uint64_t tail = n * STEP + 1;
		int last;
		if (rate > 0) {
			int64_t due = start + (int64_t)(n / rate * 1e9);
			while (now() < due) {}
			memcpy(m + 8, &due, 8);
			last = n + 1 >= total;
		} else {
			last = (n & 63) == 63 && now() >= end;
		}
		if (last) tail ^= LAST;
		memcpy(m, &n, 8);
		memcpy(m + size - 8, &tail, 8);
		while (zmq_send(s, m, size, 0) < 0)
			if (errno != EINTR) die("send");
		if (last) break;
	}
	printf("result %" PRIu64 " 0 0 0 %" PRId64 " %" PRId64 " 0\n", n + 1, start, now());
	free(m);
}

static void subscribe(void *s, int size, double rate) {
	unsigned char *m = malloc(size + 1);
	uint64_t next = 0, lost = 0, gaps = 0, bad = 0, got = 0, timed = 0, room = 1 << 16, measured = 0;
	int64_t start = 0, end = 0, quiet = 0, *late = malloc(room * sizeof *late);
	for (;;) {
		int n = zmq_recv(s, m, size + 1, 0);
		if (n < 0) {
			if (errno != EAGAIN && errno != EINTR) die("receive");
			/* The receive timeout: after several of them the rest counts as
			 * lost. */
			if (stopped() && ++quiet > 20) break;
			continue;
		}
		quiet = 0;
		uint64_t number, tail;
		if (n != size) { bad++; continue; }
		memcpy(&number, m, 8);
		memcpy(&tail, m + size - 8, 8);
		if (!start) start = now();
		if (number < next) { bad++; continue; }
		if (number > next) { lost += number - next; gaps++; }
		next = number + 1;
		got++;
		tail ^= number * STEP + 1;
		if (tail && tail != LAST) { bad++; continue; }
		if (rate > 0) {
			int64_t due;
			memcpy(&due, m + 8, 8);
			if (measured == room) late = realloc(late, (room *= 2) * sizeof *late);
			late[measured++] = now() - due;
		}
		if ((number & 1023) == 0 || tail) { end = now(); timed = got; }
		if (tail) break;
	}
	printf("result %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 "\n", got, lost, gaps, bad, start, end, timed);
	for (uint64_t i = 0; i < measured; i++) printf("%" PRId64 "\n", late[i]);
	free(late);
	free(m);
}

int main(int argc, char **argv) {
	if (argc != 8) {
		fprintf(stderr, "zmq: want pub|sub ADDRESS SIZE SECONDS RATE SNDBUF RCVBUF\n");
		return 2;
	}
	int pub = !strcmp(argv[1], "pub"), size = atoi(argv[3]);
	double seconds = atof(argv[4]), rate = atof(argv[5]);
	if (size < 24) {
		fprintf(stderr, "zmq: the minimum message size is 24 bytes\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	void *context = zmq_ctx_new(), *s = zmq_socket(context, pub ? ZMQ_PUB : ZMQ_SUB);
	if (!s) die("socket");
	set(s, ZMQ_SNDHWM, 100000, "send high-water mark");
	set(s, ZMQ_RCVHWM, 0, "receive high-water mark");
	set(s, ZMQ_SNDBUF, atoi(argv[6]), "send buffer");
	set(s, ZMQ_RCVBUF, atoi(argv[7]), "receive buffer");
	set(s, ZMQ_RATE, 8000000, "rate"); /* kbit/s: the default is 100 */
	set(s, ZMQ_RECOVERY_IVL, 200, "recovery interval");
	set(s, ZMQ_LINGER, 2000, "linger");
	if (pub) {
		set(s, ZMQ_XPUB_NODROP, 1, "no drop");
		if (zmq_connect(s, argv[2])) die(argv[2]);
	} else {
		set(s, ZMQ_RCVTIMEO, 50, "receive timeout");
		if (zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0)) die("subscribe");
		if (zmq_connect(s, argv[2])) die(argv[2]);
	}
	usleep(300000); /* connections are made in the background, without a notice */
	printf("ready\n");
	fflush(stdout);
	if (pub)
		publish(s, size, seconds, rate);
	else
		subscribe(s, size, rate);
	fflush(stdout);
	if (!pub) _exit(0);
	/* A publisher ends when everything is sent and repaired, or when that takes too
	 * long. */
	signal(SIGALRM, leave);
	alarm(5);
	zmq_close(s);
	zmq_ctx_term(context);
	return 0;
}
