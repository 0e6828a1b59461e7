"""Requests and replies, of publisher and receiver (docs/protocol §24)."""

import wire
from timers import MS, S, RoundTrip

KEEP, MIN_RETRY, FIRST, MAX_RETRY = 10 * S, 1 * MS, 10 * MS, 250 * MS


def burst(packet_size):
    """The bytes of a reply that are sent at a time (§24.2)."""
    return min(32, max(1, 65536 // packet_size)) * (packet_size - wire.REPLY_LEN)


class Replies:
    """The replies of a receiver to the requests of one stream."""

    def __init__(self, stream):
        self.stream, self.kept = stream, {}  # by (topic, number): [bytes, last time sent]

    def respond(self, topic, number, data, now):
        self.kept = {k: v for k, v in self.kept.items() if now - v[1] < KEEP}
        if (topic, number) in self.kept:
            return self.stream.out.count("executed_twice")
        self.kept[topic, number] = [data, now]
        self.send(topic, number, 0, now)

    def send(self, topic, number, offset, now):
        st, kept = self.stream, self.kept[topic, number]
        data, kept[1] = kept[0], now
        end = min(len(data), offset + burst(st.packet_size))
        while True:
            piece = data[offset:min(end, offset + st.packet_size - wire.REPLY_LEN)]
            st.group.reply(st, wire.put_reply(st.header(wire.REPLY), wire.Reply(
                st.group.receiver, topic, number, len(data), offset, piece)))
            offset += len(piece)
            if offset >= end:
                return

    def recall(self, b, now):
        for r in wire.parse_recall(b).replies:
            kept = self.kept.get((r.topic, r.number))
            if r.receiver != self.stream.group.receiver or kept is None:
                continue  # a request is not executed again
            if r.offset < len(kept[0]) or r.offset == 0:
                self.stream.out.count("recalled")
                self.send(r.topic, r.number, r.offset, now)


class Request:
    def __init__(self, receivers, now):
        self.sent = now
        # Received bytes, time of the next recall, number of recalls, total size, whether a piece has another total.
        self.pending = {r: [bytearray(), now + FIRST, 0, 0, False] for r in receivers}


class Requests:
    """The open requests of a publisher in one group."""

    def __init__(self, publication, on_reply):
        self.p, self.on_reply = publication, on_reply
        self.open, self.rtt = {}, RoundTrip()

    def published(self, topic, number, now):
        members = self.p.members.by_id
        self.open[topic, number] = Request([r for r, m in members.items() if topic in m.topics], now)

    def retry(self):
        return min(MAX_RETRY, max(MIN_RETRY, self.rtt.smoothed + 4 * self.rtt.deviation)) if self.rtt.samples else FIRST

    def reply(self, r, now):
        request = self.open.get((r.topic, r.number))
        reply = request and request.pending.get(r.receiver)
        if not reply:
            return self.p.count("replies_late")
        data = reply[0]
        if data and reply[3] != r.total:
            reply[4] = True
            return self.p.count("replies_inconsistent")
        if r.offset > len(data) or r.offset + len(r.data) <= len(data) and r.total:
            return self.p.count("replies_duplicate" if r.offset < len(data) else "replies_early")
        if not data and not reply[2]:
            self.rtt.sample_cut(now - request.sent)
        data += r.data[len(data) - r.offset:]
        reply[3] = r.total
        if len(data) < r.total:
            reply[1] = now if len(data) % burst(self.p.size) == 0 else now + self.retry()
            return
        del request.pending[r.receiver]
        self.on_reply(r, bytes(data))
        if not request.pending:
            del self.open[r.topic, r.number]

    def tick(self, now):
        """Sends due recalls, and returns the time of the next call."""
        again, due = [now + S], []
        for (topic, number), request in list(self.open.items()):
            for receiver, reply in list(request.pending.items()):
                if receiver not in self.p.members.by_id:
                    self.p.count("responders_gone")
                    del request.pending[receiver]
                    continue
                if now >= reply[1]:
                    if reply[4]:
                        reply[0], reply[4] = bytearray(), False
                    due.append(wire.Recalled(receiver, topic, number, len(reply[0])))
                    reply[1], reply[2] = now + min(MAX_RETRY, self.retry() << min(reply[2], 8)), reply[2] + 1
                again.append(reply[1])
            if not request.pending:
                del self.open[topic, number]
        per_packet = (self.p.size - wire.RECALL_LEN) // wire.RECALLED.size
        for i in range(0, len(due), per_packet):
            self.p.count("recalls")
            self.p.send(wire.put_recall(self.p.header(wire.RECALL), due[i:i + per_packet]))
        return min(again)
