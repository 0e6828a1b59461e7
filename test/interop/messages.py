"""Messages from the packets of a stream, in order: numbers, fragments, gaps (docs/protocol §9, §10)."""

import hashes
import wire
from fabric import now_ns

MAX_MESSAGES = 32719  # maximum number of messages in one packet
RETURNING = 1 << 40  # a topic that was forgotten continues with a multiple of it (§10.9)


class Messages:
    def __init__(self, stream, topics, out):
        self.stream, self.topics, self.out = stream, topics, out
        # The number of each topic's next message. It is unknown for a topic without a message, if the stream was joined
        # after packet 0.
        self.numbers = dict.fromkeys(topics, 0) if stream.start == 0 else {}
        self.partial = None  # incomplete message: [topic, number, total, bytes so far]
        self.loss = False  # a packet is missing before the next message
        self.unreported = None  # first and end of lost packets whose messages are not yet reported as gaps
        self.losses, self.losses_at = 0, {}  # lost packets, and their number at each topic's last run
        self.packets, self.far = 0, None  # far: topic, number and packet of the last implausible run
        self.collided = set()
        self.names = {}  # names of topics in the stream

    def add(self, topic):
        """Adds a topic of a pattern. If the stream's earlier topics are known, it began with number 0 (§9.9)."""
        if self.stream.index.known:
            self.numbers.setdefault(topic, 0)

    def flags(self):
        """The flags of statuses."""
        return 0

    def tick(self, now):
        pass

    def packets_lost(self, first, end):
        self.partial, self.loss = None, True
        self.losses += end - first
        self.unreported = self.unreported[0] if self.unreported else first, end

    def listed(self, since, begun, forgotten):
        """All topics with messages in the packets from since up to begun have had a topic run, except forgotten ones."""
        if self.unreported and since <= self.unreported[0] and self.unreported[1] <= begun:
            if self.unreported[0] < forgotten:
                self.out.gap(self.stream, "", 0, 0)  # of unknown topics and length
            self.unreported = None

    def packet(self, d):
        self.packets += 1
        for run in d.runs:
            if run.kind not in (wire.RUN_FRAGMENT, wire.RUN_STATE, wire.RUN_INDEX):
                self.partial = None
            if run.kind == wire.RUN_FRAGMENT:
                self.fragment(run)
            elif run.kind == wire.RUN_TOPIC:
                self.named(run)
            elif run.kind == wire.RUN_MESSAGES and self.begins(run.topic, run.number):  # state is for joining subscribers (§25.6)
                for data in run.messages:
                    self.message(run.topic, data, run.flags)

    def named(self, r):
        """Processes the name of a topic and the number of its next message, which may show a gap (§9.3, §10.8)."""
        topic, name, known = r.topic, r.data, self.topics.get(r.topic)
        self.names[topic] = name
        if known is None or topic in self.collided:
            return
        if known == name.decode("utf-8", "replace"):
            if not self.returns(topic, r.number) and self.far_off(topic, r.number):
                self.out.gap(self.stream, known, self.numbers[topic], 0)
            elif r.number >= self.first(topic, r.number):
                self.follow(topic, r.number)
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
                # A part is lost (§10.2).
                if r.number >= self.first(r.topic, r.number):
                    self.gap(r.topic, self.numbers[r.topic], r.number + 1)
            return
        p[3] += r.data
        if last:
            self.partial = None
            if self.begins(r.topic, r.number):
                self.message(r.topic, bytes(p[3]), r.flags)

    def first(self, topic, number):
        """The number of the topic's next message: this one, if none is known (§9.2)."""
        if topic not in self.numbers and self.unreported and number > 0:
            self.out.gap(self.stream, self.topics[topic], number, 0)  # unknown number of earlier messages
        return self.numbers.setdefault(topic, number)

    def begins(self, topic, number):
        """Reports the gap before a message or a run of messages. Returns whether to deliver it (§10.3, §10.7)."""
        if self.stream.start == 0 and not self.stream.lost and topic not in self.names:
            self.out.count("nameless")  # the publisher violates §10.8
        if topic not in self.topics or topic in self.collided:
            return False
        if self.far_off(topic, number):
            far, self.far = self.far, None
            if far is None or far[0] != topic or not 0 < number - far[1] <= MAX_MESSAGES * (self.packets - far[2]):
                self.far = topic, number, self.packets
                return False
        if number < self.first(topic, number):
            self.out.count("again")
            return False
        self.follow(topic, number)
        return True

    def far_off(self, topic, number):
        """Whether more messages are missing before a number than the packets lost since the topic's last run and one more hold."""
        lost = self.losses - self.losses_at.get(topic, 0)
        if self.returns(topic, number):
            return lost == 0  # its topic run would precede it
        return number - self.numbers.get(topic, number) > MAX_MESSAGES * (lost + 1)

    def returns(self, topic, number):
        """Whether the publisher forgot the topic before this number."""
        return number // RETURNING != self.numbers.get(topic, number) // RETURNING

    def follow(self, topic, number):
        """Reports the gap before a number, if there is one. The topic goes on with that number."""
        if self.returns(topic, number):
            if self.unreported and self.losses_at.get(topic, 0) < self.losses:
                self.out.gap(self.stream, self.topics[topic], self.numbers[topic], 0)  # of unknown length
            self.numbers[topic] = number
        elif number > self.numbers[topic]:
            self.gap(topic, self.numbers[topic], number)
        self.losses_at[topic] = self.losses

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

    def over(self, why):
        """The last losses can no longer be reported exactly."""
        if self.unreported:
            self.out.gap(self.stream, "", 0, 0)
        self.unreported = None
