"""Times and content of a receiver's statuses (docs/protocol §7)."""

import random

import wire
from timers import MS, S, US

EARLY = (20 * MS, 60 * MS, 140 * MS)  # 20, 40 and 80 ms after the previous one
CAUGHT_UP_EVERY = 5 * MS
SPREAD, SPREAD_FROM = 20 * US, 8


class Statuses:
    def __init__(self, stream, now):
        self.stream, self.group = stream, stream.group
        self.early = [now + d for d in EARLY]
        self.answer_at = None  # when to answer a heartbeat
        self.queried = 0  # id of the topic that heartbeats queried last
        self.unnamed_below = 0  # the name of a queried topic comes before this packet
        self.with_topics = False  # the next status lists topics
        self.limit, self.next, self.at = 0, -1, 0
        self.sent = 0
        self.send(now)

    def room(self):
        up = sum(1 for st in self.group.streams.values() if st.state == "up")
        return min(self.group.window, max(8, self.group.fabric.room() // 2 // max(1, up)))

    def limit_now(self):
        st = self.stream
        return max(self.limit, st.next, min(st.next + self.group.window, st.high + self.room()))

    def cadence(self):
        hb = self.stream.heartbeat
        return max(5 * MS, hb.status_interval * US) if hb else S

    def progress(self, now):
        if self.limit_now() - self.limit >= max(1, self.room() // 4):
            self.send(now)

    def caught_up(self, now):
        if self.next != self.stream.next and now - self.at >= CAUGHT_UP_EVERY:
            self.send(now)

    def solicited(self, now):
        receivers = self.stream.heartbeat.receivers if self.stream.heartbeat else 0
        if receivers <= SPREAD_FROM:
            self.send(now)
        elif self.answer_at is None:
            self.answer_at = now + random.randrange(SPREAD * receivers)

    def query(self, hb, again, now):
        """Processes a query for a topic, perhaps repeated after a loss. Statuses that list all topics answer anyway (§7.10)."""
        names, id_ = self.group.names, hb.asked
        if names.patterns and id_ not in names.known and self.stream.next < hb.lead:
            self.unnamed_below = hb.lead if id_ else 0
            return
        new, self.queried = id_ != self.queried, id_ or self.queried
        longest = wire.MAX_TAGGED_TOPICS if self.group.own_tag else wire.MAX_STATUS_TOPICS
        if not id_ or not again and (not new or not names.patterns and len(self.group.exact) <= longest):
            return
        self.with_topics = True
        if now - self.at >= CAUGHT_UP_EVERY:
            self.solicited(now)
        elif self.answer_at is None:
            self.answer_at = self.at + CAUGHT_UP_EVERY

    def tick(self, now):
        if self.early and now >= self.early[0]:
            self.early.pop(0)
            self.send(now)
        if self.answer_at is not None and now >= self.answer_at or now - self.at >= self.cadence():
            self.send(now)
        times = self.early[:1] + [self.at + self.cadence()]
        return min(times + ([self.answer_at] if self.answer_at is not None else []))

    def send(self, now):
        st = self.stream
        if st.state == "down":
            return
        hb, topics, name, tag = st.heartbeat, [], b"", b""
        flags = st.messages.flags() | (wire.WANT_TOPICS if st.index.open else 0) | (wire.LEAVING if self.group.left else 0)
        lists = self.sent < 4 or now - self.at >= self.cadence() // 2 or self.with_topics or st.index.open
        if lists and st.next >= self.unnamed_below:  # otherwise it would answer a query too early
            topics, name, tag = sorted(self.group.exact), self.group.name, self.group.own_tag
            if self.queried in self.group.topics:
                topics = [self.queried] + [t for t in topics if t != self.queried]
            flags |= wire.MORE_TOPICS if self.group.names.patterns else 0
            self.with_topics = False
        self.limit, self.next, self.at, self.answer_at = self.limit_now(), st.next, now, None
        self.sent += 1
        self.group.reply(st, wire.put_status(st.header(wire.STATUS, flags), wire.Status(
            self.group.receiver, st.next, self.limit, hb.sent_at if hb else 0,
            min(now - st.heartbeat_at, 0xFFFFFFFF) if hb else 0, st.lost, 0, topics, name, tag,
            st.index.since, st.index.question)))
