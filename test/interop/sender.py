"""One group at a publisher: packets and their window, heartbeats, replies (docs/protocol §5 to §11)."""

import collections

import wire
from ladder import Ladder
from members import Members
from repairs import Repairs
from replies import Requests
from state import Keeper
from listing import Listing
from timers import MS, S, US

BURST = 64  # maximum number of packets between two reads of replies
SHARE, MIN_CADENCE, MAX_CADENCE, PER_MEMBER = 0.01, 5 * MS, 1 * S, 2 * MS
RATE_EVERY, END_HEARTBEATS = 5 * MS, 3


class Publication:
    def __init__(self, bus, index, topics, args, now):
        self.bus, self.fabric, self.index, self.count = bus, bus.fabric, index, bus.count
        self.tag, self.size, self.window = self.fabric.tag(index), args.size, args.window
        self.checksum, self.free = args.checksum, args.flow == "none"
        self.messages = collections.deque()  # (topic, bytes) to be sent
        self.part = 0  # bytes of the first message sent in fragments
        self.packets, self.lead, self.trail = {}, 0, 0
        self.members = Members(args.window, int(args.silence * S), bus.count)
        self.ladder, self.listing = Ladder(now), Listing(self, topics)
        self.repairs = Repairs(self, args.repair_rate, now)
        self.keeper = Keeper(self, getattr(args, "retain", False))
        self.as_requests, self.requests = getattr(args, "requests", False), Requests(self, bus.replied)
        self.sent_at, self.heartbeats = 0, 0
        self.until, self.ending = None, False  # time limit of the end; the last round is sent, and END heartbeats follow
        self.rate, self.rate_at, self.rate_lead = 0.0, now, 0
        self.blocked_since = None  # since when flow control admits no packet

    def header(self, kind, flags=0):
        return wire.Header(kind, flags, self.tag, self.bus.id, self.bus.epoch)

    def send(self, packet, flags=None):
        if flags is not None:
            packet = wire.with_flags(packet, flags)
        elif self.checksum:
            packet = wire.set_checksum(packet)
        self.fabric.send(self.index, packet)

    # New data

    def admitted(self):
        return self.free or self.members.admit(self.lead)

    def send_new(self, now):
        """Sends a burst of new packets, as far as flow control allows."""
        for _ in range(BURST):
            other = None
            if self.part == 0:  # no other run between fragments
                other = self.keeper if self.keeper.ready(now) else self.listing if self.listing.ready(now) else None
            if not self.messages and not other:
                break
            if not self.admitted():
                if self.blocked_since is None:
                    self.blocked_since = now
                    self.ladder.blocked(now, self.members.rtt.smoothed)
                return
            self.blocked_since = None
            runs = other.take() if other else self.fill()
            if self.as_requests and not other:
                runs = [self.request(r, now) for r in runs]
            packet = wire.put_data(self.header(wire.DATA), self.lead, self.size, runs)
            if self.checksum:
                packet = wire.set_checksum(packet)
            self.packets[self.lead] = packet
            self.lead += 1
            if self.lead - self.trail > self.window:
                del self.packets[self.trail]
                self.trail += 1
                self.repairs.forget_before(self.trail)
            self.ladder.data_sent(now)
            self.send(packet, 0)
        self.blocked_since = None

    def fill(self):
        """The runs of the next packet. A topic's name precedes its first message (§10.8)."""
        runs, room = [], self.size - wire.DATA_HEADER_LEN
        while self.messages:
            topic, data = self.messages[0]
            if not self.listing.named(topic) and room >= wire.RUN_HEADER_LEN + len(topic.name):
                runs.append(self.listing.name(topic))
                room -= wire.RUN_HEADER_LEN + len(topic.name)
            topic.last = self.lead
            if self.listing.named(topic) and len(data) > wire.max_in_packet(self.size):
                piece = data[self.part:self.part + max(0, room - wire.RUN_HEADER_LEN - wire.FRAGMENT_HEADER.size)]
                if not piece:
                    break
                runs.append(wire.Run(wire.RUN_FRAGMENT, topic.id, topic.next, None, len(data), self.part, piece))
                self.part += len(piece)
                room -= wire.RUN_HEADER_LEN + wire.FRAGMENT_HEADER.size + len(piece)
                if self.part < len(data):
                    break  # continued in the next packet: no other run between fragments (§10.1)
                self.part = 0
                topic.next += 1
                self.messages.popleft()
                self.keeper.sent(topic, data)
                continue
            same_run = runs and runs[-1].kind == wire.RUN_MESSAGES and runs[-1].topic == topic.id
            more = 2 + len(data) + (0 if same_run else wire.RUN_HEADER_LEN)
            if more > room or not self.listing.named(topic):
                break
            if not same_run:
                runs.append(wire.Run(wire.RUN_MESSAGES, topic.id, topic.next, [], 0, 0, b""))
            runs[-1].messages.append(data)
            topic.next, room = topic.next + 1, room - more
            self.messages.popleft()
            self.keeper.sent(topic, data)
        return runs

    def request(self, run, now):
        """Marks a run with messages as requests, and registers those that it completes (§24.1)."""
        if run.kind == wire.RUN_TOPIC:
            return run
        if run.kind == wire.RUN_MESSAGES or run.offset + len(run.data) == run.total:
            for i in range(len(run.messages or [b""])):
                self.requests.published(run.topic, run.number + i, now)
        return run._replace(flags=wire.RUN_REQUEST)

    # Heartbeats

    def heartbeat(self, now):
        self.sent_at = max(self.sent_at + 1, now)
        flags = 0
        if self.ending:
            flags |= wire.END | wire.SOLICIT
            self.heartbeats += 1
        if self.free and self.members.by_id:
            flags |= wire.FREE
        if self.keeper.keeps:
            flags |= wire.STATE
        topic, late = self.query()
        if late or self.blocked_since is not None or self.members.silent(now):
            flags |= wire.SOLICIT
        if flags & wire.SOLICIT:
            self.members.solicited(now)
        self.measure(now)
        holder = self.holder() if self.blocked_since is not None else 0
        self.send(wire.put_heartbeat(self.header(wire.HEARTBEAT, flags), wire.Heartbeat(
            self.lead, self.trail, self.sent_at, 0, len(self.members.by_id), self.members.cadence // US,
            self.ladder.interval() // US, self.size, self.members.rtt.smoothed if self.members.rtt.samples else 0,
            self.fabric.mapping.groups, self.fabric.mapping.kind,
            wire.CHECKSUM_CRC32C if self.checksum else wire.CHECKSUM_NONE, self.fabric.mapping.param,
            holder, (now - self.blocked_since) // MS if holder else 0, 0, self.bus.name, asked=topic)))

    def query(self):
        """The topic queried by a heartbeat: all in turn while pub.py waits for subscribers, afterwards the last one."""
        waited, members, queries = [], self.members.by_id.values(), self.members.queries
        for t in self.listing.topics if self.ladder.waiting_since is not None else ():
            if self.listing.named(t):
                waited.append(t.id)
            elif any(queries.must_answer(m, t.id, self.sent_at) for m in members):
                self.listing.introduce(t)
        return queries.next(members, waited, self.members.rtt.smoothed, self.sent_at)

    def holder(self):
        for receiver, m in self.members.by_id.items():
            if self.lead >= m.limit or self.lead - self.window >= m.next:
                return receiver
        return 0

    def measure(self, now):
        """The cadence of statuses, from the rate of new packets (§7.2)."""
        if now - self.rate_at >= RATE_EVERY:
            rate = (self.lead - self.rate_lead) * S / (now - self.rate_at)
            self.rate += (rate - self.rate) / 4
            self.rate_at, self.rate_lead = now, self.lead
        n = len(self.members.by_id)
        longest = max(MAX_CADENCE, PER_MEMBER * n)
        cadence = n * S / (SHARE * self.rate) if self.rate > 0 else longest
        self.members.cadence = int(min(max(cadence, MIN_CADENCE), longest))

    # Replies and time

    def handle_unicast(self, b, now):
        """Processes a unicast packet."""
        try:
            h = wire.parse_header(b)
        except wire.WireError:
            return self.count("malformed")
        if (h.tag, h.publisher, h.epoch) != (self.tag, self.bus.id, self.bus.epoch):
            return self.count("foreign")
        try:
            wire.verify(b, self.checksum)
            self.handle(b, h, now)
        except wire.WireError:
            self.count("malformed")

    def handle(self, b, h, now):
        if h.type == wire.STATUS:
            s = wire.parse_status(b)
            wire.need(s.next <= self.lead)
            lists = h.flags & wire.LEAVING and s.receiver not in self.members.by_id  # a list without subscription (§9.10)
            m = self.members.status(s, bool(h.flags & wire.LEAVING), bool(h.flags & wire.WANT_TOPICS), bool(h.flags & wire.JOINING),
                                    bool(h.flags & wire.MORE_TOPICS), now)
            if m and h.flags & wire.WANT_STATE:
                self.keeper.status(s, now)
            if (m or lists) and h.flags & wire.WANT_TOPICS:
                self.listing.asked(s, m, bool(h.flags & wire.MORE_TOPICS))
        elif h.type == wire.NAK:
            r = wire.parse_ranges(b)
            self.members.nak(r.receiver, now)
            self.count("naks")
            self.repairs.nak(r, now)
        elif h.type == wire.REPLY:
            self.requests.reply(wire.parse_reply(b), now)
        else:
            self.count("foreign")

    def subscribers(self, topic):
        return sum(1 for m in self.members.by_id.values() if self.members.queries.wants(m, topic.id))

    def end(self, now, linger):
        self.until = now + linger

    def close(self, now):
        """Sends the last round when all messages are sent, and then begins to state the end (§9.3)."""
        self.listing.closing = self.listing.closing or not self.messages and not self.keeper.busy()
        if not self.lead or self.listing.closed and not self.listing.todo:
            self.ending, self.members.ended_from = True, self.sent_at + 1
            self.ladder.restart(now)

    def is_over(self, now):
        if self.until is None or now >= self.until:
            return self.until is not None
        m = self.members
        return self.ending and self.heartbeats >= END_HEARTBEATS and m.have(self.lead) and m.have_end()

    def tick(self, now):
        if self.until is not None and not self.ending:
            self.close(now)
        if self.sent_at:  # the first heartbeat precedes the first data
            self.send_new(now)
        again = [self.keeper.wakes(now), self.repairs.tick(now), self.listing.wakes(now), self.requests.tick(now)]
        flowing = bool(self.messages) and self.blocked_since is None
        quiet = self.members.have(self.lead) and self.members.by_id and not self.members.silent(now) and not self.ending
        if self.ladder.fires(now, flowing, quiet):
            self.heartbeat(now)
        if flowing:
            return now
        return min(again + [self.ladder.due])
