"""Sealed packets (docs/protocol §27), with the standard library only: slow, for the vectors."""

import hashlib
import hmac
import struct

HEADER, TAG, VERSION = 40, 16, 1
OVERHEAD = HEADER + TAG
SKEW, QUIET, WINDOW = 300, 2, 16384  # seconds; packets


def _sbox():
    """The S-box of AES: inverses in GF(2^8), and an affine map (FIPS 197, 5.1.1)."""
    box, p, q = [0x63] * 256, 1, 1
    while True:
        p ^= (p << 1 & 0xFF) ^ (0x1B if p & 0x80 else 0)
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        x = q
        for turn in (1, 2, 3, 4):
            x ^= (q << turn | q >> (8 - turn)) & 0xFF
        box[p] = x ^ 0x63
        if p == 1:
            return box


SBOX = _sbox()


def _double(x):
    return x << 1 & 0xFF ^ (0x1B if x & 0x80 else 0)


class AES256:
    """The block cipher (FIPS 197), encryption only."""

    def __init__(self, key):
        words, rcon = [list(key[i:i + 4]) for i in range(0, 32, 4)], 1
        for i in range(8, 60):
            w = list(words[-1])
            if i % 8 == 0:
                w = [SBOX[b] for b in w[1:] + w[:1]]
                w[0] ^= rcon
                rcon = _double(rcon)
            elif i % 8 == 4:
                w = [SBOX[b] for b in w]
            words.append([a ^ b for a, b in zip(words[i - 8], w)])
        self.keys = [sum(words[i:i + 4], []) for i in range(0, 60, 4)]

    def block(self, data):
        s = [a ^ b for a, b in zip(data, self.keys[0])]
        for turn in range(1, 15):
            s = [SBOX[s[(i + 4 * (i % 4)) % 16]] for i in range(16)]  # SubBytes and ShiftRows
            if turn < 14:
                mixed = []
                for c in range(0, 16, 4):
                    a, every = s[c:c + 4], s[c] ^ s[c + 1] ^ s[c + 2] ^ s[c + 3]
                    mixed += [a[i] ^ every ^ _double(a[i] ^ a[(i + 1) % 4]) for i in range(4)]
                s = mixed
            s = [a ^ b for a, b in zip(s, self.keys[turn])]
        return bytes(s)


def _multiply(x, y):
    """Multiplication in GF(2^128) (SP 800-38D, 6.3)."""
    z = 0
    for i in range(127, -1, -1):
        if x >> i & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z


def _ghash(h, *parts):
    y = 0
    for part in parts:
        for i in range(0, len(part), 16):
            y = _multiply(y ^ int.from_bytes(part[i:i + 16].ljust(16, b"\0"), "big"), h)
    lengths = b"".join(struct.pack(">Q", 8 * len(p)) for p in parts)
    return _multiply(y ^ int.from_bytes(lengths, "big"), h).to_bytes(16, "big")


def _gcm(key, nonce, data, extra, opening):
    """Returns the data, encrypted or decrypted, and the tag."""
    aes = AES256(key)
    h = int.from_bytes(aes.block(bytes(16)), "big")
    out = bytearray()
    for i in range(0, len(data), 16):
        pad = aes.block(nonce + struct.pack(">I", i // 16 + 2))
        out += bytes(a ^ b for a, b in zip(data[i:i + 16], pad))
    mask = aes.block(nonce + struct.pack(">I", 1))
    tag = _ghash(h, extra, data if opening else bytes(out))
    return bytes(out), bytes(a ^ b for a, b in zip(tag, mask))


def _hkdf(secret, salt, info):
    """HKDF to 32 bytes (RFC 5869)."""
    key = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\1", hashlib.sha256).digest()


def mark(secret, salt, index):
    return AES256(_hkdf(secret, b"", b"fanfare sealed 1 mark")).block(salt + struct.pack("<I", index))[:4]


def _cipher(secret, salt, index):
    return _hkdf(secret, salt + struct.pack("<I", index), b"fanfare sealed 1 packets")


def seal(secret, key_id, index, time, counter, salt, train, packet):
    head = b"Fs" + bytes([VERSION, 0]) + struct.pack("<III", counter, key_id, time) + salt + mark(secret, salt, index) + train
    data, tag = _gcm(_cipher(secret, salt, index), train + head[4:8], packet, head, False)
    return head + data + tag


def open_(keys, index, now, p):
    """Returns the packet inside, and the check that fails or None. The receiver is new: it knows no sender."""
    if len(p) <= OVERHEAD or p[:2] != b"Fs":
        return None, "open" if p[:2] == b"Ff" else "magic"
    if p[2] != VERSION:
        return None, "version"
    _, key_id, time = struct.unpack("<III", p[4:16])
    if key_id not in keys:
        return None, "key"
    secret, salt = keys[key_id], p[16:28]
    if mark(secret, salt, index) != p[28:32]:
        return None, "forged"
    if abs((time - now + 2**31) % 2**32 - 2**31) > SKEW:
        return None, "time"
    data, tag = _gcm(_cipher(secret, salt, index), p[32:40] + p[4:8], p[HEADER:-TAG], p[:HEADER], True)
    return (data, None) if hmac.compare_digest(tag, p[-TAG:]) else (None, "forged")


class Sender:
    """The state of one sender at a receiver (27.6, 27.9)."""

    def __init__(self):
        self.come, self.highest, self.newest, self.floor, self.grown = set(), -1, 0, 0, 0

    def accepts(self, counter, time, now):
        if time <= self.floor:
            return False
        if counter in self.come or counter + WINDOW <= self.highest:
            if time <= self.newest or now - self.grown <= QUIET:
                return False
            self.come, self.highest, self.floor = set(), -1, self.newest
        if counter > self.highest:
            self.highest, self.grown = counter, now
        self.come.add(counter)
        self.newest = max(self.newest, time)
        return True


class Receiver:
    """One receiver of one group, which accepts each packet of a sender once. Its clock is never set."""

    def __init__(self, keys, index):
        self.keys, self.index = keys, index
        self.senders = {}  # by key, salt and mark

    def open(self, now, p):
        packet, fails = open_(self.keys, self.index, now, p)
        if fails is None:
            counter, _, time = struct.unpack("<III", p[4:16])
            if not self.senders.setdefault(p[8:12] + p[16:32], Sender()).accepts(counter, time, now):
                return None, "replayed"
        return packet, fails
