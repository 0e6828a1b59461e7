"""Times and content of a publisher's hellos (docs/protocol §14). Answers arrive by unicast."""

import random

import wire
from hashes import make_filter
from timers import MS, S

FIRST, SOON = (10 * MS, 100 * MS, 500 * MS), 100 * MS


class Greeter:
    def __init__(self, bus, args, topics, now):
        self.bus, self.args, self.topics = bus, args, topics
        self.early = [now + d for d in FIRST]
        self.due, self.waits, self.reported = self.early.pop(0), False, set()

    def header(self):
        return wire.Header(wire.HELLO, 0, self.bus.fabric.tag(0), self.bus.id, self.bus.epoch)

    def wait(self, now):
        """The bus begins to wait for subscribers, and sends a hello at once (§14.6)."""
        self.waits, self.due = True, now

    def tick(self, now):
        if now >= self.due:
            self.early = [t for t in self.early if t > now + SOON]
            self.due = self.early.pop(0) if self.early else now + int(random.uniform(0.9, 1.1) * S)
            self.bus.fabric.send(0, self.packet())
        return self.due

    def packet(self):
        a, m = self.args, self.bus.fabric.mapping
        b = wire.put_hello(self.header(), wire.Hello(
            m.groups, m.kind, a.checksum, a.size, len(self.topics), wire.HELLO_WAITS if self.waits else 0,
            m.param, self.bus.name[:wire.MAX_NAME], make_filter(t.id for t in self.topics)))
        return wire.set_checksum(b) if a.checksum else b

    def answer(self, b, h):
        """Processes a unicast hello. Returns the differing configuration of its bus, once for each instance."""
        wire.verify(b, False)
        x = wire.parse_hello(b)
        mine, theirs = self.bus.fabric.mapping.settings(), (x.groups, x.mapping, x.map_param)
        if h.tag == self.bus.fabric.tag(0) and x.bits & wire.HELLO_ANSWER and mine != theirs and (h.publisher, h.epoch) not in self.reported:
            self.reported.add((h.publisher, h.epoch))
            return h.publisher, h.epoch, mine, theirs
        return None
