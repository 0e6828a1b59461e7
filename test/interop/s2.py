"""Blocks of S2, a superset of Snappy: docs/protocol §26.2."""


class Corrupt(Exception):
    """Not a valid S2 block."""


def decode(b, size, dictionary=b""):
    """Decompresses the block b, after a dictionary, to exactly size bytes."""
    length, at = varint(b)
    if length != size:
        raise Corrupt("%d bytes, want %d" % (length, size))
    out, offset = bytearray(), len(dictionary)
    while at < len(b):
        tag, at = b[at], at + 1
        if tag & 3 == 0:
            n, at = tail(b, at, tag >> 2, 60)
            append(out, b[at:at + n + 1], n + 1, size)
            at += n + 1
            continue
        before = offset
        if tag & 3 == 1:
            n, offset, at = near(b, at, tag)
            if offset == 0:  # repeats the offset; the length is in the next bytes
                offset = before
                n, at = tail(b, at, n - 4, 5, repeat=True)
                n += 4
        else:
            width = 2 if tag & 3 == 2 else 4
            n = (tag >> 2) + 1
            offset, at = number(b, at, width)
        copy(out, n, offset, size, dictionary)
    if len(out) != size:
        raise Corrupt("too few bytes")
    return bytes(out)


def varint(b):
    value = 0
    for i, x in enumerate(b[:5]):
        value |= (x & 0x7F) << 7 * i
        if x < 0x80:
            return value, i + 1
    raise Corrupt("length is missing")


def number(b, at, width):
    if at + width > len(b):
        raise Corrupt("truncated")
    return int.from_bytes(b[at:at + width], "little"), at + width


def tail(b, at, n, first, repeat=False):
    """A length in 1 to 4 further bytes, for values from first on."""
    if n < first:
        return n, at
    width = n - first + 1
    value, at = number(b, at, width)
    if repeat:  # 5: + 4, 6: + 256, 7: + 65536, in addition to 4
        return value + (4, 256, 65536)[width - 1], at
    return value, at


def near(b, at, tag):
    low, at = number(b, at, 1)
    return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | low, at


def append(out, piece, n, size):
    if len(piece) != n or len(out) + n > size:
        raise Corrupt("a literal exceeds the size")
    out += piece


def copy(out, n, offset, size, dictionary):
    start = len(dictionary) + len(out) - offset
    if offset == 0 or start < 0 or len(out) + n > size:
        raise Corrupt("a copy exceeds the size")
    if offset > len(out):
        if start + n > len(dictionary):
            raise Corrupt("a copy crosses the end of the dictionary")
        out += dictionary[start:start + n]
        return
    for _ in range(n):
        out.append(out[-offset])
