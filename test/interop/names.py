"""Names of topics for patterns, and questions that index rounds answer (docs/protocol §3.13, §9.3, §9.9)."""

import hashes
import wire
from mapping import matches

MAX_NAMES = 1 << 17


def is_pattern(text):
    return any(token in ("*", ">") for token in text.split("."))


class Names:
    """The names learned from all streams of a group."""

    def __init__(self, group, patterns):
        self.group, self.patterns = group, patterns
        self.known = {id_: name.encode() for id_, name in group.topics.items()}  # names of exact topics

    def learn(self, id_, name):
        if not self.patterns or id_ in self.known:
            return
        if not hashes.is_name(name) or hashes.topic_id(name) != id_ or len(self.known) >= MAX_NAMES:
            return self.group.count("names_refused")
        self.known[id_] = name
        text = name.decode()
        if any(matches(p, text.split(".")) for p in self.patterns):
            self.group.topics[id_] = text
            for st in self.group.streams.values():
                st.messages.add(id_)


class Index:
    """What a stream states about its topics: their names, and index rounds that answer a receiver's question (§9.3)."""

    def __init__(self, stream):
        self.stream, self.group = stream, stream.group
        self.known = stream.start == 0  # the names of all topics that the stream had before the loss in question
        self.open, self.since, self.question = not self.known, 0, 1
        self.begun = None  # sequence of the packet in which a round began that answers

    def ask(self, since, now):
        """Asks for the topics with messages from packet since on, anew: the answer to an open question may be lost, too."""
        self.since = min(since, self.since) if self.open else since
        self.open, self.begun, self.question = True, None, self.question + 1
        self.stream.statuses.send(now)

    def packet(self, d):
        """Processes a packet, in order. Returns which losses an answer accounts for that ends here, or None."""
        listed = None
        for run in d.runs:
            if run.kind == wire.RUN_TOPIC:
                self.group.names.learn(run.topic, run.data)
            elif run.kind == wire.RUN_INDEX and run.total & wire.INDEX_BEGINS:
                answers = (self.group.receiver, self.question) in run.messages
                answers = self.open and (answers or run.total & wire.INDEX_ALL and run.number <= self.since)
                self.begun = d.seq if answers else None
            elif run.kind == wire.RUN_INDEX and run.total & wire.INDEX_ENDS and self.begun is not None:
                listed = self.since, self.begun, run.messages[0][0] if run.messages else 0
                self.open, self.begun, self.known = False, None, True
        return listed
