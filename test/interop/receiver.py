"""One group at a receiver: which streams there are, and what is refused."""

import secrets

import wire
from fabric import now_ns
from messages import Messages
from stream import ANSWER_AFTER_END, Stream
from timers import MS, S

FROM_PUBLISHER = (wire.DATA, wire.HEARTBEAT, wire.ANNOUNCE, wire.NCF, wire.GONE)
MAX_STREAMS, MAX_REMEMBERED = 64, 256
REMOVE_AFTER = 5 * S
OWN_PAUSE = 100 * MS


class Group:
    def __init__(self, fabric, index, topics, args, out):
        self.fabric, self.index, self.topics, self.out = fabric, index, topics, out
        self.tag = fabric.tag(index)
        self.receiver = secrets.randbits(64) | 1
        self.name = args.name.encode()
        self.require_checksum = args.checksum
        self.recovery = int(args.recovery * S)
        self.window = min(args.window, fabric.room())
        self.streams, self.ended, self.differs = {}, {}, set()
        self.ran = now_ns()
        fabric.join(index)

    def count(self, what):
        self.out.count(what)

    def new_messages(self, stream):
        return Messages(stream, self.topics, self.out)

    def reply(self, stream, packet):
        if stream.sealed or self.require_checksum:
            packet = wire.seal(packet)
        self.fabric.reply(stream.source, packet)

    def handle(self, b, source, now):
        try:
            h = wire.parse_header(b)
            if h.tag != self.tag:
                raise wire.WireError("foreign")
            wire.verify(b, self.require_checksum)
            if h.type in FROM_PUBLISHER:
                self.dispatch(b, h, source, now)
        except wire.WireError as e:
            self.count("refused_" + e.reason)

    def dispatch(self, b, h, source, now):
        st = self.streams.get((h.publisher, h.epoch))
        if st is None:
            if (h.publisher, h.epoch) in self.ended:
                return self.count("stale")
            st = self.begin(b, h, source, now)
            if st is None:
                return
        if h.type == wire.DATA:
            st.data(b, now)
        elif h.type == wire.HEARTBEAT:
            st.heard_heartbeat(b, h, source, now)
        elif h.type == wire.ANNOUNCE:
            st.announce(b, now)
        elif h.type == wire.NCF:
            st.ncf(b, now)
        else:
            st.gone(b, now)

    def begin(self, b, h, source, now):
        """A stream starts with a data packet that is no repair, or a heartbeat that is not the end."""
        if h.type == wire.DATA and not h.flags & wire.REPAIR:
            start = wire.parse_data(b).seq
        elif h.type == wire.HEARTBEAT and not h.flags & wire.END:
            start = wire.parse_heartbeat(b).lead
        else:
            return self.count("no_start")
        if len(self.streams) >= MAX_STREAMS:
            return self.count("no_room")
        st = self.streams[h.publisher, h.epoch] = Stream(self, h, source, start, now)
        return st

    def compare(self, stream, hb):
        """Tells once what the publisher's bus has configured differently."""
        mine = (self.fabric.groups, wire.MAPPING_HASH)
        theirs = (hb.groups, hb.mapping)
        key = (stream.id, stream.epoch, theirs)
        if theirs != mine and key not in self.differs:
            self.differs.add(key)
            self.out.mismatch(stream.id, stream.epoch, mine, theirs)

    def other_instance_since(self, stream):
        return any(st.id == stream.id and st.epoch != stream.epoch and st.heard > stream.heard for st in self.streams.values())

    def end_of_batch(self, now):
        for st in self.streams.values():
            st.find_missing(now)

    def tick(self, now):
        if now - self.ran > OWN_PAUSE:
            # This process did not run: what the publishers sent meanwhile is still to be read.
            for st in self.streams.values():
                st.heard += now - self.ran
                for m in st.missing.values():
                    m.found += now - self.ran
        self.ran = now
        again = [now + S]
        for key, st in list(self.streams.items()):
            again.append(st.tick(now))
            if st.state == "ended" and now - st.state_at >= ANSWER_AFTER_END or (
                    st.state == "lost" and now - st.state_at >= REMOVE_AFTER and self.other_instance_since(st)):
                del self.streams[key]
                if st.state == "ended":
                    self.ended[key] = now
                    for old in list(self.ended)[:-MAX_REMEMBERED]:
                        del self.ended[old]
        return min(again)

    def leave(self, now):
        for st in self.streams.values():
            if st.state != "ended":
                st.send_status(now, wire.LEAVING)
