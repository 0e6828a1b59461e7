package fabricurl

import (
	"strings"
	"testing"
)

// The option map= is removed before the transport reads the URL, and errors show the original URL.
func TestMapping(t *testing.T) {
	for raw, want := range map[string][2]string{
		"mem://x":                             {"mem://x", ""},
		"mem://x?groups=4":                    {"mem://x?groups=4", ""},
		"mem://x?map=hash":                    {"mem://x", "hash"},
		"mem://x?groups=4&map=prefix:2":       {"mem://x?groups=4", "prefix:2"},
		"mem://x?map=prefix%3A2&size=1%32":    {"mem://x?size=1%32", "prefix:2"},
		"mem://x?a=1&m%61p=table:/a%20b&b=2":  {"mem://x?a=1&b=2", "table:/a b"},
		"mem://x?z=%zz&map=table:a=b&groups;": {"mem://x?z=%zz&groups;", "table:a=b"},
		"mem://x?mapp=hash":                   {"mem://x?mapp=hash", ""},
	} {
		f, err := Parse(raw)
		if err != nil || f.own.String() != want[0] || f.Mapping != want[1] || f.String() != raw {
			t.Errorf("Parse(%s) = %+v, error %v, want the mapping %q", raw, f, err, want)
		}
	}
	for raw, want := range map[string]string{
		"mem://x?map=":               "mem://x?map=: option map= names no mapping",
		"mem://x?map":                "names no mapping",
		"mem://x?map=hash&a=1&map=b": "mem://x?map=hash&a=1&map=b: option map is given more than once",
		"mem://x?map=%z":             "invalid URL escape",
		"mem://x?loops=2":            "open several buses",
		"udp://?loops=":              "open several buses",
	} {
		if _, err := Parse(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s): error %v, want one containing %q", raw, err, want)
		}
	}
	// The URL of a device has no option map=.
	for raw, known := range map[string]string{
		"mem://x?nope=1":   "known are clock, groups, keys, lend, map, maxpacket, pad, peers, queue, sign, size, trust",
		"udp://?nope=1":    "loop, map, pad, peers",
		"sim://x?nope=1":   "map",
		"roce://lo?nope=1": "gso, keys, map, pad, peers",
	} {
		f, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Open(nil); err == nil || !strings.Contains(err.Error(), known) {
			t.Errorf("opening %s: error %v, want one containing %q", raw, err, known)
		}
	}
	if _, err := OpenHost("sim://x?map=hash"); err == nil || !strings.Contains(err.Error(), `unknown option "map"`) {
		t.Errorf("URL of a device with map=: error %v, want an unknown option", err)
	}
}
