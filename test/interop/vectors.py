#!/usr/bin/env python3
"""Check codec, hashes, receiver and publisher against docs/vectors (docs/protocol §21). See README.md."""

import json
import pathlib
import sys

import hashes
import received
import sealed
import signed
import wire
from mapping import Mapping

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "vectors"
FRAGMENT = ("total", "offset", "bytes")


def load(name):
    return json.loads((VECTORS / name).read_text())


def run_of(r):
    if "fragment" in r:
        total, offset, data = (r["fragment"][k] for k in FRAGMENT)
        return wire.Run(r["kind"], r["topic_id"], r["number"], None, total, offset, bytes.fromhex(data), r["run_flags"])
    if "state" in r:
        marks, round_, data = (r["state"][k] for k in ("marks", "round", "bytes"))
        return wire.Run(r["kind"], r["topic_id"], r["number"], None, marks, round_, bytes.fromhex(data), r["run_flags"])
    if "index" in r:
        answers = [(a["receiver_id"], a["question"]) for a in r["index"]["answers"]]
        return wire.Run(r["kind"], r["topic_id"], r["number"], answers, r["index"]["marks"], 0, b"", r["run_flags"])
    if "name" in r:
        return wire.Run(r["kind"], r["topic_id"], r["number"], None, 0, 0, bytes.fromhex(r["name"]), r["run_flags"])
    messages = [bytes.fromhex(m) for m in r.get("messages") or []]
    return wire.Run(r["kind"], r["topic_id"], r["number"], messages, 0, 0, b"", r["run_flags"])


def data(f):
    return wire.Data(f["sequence"], f["packet_size"], [run_of(r) for r in f["runs"]])


def heartbeat(f):
    return wire.Heartbeat(f["lead"], f["trail"], f["sent_at"], f["backoff_window_ns"], f["receivers"],
                          f["status_interval_us"], f["heartbeat_interval_us"], f["packet_size"], f["round_trip_ns"],
                          f["groups"], f["mapping"], f["checksum_kind"], f["map_parameter"], f["holder"], f["held_ms"],
                          wire.HOLD_RELEASED if f["released"] else 0, bytes.fromhex(f["name"]),
                          tuple(f["leg_tags"]), timing(f["timings"]), (f["asked_topics"] or [0])[0])


def timing(list_):
    return wire.Timing(*(list_[0][k] for k in ("clock", "timed_packet", "timed_at_ns", "next"))) if list_ else None


def ranges(f):
    return wire.Ranges(f["receiver_id"], f["base"], f["reason"], f["wait_us"], [tuple(r) for r in f["first_and_count"]])


def status(f):
    return wire.Status(f["receiver_id"], f["next"], f["limit"], f["echo"], f["echo_delay_ns"], f["lost"], f["unread"],
                       f["topic_ids"], bytes.fromhex(f["name"]), bytes.fromhex(f.get("tag", "")), f["since"], f["question"])


def hello(f):
    bits = wire.HELLO_ANSWER * f["answer"] | wire.HELLO_WAITS * f["waits"]
    return wire.Hello(f["groups"], f["mapping"], f["checksum_kind"], f["packet_size"], f["topics"], bits,
                      f["map_parameter"], bytes.fromhex(f["name"]), bytes.fromhex(f["topic_filter"]))


def reply(f):
    return wire.Reply(f["receiver_id"], f["topic_id"], f["number"], f["total"], f["offset"], bytes.fromhex(f["bytes"]))


def recall(f):
    return wire.Recall([wire.Recalled(r["receiver_id"], r["topic_id"], r["number"], r["offset"]) for r in f["replies"]])


# For each type: conversion of the vector's fields, parser, builder.
CODECS = {
    wire.DATA: (data, wire.parse_data, lambda h, x: wire.put_data(h, *x)),
    wire.HEARTBEAT: (heartbeat, wire.parse_heartbeat, wire.put_heartbeat),
    wire.NAK: (ranges, wire.parse_ranges, None),
    wire.NCF: (ranges, wire.parse_ranges, None),
    wire.GONE: (ranges, wire.parse_ranges, None),
    wire.STATUS: (status, wire.parse_status, wire.put_status),
    wire.HELLO: (hello, wire.parse_hello, wire.put_hello),
    wire.REPLY: (reply, wire.parse_reply, wire.put_reply),
    wire.RECALL: (recall, wire.parse_recall, lambda h, x: wire.put_recall(h, x.replies)),
}


def build_ranges(h, x):
    return wire.put_ranges(h, x.receiver, x.ranges, x.reason, x.wait, base=x.base)


def check_packet(v, same):
    name, b, f = v["name"], bytes.fromhex(v["hex"]), v["header"]
    header = wire.Header(f["type"], f["flags"], f["group_tag"], f["publisher"], f["epoch"])
    fields, parse, build = CODECS[header.type]
    want = fields(v["fields"])
    same(name, "header", wire.parse_header(b), header)
    wire.verify(b, False)
    same(name, "fields", parse(b), want)
    built = (build or build_ranges)(header, want) + bytes.fromhex(v["fields"].get("padding", ""))
    same(name, "built", wire.set_checksum(built) if header.flags & wire.CHECKSUM else built, b)


def check_hashes(v, same):
    for t in v["topics"]:
        topic = hashes.topic_id(t["name"].encode())
        same(t["name"], "topic id", topic, t["topic_id"])
        same(t["name"], "filter bits", hashes.filter_bits(topic), t["filter_bits"])
        for groups, group in t["group_of"].items():
            same(t["name"], "group of " + groups, Mapping("hash", int(groups)).group(t["name"].encode()), group)
    for x in v["collisions"]:
        for name in x["names"]:
            same(name, "topic id", hashes.topic_id(name.encode()), x["topic_id"])
    for m in v["mappings"]:
        x = Mapping(m["map"], m["groups"], m.get("lines"))
        same(m["map"], "settings", x.settings(), (m["groups"], m["mapping"], m["map_parameter"]))
        for name, group in m["group_of"].items():
            same(name, "group by " + m["map"], x.group(name.encode()), group)
    for p in v["publishers"]:
        same(p["name"], "publisher id", hashes.publisher_id(p["name"].encode()), p["publisher_id"])
    for u in v["udp"]:
        address = hashes.group_address(u["base"], u["group"], u["port"])
        same(u["address"], "address", address, u["address"])
        same(u["address"], "group tag", hashes.group_tag(address), u["group_tag"])


def check_sealed(v, same):
    keys = {k["id"]: bytes.fromhex(k["secret"]) for k in v["keys"]}
    for x in v["good"]:
        salt, train, packet = (bytes.fromhex(x[k]) for k in ("salt", "train", "packet"))
        p = sealed.seal(keys[x["key"]], x["key"], x["index"], x["time"], x["counter"], salt, train, packet)
        same(x["name"], "sealed", p.hex(), x["sealed"])
        same(x["name"], "opened", sealed.open_(keys, x["index"], x["time"], bytes.fromhex(x["sealed"])), (packet, None))
    for x in v["sequences"]:
        r = sealed.Receiver(keys, x["index"])
        for i, p in enumerate(x["packets"]):
            same(x["name"], "packet %d" % i, r.open(p["now"], bytes.fromhex(p["sealed"]))[1], p.get("fails"))
    for x in v["bad"]:
        r = sealed.Receiver(keys, x["index"])
        if "after" in x:
            same(x["name"], "previous packet", r.open(x["now"], bytes.fromhex(x["after"]))[1], None)
        same(x["name"], "refused", r.open(x["now"], bytes.fromhex(x["sealed"])), (None, x["fails"]))


def check_signed(v, same):
    seeds = {k["id"]: bytes.fromhex(k["seed"]) for k in v["keys"]}
    keys = {}
    for k in v["keys"]:
        key = signed.public(bytes.fromhex(k["seed"]))
        same(k["public"], "key", (key.hex(), signed.key_id(key)), (k["public"], k["id"]))
        if k["trusted"]:
            keys[k["id"]] = key
    for x in v["good"]:
        packets = [bytes.fromhex(p) for p in x["packets"]]
        root, made = signed.sign_train(seeds[x["key"]], x["time"], x["counter"], bytes.fromhex(x["salt"]), packets)
        same(x["name"], "root", root.hex(), x["root"])
        same(x["name"], "signed", [p.hex() for p in made], x["signed"])
        for p, s in zip(packets, made):
            same(x["name"], "opened", signed.open_(keys, x["time"], s), (p, None))
            same(x["name"], "content", signed.content(s), p)
    for x in v["bad"]:
        r = signed.Receiver(keys)
        if "after" in x:
            same(x["name"], "previous packet", r.open(x["now"], bytes.fromhex(x["after"]))[1], None)
        same(x["name"], "refused", r.open(x["now"], bytes.fromhex(x["signed"])), (None, x["fails"]))
    for x in v["replies"]:
        data = bytes.fromhex(x["data"])
        same(x["name"], "proof", signed.prove_reply(seeds[x["key"]], x, data).hex(), x["proof"])
    for x in v["replies"] + v["bad_replies"]:
        got = signed.check_reply(keys, x, bytes.fromhex(x["data"]), bytes.fromhex(x["proof"]))
        same(x["name"], "judged", got, x.get("fails"))


class Checks:
    def __init__(self):
        self.done, self.failed = 0, 0

    def same(self, name, what, got, want):
        self.done += 1
        if got != want:
            self.failed += 1
            print("%s: %s\n  got  %s\n  want %s" % (name, what, got, want))


def main():
    c = Checks()
    for v in load("packets.json")["packets"]:
        try:
            check_packet(v, c.same)
        except wire.WireError as e:
            c.same(v["name"], "refused", e.reason, None)
    check_hashes(load("hashes.json"), c.same)
    received.check_all(load("received.json"), c.same)
    check_sealed(load("sealed.json"), c.same)
    check_signed(load("signed.json"), c.same)
    print("%d checks, %d failed" % (c.done, c.failed))
    return 1 if c.failed or not c.done else 0


if __name__ == "__main__":
    sys.exit(main())
