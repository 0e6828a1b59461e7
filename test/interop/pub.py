#!/usr/bin/env python3
"""Publish the lines of standard input. See README.md."""

import argparse
import base64
import collections
import json
import os
import secrets
import signal
import time

import options
import wire
from fabric import Fabric, now_ns
from hashes import publisher_id, topic_id
from hello import Greeter
from sender import Publication
from listing import Topic
from timers import S

QUEUE = 1000  # maximum number of unsent messages when input is read
EPOCH_RANDOM_BITS = 20


class Bus:
    def __init__(self, args):
        self.fabric, self.counters = Fabric(args), collections.Counter()
        self.name = args.name.encode()
        self.id = publisher_id(self.name) if self.name else secrets.randbits(64) | 1
        self.epoch = time.time_ns() >> EPOCH_RANDOM_BITS << EPOCH_RANDOM_BITS | secrets.randbits(EPOCH_RANDOM_BITS)
        self.topics = {name: Topic(topic_id(name.encode()), name.encode()) for name in args.topics}
        by_group = collections.defaultdict(list)
        for t in self.topics.values():
            by_group[self.fabric.mapping.group(t.name)].append(t)
        now = now_ns()
        self.publications = {i: Publication(self, i, topics, args, now) for i, topics in by_group.items()}
        self.greeter = Greeter(self, args, list(self.topics.values()), now)
        self.by_tag = {p.tag: p for p in self.publications.values()}

    def count(self, what):
        self.counters[what] += 1

    def publish(self, name, data):
        topic = self.topics.get(name)
        if topic is None or len(data) > wire.MAX_MESSAGE:
            raise options.Wrong("%d bytes on topic %r: not a topic of this command, or too long" % (len(data), name))
        self.publications[self.fabric.mapping.group(topic.name)].messages.append((topic, data))

    def waiting(self):
        return sum(len(p.messages) for p in self.publications.values())

    def joined(self):
        """Whether no receiver waits for state."""
        return not any(p.keeper.busy() for p in self.publications.values())

    def unanswered(self):
        return sum(len(p.requests.open) for p in self.publications.values())

    def replied(self, r, data):
        name = next(t.name for t in self.topics.values() if t.id == r.topic)
        write("reply", topic=name.decode(), number=r.number, receiver="%016x" % r.receiver, data=base64.b64encode(data).decode())

    def run(self, timeout, stdin=None):
        """Waits, reads replies and performs due actions. Returns the time of the next call, and the input read."""
        packets, text = self.fabric.poll(timeout, stdin)
        now = now_ns()
        for _, b, _ in packets:
            self.handle_unicast(b, now)
        again = min(p.tick(now_ns()) for p in self.publications.values())
        return min(again, self.greeter.tick(now_ns())), text

    def handle_unicast(self, b, now):
        try:
            h = wire.parse_header(b)
            if h.type == wire.HELLO:
                differs = self.greeter.answer(b, h)
                if differs:
                    write("mismatch", publisher="%016x" % differs[0], epoch=differs[1], mine=differs[2], theirs=differs[3])
                return
        except wire.WireError as e:
            return self.count(e.reason)
        # Any publication counts a packet of an unknown group as foreign.
        self.by_tag.get(h.tag, next(iter(self.by_tag.values()))).handle_unicast(b, now)


class Lines:
    """The lines of standard input as messages."""

    def __init__(self, args):
        self.topic, self.json, self.rest = args.topics[0], args.json, b""

    def messages(self, text):
        *lines, self.rest = (self.rest + text).split(b"\n")
        if not text and self.rest:
            lines, self.rest = [self.rest], b""
        for line in lines:
            if self.json:
                try:
                    m = json.loads(line)
                    yield m["topic"], base64.b64decode(m["data"])
                except (ValueError, KeyError, TypeError) as e:
                    raise options.Wrong("not an object of topic and data in base64: %r (%r)" % (line[:80], e)) from None
            else:
                yield self.topic, line


def write(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    options.add(p)
    p.add_argument("--wait", type=int, default=0, help="number of subscribers of each topic to wait for")
    p.add_argument("--json", action="store_true", help='each line is {"topic": ..., "data": base64}; permits several topics')
    p.add_argument("--requests", action="store_true", help="send each line as a request, and write the replies")
    p.add_argument("--retain", action="store_true", help="keep the last message of each topic as state for joining subscribers")
    p.add_argument("--flow", choices=("min", "none"), default="min", help="min waits for the slowest subscriber (default min)")
    p.add_argument("--window", type=int, default=4096, help="number of packets kept for repairs (default 4096)")
    p.add_argument("--silence", type=float, default=1, help="seconds until a silent subscriber is released (default 1)")
    p.add_argument("--linger", type=float, default=5, help="seconds to wait for subscribers at the end (default 5)")
    p.add_argument("--repair-rate", type=int, default=0, help="limit of repairs, in bytes/s (default 16 KiB per round trip)")
    p.add_argument("topics", nargs="+", metavar="TOPIC")
    args = p.parse_args()
    if len(args.topics) > 1 and not args.json:
        p.error("lines of several topics need --json")
    bus, lines, stop = Bus(args), Lines(args), []
    write("ready", seed=bus.fabric.faults.seed)
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    signal.signal(signal.SIGINT, lambda *_: stop.append(1))

    published = publish(bus, args, lines, stop)
    for pub in bus.publications.values():
        pub.end(now_ns(), int(args.linger * S))
    again = 0
    while not all(pub.is_over(now_ns()) for pub in bus.publications.values()):
        again, _ = bus.run(again - now_ns())
    have = all(pub.members.have(pub.lead) for pub in bus.publications.values())
    write("summary", published=published, all_have=have, dropped=bus.fabric.faults.lost, counters=bus.counters)
    return 0 if have else 1


def publish(bus, args, lines, stop):
    """Waits for subscribers and publishes the input; returns the number of messages."""
    again = published = 0
    if args.wait:
        bus.greeter.wait(now_ns())
        for pub in bus.publications.values():
            pub.ladder.wait(now_ns())
    while not stop and any(pub.subscribers(t) < args.wait for pub in bus.publications.values() for t in pub.listing.topics):
        again, _ = bus.run(again - now_ns())
    for pub in bus.publications.values():
        pub.ladder.waiting_since = None
    bus.greeter.waits = False
    write("subscribers", count=args.wait)
    open_ = True
    while not stop and (open_ or bus.waiting() or bus.unanswered() or not bus.joined()):
        again, text = bus.run(again - now_ns(), 0 if open_ and bus.waiting() < QUEUE else None)
        if text is None:
            continue
        open_ = open_ and text != b""
        for name, data in lines.messages(text):
            bus.publish(name, data)
            published += 1
        again = 0
    return published


if __name__ == "__main__":
    options.run(main)
