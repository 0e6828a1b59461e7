"""One stream at a receiver: order, loss, repair, statuses, silence and end.

Times are integers in nanoseconds of the monotonic clock. Deliveries and events
go to `out`, packets for the publisher to `group.reply`.
"""

import math
import random

import wire
from timers import MS, S, US, RoundTrip

STATUS_START = (10 * MS, 20 * MS, 40 * MS)
ANSWER_AFTER_END = 2 * S
LOST_AFTER_AT_LEAST = 2 * S
LONGEST_INTERVAL = 2 * S
NAK_AT_LEAST, NAK_AT_MOST = 100 * US, 20 * MS
WAIT_AT_MOST = 100 * MS
TOO_FAR = 1 << 30


class Missing:
    """A packet that is known of and has not come."""

    __slots__ = ("found", "due", "asked", "tries")

    def __init__(self, now, due):
        self.found, self.due, self.asked, self.tries = now, due, 0, 0


class Stream:
    def __init__(self, group, header, source, start, now):
        self.group, self.out, self.window = group, group.out, group.window
        self.id, self.epoch, self.source = header.publisher, header.epoch, source
        self.sealed = bool(header.flags & wire.CHECKSUM)
        self.start = self.next = self.known = start
        self.slots, self.missing, self.lost = {}, {}, 0
        self.far = None  # a sequence that is too far ahead to believe without a second
        self.heartbeat, self.heartbeat_at, self.sent_at = None, 0, -(1 << 63)
        self.heard = now
        self.rtt = RoundTrip()
        self.state, self.state_at, self.end = "up", now, None  # up, lost, ended
        self.status_next, self.status_at, self.statuses = None, 0, []
        self.messages = group.new_messages(self)
        out = self.out
        out.event("up", self)
        self.statuses = [now + sum(STATUS_START[:i + 1]) for i in range(len(STATUS_START))]
        self.send_status(now)

    def header(self, kind, flags=0):
        return wire.Header(kind, flags, self.group.tag, self.id, self.epoch)

    def limit(self):
        return self.next + self.window

    # What comes

    def is_alive(self, now):
        self.heard = now
        if self.state == "lost":
            self.state, self.state_at = "up", now
            self.out.event("up", self)

    def data(self, b, now):
        d = wire.parse_data(b)
        if self.state == "ended":
            return self.group.count("stale")
        if d.seq < self.next or d.seq in self.slots:
            return self.group.count("duplicate")
        if d.seq >= self.limit():
            if self.believes(d.seq):
                self.known = max(self.known, d.seq)  # it is asked for when there is room
            return self.group.count("beyond")
        self.is_alive(now)
        m = self.missing.pop(d.seq, None)
        if m and m.tries == 1 and b[4] & wire.REPAIR:
            self.rtt.measured(now - m.asked)
        self.known = max(self.known, d.seq + 1)
        self.slots[d.seq] = d
        self.advance(now)

    def believes(self, seq):
        """One packet alone does not take the stream further ahead than a window."""
        if seq <= self.known + self.window:
            return True
        if seq > self.known + TOO_FAR and self.state != "lost":
            self.group.count("implausible")
            return False
        near = self.far is not None and abs(seq - self.far) <= self.window
        self.far = seq
        return near

    def advance(self, now):
        while self.next in self.slots:
            d = self.slots.pop(self.next)
            self.next += 1
            if d is None:
                self.messages.packet_lost(self.next)
            else:
                self.messages.packet(d)
        self.messages.settle(self.next)
        if self.status_next is None or self.next - self.status_next >= max(1, self.window // 4):
            self.send_status(now)
        self.check_end(now)

    def heard_heartbeat(self, b, header, source, now):
        hb = wire.parse_heartbeat(b)
        if hb.sent_at > self.sent_at:  # a replayed one has no say
            self.sent_at, self.heartbeat, self.heartbeat_at, self.source = hb.sent_at, hb, now, source
            self.is_alive(now)
            self.rtt.advertised(hb.rtt)
            self.group.compare(self, hb)
        if self.state == "ended":
            if header.flags & wire.SOLICIT:
                self.send_status(now)
            return
        if self.believes(hb.lead):
            self.known = max(self.known, hb.lead)
            if header.flags & wire.END and (self.end is None or hb.lead > self.end):
                self.end = hb.lead
        self.find_missing(now)
        if header.flags & wire.SOLICIT or (self.next >= hb.lead and self.status_next != self.next):
            self.send_status(now)
        self.check_end(now)

    def announce(self, b, now):
        if self.state != "ended":
            self.messages.announced(wire.parse_announce(b), self.next)
            self.check_end(now)

    def ncf(self, b, now):
        r = wire.parse_ranges(b)
        for seq in self.within(r):
            m = self.missing.get(seq)
            if m and m.tries:
                m.due = max(m.due, min(now + r.wait * US, m.asked + WAIT_AT_MOST + self.rtt.smoothed))

    def gone(self, b, now):
        if self.state == "ended":
            return
        for seq in self.within(wire.parse_ranges(b)):
            if seq not in self.slots:
                self.give_up(seq)
        self.advance(now)

    def within(self, r):
        """The sequences of r that are in the window: a range may be as long as it likes."""
        for first, n in r.ranges:
            yield from range(max(first, self.next), min(first + n, self.limit()))

    # What is missing

    def give_up(self, seq):
        self.missing.pop(seq, None)
        self.slots[seq] = None
        self.lost += 1

    def find_missing(self, now):
        """Judges at the end of a batch what has not come."""
        if self.state == "ended":
            return
        for seq in range(self.next, min(self.known, self.limit())):
            if seq not in self.slots and seq not in self.missing:
                self.missing[seq] = Missing(now, now + self.backoff())

    def backoff(self):
        """A draw from the advertised window as in RFC 5401, section 3.2."""
        hb = self.heartbeat
        if hb is None or hb.backoff == 0:
            return 0
        span = math.log(max(1, hb.receivers)) + 1
        x = random.uniform(0, span / hb.backoff) + span / (hb.backoff * (math.exp(span) - 1))
        return int(hb.backoff / span * math.log(x * (math.exp(span) - 1) * (hb.backoff / span)))

    def ask(self, now):
        due = sorted(seq for seq, m in self.missing.items() if m.due <= now)
        if not due:
            return
        ranges = []
        longest = max(NAK_AT_MOST, 2 * self.rtt.of_publisher)
        wait = min(max(self.rtt.repeat(), NAK_AT_LEAST), longest)
        for seq in due:
            m = self.missing[seq]
            m.tries, m.asked = m.tries + 1, now
            m.due = now + wait * 2 ** min(m.tries // 2, 6)
            if ranges and ranges[-1][0] + ranges[-1][1] == seq:
                ranges[-1][1] += 1
            else:
                ranges.append([seq, 1])
        self.group.count("naks")
        size = self.heartbeat.packet_size if self.heartbeat else wire.MIN_PACKET
        self.group.reply(self, wire.put_ranges(self.header(wire.NAK), self.group.receiver, ranges, wire.REASON_NONE, 0, size))

    # Time

    def tick(self, now):
        """Does what is due, and returns when to come again."""
        if self.state == "ended":
            return self.state_at + ANSWER_AFTER_END
        for seq in [s for s, m in self.missing.items() if now - m.found >= self.group.recovery]:
            self.give_up(seq)
        self.advance(now)
        self.ask(now)
        hb = self.heartbeat
        if self.statuses and now >= self.statuses[0]:
            self.statuses.pop(0)
            self.send_status(now)
        if hb and self.state == "up" and now - self.status_at >= max(1, hb.status_interval) * US:
            self.send_status(now)
        if self.state == "up" and now - self.heard >= self.patience():
            self.is_lost(now)
        times = [m.due for m in self.missing.values()] + self.statuses[:1]
        if hb and self.state == "up":
            times.append(self.status_at + hb.status_interval * US)
        return min(times + [self.heard + self.patience() if self.state == "up" else now + S])

    def patience(self):
        hb = self.heartbeat
        return max(LOST_AFTER_AT_LEAST, 4 * min(hb.interval * US, LONGEST_INTERVAL) if hb else 0)

    def is_lost(self, now):
        self.state, self.state_at = "lost", now
        for seq in list(self.missing):
            self.give_up(seq)
        self.advance(now)
        self.messages.publisher_lost()
        self.out.event("restarted" if self.group.other_instance_since(self) else "lost", self)

    def check_end(self, now):
        if self.end is None or self.next < self.end or self.state == "ended" or self.messages.unsettled:
            return
        self.state, self.state_at = "ended", now
        self.missing.clear()
        self.send_status(now)
        self.out.event("ended", self)

    # Statuses

    def send_status(self, now, flags=0):
        hb = self.heartbeat
        if self.messages.unsettled:
            flags |= wire.WANT_TOPICS
        held = min(now - self.heartbeat_at, 0xFFFFFFFF) if hb else 0
        self.status_next, self.status_at = self.next, now
        self.group.reply(self, wire.put_status(self.header(wire.STATUS, flags), wire.Status(
            self.group.receiver, self.next, self.limit(), hb.sent_at if hb else 0, held, self.lost, 0,
            sorted(self.group.topics), self.group.name)))
