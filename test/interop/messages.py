"""Messages from the packets of a stream, in order: numbers, fragments, gaps (docs/protocol §9, §10)."""

import hashes
import wire
from fabric import now_ns

MAX_MESSAGES = 32719  # maximum number of messages in one packet


class Messages:
    def __init__(self, stream, topics, out):
        self.stream, self.topics, self.out = stream, topics, out
        # The number of each topic's next message. It is unknown for a topic without a message, if the stream was joined
        # after packet 0.
        self.numbers = dict.fromkeys(topics, 0) if stream.start == 0 else {}
        self.partial = None  # incomplete message: [topic, number, total, bytes so far]
        self.loss = False  # a packet is missing before the next message
        self.asof = None  # announces as of this sequence settle losses, or the end
        self.unreported = False  # messages were lost, but not yet reported as gaps
        self.announced_topics = set()  # indices of topics announced since then
        self.unsure = set()  # topics of which only a total is known
        self.pending = []
        self.packets, self.far = 0, None  # far: topic, number and packet of the last implausible run
        self.collided = set()
        self.names = {}  # names of topics in the stream

    def add(self, topic):
        """Adds a topic of a pattern. A stream received from packet 0 contains all its messages."""
        if self.stream.start == 0:
            self.numbers.setdefault(topic, 0)

    @property
    def unsettled(self):
        return self.asof is not None

    def flags(self):
        """The flags of statuses."""
        return wire.WANT_TOPICS if self.unsettled else 0

    def tick(self, now):
        pass

    def packet_lost(self, behind):
        self.partial = None
        self.loss = self.unreported = True
        self.asof, self.announced_topics = behind, set()

    def ending(self, end):
        """Requests the totals at the end: they show whether all messages arrived (§9.7)."""
        if self.asof is None or self.asof < end:
            self.asof, self.announced_topics = end, set()

    def packet(self, d):
        self.packets += 1
        for run in d.runs:
            if run.kind not in (wire.RUN_FRAGMENT, wire.RUN_STATE):
                self.partial = None
            if run.kind == wire.RUN_FRAGMENT:
                self.fragment(run)
            elif run.kind == wire.RUN_TOPIC:
                self.named(run)
            elif run.kind == wire.RUN_MESSAGES and self.begins(run.topic, run.number):  # state is for joining subscribers (§25.6)
                for data in run.messages:
                    self.message(run.topic, data, run.flags)

    def named(self, r):
        """Processes the name of a topic, which precedes its first message (§10.8)."""
        self.names[r.topic] = r.data
        if r.number == 0:
            self.numbers.setdefault(r.topic, 0)  # it has no earlier messages
        self.compare(r.topic, r.data)

    def compare(self, topic, name):
        known = self.topics.get(topic)
        if known is None or known == name.decode("utf-8", "replace") or topic in self.collided:
            return
        if not hashes.is_name(name) or hashes.topic_id(name) != topic:
            return self.out.count("names_refused")  # a wrong name (§3.6)
        self.collided.add(topic)
        self.out.event("collision", self.stream)

    def fragment(self, r):
        p, last = self.partial, r.offset + len(r.data) == r.total
        if r.offset == 0:
            p = self.partial = [r.topic, r.number, r.total, bytearray()]
        elif p is None or p[:3] != [r.topic, r.number, r.total] or len(p[3]) != r.offset:
            self.partial = None
            if last and r.topic in self.topics and (r.topic in self.numbers or self.unreported):
                # A part is lost, and no announce before this packet counts the message (§10.2).
                if r.number >= self.first(r.topic, r.number):
                    self.gap(r.topic, self.numbers[r.topic], r.number + 1)
            return
        p[3] += r.data
        if last:
            self.partial = None
            if self.begins(r.topic, r.number):
                self.message(r.topic, bytes(p[3]), r.flags)

    def first(self, topic, number):
        """The number of the topic's next message: this one, or a total, if none came before (§9.2)."""
        if topic not in self.numbers and self.unreported and number > 0:
            self.out.gap(self.stream, self.topics[topic], number, 0)  # unknown number of earlier messages
        return self.numbers.setdefault(topic, number)

    def begins(self, topic, number):
        """Reports the gap before a message or a run of messages. Returns whether to deliver it (§10.3, §10.7)."""
        if self.stream.start == 0 and not self.stream.lost and topic not in self.names:
            self.out.count("nameless")  # the publisher violates §10.8
        if topic not in self.topics or topic in self.collided:
            return False
        expected = self.first(topic, number)
        if topic in self.unsure and (number < expected or not self.unreported):
            expected = self.numbers[topic] = number
        self.unsure.discard(topic)
        if number - expected > MAX_MESSAGES * (self.stream.lost + 1):
            far, self.far = self.far, None
            if far is None or far[0] != topic or not 0 < number - far[1] <= MAX_MESSAGES * (self.packets - far[2]):
                self.far = topic, number, self.packets
                return False
        if number > expected:
            self.gap(topic, expected, number)
        elif number < expected:
            self.out.count("again")
        return number >= expected

    def message(self, topic, data, flags):
        number = self.numbers[topic]
        self.numbers[topic] = number + 1
        self.out.message(self.stream, self.topics[topic], number, data)
        if flags & wire.RUN_REQUEST and self.stream.group.echo:
            self.stream.replies.respond(topic, number, data, now_ns())

    def gap(self, topic, first, end):
        if not self.loss:
            self.out.count("gaps_without_loss")
        self.out.gap(self.stream, self.topics[topic], first, end - first)
        self.numbers[topic] = end

    def announced(self, a, next_):
        for t in a.topics:
            self.compare(t.id, t.name)
        if self.asof is not None and a.as_of >= self.asof:
            self.pending = self.pending[-63:] + [a]
        self.settle(next_)

    def settle(self, next_):
        """Processes the announces as of sequences up to next_."""
        if not self.pending or self.partial:
            return
        due = [a for a in self.pending if a.as_of <= next_]
        self.pending = [a for a in self.pending if a.as_of > next_]
        for a in due:
            for t in a.topics:
                if t.id in self.topics and t.id not in self.numbers:
                    self.unsure.add(t.id)
                if t.id in self.topics and t.next > self.first(t.id, t.next):
                    self.gap(t.id, self.numbers[t.id], t.next)
            if self.asof is not None and a.as_of >= self.asof:
                self.announced_topics.update(range(a.first, a.first + len(a.topics)))
                if len(self.announced_topics) >= a.total:
                    self.asof, self.unreported = None, False

    def publisher_lost(self):
        """The last losses can no longer be reported exactly."""
        if self.unreported:
            self.out.gap(self.stream, "", 0, 0)
        self.asof, self.unreported = None, False
