"""Which receivers a publisher waits for, from their statuses (docs/protocol §7, §8)."""

from questions import Questions
from timers import MS, S, RoundTrip

TAKES_IN, FROM_FUTURE, LIFE = 30 * S, 10 * MS, 30 * S
SOLICITATIONS, ROUND_TRIPS, MAX_MEMBERS, MAX_REMEMBERED = 10, 30, 1024, 256


class Member:
    def __init__(self, now):
        self.next = self.limit = self.echo = self.delay = 0
        self.topics, self.more, self.wants_topics, self.joining = set(), False, False, False
        self.answers = {}  # by topic: whether it wants that, and when it said so
        self.heard = self.new = now
        self.asked, self.asked_since = 0, None
        self.ends = 0  # heartbeats of the end that it has answered


class Members:
    def __init__(self, window, silence, count):
        self.window, self.silence, self.count = window, silence, count
        self.by_id, self.gone = {}, {}
        self.rtt, self.measured = RoundTrip(), False
        self.cadence = S
        self.questions = Questions()
        self.ended_from = None  # when the first heartbeat of the end was sent, at the earliest

    def status(self, s, leaving, wants_topics, joining, more, now):
        m = self.by_id.get(s.receiver)
        if m is None:
            if leaving:
                return None
            if not self.admits(s, now):
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
            self.count("statuses_stale")
            return m
        if m.echo < s.echo <= now and s.echo_delay < S and now - s.echo - s.echo_delay > 0:
            self.rtt.sample(now - s.echo - s.echo_delay)
        if self.ended_from is not None and s.echo >= self.ended_from and s.echo > m.echo:
            m.ends += 1
        m.echo, m.delay, m.wants_topics, m.joining = s.echo, s.echo_delay, wants_topics, joining
        if s.topics or more:
            m.topics, m.more = set(s.topics), more
            self.questions.answered(m, s.echo, wants_topics, now)
        return m

    def admits(self, s, now):
        """Whether a status takes a receiver in: not what was said long ago, or before it left (§7.5, §8.5)."""
        if s.echo and (s.echo > now + FROM_FUTURE or now - s.echo - s.echo_delay > TAKES_IN):
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
            m.heard, m.asked, m.asked_since = now, 0, None

    def nak(self, receiver, now):
        if receiver in self.by_id:
            self.alive(self.by_id[receiver], now)

    def admit(self, seq):
        """Whether all members let the packet through (§8.1), but those that still join (§8.10)."""
        return all(m.joining or seq < m.limit and seq - self.window < m.next for m in self.by_id.values())

    def silent(self, now):
        return [m for m in self.by_id.values() if now - m.heard > 3 * self.cadence + 100 * MS]

    def solicited(self, now):
        """A heartbeat that asks goes out: who was asked often enough in vain is released (§8.4)."""
        for m in self.silent(now):
            m.asked += 1
            m.asked_since = m.asked_since or now
        silence_limit = max(self.silence, ROUND_TRIPS * self.rtt.smoothed)
        for receiver, m in list(self.by_id.items()):
            if m.asked > SOLICITATIONS and now - m.asked_since >= silence_limit:
                self.count("released")
                self.remove(receiver)

    def have(self, lead):
        return all(m.next >= lead and not m.wants_topics for m in self.by_id.values())

    def answered_end(self):
        """The end counts for a receiver after two heartbeats (§11.5)."""
        return all(m.ends >= 2 for m in self.by_id.values())
