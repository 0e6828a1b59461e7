"""Units of time, and the smoothed round trip (docs/protocol §6.9). Times are integers in nanoseconds."""

US, MS, S = 1_000, 1_000_000, 1_000_000_000
FIRST, MIN_SAMPLE, MAX_SAMPLE = 200 * US, 5 * US, 500 * MS


class RoundTrip:
    def __init__(self):
        self.smoothed, self.deviation, self.samples = FIRST, FIRST // 2, 0
        self.newest = 0

    def sample(self, d):
        d = self.newest = min(max(d, MIN_SAMPLE), MAX_SAMPLE)
        if self.samples == 0:
            self.smoothed, self.deviation = d, d // 2
        else:
            self.deviation += (abs(self.smoothed - d) - self.deviation) // 4
            self.smoothed += (d - self.smoothed) // 8
        self.samples += 1

    def sample_cut(self, d):
        """A sample that may include more than the round trip: it is limited."""
        self.sample(min(d, self.smoothed * 3 // 2 + 100 * US) if self.samples else d)

    def hold(self):
        """The longest time for which a repair may be in the network."""
        return max(self.newest, self.smoothed + 4 * self.deviation)

    def stated(self, p):
        """The publisher's round trip is the initial value, and a sample if it is more than twice the smoothed one."""
        if p and self.samples == 0:
            self.smoothed, self.deviation = min(max(p, MIN_SAMPLE), MAX_SAMPLE), p // 2
        elif p > 2 * self.smoothed:
            self.sample(p)

    def repetition(self, stated):
        """R: the minimum time from a NAK to the next one."""
        r = self.smoothed + 4 * self.deviation
        return min(max(r, 100 * US), max(20 * MS, 2 * min(stated, MAX_SAMPLE)))
