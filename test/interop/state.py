"""Joining with state, of publisher and receiver (docs/protocol §25)."""

import struct

import wire
from fabric import now_ns
from messages import Messages
from timers import MS, S

COLLECT, GRACE = 20 * MS, 200 * MS
RATE, BURST = 8 << 20, (8 << 20) // 1000  # bytes a second; bytes at once
TRIES = 5


class Keeper:
    """Keeps the last message of each topic at a publisher, and sends rounds of state in the stream."""

    def __init__(self, publication, keeps):
        self.p, self.keeps = publication, keeps
        self.last = {}  # topic -> (number of the topic's next message, the message)
        self.waiting, self.due = {}, 0  # receivers
        self.round, self.begun = 0, None
        self.runs = None  # generator of the runs of the current round
        self.tokens, self.at = BURST, 0

    def sent(self, topic, data):
        if self.keeps:
            self.last[topic] = (topic.next, data)

    def status(self, s, now):
        """Processes a request, unless the receiver will still receive the latest round (§25.3)."""
        if self.keeps and self.p.until is None and (self.begun is None or s.next > self.begun):
            if not self.waiting:
                self.due = now + COLLECT
            self.waiting[s.receiver] = True

    def busy(self):
        return self.runs is not None or bool(self.waiting)

    def wakes(self, now):
        return self.due if self.waiting and self.runs is None else now + MS if self.runs else now + S

    def ready(self, now):
        """Whether a run of state may be sent now (§25.5)."""
        if self.runs is None and self.waiting and now >= self.due:
            self.runs = self.make()
        if self.runs is None:
            return False
        self.tokens = min(BURST, self.tokens + (now - self.at) * RATE // S)
        self.at = now
        return self.tokens > 0

    def take(self):
        """The runs of the next packet: a single one."""
        run = next(self.runs)
        self.tokens -= self.p.size
        if run.total & wire.STATE_BEGINS:
            self.begun = self.p.lead
        if run.total & wire.STATE_ENDS:
            self.runs = None
        return [run]

    def make(self):
        self.round += 1
        longest = self.p.size - wire.DATA_HEADER_LEN - wire.RUN_HEADER_LEN - wire.STATE_HEADER.size
        names = list(self.waiting)[:longest // 8]
        self.waiting = {r: True for r in list(self.waiting)[len(names):]}
        yield self.run(None, 0, wire.STATE_BEGINS, struct.pack("<%dQ" % len(names), *names))
        for topic in list(self.last):
            number, data = self.last[topic]  # the current one, after the begin of the round
            body = struct.pack("<I", len(data)) + data
            for at in range(0, len(body), longest):
                marks = (wire.STATE_FIRST if at == 0 else 0) | (wire.STATE_LAST if at + longest >= len(body) else 0)
                yield self.run(topic, number, marks, body[at:at + longest])
        yield self.run(None, 0, wire.STATE_ENDS, b"")

    def run(self, topic, number, marks, body):
        return wire.Run(wire.RUN_STATE, topic.id if topic else 0, number, None, marks, self.round & 0xFFFFFFFF, body)


class Joining(Messages):
    """The messages of a stream that begins with state: nothing is delivered before the state is complete (§25.6)."""

    def __init__(self, stream, topics, out):
        super().__init__(stream, topics, out)
        self.joined = False
        self.since, self.void = now_ns(), 0
        self.known = set()  # topics that the publisher has
        self.kept = []  # packets since the begin of the round, or of the stream
        self.kept_all = stream.start == 0
        self.begin_round(None, False)

    def begin_round(self, number, named):
        self.round, self.requested = number, named
        self.states, self.open = {}, None  # complete states by topic: (number, records); the incomplete one

    def flags(self):
        if self.joined:
            return super().flags()
        return wire.JOINING | wire.WANT_STATE

    def packets_lost(self, first, end):
        if self.joined:
            return super().packets_lost(first, end)
        self.kept_all = False
        if self.round is None:
            self.kept = []
        else:
            self.void_round()

    def over(self, why):
        if not self.joined:
            self.give_up(why)
        super().over(why)

    def tick(self, now):
        if self.joined:
            return
        hb = self.stream.heartbeat
        if now - self.since >= GRACE and hb is not None and not self.stream.keeps_state:
            self.give_up("the publisher keeps no state")
        elif self.round is None and now - self.since >= self.stream.group.recovery:
            self.give_up("no round has begun")

    def packet(self, d):
        if self.joined:
            return super().packet(d)
        if self.round is not None or self.kept_all:
            self.kept.append(d)
        for run in d.runs:
            if run.kind == wire.RUN_TOPIC and run.topic in self.topics:
                self.known.add(run.topic)
            if run.kind == wire.RUN_STATE:
                self.state(run, d)
            if self.joined:
                return  # delivered with the others
        limit = self.stream.group.window // (2 if self.round is None else 1)
        if len(self.kept) > limit:
            if self.round is None:
                self.kept, self.kept_all = [], False
            else:
                self.give_up("the window is full")

    def state(self, run, d):
        marks, number = run.total, run.offset
        if marks & wire.STATE_BEGINS:
            ids = struct.unpack("<%dQ" % (len(run.data) // 8), run.data[:len(run.data) // 8 * 8])
            if not self.kept_all:
                self.kept = [d]
            self.begin_round(number, self.stream.group.receiver in ids)
        elif number != self.round:
            return
        elif marks & wire.STATE_ENDS:
            missing = self.known - set(self.states)
            if not self.requested and (missing or not self.stream.index.known):
                self.void_round()
            else:
                self.deliver()
        elif run.topic in self.topics:
            if marks & wire.STATE_FIRST:
                self.open = (run.topic, run.number, bytearray())
            if self.open is None or self.open[:2] != (run.topic, run.number):
                return
            self.open[2].extend(run.data)
            if marks & wire.STATE_LAST:
                if not marks & wire.STATE_FAILED:
                    self.states[run.topic] = (run.number, bytes(self.open[2]))
                self.open = None

    def void_round(self):
        self.void, self.since = self.void + 1, now_ns()
        self.out.count("rounds_void")
        self.kept, self.kept_all = [], False
        self.begin_round(None, False)
        if self.void >= TRIES:
            self.give_up("%d rounds were void" % TRIES)

    def deliver(self):
        for topic, (number, body) in sorted(self.states.items()):
            at = 0
            while at < len(body):
                length, = struct.unpack_from("<I", body, at)
                self.out.state(self.stream, self.topics[topic], number, body[at + 4:at + 4 + length])
                at += 4 + length
            self.numbers[topic] = number
        self.out.count("states")
        self.finish()

    def give_up(self, why):
        self.out.no_state(self.stream, why)
        self.finish()

    def finish(self):
        """Delivers the packets received in the meantime, and sends a status."""
        self.joined, kept, self.kept = True, self.kept, []
        for d in kept:
            super().packet(d)
        if hasattr(self.stream, "statuses"):
            self.stream.statuses.send(now_ns())
