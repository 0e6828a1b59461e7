"""The hashes of docs/protocol §3.8 to §3.12, §2.7, §2.17."""

import ipaddress

MASK = (1 << 64) - 1


def topic_id(name):
    """H of §3.8: FNV-1a over the bytes, then a final mix."""
    h = 14695981039346656037
    for c in name:
        h = (h ^ c) * 1099511628211 & MASK
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 & MASK
    return h ^ h >> 32


def is_name(name):
    """Whether bytes are a valid topic name (§3.9)."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    tokens = text.split(".")
    return 1 <= len(name) <= 255 and all(tokens) and text.isprintable() and not any(c in "*>" or c.isspace() for c in text)


def group_address(base, group, port):
    """The text of a group's address (§16.3)."""
    a = ipaddress.ip_address(base) + group
    return ("[%s]:%d" if a.version == 6 else "%s:%d") % (a, port)


def group_tag(address):
    """The tag of the group with this address, such as "239.20.0.3:7400"."""
    return topic_id(address.encode()) >> 16 & 0xFFFFFFFF


def publisher_id(name):
    """The id of a bus with a configured name."""
    return topic_id(b"publisher:" + name) | 1


def filter_bits(topic):
    """The bits of a topic id in a hello's topic filter."""
    return [topic >> 20 * i & 511 for i in range(3)]


def make_filter(topics):
    f = bytearray(64)
    for t in topics:
        for bit in filter_bits(t):
            f[bit >> 3] |= 1 << (bit & 7)
    return bytes(f)


def _crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_TABLE = _crc_table()


def crc32c(data, crc=0):
    """CRC-32C (RFC 3720, appendix B.4); crc is the checksum of the preceding bytes."""
    table = _TABLE
    crc ^= 0xFFFFFFFF
    for c in data:
        crc = crc >> 8 ^ table[(crc ^ c) & 0xFF]
    return crc ^ 0xFFFFFFFF
