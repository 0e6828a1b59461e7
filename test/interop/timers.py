"""Units of time, and a smoothed round trip (docs/protocol §6.9). Times are integers in nanoseconds."""

US, MS, S = 1_000, 1_000_000, 1_000_000_000
FIRST, LEAST, LONGEST = 200 * US, 5 * US, 500 * MS


class RoundTrip:
    def __init__(self):
        self.smoothed, self.deviation, self.samples = FIRST, FIRST // 2, 0
        self.newest = 0

    def sample(self, d):
        d = self.newest = min(max(d, LEAST), LONGEST)
        if self.samples == 0:
            self.smoothed, self.deviation = d, d // 2
        else:
            self.deviation += (abs(self.smoothed - d) - self.deviation) // 4
            self.smoothed += (d - self.smoothed) // 8
        self.samples += 1

    def sample_cut(self, d):
        """Of a time that is more than a way now and then."""
        self.sample(min(d, self.smoothed * 3 // 2 + 100 * US) if self.samples else d)

    def hold(self):
        """How long what was sent again may be on its way."""
        return max(self.newest, self.smoothed + 4 * self.deviation)

    def stated(self, p):
        """What the publisher measured is the first guess, and a sample where it is more than twice as much."""
        if p and self.samples == 0:
            self.smoothed, self.deviation = min(max(p, LEAST), LONGEST), p // 2
        elif p > 2 * self.smoothed:
            self.sample(p)

    def repetition(self, stated):
        """R: how long after a NAK the next one may follow."""
        r = self.smoothed + 4 * self.deviation
        return min(max(r, 100 * US), max(20 * MS, 2 * min(stated, LONGEST)))
