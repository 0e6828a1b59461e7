"""Options of both commands, and the exit of a command with wrong options."""

import sys


class Wrong(Exception):
    """The error in the options or the input, in one sentence."""


def run(main):
    try:
        sys.exit(main())
    except Wrong as e:
        print("%s: %s" % (sys.argv[0], e), file=sys.stderr)
        sys.exit(2)


def add(p):
    p.add_argument("--iface", default="lo", help="network interface (default lo)")
    p.add_argument("--base", default="239.20.0.0", help="address of group 0 (default 239.20.0.0)")
    p.add_argument("--port", type=int, default=7400, help="port of all groups (default 7400)")
    p.add_argument("--groups", type=int, default=16, help="number of groups (default 16)")
    p.add_argument("--map", default="hash", help="how topics map to groups: hash, prefix:K or table:FILE (default hash)")
    p.add_argument("--size", type=int, default=1472, help="packet size in bytes (default 1472)")
    p.add_argument("--faults", default="", help="faults of received packets: loss=0.05,dup=0.02,reorder=0.05,damage=0.02,seed=7")
    p.add_argument("--name", default="", help="name of this side")
    p.add_argument("--checksum", action="store_true",
                   help="send packets with a checksum, and refuse packets without one")
