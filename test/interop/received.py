"""Tests receiver and publisher with the packets of docs/vectors/received.json, valid and invalid."""

import argparse

import hashes
from mapping import Mapping
from receiver import Group
from sender import Publication
from listing import Topic
from timers import MS

TAG, NOW = 67305985, 10**15
WINDOW, LEAD, TRAIL = 32, 10, 2
# The counters of both implementations.
COMMON = ("malformed", "foreign", "version", "own", "damaged", "stale", "duplicates", "unstarted", "implausible", "overrun",
          "unreadable", "statuses_stale", "receivers_left", "naks", "nak_invalid", "replies_late")


class NoFabric:
    """A fabric that discards packets. Its only group has the tag of the vectors."""

    mapping = Mapping("hash", 1)

    def tag(self, group):
        return TAG

    def room(self):
        return WINDOW

    join = send = reply = lambda *_: None


class Counts(dict):
    def count(self, what):
        self[what] = self.get(what, 0) + 1

    def replied(self, reply, data):
        self.count("replies")


class Out(Counts):
    """The output of a subscriber."""

    def __init__(self):
        super().__init__()
        self.delivered, self.gaps = [], []

    def message(self, stream, topic, number, data):
        self.delivered.append(data.hex())

    def gap(self, stream, topic, first, count):
        self.gaps.append([first, count])

    event = mismatch = lambda *_: None


class Bus(Counts):
    id, epoch, name, fabric = 119, 3, b"", NoFabric()


def receiver(case):
    out = Out()
    args = argparse.Namespace(name="", tag="", checksum=case["checksum_demanded"], recovery=2, window=WINDOW)
    g = Group(NoFabric(), 0, {hashes.topic_id(b"a.b"): "a.b"}, 66, args, out, own=(153, 4))
    return out, out, lambda b: g.handle(b, ("", 0), NOW)


def publisher(case):
    bus = Bus()
    args = argparse.Namespace(size=512, window=LEAD - TRAIL, checksum=case["checksum_demanded"], flow="min", silence=1,
                              repair_rate=0)
    topic = Topic(hashes.topic_id(b"a.b"), b"a.b")
    p = Publication(bus, 0, [topic], args, NOW - MS)
    p.sent_at = 1
    for _ in range(LEAD):
        p.messages.append((topic, bytes(400)))
    p.send_new(NOW - MS)
    return bus, None, lambda b: p.handle_unicast(b, NOW)


def check(cases, make, same):
    for c in cases:
        counts, out, process = make(c)
        for b in c["before"]:
            process(bytes.fromhex(b))
        before = dict(counts)
        if out is not None:
            out.delivered, out.gaps = [], []
        process(bytes.fromhex(c["packet"]))
        got = {k: counts[k] - before.get(k, 0) for k in COMMON if counts.get(k, 0) != before.get(k, 0)}
        same(c["name"], "counts (%s)" % c["rule"], got, {k: n for k, n in c["counts"].items() if k in COMMON})
        if out is not None:
            same(c["name"], "delivers (%s)" % c["rule"], out.delivered, c["delivers"] or [])
            same(c["name"], "gaps (%s)" % c["rule"], out.gaps, c.get("gaps", []))


def check_all(v, same):
    check(v["receiver"], receiver, same)
    check(v["publisher"], publisher, same)
