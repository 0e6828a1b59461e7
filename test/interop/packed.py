"""Compressed packets: docs/protocol §26."""

import hashlib

import s2
import zstd

CODEC_NONE, CODEC_S2, CODEC_ZSTD = range(3)
CODECS = (CODEC_NONE, CODEC_S2, CODEC_ZSTD)


class Corrupt(Exception):
    """The packet cannot be decompressed."""


class Unknown(Exception):
    """The dictionary or codec is missing."""


class Dictionaries:
    """The dictionaries of this side, by the hash in packets (§26.4)."""

    def __init__(self):
        self.s2, self.zstd = {0: b""}, {0: None}

    def add(self, b):
        number = int.from_bytes(hashlib.sha256(b).digest()[:4], "big")
        self.s2[number], self.zstd[number] = b[-65536:], zstd.Dictionary.parse(b, number)
        return number

    def unpack(self, codec, dictionary, b, size):
        if codec not in CODECS or dictionary not in self.s2:
            raise Unknown
        try:
            if codec == CODEC_S2:
                return s2.decode(b, size, self.s2[dictionary])
            return zstd.decode(b, size, self.zstd[dictionary])
        except (s2.Corrupt, zstd.Corrupt) as e:
            raise Corrupt(str(e)) from None


known = Dictionaries()
