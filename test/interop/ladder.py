"""Times of heartbeats: the ladder of docs/protocol §5.8."""

from timers import MS, S, US

FIRST, ACTIVE, TOP, QUIET = 100 * US, 10 * MS, 100 * MS, 1 * S
WAITING, WAIT_SHARE = 2 * MS, 16


class Ladder:
    def __init__(self, now):
        self.due, self.step, self.last = now, FIRST, None
        self.data_at = self.waiting_since = None

    def interval(self):
        return max(TOP, self.step)

    def data_sent(self, now):
        self.step, self.data_at, self.due = FIRST, now, min(self.due, now + FIRST)

    def blocked(self, now, rtt):
        self.step = min(max(FIRST, 2 * rtt), TOP)
        self.due = min(self.due, now + self.step)

    def restart(self, now):
        self.due, self.step = now, FIRST

    def wait(self, now):
        self.waiting_since = now
        self.due = now

    def fires(self, now, flowing, quiet):
        """Whether to send a heartbeat now. flowing: data is being sent; quiet: all receivers have everything."""
        if now < self.due:
            return False
        if flowing and self.data_at is not None:
            if self.last is not None and now - self.last < ACTIVE:
                self.due = self.last + ACTIVE
                return False
            self.due = now + FIRST
        else:
            after = self.step
            if self.waiting_since is not None:
                after = min(after, max(WAITING, (now - self.waiting_since) // WAIT_SHARE))
            self.due = now + after
            self.step = min(2 * self.step, QUIET if quiet else TOP)
        self.last = now
        return True
