"""The topics of a stream, and their announces (docs/protocol §2.14, §9.3 to §9.6)."""

import wire
from timers import MS, S, US

BURST, BURST_EVERY, QUIET_BEFORE = 4, 500 * US, 50 * MS


class Topic:
    def __init__(self, topic, name):
        self.id, self.name, self.next = topic, name, 0
        self.named = False  # the name has been sent in the stream


class Listing:
    def __init__(self, publication, topics):
        self.p, self.topics = publication, topics
        self.at, self.due = None, 0  # index of the next topic in the current listing
        self.rotation = 0

    def all(self, now):
        """Begins a listing of all topics, unless one is running."""
        if self.at is None:
            self.at, self.due = 0, now

    def one_with_heartbeat(self, now):
        if self.p.ladder.data_at is None or now - self.p.ladder.data_at >= QUIET_BEFORE:
            self.rotation = self.announce(self.rotation) % len(self.topics)

    def tick(self, now):
        if self.at is None:
            return now + S
        if now >= self.due:
            for _ in range(BURST):
                self.at = self.announce(self.at)
                if self.at == len(self.topics):
                    self.at = None
                    return now + S
            self.due = now + BURST_EVERY
        return self.due

    def announce(self, first):
        """Sends one packet of topics from index first on; returns the next index."""
        p, end, size = self.p, first, wire.HEADER_LEN + wire.ANNOUNCE_HEADER.size
        while end < len(self.topics):
            size += wire.ANNOUNCE_ENTRY.size + len(self.topics[end].name)
            if size > p.size:
                break
            end += 1
        p.send(wire.put_announce(p.header(wire.ANNOUNCE), p.lead, first, len(self.topics),
                                 [wire.TopicState(t.id, t.next, t.name) for t in self.topics[first:end]]))
        return end
