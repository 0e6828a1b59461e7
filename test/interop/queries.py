"""Queries in heartbeats: which members want a topic, if their statuses do not list all topics (docs/protocol §7.10)."""

from timers import MS, S

TURN, TURN_ROUND_TRIPS, AGAIN = 20 * MS, 2, 1 * S
ECHOED = 16  # changes of the topic that a status may still echo


class Queries:
    def __init__(self):
        self.sent = []  # (sent at, topic) for each change of the topic in heartbeats; the newest is last

    def must_answer(self, m, topic, now):
        """Whether member m has to answer for the topic. Without any listed topics it may want each."""
        return (m.more or not m.topics) and topic not in m.topics and now - m.answers.get(topic, (False, -AGAIN))[1] >= AGAIN

    def next(self, members, topics, rtt, sent_at):
        """The topic to query in the heartbeat of sent_at, and whether answers are late."""
        since, last = self.sent[-1] if self.sent else (0, 0)
        open_ = [t for t in topics if any(self.must_answer(m, t, sent_at) for m in members)]
        late = last in open_ and sent_at - since >= max(TURN, TURN_ROUND_TRIPS * rtt)
        others = [t for t in open_ if t != last]
        if others and (late or last not in open_):
            at = topics.index(last) if last in topics else 0
            last, late = min(others, key=lambda t: (topics.index(t) - at) % len(topics)), False
            self.sent = (self.sent + [(sent_at, last)])[-ECHOED:]
        return last, late

    def answered(self, m, echo, wants_topics, now):
        """Records the answer in a status of m with topics."""
        topic = next((t for sent_at, t in reversed(self.sent) if sent_at <= echo), 0)
        if topic in m.topics or not wants_topics:
            m.answers[topic] = topic in m.topics, now

    def wants(self, m, topic):
        return topic in m.topics or m.more and m.answers.get(topic, (False, 0))[0]
