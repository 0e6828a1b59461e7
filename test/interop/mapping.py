"""Mapping of topics to groups: by hash, by prefix, or by a table (docs/protocol §3.10, §3.13 to §3.15)."""

import wire
from hashes import topic_id
from options import Wrong


def matches(pattern, tokens):
    """Whether a pattern matches a topic's tokens."""
    want = pattern.split(".")
    if want[-1] == ">" and len(tokens) >= len(want):
        want, tokens = want[:-1], tokens[:len(want) - 1]
    return len(want) == len(tokens) and all(w in ("*", t) for w, t in zip(want, tokens))


class Mapping:
    """kind and param are the mapping's fields in packets."""

    def __init__(self, text, groups, lines=None):
        """text is the option --map; lines replace the file of a table."""
        self.groups, self.kind, self.param, self.lines = groups, wire.MAPPING_HASH, 0, []
        how, _, arg = text.partition(":")
        if how == "prefix" and arg.isdigit() and 1 <= int(arg) <= 255:
            self.kind, self.param = wire.MAPPING_PREFIX, int(arg)
        elif how == "table":
            self.kind = wire.MAPPING_TABLE
            self.lines = [self.line(x) for x in (read(arg) if lines is None else lines)]
            self.param = topic_id(b"".join(b"%s %d-%d\n" % (p.encode(), a, b) for p, a, b in self.lines)) & 0xFFFF
        elif text != "hash":
            raise Wrong("--map: %r is not hash, prefix:K or table:FILE" % text)

    def line(self, text):
        try:
            pattern, where = text.split()
            first, _, last = where.partition("-")
            first, last = int(first), int(last or first)
        except ValueError:
            raise Wrong("--map: %r is not a pattern with a group or a range of groups" % text) from None
        if not 0 <= first <= last < self.groups:
            raise Wrong("--map: %r exceeds %d groups" % (text, self.groups))
        return pattern, first, last

    def group(self, name):
        """The group of a topic. name is bytes."""
        tokens = name.decode().split(".")
        if self.kind == wire.MAPPING_PREFIX:
            return topic_id(".".join(tokens[:self.param]).encode()) % self.groups
        for pattern, first, last in self.lines:
            if matches(pattern, tokens):
                return first + topic_id(name) % (last - first + 1)
        return topic_id(name) % self.groups

    def settings(self):
        """The settings that buses must have in common to reach each other."""
        return self.groups, self.kind, self.param


def read(file):
    """The lines of a table file, without comments."""
    try:
        with open(file, encoding="utf-8") as f:
            lines = [" ".join(words(line)) for line in f]
    except OSError as e:
        raise Wrong("--map: %s" % e) from None
    return [line for line in lines if line]


def words(line):
    for w in line.split():
        if w.startswith("#"):
            return
        yield w
