"""The topics of a stream, and index rounds, which list them in the stream (docs/protocol §9.3)."""

import collections

import wire
from timers import S, US

BURST, EVERY, RATE = 16, 500 * US, 2 << 20  # packets; bytes a second
MAX_STRANGERS = 16
AGE = 7 << 14  # topic runs after which a topic's run is repeated (§10.8)

# topics: None: any topic. member: None: it only lists topics.
Question = collections.namedtuple("Question", "number since topics member")


class Topic:
    def __init__(self, topic, name):
        self.id, self.name, self.next = topic, name, 0
        self.last = -1  # the packet with its name, or with the latest message
        self.stated = None  # number of topic runs with its last one


class Listing:
    def __init__(self, publication, topics):
        self.p, self.topics = publication, topics
        self.questions = {}  # by receiver
        self.todo, self.packets = collections.deque(), 0  # runs and topics to be sent
        self.at = self.due = self.rest = 0  # now; when the next packet is due; when the next round is
        self.closing = self.closed = False
        self.runs = 0  # topic runs so far

    def named(self, topic):
        """Whether receivers know the topic's name."""
        return topic.stated is not None and self.runs - topic.stated < AGE

    def name(self, topic):
        self.runs += 1
        if not self.named(topic):  # a repeated name may be lost
            topic.stated, topic.last = self.runs, self.p.lead
        return wire.Run(wire.RUN_TOPIC, topic.id, topic.next, None, 0, 0, topic.name)

    def asked(self, s, member, more):
        """Records a question, unless it was answered or waits."""
        old = self.questions.get(s.receiver)
        if self.closed or old and old.number == s.question or member and member.question == s.question:
            return
        if not member and not old and sum(not q.member for q in self.questions.values()) >= MAX_STRANGERS:
            return
        topics = s.topics if member and s.topics and not more else None
        self.questions[s.receiver] = Question(s.question, s.since, topics, member)

    def introduce(self, topic):
        """Sends the name of a topic before members are asked whether they want it (§7.10)."""
        if not self.named(topic) and topic not in self.todo:
            self.todo.appendleft(topic)

    def ready(self, now):
        if not self.todo and (self.closing and not self.closed or self.questions and now >= self.rest):
            self.begin()
        self.at = now
        return bool(self.todo) and now >= self.due

    def wakes(self, now):
        return max(self.due if self.todo else self.rest, now + EVERY) if self.todo or self.questions else now + S

    def begin(self):
        """Begins a round that answers all questions, or as many as fit, or the closing round (§9.7)."""
        most = (self.p.size - wire.DATA_HEADER_LEN - wire.RUN_HEADER_LEN - wire.INDEX_HEADER.size) // wire.ANSWER.size
        answered = {r: self.questions.pop(r) for r in list(self.questions)[:most] if not self.closing}
        since = 0 if self.closing else min(q.since for q in answered.values())
        every = self.closing or any(q.topics is None for q in answered.values())
        only = {t for q in answered.values() for t in q.topics or ()}
        for q in answered.values():
            if q.member:
                q.member.question = q.number
        self.closed = self.closing
        answers = [(r, q.number) for r, q in answered.items()]
        self.todo.append(index(wire.INDEX_BEGINS | (wire.INDEX_ALL if every else 0), since, answers))
        self.todo.extend(t for t in self.topics if (every or t.id in only) and (since == 0 or t.last >= since))
        self.todo.append(index(wire.INDEX_ENDS, len(self.topics), []))

    def take(self):
        """The runs of the next packet."""
        runs, room = [], self.p.size - wire.DATA_HEADER_LEN
        while self.todo:
            run = self.todo[0]
            size = wire.RUN_HEADER_LEN + len(run.name) if isinstance(run, Topic) else len(wire.put_run(run))
            if size > room:
                break
            self.todo.popleft()
            if isinstance(run, Topic):
                if run.stated is None:
                    self.p.members.named_below = self.p.lead + 1
                run = self.name(run)
            runs.append(run)
            room -= size
        self.packets += 1
        self.due = self.at + EVERY if self.packets % BURST == 0 else self.at
        self.rest = max(self.rest, self.at) + self.p.size * S // RATE
        return runs


def index(marks, number, answers):
    return wire.Run(wire.RUN_INDEX, 0, number, answers, marks, 0, b"")
