"""Plausibility of single packets at a receiver (docs/protocol §5.9, §9.4)."""

from timers import S

LEAP, CONFIRMED_WITHIN = 3 * S // 2, 8 * S
TOO_FAR, NEAR = 1 << 30, 1 << 20


class Clock:
    """Which heartbeats are new. One from the future is accepted only after a second one."""

    def __init__(self):
        self.newest, self.at, self.future = None, 0, None

    def is_new(self, sent_at, now):
        if self.newest is not None:
            if sent_at <= self.newest:
                return False
            if sent_at > self.newest + (now - self.at) + LEAP:
                first, self.future = self.future, sent_at
                if first is None or not first < sent_at <= first + CONFIRMED_WITHIN:
                    return False
        self.newest, self.at, self.future = sent_at, now, None
        return True


class Sequences:
    """Which sequences far ahead are plausible."""

    def __init__(self, window):
        self.window, self.far = window, None

    def confirmed(self, seq, sent_at, within):
        """Whether a packet far ahead is near the one before it, and no copy. If not it is remembered."""
        far, self.far = self.far, None
        if far is None or far == (seq, sent_at) or abs(seq - far[0]) > within:
            self.far = seq, sent_at
        return self.far is None

    def plausible_lead(self, lead, sent_at, high):
        if lead <= high + self.window:
            return True
        return lead <= high + TOO_FAR and self.confirmed(lead, sent_at, max(self.window, NEAR))
