"""UDP multicast on one interface, and packets that are lost, doubled and
reordered on purpose where they are received."""

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

AT_A_TIME = 256  # packets read from a socket
LEAST_CHARGE = 832  # bytes of a receive buffer that a packet takes


def now_ns():
    return time.monotonic_ns()


class Faults:
    """What befalls received packets; those that are sent only damage. The same seed and packets meet the same faults."""

    def __init__(self, text):
        self.loss = self.dup = self.reorder = self.damage = 0.0
        self.seed = random.SystemRandom().getrandbits(32)
        for field in filter(None, text.split(",")):
            name, _, value = field.partition("=")
            if name not in ("loss", "dup", "reorder", "damage", "seed"):
                raise Wrong("--faults: %r is none of loss, dup, reorder, damage and seed" % name)
            try:
                setattr(self, name, int(value) if name == "seed" else float(value))
            except ValueError:
                raise Wrong("--faults: %s=%s is no number" % (name, value)) from None
        self.rng = random.Random(self.seed)
        self.lost = 0

    def spoil(self, packet):
        """The packet, or one with a bit that is not as it was. The flags, which no checksum covers (§2.7), stay."""
        if self.rng.random() >= self.damage:
            return packet
        b = bytearray(packet)
        at = self.rng.choice([i for i in range(len(b)) if i != 4])
        b[at] ^= 1 << self.rng.randrange(8)
        return bytes(b)

    def apply(self, packets):
        """packets is a list of what came at once: the list as it is after the faults."""
        out = []
        for p in packets:
            if self.rng.random() < self.loss:
                self.lost += 1
                continue
            at = len(out)
            if self.rng.random() < self.reorder:
                at = max(0, at - self.rng.randint(1, 16))
            group, packet, source = p
            p = group, self.spoil(packet), source
            out.insert(at, p)
            if self.rng.random() < self.dup:
                out.append(p)
        return out


class Fabric:
    """Group i is the base address plus i; all have one port."""

    def __init__(self, args):
        self.port, self.packet_size, self.mapping = args.port, args.size, Mapping(args.map, args.groups)
        try:
            self.base = ipaddress.IPv4Address(args.base)
            self.index = socket.if_nametoindex(args.iface)
        except (OSError, ValueError) as e:
            raise Wrong("--base %s, --iface %s: %s" % (args.base, args.iface, e)) from None
        self.faults = Faults(args.faults)
        # Packets are sent from this socket, and replies come to it.
        self.unicast = self._socket()
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4s4si", bytes(4), bytes(4), self.index))
        self.unicast.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self.unicast.bind(("", 0))
        self.joined = {}
        self.read = self.began = now_ns()  # what came before read has been read, began is when the rest was begun (§6.15)
        self.left = 0  # packets of the rest, at most

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
        """How many packets a receive buffer is sure to hold: the kernel charges for more than their bytes (§16.8)."""
        return max(8, self.unicast.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) * 3 // 4 // (2 * self.packet_size + 1024))

    def send(self, group, packet):
        self._send(packet, (str(self.base + group), self.port))

    def reply(self, address, packet):
        self._send(packet, address)

    def _send(self, packet, address):
        try:
            self.unicast.sendto(self.faults.spoil(packet), address)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # as lost as any other datagram

    def poll(self, timeout_ns, stdin=None):
        """Waits until packets come or the time is over. Returns a list of (group, or None for unicast, packet,
        source), and what was read from the file descriptor stdin: None if nothing, b"" at its end."""
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
            n, full = n + len(batch), full or len(batch) == AT_A_TIME
            out += self.faults.apply(batch)
        if not full:
            self.left = 0
        elif self.left <= 0:
            self.left = sum(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for s in sockets) // LEAST_CHARGE
        else:
            self.left -= n
        if self.left <= 0:
            self.read = self.began
        return out, text

    def _read(self, s, group):
        batch = []
        while len(batch) < AT_A_TIME:
            try:
                packet, source = s.recvfrom(1 << 16)
                batch.append((group, signed.content(packet), source))
            except BlockingIOError:
                break
            except ConnectionRefusedError:
                continue  # who was replied to is gone
        return batch
