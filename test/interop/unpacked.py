#!/usr/bin/env python3
"""Decompress packets given as JSON, one object per line, and write the result or the error. For tests."""

import base64
import json
import sys

import packed


def main():
    for line in sys.stdin:
        x = json.loads(line)
        b = base64.b64decode(x["dictionary"] or "")
        known = packed.Dictionaries()
        number = known.add(b) if b else 0
        try:
            out = {"runs": base64.b64encode(known.unpack(x["codec"], number, base64.b64decode(x["packed"]), x["size"])).decode()}
        except packed.Corrupt as e:
            out = {"corrupt": str(e)}
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
