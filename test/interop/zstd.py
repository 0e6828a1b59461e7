"""Zstandard frames: RFC 8878. Section numbers in comments refer to it."""

import struct

MAGIC, DICTIONARY_MAGIC = 0xFD2FB528, 0xEC30A437
MAX_WINDOW = 1 << 20  # docs/protocol §26.2
MAX_BLOCK = 128 << 10
RAW, RLE, COMPRESSED = range(3)
PREDEFINED, ONE_SYMBOL, TABLE, REPEAT = range(4)
MAX_HUFFMAN_BITS = 11


class Corrupt(Exception):
    """Not a valid frame, or of another dictionary."""


def need(good, what):
    if not good:
        raise Corrupt(what)


class Forward:
    """A bit stream from the first byte on, lowest bit first."""

    def __init__(self, b):
        self.value, self.at, self.size = int.from_bytes(b, "little"), 0, 8 * len(b)

    def read(self, n):
        self.at += n
        need(self.at <= self.size, "truncated table")
        return self.value >> self.at - n & (1 << n) - 1

    def used(self):
        """The number of bytes read, including a partial one."""
        return (self.at + 7) // 8


class Backward:
    """A backward bit stream, from below the highest 1 of the last byte. Bits before the beginning are zero."""

    def __init__(self, b):
        need(len(b) > 0 and b[-1] != 0, "bit stream without an end mark")
        self.value = int.from_bytes(b, "little")
        self.left = self.value.bit_length() - 1

    def read(self, n):
        self.left -= n
        value = self.value >> self.left if self.left >= 0 else self.value << -self.left
        return value & (1 << n) - 1

    def end(self):
        need(self.left == 0, "bit stream has a wrong length")


class FSE:
    """An FSE table (§4.1)."""

    def __init__(self, log, counts):
        size = 1 << log
        symbols, high, following = [0] * size, size - 1, [max(1, abs(n)) for n in counts]
        for s, n in enumerate(counts):
            if n < 0:
                symbols[high] = s
                high -= 1
        at = 0
        for s, n in enumerate(counts):
            for _ in range(n):
                symbols[at] = s
                at = at + (size >> 1) + (size >> 3) + 3 & size - 1
                while at > high:
                    at = at + (size >> 1) + (size >> 3) + 3 & size - 1
        self.log, self.rows = log, []
        for s in symbols:
            n, following[s] = following[s], following[s] + 1
            bits = log - n.bit_length() + 1
            self.rows.append((s, bits, (n << bits) - size))

    def start(self, bits):
        return bits.read(self.log)

    def next(self, state, bits):
        _, n, base = self.rows[state]
        return base + bits.read(n)


class OneSymbol(FSE):
    def __init__(self, symbol):
        self.log, self.rows = 0, [(symbol, 0, 0)]


def read_table(b, max_log, symbols):
    """Returns an FSE table, and the number of bytes that describe it (§4.1.1)."""
    bits = Forward(b)
    log = bits.read(4) + 5
    need(log <= max_log, "table is too large")
    left, counts = 1 << log, []
    while left > 0:
        need(len(counts) < symbols, "table has too many symbols")
        width = (left + 1).bit_length()
        short = (1 << width) - 2 - left  # smaller values have one bit less
        value = bits.read(width - 1)
        if value >= short:
            value |= bits.read(1) << width - 1
            if value >= 1 << width - 1:
                value -= short
        counts.append(value - 1)
        left -= abs(value - 1)
        more = 3 if value == 1 else 0
        while more == 3:
            more = bits.read(2)
            counts += [0] * more
    need(left == 0 and len(counts) <= symbols, "table probabilities have a wrong sum")
    return FSE(log, counts), bits.used()


class Huffman:
    """A Huffman code for literals (§4.2)."""

    def __init__(self, weights):
        total = sum(1 << w - 1 for w in weights if w)
        need(total > 0, "empty Huffman code")
        self.bits = total.bit_length()
        rest = (1 << self.bits) - total
        need(self.bits <= MAX_HUFFMAN_BITS and rest & rest - 1 == 0, "invalid Huffman code")
        weights = weights + [rest.bit_length()]
        self.rows = []
        for w in range(1, self.bits + 1):
            for symbol, x in enumerate(weights):
                if x == w:
                    self.rows += [(symbol, self.bits + 1 - w)] * (1 << w - 1)
        need(len(self.rows) == 1 << self.bits, "invalid Huffman code")

    def read(self, b, n):
        """The n symbols of a bit stream."""
        bits, out = Backward(b), bytearray()
        for _ in range(n):
            need(bits.left > 0, "truncated literals")
            symbol, length = self.rows[bits.read(self.bits)]
            bits.left += self.bits - length
            out.append(symbol)
        bits.end()
        return out


def read_huffman(b):
    """Returns a Huffman code, and the number of bytes that describe it (§4.2.1)."""
    need(len(b) > 0, "truncated Huffman code")
    n = b[0]
    if n >= 128:
        count = n - 127
        size = 1 + (count + 1) // 2
        need(size <= len(b), "truncated Huffman code")
        return Huffman([x for y in b[1:size] for x in (y >> 4, y & 15)][:count]), size
    need(1 + n <= len(b), "truncated Huffman code")
    table, used = read_table(b[1:1 + n], 6, 256)
    bits, weights = Backward(b[1 + used:1 + n]), []
    states = [table.start(bits), table.start(bits)]
    while bits.left != 0 or table.rows[states[0]][1] == 0:  # until the bits are exhausted
        need(bits.left >= 0 and len(weights) < 254, "Huffman weights do not end with their bit stream")
        weights.append(table.rows[states[0]][0])
        states = [states[1], table.next(states[0], bits)]
    return Huffman(weights + [table.rows[s][0] for s in states]), 1 + n


def ladder(start, bits):
    """The values of a code: base and number of additional bits."""
    out = []
    for n in bits:
        out.append((start, n))
        start += 1 << n
    return out


# §3.1.1.3.2.1.1, §3.1.1.3.2.2
LITERALS = ladder(0, [0] * 16 + [1, 1, 1, 1, 2, 2, 3, 3, 4] + list(range(6, 17)))
MATCHES = ladder(3, [0] * 32 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5] + list(range(7, 17)))
OFFSETS = [(1 << n, n) for n in range(32)]
KINDS = (  # in the order of their modes: codes, maximum log of a table, predefined table
    (LITERALS, 9, FSE(6, [4, 3] + [2] * 11 + [1] * 3 + [2] * 9 + [3, 2] + [1] * 5 + [-1] * 4)),
    (OFFSETS, 8, FSE(5, [1] * 6 + [2] * 3 + [1] * 15 + [-1] * 5)),
    (MATCHES, 9, FSE(6, [1, 4, 3] + [2] * 6 + [1] * 37 + [-1] * 7)),
)


class Dictionary:
    """A dictionary (§5), with the number that frames refer to."""

    def __init__(self, content=b"", number=0, huffman=None, tables=(None, None, None), offsets=(1, 4, 8)):
        self.content, self.number, self.huffman, self.tables, self.offsets = content, number, huffman, tables, offsets

    @classmethod
    def parse(cls, b, number):
        """Parses a dictionary in the format of Zstandard; other bytes are content with that number."""
        if b[:4] != struct.pack("<I", DICTIONARY_MAGIC):
            return cls(b, number)
        number, at = struct.unpack_from("<I", b, 4)[0], 8
        huffman, used = read_huffman(b[at:])
        at += used
        tables = [None] * 3
        for i in (1, 2, 0):
            codes, log, _ = KINDS[i]
            tables[i], used = read_table(b[at:], log, len(codes))
            at += used
        need(len(b) >= at + 12, "truncated dictionary")
        return cls(b[at + 12:], number, huffman, tuple(tables), struct.unpack_from("<3I", b, at))


class Frame:
    """The state of decoding one frame."""

    def __init__(self, dictionary, size):
        self.out, self.before, self.end = bytearray(dictionary.content), len(dictionary.content), len(dictionary.content) + size
        self.huffman, self.tables, self.offsets = dictionary.huffman, list(dictionary.tables), list(dictionary.offsets)

    def append(self, b):
        need(len(self.out) + len(b) <= self.end, "too many bytes")
        self.out += b

    def compressed(self, b):
        literals, at = self.literals(b)
        count, at = sequences(b, at)
        if count == 0:
            need(at == len(b), "extra bytes after a block")
            return self.append(literals)
        need(at < len(b) and b[at] & 3 == 0, "symbol compression modes are missing or reserved")
        modes, at = b[at], at + 1
        for i in range(3):
            at += self.table(i, modes >> 6 - 2 * i & 3, b[at:])
        self.execute(Backward(b[at:]), count, literals)

    def literals(self, b):
        """Returns the literals of a block, and the offset of their end (§3.1.1.3.1)."""
        need(len(b) > 0, "empty block")
        kind, form, head = b[0] & 3, b[0] >> 2 & 3, int.from_bytes(b[:5], "little")
        if kind in (RAW, RLE):
            at, size = ((1, head >> 3 & 0x1F), (2, head >> 4 & 0xFFF), (1, head >> 3 & 0x1F), (3, head >> 4 & 0xFFFFF))[form]
            end = at + (size if kind == RAW else 1)
            need(end <= len(b) and size <= MAX_BLOCK, "truncated literals")
            return (b[at:end] if kind == RAW else b[at:end] * size), end
        at, width = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
        size, packed = head >> 4 & (1 << width) - 1, head >> 4 + width & (1 << width) - 1
        end = at + packed
        need(end <= len(b) and size <= MAX_BLOCK, "truncated literals")
        if kind == COMPRESSED:
            self.huffman, used = read_huffman(b[at:end])
            at += used
        need(self.huffman is not None, "Huffman code is missing")
        if form == 0:
            return self.huffman.read(b[at:end], size), end
        need(end - at >= 6, "truncated literals")
        ends, part, out = [at + 6], (size + 3) // 4, bytearray()
        for n in struct.unpack_from("<3H", b, at):
            ends.append(ends[-1] + n)
        ends.append(end)
        for i in range(4):
            need(ends[i] < ends[i + 1], "truncated literals")
            out += self.huffman.read(b[ends[i]:ends[i + 1]], part if i < 3 else size - 3 * part)
        return out, end

    def table(self, i, mode, b):
        """Sets table i of a block. Returns the number of bytes that describe it."""
        codes, log, predefined = KINDS[i]
        if mode == TABLE:
            self.tables[i], used = read_table(b, log, len(codes))
            return used
        if mode == ONE_SYMBOL:
            need(len(b) > 0 and b[0] < len(codes), "symbol of an RLE table is missing or too large")
            self.tables[i] = OneSymbol(b[0])
            return 1
        if mode == PREDEFINED:
            self.tables[i] = predefined
        need(self.tables[i] is not None, "table to repeat is missing")
        return 0

    def execute(self, bits, count, literals):
        """Executes sequences: copies of literals, and of earlier bytes (§3.1.1.4)."""
        states, at = [t.start(bits) for t in self.tables], 0
        for left in range(count - 1, -1, -1):
            rows = [KINDS[i][0][self.tables[i].rows[states[i]][0]] for i in range(3)]
            offset, match, n = (base + bits.read(more) for base, more in (rows[1], rows[2], rows[0]))
            need(bits.left >= 0 and at + n <= len(literals), "truncated sequences")
            self.append(literals[at:at + n])
            at += n
            self.copy(self.offset(offset, n), match)
            if left:
                for i in (0, 2, 1):
                    states[i] = self.tables[i].next(states[i], bits)
        bits.end()
        self.append(literals[at:])

    def offset(self, value, literals):
        """The distance of a copy: one of the latest three, or a new one (§3.1.1.5)."""
        last = self.offsets
        if value > 3:
            self.offsets = [value - 3] + last[:2]
        else:
            i = value - 1 + (literals == 0)
            new = last[i] if i < 3 else last[0] - 1
            self.offsets = [new] + [x for j, x in enumerate(last) if j != min(i, 2)]
        return self.offsets[0]

    def copy(self, offset, n):
        need(0 < offset <= len(self.out), "a copy goes beyond the beginning")
        need(len(self.out) + n <= self.end, "too many bytes")
        start = len(self.out) - offset
        for i in range(n):
            self.out.append(self.out[start + i])


def sequences(b, at):
    """Returns the number of sequences of a block, and the offset of their description."""
    need(at < len(b), "number of sequences is missing")
    n = b[at]
    width = 1 if n < 128 else 2 if n < 255 else 3
    need(at + width <= len(b), "truncated sequences")
    if width == 2:
        n = (n - 128 << 8) + b[at + 1]
    elif width == 3:
        n = b[at + 1] + (b[at + 2] << 8) + 0x7F00
    return n, at + width


def decode(b, size, dictionary=None):
    """Decompresses the frame b to exactly size bytes. Its checksum is not verified: packets have their own."""
    need(len(b) >= 5 and struct.unpack_from("<I", b)[0] == MAGIC, "no frame")
    flags, at = b[4], 5
    single, checksum = flags >> 5 & 1, flags >> 2 & 1
    need(flags & 8 == 0, "a reserved bit is set")
    width = (0 if single else 1, (0, 1, 2, 4)[flags & 3], (single, 2, 4, 8)[flags >> 6])
    need(at + sum(width) <= len(b), "truncated frame")
    window, number, content = None, 0, None
    if width[0]:
        window = (1 << 10 + (b[at] >> 3)) // 8 * (8 + (b[at] & 7))
    number = int.from_bytes(b[at + width[0]:at + sum(width[:2])], "little")
    if width[2]:
        content = int.from_bytes(b[at + sum(width[:2]):at + sum(width)], "little") + (256 if width[2] == 2 else 0)
    need(content in (None, size) and (window or 0) <= MAX_WINDOW, "wrong size, or too large a window")
    need(number == 0 or dictionary is not None and number == dictionary.number, "another dictionary")
    frame, at, last = Frame(dictionary if number else Dictionary(), size), at + sum(width), False
    while not last:
        need(at + 3 <= len(b), "truncated frame")
        head, at = int.from_bytes(b[at:at + 3], "little"), at + 3
        last, kind, n = head & 1, head >> 1 & 3, head >> 3
        end = at + (1 if kind == RLE else n)
        need(kind <= COMPRESSED and n <= MAX_BLOCK and end <= len(b), "truncated block")
        if kind == COMPRESSED:
            frame.compressed(b[at:end])
        else:
            frame.append(b[at:end] if kind == RAW else b[at:end] * n)
        at = end
    need(at + 4 * checksum == len(b), "extra bytes after the frame")
    need(len(frame.out) == frame.end, "too few bytes")
    return bytes(frame.out[frame.before:])
