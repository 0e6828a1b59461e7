"""Which topic heartbeats ask members for whose statuses do not name all that they want (docs/protocol §7.10)."""

from timers import MS, S

TURN, TURN_ROUND_TRIPS, AGAIN = 20 * MS, 2, 1 * S
ECHOED = 16  # changes of the topic that a status may still echo


class Questions:
    def __init__(self):
        self.asked = []  # (sent at, topic): heartbeats from then on ask for it; the newest is last

    def owes(self, m, topic, now):
        """One that has named no topics yet may want any."""
        return (m.more or not m.topics) and topic not in m.topics and now - m.answers.get(topic, (False, -AGAIN))[1] >= AGAIN

    def next(self, members, topics, rtt, sent_at):
        """The topic that the heartbeat of sent_at asks for, and whether answers are late."""
        since, last = self.asked[-1] if self.asked else (0, 0)
        open_ = [t for t in topics if any(self.owes(m, t, sent_at) for m in members)]
        late = last in open_ and sent_at - since >= max(TURN, TURN_ROUND_TRIPS * rtt)
        others = [t for t in open_ if t != last]
        if others and (late or last not in open_):
            at = topics.index(last) if last in topics else 0
            last, late = min(others, key=lambda t: (topics.index(t) - at) % len(topics)), False
            self.asked = (self.asked + [(sent_at, last)])[-ECHOED:]
        return last, late

    def answered(self, m, echo, wants_topics, now):
        """A status with topics of m says whether it wants the topic that it was asked for."""
        topic = next((t for sent_at, t in reversed(self.asked) if sent_at <= echo), 0)
        if topic in m.topics or not wants_topics:
            m.answers[topic] = topic in m.topics, now

    def wants(self, m, topic):
        return topic in m.topics or m.more and m.answers.get(topic, (False, 0))[0]
