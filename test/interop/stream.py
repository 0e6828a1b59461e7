"""One stream at a receiver: order, loss, repair, silence and end (docs/protocol §4 to §11)."""

import math
import random

import wire
from names import Index
from plausible import TOO_FAR, Clock, Sequences
from replies import Replies
from statuses import Statuses
from timers import MS, S, US, RoundTrip

MIN_SILENCE, MAX_INTERVAL, ASSUMED_INTERVAL = 2 * S, 2 * S, 1 * S
ANSWER_AFTER_END = 2 * S
MAX_NAK_WAIT, MAX_DELAY, MAX_NCF_WAIT, MAX_BACKOFF = 20 * MS, 100 * MS, 20 * MS, 10 * MS


class Missing:
    """A packet that is missing."""

    __slots__ = ("found", "due", "requested", "tries")

    def __init__(self, now, due):
        self.found, self.due, self.requested, self.tries = now, due, now, 0


class Stream:
    def __init__(self, group, header, source, start, packet_size, now):
        self.group, self.out = group, group.out
        self.id, self.epoch, self.tag, self.source = header.publisher, header.epoch, header.tag, source
        self.packet_size, self.checksum = packet_size, bool(header.flags & wire.CHECKSUM)
        self.start = self.next = self.high = start
        self.slots, self.missing, self.lost = {}, {}, 0
        self.sequences, self.clock = Sequences(group.window), Clock()
        self.heartbeat, self.heartbeat_at = None, 0
        self.last_packet, self.state, self.state_at = now, "up", now  # up, down, ended
        self.end = self.first_end = None  # first_end: an end from a single heartbeat (§11.5)
        self.paused = 0  # time for which this process did not run since last_packet
        self.keeps_state = False  # flag of the newest heartbeat
        self.rtt = RoundTrip()
        self.replies = Replies(self)
        self.messages = group.new_messages(self)
        self.index = Index(self)
        self.out.event("up", self)
        self.statuses = Statuses(self, now)

    def header(self, kind, flags=0):
        return wire.Header(kind, flags, self.tag, self.id, self.epoch)

    # Received packets

    def received(self, now):
        self.last_packet, self.paused = now, 0
        if self.state == "down":
            self.state, self.state_at = "up", now
            self.index.open = self.index.open and not self.index.known  # earlier losses were reported
            self.out.event("up", self)
            self.statuses = Statuses(self, now)

    def data(self, b, now):
        try:
            d = wire.parse_data(b)
        except wire.WireError:
            seq = wire.data_seq(b)
            if b[4] & wire.REPAIR and self.next <= seq < self.high and seq not in self.slots:  # the original is malformed, too (§13.7)
                self.received(now)
                self.give_up(seq)
                self.advance(now)
            raise
        beyond = self.end is not None and self.end <= d.seq < self.end + self.group.window
        if beyond and (self.state != "ended" or not b[4] & wire.REPAIR):
            self.not_ended(now)
        if self.state == "ended" or d.seq in self.slots or self.start <= d.seq < self.next:
            return self.group.count("duplicates")
        if d.seq < self.start:
            return self.group.count("unstarted")
        if d.seq >= self.next + self.group.window:
            if d.seq > self.high + TOO_FAR and self.state != "down":
                return self.group.count("implausible")
            if self.sequences.confirmed(d.seq, 0, self.group.window):
                self.received(now)
                self.high = max(self.high, d.seq)
                self.give_up_before(d.seq + 1 - self.group.window * 3 // 4, now)
            return self.group.count("overrun")
        self.received(now)
        m = self.missing.pop(d.seq, None)
        if m and m.tries == 1 and b[4] & wire.REPAIR:
            self.rtt.sample(now - m.requested)
        self.high = max(self.high, d.seq + 1)
        if d.runs is None or d.packet_size != self.packet_size:  # a repair would not help (§13.6)
            self.group.count("unreadable")
            self.give_up(d.seq)
        else:
            self.slots[d.seq] = d
        self.advance(now)

    def advance(self, now):
        """Delivers packets in order."""
        while self.next in self.slots:
            d = self.slots.pop(self.next)
            if d is None:
                self.pass_lost(self.next + 1, now)
                continue
            self.next += 1
            listed = self.index.packet(d)
            self.messages.packet(d)
            if listed:
                self.messages.listed(*listed)
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
            self.statuses.query(hb, header.flags & wire.SOLICIT, now)
            self.received(now)
            self.group.compare(self, hb)
            if not header.flags & wire.END:
                self.not_ended(now)
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
            self.on_end(hb.lead, now)
        elif header.flags & wire.SOLICIT:
            self.statuses.solicited(now)
        elif self.next >= hb.lead:
            self.statuses.caught_up(now)
        self.check_end(now)

    def on_end(self, lead, now):
        """Processes an END heartbeat. The second one counts, and none below a known sequence (§11.5)."""
        if lead < self.high:
            return self.group.count("implausible")
        if self.first_end == lead:
            self.end = lead
        else:
            self.first_end = lead
        self.statuses.send(now)

    def not_ended(self, now):
        """A packet shows that the stream has not ended (§11.6)."""
        self.end = self.first_end = None
        if self.state == "ended":
            self.state, self.state_at = "up", now
            self.out.event("up", self)
            self.statuses = Statuses(self, now)

    def ncf(self, b, now):
        r = wire.parse_ranges(b)
        until = now + min(r.wait * US, MAX_NCF_WAIT) + self.rtt.smoothed
        for seq in self.within(r):
            m = self.missing.get(seq)
            if m:
                m.due = max(m.due, min(until, m.requested + MAX_DELAY + self.rtt.smoothed))

    def gone(self, b, now):
        r = wire.parse_ranges(b)
        if self.state == "ended":
            return
        for seq in self.within(r):
            if seq not in self.slots:
                self.give_up(seq)
        self.advance(now)

    def within(self, r):
        """The sequences of r between next and high: a range may have any length."""
        for first, n in r.ranges:
            yield from range(max(first, self.next), min(first + n, self.high))

    # Missing packets

    def give_up(self, seq):
        self.missing.pop(seq, None)
        self.slots[seq] = None
        self.lost += 1

    def give_up_before(self, seq, now):
        """Packets before seq that are missing will never arrive."""
        if seq <= self.next:
            return
        for s in sorted(s for s in self.slots if s < seq):
            self.skip_to(s, now)
            self.advance(now)
        self.skip_to(seq, now)
        self.missing = {s: m for s, m in self.missing.items() if s >= self.next}
        self.high = max(self.high, self.next)
        self.advance(now)

    def skip_to(self, seq, now):
        if seq > self.next:
            self.lost += seq - self.next
            self.pass_lost(seq, now)

    def pass_lost(self, end, now):
        """Passes the packets up to end, which are lost."""
        first, self.next = self.next, end
        self.messages.packets_lost(first, end)
        self.index.ask(first, now)

    def find_missing(self, now):
        """Detects missing packets at the end of a batch (§6.1)."""
        if self.state != "up":
            return
        for seq in range(self.next, min(self.high, self.next + self.group.window)):
            if seq not in self.slots and seq not in self.missing:
                wait = self.backoff()
                self.missing[seq] = Missing(now, now + wait if wait else self.group.fabric.read)

    def backoff(self):
        """A random time in the back-off window that the publisher advertises (§6.3)."""
        hb = self.heartbeat
        if hb is None or hb.backoff == 0:
            return 0
        span = math.log(max(2, hb.receivers)) + 1
        return int(min(hb.backoff, MAX_BACKOFF) * math.log(1 + random.random() * (math.exp(span) - 1)) / span)

    def ask(self, now, read):
        due = sorted(seq for seq, m in self.missing.items() if m.due <= read)
        if not due:
            return
        ranges = []
        again = self.rtt.repetition(self.heartbeat.rtt if self.heartbeat else 0)
        for seq in due:
            m = self.missing[seq]
            m.due = now + max(again, min(again << min(m.tries // 2, 30), MAX_NAK_WAIT))
            m.requested, m.tries = now, m.tries + 1
            if ranges and ranges[-1][0] + ranges[-1][1] == seq:
                ranges[-1][1] += 1
            else:
                ranges.append([seq, 1])
        # Sequences that do not fit in one packet are requested with the next repetition.
        self.group.count("naks")
        limit = min(wire.MAX_NAK, self.packet_size)
        self.group.reply(self, wire.put_ranges(self.header(wire.NAK), self.group.receiver, ranges, limit=limit))

    # Time

    def tick(self, now):
        """Performs due actions, and returns the time of the next call."""
        if self.state == "ended":
            return max(self.state_at, self.heartbeat_at) + ANSWER_AFTER_END
        if self.state == "down":
            return now + S
        read = min(now, self.group.fabric.read)  # for missing packets (§6.15)
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
        again = [m.due for m in self.missing.values()]
        return min(again + [self.statuses.tick(now), self.silent_until()])

    def pause(self, length):
        """This process did not run: packets sent in the meantime are still to be read (§11.3)."""
        self.paused += length
        for m in self.missing.values():
            m.found += length

    def silent_until(self):
        interval = min(self.heartbeat.interval * US, MAX_INTERVAL) if self.heartbeat else ASSUMED_INTERVAL
        return self.last_packet + self.paused + max(MIN_SILENCE, 4 * interval + 100 * MS)

    def is_down(self, now):
        if self.end is None and self.first_end is not None and self.first_end >= self.high:
            self.end = self.first_end
        if self.end is not None and self.next >= self.end:
            return self.check_end(now)
        self.state, self.state_at = "down", now
        self.give_up_before(self.high, now)
        self.messages.over("the publisher is lost")
        self.out.event("restarted" if self.group.other_instance_since(self) else "lost", self)

    def is_over(self, now):
        return self.state == "ended" and now - max(self.state_at, self.heartbeat_at) >= ANSWER_AFTER_END

    def check_end(self, now):
        if self.end is None or self.next < self.end or self.state != "up":
            return
        self.messages.over("the publisher has ended")
        self.state, self.state_at = "ended", now
        self.missing.clear()
        self.statuses.send(now)
        self.out.event("ended", self)
