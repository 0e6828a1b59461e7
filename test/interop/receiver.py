"""One group at a receiver: its streams, and refused packets (docs/protocol §12, §13)."""

import wire
from fabric import now_ns
from messages import Messages
from names import Names
from state import Joining
from stream import Stream
from timers import MS, S

FROM_PUBLISHER = (wire.DATA, wire.HEARTBEAT, wire.NCF, wire.GONE, wire.RECALL)
MAX_STREAMS, MAX_REMEMBERED = 64, 256
REMOVE_AFTER = 5 * S
OWN_PAUSE = 100 * MS


class Group:
    def __init__(self, fabric, index, topics, receiver, args, out, own=None, patterns=()):
        self.fabric, self.index, self.topics, self.out = fabric, index, topics, out
        self.exact = frozenset(topics)  # patterns add topics
        self.tag = fabric.tag(index)
        self.receiver, self.own = receiver, own  # own: (publisher id, epoch) of the same bus
        self.name, self.own_tag = args.name.encode(), args.tag.encode()
        self.require_checksum = args.checksum
        self.echo, self.left = getattr(args, "echo", False), False
        self.with_state = getattr(args, "begin", "live") == "state"
        self.recovery = int(args.recovery * S)
        self.window = args.window
        self.streams, self.differs = {}, set()
        self.names = Names(self, patterns)
        self.ended, self.removed = {}, {}  # time of the last packet; highest sequence
        self.again = now_ns()  # when tick is due
        fabric.join(index)

    def count(self, what):
        self.out.count(what)

    def new_messages(self, stream):
        return (Joining if self.with_state else Messages)(stream, self.topics, self.out)

    def reply(self, stream, packet):
        if stream.checksum or self.require_checksum:
            packet = wire.set_checksum(packet)
        self.fabric.reply(stream.source, packet)

    def handle(self, b, source, now):
        try:
            h = wire.parse_header(b)
            wire.need((h.tag == self.tag or self.by_other_tag(b, h)) and h.type in FROM_PUBLISHER, "foreign")
            wire.need((h.publisher, h.epoch) != self.own, "own")
            wire.verify(b, self.require_checksum)
            self.dispatch(b, h, source, now)
        except wire.WireError as e:
            self.count(e.reason)

    def by_other_tag(self, b, h):
        """Whether the packet is of a publisher with legs whose first leg is not this group (§23.8)."""
        st = self.streams.get((h.publisher, h.epoch))
        if st is not None and st.tag == h.tag:
            return True
        if h.type != wire.HEARTBEAT:
            return False
        try:
            legs = wire.parse_heartbeat(b).legs
        except wire.WireError:
            return False
        return self.tag in legs and legs[0] == h.tag

    def dispatch(self, b, h, source, now):
        if (h.publisher, h.epoch) in self.ended:
            return self.count("stale")
        st = self.streams.get((h.publisher, h.epoch)) or self.begin(b, h, source, now)
        if st is None:
            return
        if h.type == wire.DATA:
            st.data(b, now)
        elif h.type == wire.HEARTBEAT:
            st.on_heartbeat(b, h, source, now)
        elif h.type == wire.NCF:
            st.ncf(b, now)
        elif h.type == wire.RECALL:
            st.replies.recall(b, now)
        else:
            st.gone(b, now)

    def begin(self, b, h, source, now):
        """Starts a stream at a data packet that is not a repair, or at a heartbeat without END (§4.1)."""
        if h.type == wire.DATA:
            d = wire.parse_data(b)
            start, size = d.seq, d.packet_size
        elif h.type == wire.HEARTBEAT:
            hb = wire.parse_heartbeat(b)
            start, size = hb.lead, hb.packet_size
        else:
            return self.count("stale")
        if h.type == wire.DATA and h.flags & wire.REPAIR:
            return self.count("unstarted")
        if h.type == wire.HEARTBEAT and h.flags & wire.END:
            return None
        if len(self.streams) >= MAX_STREAMS:
            return self.count("refused")
        key = h.publisher, h.epoch
        start = self.removed.pop(key, start)
        st = self.streams[key] = Stream(self, h, source, start, size, now)
        return st

    def compare(self, stream, hb):
        """Reports a different configuration of the publisher's bus, once."""
        mine = self.fabric.mapping.settings()
        theirs = (hb.groups, hb.mapping, hb.map_param)
        key = (stream.id, stream.epoch, theirs)
        if theirs != mine and key not in self.differs:
            self.differs.add(key)
            self.out.mismatch(stream.id, stream.epoch, mine, theirs)

    def other_instance_since(self, stream):
        """Whether another instance of its id, perhaps ended, was received later."""
        last_packet = [(key, st.last_packet) for key, st in self.streams.items()] + list(self.ended.items())
        return any(key[0] == stream.id and key[1] != stream.epoch and at > stream.last_packet for key, at in last_packet)

    def end_of_batch(self, now):
        for st in self.streams.values():
            st.find_missing(now)

    def tick(self, now):
        if now - self.again > OWN_PAUSE:
            for st in self.streams.values():
                st.pause(now - self.again)
        again = [now + S]
        for key, st in list(self.streams.items()):
            again.append(st.tick(now))
            if st.is_over(now):
                self.remember(self.ended, key, st.last_packet)
            elif st.state == "down" and now - st.state_at >= REMOVE_AFTER and self.other_instance_since(st):
                self.remember(self.removed, key, st.high)
        self.again = min(again)
        return self.again

    def remember(self, memory, key, value):
        del self.streams[key]
        memory[key] = value
        for old in list(memory)[:-MAX_REMEMBERED]:
            del memory[old]

    def leave(self, now):
        self.left = True
        for st in self.streams.values():
            st.statuses.send(now)
