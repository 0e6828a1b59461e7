"""Signed packets (docs/protocol §29), with an Ed25519 (RFC 8032) in Python: for the vectors. The commands do not verify."""

import hashlib
import struct

VERSION, HEAD, NODE, DEPTH, SKEW, RECENT, REPLY_PROOF = 1, 88, 16, 7, 300, 64, 68
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def _add(p, q):
    """Points are (x, y, z, x * y / z)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _mul(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = _add(q, p)
        p = _add(p, p)
        n >>= 1
    return q


def _point(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or v * x * x % P != u or x == 0 and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _bytes(p):
    z = pow(p[2], P - 2, P)
    return (p[1] * z % P | (p[0] * z % P & 1) << 255).to_bytes(32, "little")


BASE = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def _hash(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


def _secret(seed):
    h = hashlib.sha512(seed).digest()
    return int.from_bytes(h[:32], "little") & (1 << 254) - 8 | 1 << 254, h[32:]


def public(seed):
    return _bytes(_mul(_secret(seed)[0], BASE))


def sign(seed, text):
    a, prefix = _secret(seed)
    r = _hash(prefix, text)
    point = _bytes(_mul(r, BASE))
    return point + ((r + _hash(point, public(seed), text) * a) % L).to_bytes(32, "little")


def verify(key, text, signature):
    a, r, s = _point(key), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    return _bytes(_mul(s, BASE)) == _bytes(_add(r, _mul(_hash(signature[:32], key, text), a)))


def key_id(key):
    return struct.unpack("<I", hashlib.sha256(key).digest()[:4])[0]


def _node(*parts):
    return hashlib.sha256(b"".join(parts)).digest()[:NODE]


def _leaf(node, salt, packet):
    return _node(bytes([0, node]), salt, packet)


def _text(depth, time, counter, salt, root):
    return b"fanfare signed 1" + struct.pack("<BIQ", depth, time, counter) + salt + root


def sign_train(seed, time, counter, salt, packets):
    """Returns the root and the signed packets."""
    depth = (len(packets) - 1).bit_length()
    first = 1 << depth
    tree = {first + i: bytes(NODE) for i in range(first)}
    tree.update((first + i, _leaf(first + i, salt, p)) for i, p in enumerate(packets))
    for n in range(first - 1, 0, -1):
        tree[n] = _node(b"\1", salt, tree[2 * n], tree[2 * n + 1])
    signature = sign(seed, _text(depth, time, counter, salt, tree[1]))
    out = []
    for i, p in enumerate(packets):
        node = first + i
        path = b"".join(tree[node >> level ^ 1] for level in range(depth))
        out.append(b"Fg" + struct.pack("<BBIQ", VERSION, node, time, counter) + salt + signature + path + p)
    return tree[1], out


def _parts(p):
    """Returns the node and the packet inside, None if malformed."""
    if len(p) < HEAD or p[2] != VERSION or not 0 < p[3] < 2 << DEPTH:
        return None
    head = HEAD + NODE * (p[3].bit_length() - 1)
    return (p[3], p[head:]) if len(p) >= head + 32 else None


def content(p):
    """The packet inside, without verification (§29.9)."""
    parts = p[:2] == b"Fg" and _parts(p)
    return parts[1] if parts else p


def _reply_text(x, data):
    to = struct.pack("<5Q", x["publisher"], x["epoch"], x["topic"], x["number"], x["receiver"])
    return b"fanfare reply 1" + to + hashlib.sha256(data).digest()


def prove_reply(seed, x, data):
    """The proof after a reply to the request x (§24.7)."""
    return struct.pack("<I", key_id(public(seed))) + sign(seed, _reply_text(x, data))


def check_reply(keys, x, data, proof):
    """Returns the check that a reply fails, or None."""
    if not proof:
        return "unsigned"
    if len(proof) != REPLY_PROOF:
        return "malformed"
    key = keys.get(struct.unpack("<I", proof[:4])[0])
    if key is None:
        return "key"
    return None if verify(key, _reply_text(x, data), proof[4:]) else "forged"


class Receiver:
    """Accepts each packet once (§29.6)."""

    def __init__(self, keys):
        self.keys, self.streams = keys, {}  # by stream: greatest counter, and received (counter, node)

    def open(self, now, p):
        packet, fails = _open(self.keys, now, p, self.streams)
        if fails is None:
            (counter,), name = struct.unpack("<Q", p[8:16]), (packet[16:32], packet[8:12])
            newest, came = self.streams.setdefault(name, [0, set()])
            came.add((counter, p[3]))
            self.streams[name][0] = max(newest, counter)
        return packet, fails


def open_(keys, now, p):
    """Returns the packet inside, and the check that fails or None. keys are by id. The receiver is new: it knows no stream."""
    return _open(keys, now, p, {})


def _open(keys, now, p, streams):
    if p[:2] != b"Fg":
        return None, "unsigned"
    parts = _parts(p)
    if parts is None:
        return None, "malformed"
    node, packet = parts
    key = keys.get(struct.unpack("<I", packet[20:24])[0])
    if key is None:
        return None, "key"
    (time, counter), salt = struct.unpack("<IQ", p[4:16]), p[16:24]
    if abs(time - now) > SKEW:
        return None, "time"
    newest, came = streams.get((packet[16:32], packet[8:12]), (0, ()))
    if counter + RECENT <= newest or (counter, node) in came:
        return None, "replayed"
    depth, n, above = node.bit_length() - 1, node, _leaf(node, salt, packet)
    for level in range(depth):
        beside = p[HEAD + NODE * level:HEAD + NODE * (level + 1)]
        above = _node(b"\1", salt, *((beside, above) if n & 1 else (above, beside)))
        n >>= 1
    ok = verify(key, _text(depth, time, counter, salt, above), p[24:HEAD])
    return (packet, None) if ok else (None, "forged")
