"""Replies to NAKs: repairs within their budget, NCFs and gones (docs/protocol §6)."""

import wire
from timers import MS, S, US

BURST = 16 << 10  # per round trip; constant, independent of data rate and repetitions (§6.11, §6.12)


class Repairs:
    def __init__(self, publication, rate, now):
        self.p, self.limit = publication, rate
        self.depth = max(rate // 100 or BURST, publication.size)
        self.tokens, self.filled = self.depth, now
        self.queue, self.sent, self.cursor = set(), {}, 0
        self.gone, self.gone_at, self.ncf_at = [], 0, 0

    @property
    def rate(self):
        return self.limit or BURST * S // max(self.p.members.rtt.smoothed, 100 * US)

    def nak(self, r, now):
        p = self.p
        again = p.members.rtt.hold()
        for first, n in r.ranges:
            end = first + n
            if end > p.lead:
                p.count("nak_invalid")
            if first < p.trail:
                self.gone.append((first, min(end, p.trail) - first))
            for seq in range(max(first, p.trail), min(end, p.lead)):
                if seq not in self.queue and now - self.sent.get(seq, -S) >= again:
                    self.queue.add(seq)

    def tick(self, now):
        """Sends repairs within the budget, oldest first, cyclically; returns the time of the next call."""
        p, rtt = self.p, self.p.members.rtt.smoothed
        self.tokens = min(self.depth, self.tokens + (now - self.filled) * self.rate / S)
        self.filled = now
        self.queue = {s for s in self.queue if s >= p.trail}
        while self.queue and self.tokens > 0:
            behind = [s for s in self.queue if s >= self.cursor]
            seq = min(behind or self.queue)
            self.queue.discard(seq)
            self.cursor, self.sent[seq] = seq + 1, now
            self.tokens -= len(p.packets[seq])
            p.count("repairs")
            p.send(p.packets[seq], wire.REPAIR)
        if self.gone and now - self.gone_at >= rtt // 2:
            p.count("gones")
            p.send(wire.put_ranges(p.header(wire.GONE), 0, union(self.gone), wire.REASON_OVERWRITTEN, limit=p.size))
            self.gone, self.gone_at = [], now
        if not self.queue:
            return now + (rtt if self.gone else S)
        wait = int(sum(len(p.packets[s]) for s in self.queue) * S / self.rate)
        if wait > rtt and now - self.ncf_at >= rtt:
            p.count("ncfs")
            self.ncf_at = now
            p.send(wire.put_ranges(p.header(wire.NCF), 0, union((s, 1) for s in self.queue), wire.REASON_QUEUED,
                                   wait // US, limit=p.size))
        return now + int(max(0, -self.tokens) * S / self.rate) + MS

    def forget_before(self, trail):
        self.sent.pop(trail - 1, None)


def union(ranges):
    """Merges ranges: ascending, neither overlapping nor adjacent."""
    out = []
    for first, n in sorted(ranges):
        if out and first <= sum(out[-1]):
            out[-1][1] = max(sum(out[-1]), first + n) - out[-1][0]
        else:
            out.append([first, n])
    return out
