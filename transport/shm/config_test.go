package shm

import (
	"net/url"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	u, _ := url.Parse("shm://desk-1?group=trading&dir=/tmp&groups=4&size=900&queue=77&lend=5&peers=3")
	got, err := Parse(u)
	want := Config{Name: "desk-1", Group: "trading", Dir: "/tmp", Groups: 4, PacketSize: 900, QueueTrains: 77, LendMax: 5, Peers: 3}
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("Parse = %+v; want %+v", got, want)
	}
	for raw, hint := range map[string]string{
		"udp://x":                          "scheme",
		"shm://":                           "no name: write shm://NAME",
		"shm://.x":                         "not beginning with a dot",
		"shm://..":                         "not beginning with a dot",
		"shm://a%20b":                      "letters, digits",
		"shm://x/y":                        "must be shm://NAME",
		"shm://u@x":                        "must be shm://NAME",
		"shm://x?grups=3":                  "known are",
		"shm://x?groups=a":                 "whole number",
		"shm://x?groups=0":                 "from 1 to 65536",
		"shm://x?group=":                   "leave it out",
		"shm://x?size=%zz":                 "cannot be read",
		"shm://x?queue=1409":               "from 1 to 1408",
		"shm://x?lend=1&lend=2":            "2 times",
		"shm://" + strings.Repeat("x", 65): "up to 64",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			if strings.Contains(raw, "%20") {
				continue // net/url rejects it
			}
			t.Fatal(err)
		}
		if _, err := Parse(u); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): error %v, want one with %q", raw, err, hint)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Name: "x", Groups: -1}, {Name: "x", PacketSize: 1 << 20}, {Name: "x", QueueTrains: -1}, {Name: "x", LendMax: 257}, {Name: "x", Peers: 1 << 20}} {
		if _, err := Open(cfg); err == nil {
			t.Errorf("Open(%+v): no error", cfg)
		}
	}
}
