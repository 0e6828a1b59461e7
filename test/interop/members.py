"""The receivers that a publisher waits for, known from their statuses (docs/protocol §7, §8)."""

import wire
from queries import Queries
from timers import MS, S, RoundTrip

ADMIT_AGE, FROM_FUTURE, LIFE = 30 * S, 10 * MS, 30 * S
SOLICITATIONS, ROUND_TRIPS, MAX_MEMBERS, MAX_REMEMBERED = 10, 30, 1024, 256


class Member:
    def __init__(self, now):
        self.next = self.limit = self.echo = self.delay = 0
        self.topics, self.more, self.joining = set(), False, False
        self.question = None  # number of the latest answered one (§9.3)
        self.since = wire.MAX_SEQ  # since of the open one
        self.answers = {}  # by topic: whether it wants the topic, and when it answered
        self.last_packet = self.new = now
        self.solicitations, self.solicited_since = 0, None
        self.ends = 0  # END heartbeats that it has answered


class Members:
    def __init__(self, window, silence, count):
        self.window, self.silence, self.count = window, silence, count
        self.by_id, self.gone = {}, {}
        self.rtt, self.measured = RoundTrip(), False
        self.cadence = S
        self.queries = Queries()
        self.named_below = 0  # the names of queried topics are in packets below
        self.ended_from = None  # earliest time of the first END heartbeat

    def status(self, s, leaving, wants_topics, joining, more, now):
        m = self.by_id.get(s.receiver)
        if m is None:
            if leaving:
                return None
            if not self.is_current(s, now):
                return self.count("statuses_stale")
            m = self.by_id[s.receiver] = Member(now)
            self.gone.pop(s.receiver, None)
        older = s.next < m.next or s.echo < m.echo or s.echo == m.echo and s.echo_delay < m.delay
        if leaving:
            if not older:
                self.count("receivers_left")
                self.remove(s.receiver)
            return None
        if (s.next, s.limit, s.echo, s.echo_delay) != (m.next, m.limit, m.echo, m.delay) and not older:
            m.new = now
        self.alive(m, now)
        m.next, m.limit = max(m.next, s.next), max(m.limit, s.limit)
        if older:
            return self.count("statuses_stale")
        if m.echo < s.echo <= now and s.echo_delay < S and now - s.echo - s.echo_delay > 0:
            self.rtt.sample(now - s.echo - s.echo_delay)
        if self.ended_from is not None and s.echo >= self.ended_from and s.echo > m.echo:
            m.ends += 1
        m.since = s.since if wants_topics else wire.MAX_SEQ
        m.echo, m.delay, m.joining = s.echo, s.echo_delay, joining
        if s.topics or more:
            m.topics, m.more = set(s.topics), more
            self.queries.answered(m, s.echo, wants_topics or s.next < self.named_below, now)
        return m

    def is_current(self, s, now):
        """Whether a status adds its receiver: not if it is old, or was sent before the receiver left (§7.5, §8.5)."""
        if s.echo and (s.echo > now + FROM_FUTURE or now - s.echo - s.echo_delay > ADMIT_AGE):
            return False
        before = self.gone.get(s.receiver)
        if before and (s.next, s.echo, s.echo_delay) <= before:
            return False
        return len(self.by_id) < MAX_MEMBERS

    def remove(self, receiver):
        m = self.by_id.pop(receiver)
        self.gone[receiver] = (m.next, m.echo, m.delay)
        for old in list(self.gone)[:-MAX_REMEMBERED]:
            del self.gone[old]

    def alive(self, m, now):
        if now - m.new <= LIFE:
            m.last_packet, m.solicitations, m.solicited_since = now, 0, None

    def nak(self, receiver, now):
        if receiver in self.by_id:
            self.alive(self.by_id[receiver], now)

    def admit(self, seq):
        """Whether the packet fits the windows of all members (§8.1) that do not still join (§8.10)."""
        return all(m.joining or seq < m.limit and seq - self.window < m.next for m in self.by_id.values())

    def silent(self, now):
        return [m for m in self.by_id.values() if now - m.last_packet > 3 * self.cadence + 100 * MS]

    def solicited(self, now):
        """A soliciting heartbeat is sent. Members that did not answer enough of them are released (§8.4)."""
        for m in self.silent(now):
            m.solicitations += 1
            m.solicited_since = m.solicited_since or now
        silence_limit = max(self.silence, ROUND_TRIPS * self.rtt.smoothed)
        for receiver, m in list(self.by_id.items()):
            if m.solicitations > SOLICITATIONS and now - m.solicited_since >= silence_limit:
                self.count("released")
                self.remove(receiver)

    def have(self, lead):
        return all(m.next >= lead for m in self.by_id.values())

    def have_end(self):
        """Whether all members have answered two END heartbeats (§11.5)."""
        return all(m.ends >= 2 for m in self.by_id.values())
