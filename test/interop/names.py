"""Names of topics, for subscribers to patterns (docs/protocol §3.13, §9.9)."""

import hashes
import wire
from mapping import matches
from timers import MS

ASK_EVERY = 20 * MS
MAX_NAMES = 1 << 17


def is_pattern(text):
    return any(token in ("*", ">") for token in text.split("."))


class Names:
    """The names learned from all streams of a group."""

    def __init__(self, group, patterns):
        self.group, self.patterns = group, patterns
        self.known = {id_: name.encode() for id_, name in group.topics.items()}  # names of exact topics

    def learn(self, id_, name):
        if id_ in self.known:
            return
        if not hashes.is_name(name) or hashes.topic_id(name) != id_ or len(self.known) >= MAX_NAMES:
            return self.group.count("names_refused")
        self.known[id_] = name
        text = name.decode()
        if any(matches(p, text.split(".")) for p in self.patterns):
            self.group.topics[id_] = text
            for st in self.group.streams.values():
                st.messages.add(id_)


class StreamNames:
    """The names learned from one stream, and whether its next packet waits for a name."""

    def __init__(self, stream, names, now):
        self.stream, self.names = stream, names
        self.open, self.since, self.covered = False, 0, 0  # all topics are requested as of since; covered: announced so far
        self.complete_below = 0  # all names of topics in packets below this are known
        self.waiting_since, self.ask_at = None, now  # since when the next packet waits for a name
        self.unnamed = set()
        if self.wanted and stream.start > 0:
            self.ask(now, stream.start)

    @property
    def wanted(self):
        return bool(self.names.patterns)

    def flags(self):
        return wire.WANT_TOPICS if self.open else 0

    def ask(self, now, since):
        if not self.open or self.since < since:
            self.open, self.since, self.covered = True, since, 0
        self.ask_at = now + ASK_EVERY

    def announced(self, a, now):
        if not self.wanted:
            return
        for t in a.topics:
            self.names.learn(t.id, t.name)
        if self.open and a.as_of >= self.since and a.first == self.covered:
            self.covered += len(a.topics)
            if self.covered == a.total:
                self.open, self.complete_below = False, max(self.complete_below, self.since)
                self.stream.statuses.send_topics(now)

    def deliverable(self, d, now, over):
        """Whether packet d, the next one, can be delivered: all its topics have names, or will never have one."""
        if not self.wanted:
            return True
        for run in d.runs:
            if run.kind == wire.RUN_TOPIC:
                self.names.learn(run.topic, run.data)
            elif run.kind != wire.RUN_STATE and run.topic not in self.names.known and run.topic not in self.unnamed:
                if self.wait(now, over):
                    return False
                self.unnamed.add(run.topic)
                self.stream.out.gap(self.stream, "", 0, 0)
        self.waiting_since = None
        return True

    def wait(self, now, over):
        if self.waiting_since is None:
            self.waiting_since = now
            self.stream.group.count("waits_for_names")
        if over or self.complete_below > self.stream.next or now - self.waiting_since >= self.stream.group.recovery:
            return False
        if now >= self.ask_at or self.since <= self.stream.next:
            self.ask(now, self.stream.next + 1)
            self.stream.statuses.send(now)
        return True

    def tick(self, now):
        """Continues a waiting packet: another stream may have sent the name."""
        if self.waiting_since is not None:
            self.stream.advance(now)
        return self.ask_at if self.waiting_since is not None else None
