"""UDP multicast on one interface, with injected loss, duplication and reordering of received packets."""

import ipaddress
import os
import random
import select
import socket
import struct
import time

import signed
from hashes import group_address, group_tag
from mapping import Mapping
from options import Wrong

BATCH = 256  # maximum number of packets read from a socket at once
MIN_CHARGE = 832  # minimum number of bytes that a packet uses in the receive buffer


def now_ns():
    return time.monotonic_ns()


class Faults:
    """Faults of received packets, and damage of sent packets. Equal seeds and packets yield equal faults."""

    def __init__(self, text):
        self.loss = self.dup = self.reorder = self.damage = 0.0
        self.seed = random.SystemRandom().getrandbits(32)
        for field in filter(None, text.split(",")):
            name, _, value = field.partition("=")
            if name not in ("loss", "dup", "reorder", "damage", "seed"):
                raise Wrong("--faults: %r is not loss, dup, reorder, damage or seed" % name)
            try:
                setattr(self, name, int(value) if name == "seed" else float(value))
            except ValueError:
                raise Wrong("--faults: %s=%s is not a number" % (name, value)) from None
        self.rng = random.Random(self.seed)
        self.lost = 0

    def damaged(self, packet):
        """Returns the packet, perhaps with a flipped bit. The flags, which no checksum covers (§2.7), are unchanged."""
        if self.rng.random() >= self.damage:
            return packet
        b = bytearray(packet)
        at = self.rng.choice([i for i in range(len(b)) if i != 4])
        b[at] ^= 1 << self.rng.randrange(8)
        return bytes(b)

    def apply(self, packets):
        """Returns the packets, a list received together, after the faults."""
        out = []
        for p in packets:
            if self.rng.random() < self.loss:
                self.lost += 1
                continue
            at = len(out)
            if self.rng.random() < self.reorder:
                at = max(0, at - self.rng.randint(1, 16))
            group, packet, source = p
            p = group, self.damaged(packet), source
            out.insert(at, p)
            if self.rng.random() < self.dup:
                out.append(p)
        return out


class Fabric:
    """Group i has the base address plus i. All groups have the same port."""

    def __init__(self, args):
        self.port, self.packet_size, self.mapping = args.port, args.size, Mapping(args.map, args.groups)
        try:
            self.base = ipaddress.IPv4Address(args.base)
            self.index = socket.if_nametoindex(args.iface)
        except (OSError, ValueError) as e:
            raise Wrong("--base %s, --iface %s: %s" % (args.base, args.iface, e)) from None
        self.faults = Faults(args.faults)
        # Packets are sent from this socket, and replies arrive at it.
        self.unicast = self._socket()
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4s4si", bytes(4), bytes(4), self.index))
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self.unicast.bind(("", 0))
        self.joined = {}
        self.read = self.began = now_ns()  # packets that arrived before read were read; began: start of reading the rest (§6.15)
        self.left = 0  # maximum number of packets in the rest

    def _socket(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        return s

    def tag(self, group):
        return group_tag(group_address(self.base, group, self.port))

    def join(self, group):
        if group in self.joined:
            return
        address = str(self.base + group)
        s = self._socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, self.port))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4si", socket.inet_aton(address), bytes(4), self.index))
        self.joined[group] = s

    def leave(self, group):
        self.joined.pop(group).close()

    def room(self):
        """Returns how many packets fit in the receive buffer: the kernel charges for more than their bytes (§16.8)."""
        return max(8, self.unicast.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) * 3 // 4 // (2 * self.packet_size + 1024))

    def send(self, group, packet):
        self._send(packet, (str(self.base + group), self.port))

    def reply(self, address, packet):
        self._send(packet, address)

    def _send(self, packet, address):
        try:
            self.unicast.sendto(self.faults.damaged(packet), address)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # a lost datagram

    def poll(self, timeout_ns, stdin=None):
        """Waits for packets or until the timeout. Returns a list of (group or None for unicast, packet,
        source), and the input read from the file descriptor stdin: None if nothing, b"" at its end."""
        sockets = {s: g for g, s in self.joined.items()}
        sockets[self.unicast] = None
        also = [] if stdin is None else [stdin]
        ready, _, _ = select.select(list(sockets) + also, [], [], max(0, timeout_ns) / 1e9)
        text = os.read(stdin, 1 << 16) if stdin in ready and stdin is not None else None
        if self.left <= 0:
            self.began = now_ns()
        out, n, full = [], 0, False
        for s in sockets:
            batch = self._read(s, sockets[s])
            n, full = n + len(batch), full or len(batch) == BATCH
            out += self.faults.apply(batch)
        if not full:
            self.left = 0
        elif self.left <= 0:
            self.left = sum(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for s in sockets) // MIN_CHARGE
        else:
            self.left -= n
        if self.left <= 0:
            self.read = self.began
        return out, text

    def _read(self, s, group):
        batch = []
        while len(batch) < BATCH:
            try:
                packet, source = s.recvfrom(1 << 16)
                batch.append((group, signed.content(packet), source))
            except BlockingIOError:
                break
            except ConnectionRefusedError:
                continue  # the receiver of a reply has ended
        return batch
