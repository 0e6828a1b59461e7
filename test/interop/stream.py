"""One stream at a receiver: order, loss, repair, silence and end (docs/protocol §4 to §11)."""

import math
import random

import wire
from names import StreamNames
from plausible import TOO_FAR, Clock, Sequences
from replies import Replies
from statuses import Statuses
from timers import MS, S, US, RoundTrip

LEAST_SILENCE, LONGEST_INTERVAL, ASSUMED_INTERVAL = 2 * S, 2 * S, 1 * S
ANSWER_AFTER_END = 2 * S
NAK_AT_MOST, PUT_OFF_AT_MOST, NCF_AT_MOST, BACKOFF_AT_MOST = 20 * MS, 100 * MS, 20 * MS, 10 * MS


class Missing:
    """A packet that is known of and has not come."""

    __slots__ = ("found", "due", "asked", "tries")

    def __init__(self, now, due):
        self.found, self.due, self.asked, self.tries = now, due, now, 0


class Stream:
    def __init__(self, group, header, source, start, packet_size, now):
        self.group, self.out = group, group.out
        self.id, self.epoch, self.tag, self.source = header.publisher, header.epoch, header.tag, source
        self.packet_size, self.checksum = packet_size, bool(header.flags & wire.CHECKSUM)
        self.start = self.next = self.high = start
        self.slots, self.missing, self.lost = {}, {}, 0
        self.sequences, self.clock = Sequences(group.window), Clock()
        self.heartbeat, self.heartbeat_at = None, 0
        self.heard, self.state, self.state_at = now, "up", now  # up, down, ended
        self.end = self.said = None  # said: an end that one heartbeat has told of (§11.5)
        self.paused = 0  # how long this process did not run since it heard the publisher
        self.keeps_state = False  # as its newest heartbeat says
        self.rtt = RoundTrip()
        self.replies = Replies(self)
        self.messages = group.new_messages(self)
        self.names = StreamNames(self, group.names, now)
        self.out.event("up", self)
        self.statuses = Statuses(self, now)

    def header(self, kind, flags=0):
        return wire.Header(kind, flags, self.tag, self.id, self.epoch)

    # What comes

    def is_alive(self, now):
        self.heard, self.paused = now, 0
        if self.state == "down":
            self.state, self.state_at = "up", now
            self.out.event("up", self)
            self.statuses = Statuses(self, now)

    def data(self, b, now):
        try:
            d = wire.parse_data(b)
        except wire.WireError:
            seq = wire.data_seq(b)
            if b[4] & wire.REPAIR and self.next <= seq < self.high and seq not in self.slots:  # it was sent so (§13.7)
                self.is_alive(now)
                self.give_up(seq)
                self.advance(now)
            raise
        beyond = self.end is not None and self.end <= d.seq < self.end + self.group.window
        if beyond and (self.state != "ended" or not b[4] & wire.REPAIR):
            self.goes_on(now)
        if self.state == "ended" or d.seq in self.slots or self.start <= d.seq < self.next:
            return self.group.count("duplicates")
        if d.seq < self.start:
            return self.group.count("unstarted")
        if d.seq >= self.next + self.group.window:
            if d.seq > self.high + TOO_FAR and self.state != "down":
                return self.group.count("implausible")
            if self.sequences.confirmed(d.seq, 0, self.group.window):
                self.is_alive(now)
                self.high = max(self.high, d.seq)
                self.give_up_before(d.seq + 1 - self.group.window * 3 // 4, now)
            return self.group.count("overrun")
        self.is_alive(now)
        m = self.missing.pop(d.seq, None)
        if m and m.tries == 1 and b[4] & wire.REPAIR:
            self.rtt.sample(now - m.asked)
        self.high = max(self.high, d.seq + 1)
        if d.runs is None or d.packet_size != self.packet_size:  # it will not be had by asking, either (§13.6)
            self.group.count("unreadable")
            self.give_up(d.seq)
        else:
            self.slots[d.seq] = d
        self.advance(now)

    def advance(self, now, over=False):
        """Delivers what is in order; with over nothing waits for names."""
        while self.next in self.slots:
            d = self.slots[self.next]
            if d is not None and not self.names.has(d, now, over):
                break
            del self.slots[self.next]
            self.next += 1
            if d is None:
                self.messages.packet_lost(self.next)
            else:
                self.messages.packet(d)
        self.messages.settle(self.next)
        self.statuses.progress(now)
        self.check_end(now)

    def on_heartbeat(self, b, header, source, now):
        hb = wire.parse_heartbeat(b)
        wire.need(hb.packet_size == self.packet_size)
        new = self.clock.is_new(hb.sent_at, now)
        if new:
            self.heartbeat, self.heartbeat_at, self.source = hb, now, source
            self.keeps_state = bool(header.flags & wire.STATE)
            self.rtt.stated(hb.rtt)
            self.statuses.asks(hb.asked, header.flags & wire.SOLICIT, now)
            self.is_alive(now)
            self.group.compare(self, hb)
            if not header.flags & wire.END:
                self.goes_on(now)
        elif self.state == "down":
            return
        if self.state == "ended":
            if header.flags & wire.SOLICIT:
                self.statuses.send(now)
            return
        if not self.sequences.plausible_lead(hb.lead, hb.sent_at, self.high):
            return self.group.count("implausible")
        self.high = max(self.high, hb.lead)
        self.give_up_before(hb.trail, now)
        if new and header.flags & wire.END and self.end is None:
            self.ends(hb.lead, now)
        elif header.flags & wire.SOLICIT:
            self.statuses.solicited(now)
        elif self.next >= hb.lead:
            self.statuses.caught_up(now)
        self.check_end(now)

    def ends(self, lead, now):
        """Takes in the end: it counts when it was told of twice, and not below what is known (§11.5)."""
        if lead < self.high:
            return self.group.count("implausible")
        if self.said == lead:
            self.end = lead
        else:
            self.said = lead
            self.messages.ending(lead)
        self.statuses.send(now)

    def goes_on(self, now):
        """What comes shows that the stream does not end there (§11.6)."""
        self.end = self.said = None
        if self.state == "ended":
            self.state, self.state_at = "up", now
            self.out.event("up", self)
            self.statuses = Statuses(self, now)

    def announce(self, b, now):
        a = wire.parse_announce(b)
        if self.state == "ended":
            return
        if a.as_of > self.high + (1 << 21):
            return self.group.count("implausible")
        asked = self.messages.unsettled
        self.names.announced(a, now)
        self.advance(now)
        self.messages.announced(a, self.next)
        if asked and not self.messages.unsettled:
            self.statuses.send(now)
        self.check_end(now)

    def ncf(self, b, now):
        r = wire.parse_ranges(b)
        until = now + min(r.wait * US, NCF_AT_MOST) + self.rtt.smoothed
        for seq in self.within(r):
            m = self.missing.get(seq)
            if m:
                m.due = max(m.due, min(until, m.asked + PUT_OFF_AT_MOST + self.rtt.smoothed))

    def gone(self, b, now):
        r = wire.parse_ranges(b)
        if self.state == "ended":
            return
        for seq in self.within(r):
            if seq not in self.slots:
                self.give_up(seq)
        self.advance(now)

    def within(self, r):
        """The sequences of r that are between next and high: a range may be as long as it likes."""
        for first, n in r.ranges:
            yield from range(max(first, self.next), min(first + n, self.high))

    # What is missing

    def give_up(self, seq):
        self.missing.pop(seq, None)
        self.slots[seq] = None
        self.lost += 1

    def give_up_before(self, seq, now):
        """What has not come before seq never will."""
        if seq <= self.next:
            return
        for s in sorted(s for s in self.slots if s < seq):
            self.skip_to(s)
            self.advance(now, over=True)
        self.skip_to(seq)
        self.missing = {s: m for s, m in self.missing.items() if s >= self.next}
        self.high = max(self.high, self.next)
        self.advance(now)

    def skip_to(self, seq):
        if seq > self.next:
            self.lost += seq - self.next
            self.next = seq
            self.messages.packet_lost(seq)

    def find_missing(self, now):
        """Judges at the end of a batch what has not come (§6.1)."""
        if self.state != "up":
            return
        for seq in range(self.next, min(self.high, self.next + self.group.window)):
            if seq not in self.slots and seq not in self.missing:
                wait = self.backoff()
                self.missing[seq] = Missing(now, now + wait if wait else self.group.fabric.read)

    def backoff(self):
        """A draw from the window that the publisher advertises (§6.3)."""
        hb = self.heartbeat
        if hb is None or hb.backoff == 0:
            return 0
        span = math.log(max(2, hb.receivers)) + 1
        return int(min(hb.backoff, BACKOFF_AT_MOST) * math.log(1 + random.random() * (math.exp(span) - 1)) / span)

    def ask(self, now, read):
        due = sorted(seq for seq, m in self.missing.items() if m.due <= read)
        if not due:
            return
        ranges = []
        again = self.rtt.repetition(self.heartbeat.rtt if self.heartbeat else 0)
        for seq in due:
            m = self.missing[seq]
            m.due = now + max(again, min(again << min(m.tries // 2, 30), NAK_AT_MOST))
            m.asked, m.tries = now, m.tries + 1
            if ranges and ranges[-1][0] + ranges[-1][1] == seq:
                ranges[-1][1] += 1
            else:
                ranges.append([seq, 1])
        # What does not fit one packet is asked for with the next repetition.
        self.group.count("naks")
        limit = min(wire.MAX_NAK, self.packet_size)
        self.group.reply(self, wire.put_ranges(self.header(wire.NAK), self.group.receiver, ranges, limit=limit))

    # Time

    def tick(self, now):
        """Does what is due, and returns when to come again."""
        if self.state == "ended":
            return max(self.state_at, self.heartbeat_at) + ANSWER_AFTER_END
        if self.state == "down":
            return now + S
        read = min(now, self.group.fabric.read)  # what has not come is judged by that (§6.15)
        late = [seq for seq, m in self.missing.items() if read - m.found >= self.group.recovery]
        for seq in late:
            self.give_up(seq)
        if late:
            self.advance(now)
        self.ask(now, read)
        self.messages.tick(now)
        if read >= self.silent_until():
            self.is_down(now)
            return now + S
        again = [m.due for m in self.missing.values()] + [t for t in [self.names.tick(now)] if t is not None]
        return min(again + [self.statuses.tick(now), self.silent_until()])

    def pause(self, length):
        """This process did not run: what the publisher sent meanwhile is still to be read (§11.3)."""
        self.paused += length
        for m in self.missing.values():
            m.found += length

    def silent_until(self):
        interval = min(self.heartbeat.interval * US, LONGEST_INTERVAL) if self.heartbeat else ASSUMED_INTERVAL
        return self.heard + self.paused + max(LEAST_SILENCE, 4 * interval + 100 * MS)

    def is_down(self, now):
        if self.end is None and self.said is not None and self.said >= self.high:
            self.end = self.said
        if self.end is not None and self.next >= self.end and not self.messages.owed:
            self.messages.asof = None  # it has ended, though nobody tells its totals (§11.2)
            return self.check_end(now)
        self.state, self.state_at = "down", now
        self.give_up_before(self.high, now)
        self.messages.publisher_lost()
        self.out.event("restarted" if self.group.other_instance_since(self) else "lost", self)

    def is_over(self, now):
        return self.state == "ended" and now - max(self.state_at, self.heartbeat_at) >= ANSWER_AFTER_END

    def check_end(self, now):
        if self.end is None or self.next < self.end or self.state != "up" or self.messages.unsettled:
            return
        self.state, self.state_at = "ended", now
        self.missing.clear()
        self.statuses.send(now)
        self.out.event("ended", self)
