"""The packet format of Fanfare, version 1: docs/protocol §2 and §13.

Parsers return a named tuple, or raise WireError with the counter of §13.1.
"""

import struct
from collections import namedtuple

import packed
from hashes import crc32c

MAGIC, VERSION = b"Ff", 1
HEADER = struct.Struct("<2sBBBBBxIIQQ")
HEADER_LEN = HEADER.size  # 32
MIN_PACKET, MAX_PACKET = 512, 65507
MAX_SEQ, MAX_MESSAGE = 1 << 62, 16 << 20
MAX_NAME, MAX_TOPIC_NAME = 64, 255
MAX_LEGS, MAX_NAK = 4, 1200
MAX_RUNS = MAX_PACKET - 48

DATA, HEARTBEAT, NAK, NCF, GONE, STATUS, HELLO, REPLY, RECALL = TYPES = (1, 2, 4, 5, 6, 7, 8, 9, 10)

# Bits of the flags byte.
JOINING, SIGNED = 1, 1  # in a status, in a reply
REPLY_PROOF = 68  # bytes of the proof after a signed reply
REPAIR, END, SOLICIT, CHECKSUM, LEAVING, WANT_TOPICS, MORE_TOPICS, FREE = (1 << i for i in range(8))
TAGGED, WANT_STATE = 0x02, 0x04  # in a status
STATE = 0x10  # in a heartbeat

RUN_PADDING, RUN_MESSAGES, RUN_FRAGMENT, RUN_TOPIC, RUN_STATE, RUN_INDEX = range(6)
RUN_REQUEST, HOLD_RELEASED = 1, 1  # of a run, of a heartbeat
REASON_NONE, REASON_QUEUED, REASON_OVERWRITTEN = range(3)
MAPPING_HASH, MAPPING_PREFIX, MAPPING_TABLE = 1, 2, 3
CHECKSUM_NONE, CHECKSUM_CRC32C = range(2)
HELLO_ANSWER, HELLO_WAITS = 1, 2


class WireError(Exception):
    """A refused packet: malformed, foreign, version or damaged."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


Header = namedtuple("Header", "type flags tag publisher epoch")


def put_header(h):
    return HEADER.pack(MAGIC, VERSION, h.type, h.flags, 0, 0, h.tag, 0, h.publisher, h.epoch)


def need(good, reason="malformed"):
    if not good:
        raise WireError(reason)


def parse_header(b):
    need(len(b) >= 2)
    need(b[:2] == MAGIC, "foreign")
    need(len(b) >= HEADER_LEN)
    _, version, kind, flags, codec, key_epoch, tag, _, publisher, epoch = HEADER.unpack_from(b)
    need(version == VERSION and key_epoch == 0, "version")
    need(codec == packed.CODEC_NONE or kind == DATA, "version")
    need(kind in TYPES, "foreign")
    return Header(kind, flags, tag, publisher, epoch)


def checksum(b):
    """The checksum of all bytes except the flags byte and the checksum field."""
    return crc32c(b[16:], crc32c(b[5:12], crc32c(b[:4])))


def set_checksum(b):
    """Returns the packet b with a checksum."""
    b = bytearray(b)
    b[4] |= CHECKSUM
    struct.pack_into("<I", b, 12, checksum(b))
    return bytes(b)


def verify(b, required):
    if b[4] & CHECKSUM:
        need(struct.unpack_from("<I", b, 12)[0] == checksum(b), "damaged")
    else:
        need(not required, "damaged")


def with_flags(b, flags):
    """Returns the packet b with other flags; the checksum flag is kept."""
    b = bytearray(b)
    b[4] = flags | (b[4] & CHECKSUM)
    return bytes(b)


# Data

DATA_HEADER = struct.Struct("<QHxxxxxx")
DATA_HEADER_LEN = HEADER_LEN + DATA_HEADER.size  # 48
RUN_HEADER = struct.Struct("<BBHQQ")
RUN_HEADER_LEN = RUN_HEADER.size  # 20
FRAGMENT_HEADER = struct.Struct("<II")
STATE_HEADER = struct.Struct("<BxxxI")
STATE_BEGINS, STATE_ENDS, STATE_FIRST, STATE_LAST, STATE_FAILED = (1 << i for i in range(5))
INDEX_HEADER, ANSWER = struct.Struct("<Bxxx"), struct.Struct("<QI")
INDEX_BEGINS, INDEX_ENDS, INDEX_ALL = (1 << i for i in range(3))

Data = namedtuple("Data", "seq packet_size runs")  # runs: None if they cannot be read (§13.6)
# A run of messages has a list of them; a fragment total, offset and data; a topic run its name as data. A state run has
# its marks as total, and its round as offset; an index run its marks as total, and (receiver, question) as messages.
Run = namedtuple("Run", "kind topic number messages total offset data flags", defaults=(0,))


def max_in_packet(packet_size):
    return packet_size - DATA_HEADER_LEN - RUN_HEADER_LEN - 2


def put_data(h, seq, packet_size, runs):
    return put_header(h) + DATA_HEADER.pack(seq, packet_size) + b"".join(put_run(r) for r in runs)


def put_run(r):
    if r.kind == RUN_MESSAGES:
        body = b"".join(struct.pack("<H", len(m)) + m for m in r.messages)
    elif r.kind == RUN_FRAGMENT:
        body = FRAGMENT_HEADER.pack(r.total, r.offset) + r.data
    elif r.kind == RUN_STATE:
        body = STATE_HEADER.pack(r.total, r.offset) + r.data
    elif r.kind == RUN_INDEX:
        body = INDEX_HEADER.pack(r.total) + b"".join(ANSWER.pack(*x) for x in r.messages)
    else:
        body = r.data
    return RUN_HEADER.pack(r.kind, r.flags, len(body), r.topic, r.number) + body


def parse_data(b):
    need(len(b) >= DATA_HEADER_LEN)
    seq, size = DATA_HEADER.unpack_from(b, HEADER_LEN)
    need(seq < MAX_SEQ and MIN_PACKET <= size <= MAX_PACKET and len(b) <= size)
    if b[5] == packed.CODEC_NONE:
        return Data(seq, size, parse_runs(b))
    length, dictionary = struct.unpack_from("<HI", b, 42)  # §26.1
    need(0 < len(b) - DATA_HEADER_LEN < length <= MAX_RUNS)  # §26.3
    try:
        return Data(seq, size, parse_runs(b[:DATA_HEADER_LEN] + packed.known.unpack(b[5], dictionary, b[DATA_HEADER_LEN:], length)))
    except packed.Corrupt:
        raise WireError("malformed") from None
    except packed.Unknown:
        return Data(seq, size, None)


def data_seq(b):
    """The sequence of a packet that may be malformed; -1 if it has none."""
    return DATA_HEADER.unpack_from(b, HEADER_LEN)[0] if len(b) >= DATA_HEADER_LEN else -1


def parse_runs(b):
    runs, at, unknown = [], DATA_HEADER_LEN, False
    while at < len(b) and b[at] != RUN_PADDING:
        need(at + RUN_HEADER_LEN <= len(b))
        kind, flags, length, topic, number = RUN_HEADER.unpack_from(b, at)
        at += RUN_HEADER_LEN
        need(at + length <= len(b) and number < MAX_SEQ)
        body, at = b[at:at + length], at + length
        if kind not in (RUN_MESSAGES, RUN_FRAGMENT, RUN_TOPIC, RUN_STATE, RUN_INDEX):
            unknown = True
        elif kind == RUN_MESSAGES:
            runs.append(Run(kind, topic, number, parse_messages(body), 0, 0, b"", flags))
        elif kind == RUN_FRAGMENT:
            runs.append(parse_fragment(topic, number, body, flags))
        elif kind == RUN_STATE:
            runs.append(parse_state(topic, number, body, flags))
        elif kind == RUN_INDEX:
            runs.append(parse_index(topic, number, body, flags))
        else:
            runs.append(parse_topic(topic, number, body, flags))
    return None if unknown else runs


def parse_messages(body):
    messages, at = [], 0
    while at < len(body):
        need(at + 2 <= len(body))
        end = at + 2 + struct.unpack_from("<H", body, at)[0]
        need(end <= len(body))
        messages.append(bytes(body[at + 2:end]))
        at = end
    return messages


def parse_fragment(topic, number, body, flags):
    need(len(body) > FRAGMENT_HEADER.size)
    total, offset = FRAGMENT_HEADER.unpack_from(body)
    data = bytes(body[FRAGMENT_HEADER.size:])
    need(offset + len(data) <= total <= MAX_MESSAGE)
    return Run(RUN_FRAGMENT, topic, number, None, total, offset, data, flags)


def parse_state(topic, number, body, flags):
    need(len(body) >= STATE_HEADER.size)
    marks, round_ = STATE_HEADER.unpack_from(body)
    return Run(RUN_STATE, topic, number, None, marks, round_, bytes(body[STATE_HEADER.size:]), flags)


def parse_index(topic, number, body, flags):
    need(len(body) >= INDEX_HEADER.size and (len(body) - INDEX_HEADER.size) % ANSWER.size == 0)
    return Run(RUN_INDEX, topic, number, list(ANSWER.iter_unpack(body[INDEX_HEADER.size:])), body[0], 0, b"", flags)


def parse_topic(topic, number, body, flags):
    need(1 <= len(body) <= MAX_TOPIC_NAME)
    return Run(RUN_TOPIC, topic, number, None, 0, 0, bytes(body), flags)


# Heartbeat

HEARTBEAT_BODY = struct.Struct("<QQQIIIIHBxIIBBHQIBBBB")
HEARTBEAT_LEN = HEADER_LEN + HEARTBEAT_BODY.size  # 104

Heartbeat = namedtuple("Heartbeat", "lead trail sent_at backoff receivers status_interval interval packet_size rtt"
                       " groups mapping checksum map_param holder held hold name legs timing asked", defaults=[(), None, 0])  # legs: the tags of several
Timing = namedtuple("Timing", "clock packet at next")
TIMING = struct.Struct("<QQQQ")
MAX_TIMINGS = MAX_ASKED = 1


def put_heartbeat(h, x):
    name = x.name[:MAX_NAME]
    return put_header(h) + HEARTBEAT_BODY.pack(
        x.lead, x.trail, x.sent_at, x.backoff, x.receivers, x.status_interval, x.interval, x.packet_size, 1 if x.asked else 0, x.rtt,
        x.groups, x.mapping, x.checksum, x.map_param, x.holder, x.held, x.hold, len(name), len(x.legs), 1 if x.timing else 0) + name + struct.pack(
            "<%dI" % len(x.legs), *x.legs) + (struct.pack("<Q", x.asked) if x.asked else b"") + (TIMING.pack(*x.timing) if x.timing else b"")


def parse_heartbeat(b):
    need(len(b) >= HEARTBEAT_LEN)
    f = HEARTBEAT_BODY.unpack_from(b, HEADER_LEN)
    name = parse_name(b, HEARTBEAT_LEN, f[-3])
    asks, legs, timings, at = f[8], f[-2], f[-1], HEARTBEAT_LEN + len(name)
    behind = at + 4 * legs + 8 * asks
    need(legs <= MAX_LEGS and asks <= MAX_ASKED and timings <= MAX_TIMINGS and behind + timings * TIMING.size <= len(b))
    timing = Timing(*TIMING.unpack_from(b, behind)) if timings else None
    if timing and not timing.clock:
        timing = None
    asked = struct.unpack_from("<Q", b, behind - 8)[0] if asks else 0
    x = Heartbeat(*f[:8], *f[9:-3], name, struct.unpack_from("<%dI" % legs, b, at), timing, asked)
    need(x.trail <= x.lead <= MAX_SEQ and MIN_PACKET <= x.packet_size <= MAX_PACKET)
    return x


def parse_name(b, at, length):
    need(length <= MAX_NAME and at + length <= len(b))
    return bytes(b[at:at + length])


# NAK, NCF and gone

RANGES_HEADER = struct.Struct("<QQHBxI")

Ranges = namedtuple("Ranges", "receiver base reason wait ranges")


def put_varint(v):
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def put_ranges(h, receiver, ranges, reason=REASON_NONE, wait=0, limit=MAX_NAK, base=None):
    """ranges are (first, count) in ascending order; those beyond limit bytes are omitted."""
    base = end = ranges[0][0] if base is None else base
    body, count = b"", 0
    for first, n in ranges:
        more = put_varint(first - end) + put_varint(n)
        if HEADER_LEN + RANGES_HEADER.size + len(body) + len(more) > limit or count == 0xFFFF:
            break
        body, count, end = body + more, count + 1, first + n
    return put_header(h) + RANGES_HEADER.pack(receiver, base, count, reason, wait) + body


def parse_ranges(b):
    at = HEADER_LEN + RANGES_HEADER.size
    need(len(b) >= at)
    receiver, base, count, reason, wait = RANGES_HEADER.unpack_from(b, HEADER_LEN)
    need(base < MAX_SEQ and count > 0)
    ranges, end = [], base
    for _ in range(count):
        skip, at = parse_varint(b, at)
        n, at = parse_varint(b, at)
        first, end = end + skip, end + skip + n
        need(skip < MAX_SEQ and 0 < n < MAX_SEQ and end <= MAX_SEQ)
        ranges.append((first, n))
    return Ranges(receiver, base, reason, wait, ranges)


def parse_varint(b, at):
    v = shift = 0
    while True:
        need(at < len(b))
        c, at = b[at], at + 1
        v |= (c & 0x7F) << shift
        shift += 7
        need(v < 1 << 64)
        if c < 0x80:
            return v, at
        need(shift < 70)


# Status

STATUS_BODY = struct.Struct("<QQQQIHHIIQIxxxx")
STATUS_LEN = HEADER_LEN + STATUS_BODY.size  # 96
MAX_STATUS_TOPICS = (MIN_PACKET - STATUS_LEN - MAX_NAME) // 8
MAX_TAG = 32
MAX_TAGGED_TOPICS = (MIN_PACKET - STATUS_LEN - MAX_NAME - 1 - MAX_TAG) // 8

Status = namedtuple("Status", "receiver next limit echo echo_delay lost unread topics name tag since question", defaults=(b"", 0, 0))


def max_topics(flags):
    return MAX_TAGGED_TOPICS if flags & TAGGED else MAX_STATUS_TOPICS


def put_status(h, x):
    topics, name, tag = x.topics, x.name[:MAX_NAME], x.tag[:MAX_TAG]
    h = h._replace(flags=h.flags & ~TAGGED | (TAGGED if tag else 0))
    if len(topics) > max_topics(h.flags):
        topics, h = topics[:max_topics(h.flags)], h._replace(flags=h.flags | MORE_TOPICS)
    return (put_header(h)
            + STATUS_BODY.pack(x.receiver, x.next, x.limit, x.echo, x.echo_delay, len(topics), len(name),
                               x.lost & 0xFFFFFFFF, x.unread, x.since, x.question)
            + b"".join(struct.pack("<Q", t) for t in topics) + name
            + (bytes([len(tag)]) + tag if tag else b""))


def parse_status(b):
    need(len(b) >= STATUS_LEN)
    receiver, next_, limit, echo, delay, topics, name_len, lost, unread, since, question = STATUS_BODY.unpack_from(b, HEADER_LEN)
    need(topics <= max_topics(b[4]) and STATUS_LEN + 8 * topics <= len(b))
    need(receiver != 0 and next_ <= limit <= MAX_SEQ and since <= MAX_SEQ)
    ids = struct.unpack_from("<%dQ" % topics, b, STATUS_LEN)
    name = parse_name(b, STATUS_LEN + 8 * topics, name_len)
    return Status(receiver, next_, limit, echo, delay, lost, unread, list(ids), name,
                  parse_tag(b, STATUS_LEN + 8 * topics + name_len), since, question)


def parse_tag(b, at):
    if not b[4] & TAGGED:
        return b""
    need(at < len(b) and 1 <= b[at] <= MAX_TAG and at + 1 + b[at] <= len(b))
    return bytes(b[at + 1:at + 1 + b[at]])


# Hello

HELLO_BODY = struct.Struct("<IBBHIBBH64s64s")
HELLO_LEN = HEADER_LEN + HELLO_BODY.size  # 176

Hello = namedtuple("Hello", "groups mapping checksum packet_size topics bits map_param name filter")


def put_hello(h, x):
    return put_header(h) + HELLO_BODY.pack(x.groups, x.mapping, x.checksum, x.packet_size, x.topics, x.bits,
                                           len(x.name), x.map_param, x.name, x.filter)


def parse_hello(b):
    need(len(b) >= HELLO_LEN)
    f = HELLO_BODY.unpack_from(b, HEADER_LEN)
    need(f[6] <= MAX_NAME)
    return Hello(*f[:6], f[7], f[8][:f[6]], f[9])


# Reply and recall

REPLY_BODY = struct.Struct("<QQQIIHxxxxxx")
REPLY_LEN = HEADER_LEN + REPLY_BODY.size  # 72
RECALL_HEADER = struct.Struct("<Hxxxxxx")
RECALL_LEN = HEADER_LEN + RECALL_HEADER.size  # 40
RECALLED = struct.Struct("<QQQIxxxx")

Reply = namedtuple("Reply", "receiver topic number total offset data")
Recall = namedtuple("Recall", "replies")
Recalled = namedtuple("Recalled", "receiver topic number offset")


def put_reply(h, x):
    return put_header(h) + REPLY_BODY.pack(x.receiver, x.topic, x.number, x.total, x.offset, len(x.data)) + x.data


def parse_reply(b):
    need(len(b) >= REPLY_LEN)
    receiver, topic, number, total, offset, length = REPLY_BODY.unpack_from(b, HEADER_LEN)
    need(number < MAX_SEQ and offset + length <= total <= MAX_MESSAGE and (length > 0 or total == 0))
    need(REPLY_LEN + length <= len(b))
    need(not b[4] & SIGNED or total >= REPLY_PROOF)
    return Reply(receiver, topic, number, total, offset, bytes(b[REPLY_LEN:REPLY_LEN + length]))


def put_recall(h, replies):
    return put_header(h) + RECALL_HEADER.pack(len(replies)) + b"".join(RECALLED.pack(*r) for r in replies)


def parse_recall(b):
    need(len(b) >= RECALL_LEN)
    count, = RECALL_HEADER.unpack_from(b, HEADER_LEN)
    need(count > 0 and RECALL_LEN + count * RECALLED.size <= len(b))
    replies = [Recalled(*RECALLED.unpack_from(b, RECALL_LEN + i * RECALLED.size)) for i in range(count)]
    need(all(r.number < MAX_SEQ and r.offset <= MAX_MESSAGE for r in replies))
    return Recall(replies)
