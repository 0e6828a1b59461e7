#!/usr/bin/env python3
"""Subscribe to topics and write received messages, one JSON object per line. See README.md."""

import argparse
import base64
import collections
import json
import pathlib
import secrets
import signal
import time

import options
import packed
import zstd
from fabric import Fabric, now_ns
from hashes import topic_id
from names import is_pattern
from receiver import Group

FAREWELLS = 3


class Out:
    def __init__(self):
        self.counters, self.received, self.over = collections.Counter(), 0, 0

    def write(self, kind, **fields):
        print(json.dumps({"type": kind, **fields}), flush=True)

    def count(self, what):
        self.counters[what] += 1

    def message(self, stream, topic, number, data, kind="message"):
        self.received += kind == "message"
        self.write(kind, topic=topic, number=number, publisher="%016x" % stream.id, epoch=stream.epoch,
                   data=base64.b64encode(data).decode())

    def gap(self, stream, topic, first, count):
        self.count("gaps")
        self.write("gap", topic=topic, first=first, count=count, publisher="%016x" % stream.id, epoch=stream.epoch)

    def state(self, stream, topic, number, data):
        self.message(stream, topic, number, data, "state")

    def no_state(self, stream, why):
        self.write("no state", publisher="%016x" % stream.id, epoch=stream.epoch, why=why)

    def event(self, kind, stream):
        if kind in ("ended", "lost", "restarted"):
            self.over += 1
        name = stream.heartbeat.name.decode("utf-8", "replace") if stream.heartbeat else ""
        self.write("publisher", event=kind, publisher="%016x" % stream.id, epoch=stream.epoch, name=name)

    def mismatch(self, publisher, epoch, mine, theirs):
        self.write("mismatch", publisher="%016x" % publisher, epoch=epoch, mine=mine, theirs=theirs)


def add_dictionary(name):
    try:
        packed.known.add(pathlib.Path(name).read_bytes())
    except (OSError, zstd.Corrupt) as e:
        raise options.Wrong("--dict: %s" % e) from None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    options.add(p)
    p.add_argument("--recovery", type=float, default=2, help="seconds until a missing packet is given up (default 2)")
    p.add_argument("--window", type=int, default=4096, help="maximum number of packets that wait for a missing one (default 4096)")
    p.add_argument("--ends", type=int, default=1,
                   help="exit after this number of streams has ended or was lost; 0: never (default 1)")
    p.add_argument("--echo", action="store_true", help="reply to each request with its content")
    p.add_argument("--from", dest="begin", choices=("live", "state"), default="live", help="begin with live messages or with state")
    p.add_argument("--dict", action="append", default=[], metavar="FILE", help="a dictionary for compressed packets")
    p.add_argument("--tag", default="", help="tag of this subscriber for flow control")
    p.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or a pattern with * and >")
    args = p.parse_args()
    for name in args.dict:
        add_dictionary(name)
    fabric, out = Fabric(args), Out()
    patterns = [name for name in args.topics if is_pattern(name)]
    if patterns and args.begin != "live":
        raise options.Wrong("--from %s: patterns support live messages only" % args.begin)
    by_group = collections.defaultdict(dict, {i: {} for i in range(args.groups if patterns else 0)})
    for name in args.topics:
        if name not in patterns:
            by_group[fabric.mapping.group(name.encode())][topic_id(name.encode())] = name
    receiver = secrets.randbits(64) | 1
    groups = {i: Group(fabric, i, topics, receiver, args, out, patterns=patterns) for i, topics in by_group.items()}
    out.write("ready", seed=fabric.faults.seed)

    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    signal.signal(signal.SIGINT, lambda *_: stop.append(1))
    again = now_ns()
    while not stop and not 0 < args.ends <= out.over:
        packets, _ = fabric.poll(again - now_ns())
        now = now_ns()
        for group, b, source in packets:
            if group is not None:
                groups[group].handle(b, source, now)
        for g in groups.values():
            g.end_of_batch(now)
        again = min(g.tick(now_ns()) for g in groups.values())
    linger(fabric, groups, out, stop)
    out.write("summary", received=out.received, dropped=fabric.faults.lost, counters=out.counters)


def linger(fabric, groups, out, stop):
    """Leaves live publishers, and answers ended ones for a while."""
    for _ in range(FAREWELLS):
        for g in groups.values():
            g.leave(now_ns())
        time.sleep(0.002)
    while not stop and any(st.state == "ended" for g in groups.values() for st in g.streams.values()):
        again = min(g.tick(now_ns()) for g in groups.values())
        for group, b, source in fabric.poll(again - now_ns())[0]:
            if group is not None:
                groups[group].handle(b, source, now_ns())


if __name__ == "__main__":
    options.run(main)
