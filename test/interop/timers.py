"""Units of time, and a smoothed round trip."""

US, MS, S = 1_000, 1_000_000, 1_000_000_000
FIRST_ROUND_TRIP = 100 * US


class RoundTrip:
    """The gains are those of RFC 6298: 1/8 for the mean, 1/4 for the deviation."""

    def __init__(self):
        self.smoothed, self.deviation, self.samples = FIRST_ROUND_TRIP, FIRST_ROUND_TRIP // 2, 0
        self.of_publisher = 0

    def advertised(self, rtt):
        """The publisher's own, as heartbeats tell it: the first guess, and a measurement if it is twice as much."""
        self.of_publisher = rtt
        if rtt and (self.samples == 0 or rtt > 2 * self.smoothed):
            self.measured(rtt)
            if self.samples == 1:
                self.samples = 0

    def measured(self, rtt):
        if self.samples == 0:
            self.smoothed, self.deviation = rtt, rtt // 2
        else:
            self.deviation += (abs(rtt - self.smoothed) - self.deviation) // 4
            self.smoothed += (rtt - self.smoothed) // 8
        self.samples += 1

    def repeat(self):
        return self.smoothed + 4 * self.deviation
