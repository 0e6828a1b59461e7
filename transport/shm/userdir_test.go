package shm

import (
	"strings"
	"testing"
)

// A directory's name determines the users that may use it. docs/protocol §28.1.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name     string
		file     bool
		uid, gid int
		mode     uint32
		want     refusal
		wantText string
	}{
		{"fanfare-1000", false, 1000, 1, 0o700, accepted, ""},
		{"fanfare-1000", false, 1000, 1, 0o500, accepted, ""},
		{"fanfare-1000", true, 1000, 1, 0o600, noDirectory, "is not a directory"},
		{"fanfare-1000", false, 1001, 1, 0o700, ofOthers, "belongs to user 1001, but is for user 1000"},
		{"fanfare-1000", false, 1000, 1, 0o755, toOthers, "has mode 0755, which gives others access; the maximum is 0700"},
		{"fanfare-1000", false, 1000, 1, 0o4700, toOthers, "has mode 04700"},
		{"fanfare-g7", false, 1001, 7, 0o2770, accepted, ""},
		{"fanfare-g7", true, 1001, 7, 0o660, noDirectory, "is not a directory"},
		{"fanfare-g7", false, 7, 1001, 0o2770, ofOthers, "belongs to group 1001, but is for group 7"},
		{"fanfare-g7", false, 1001, 7, 0o2775, toOthers, "has mode 02775, which gives others access; the maximum is 02770"},
	} {
		p, ok := placeOf(c.name)
		if !ok || p.dirName() != c.name {
			t.Errorf("place of %s: %+v, %v, want one with that directory name", c.name, p, ok)
		}
		got := p.accepts(!c.file, c.uid, c.gid, c.mode)
		text := p.text(got, c.uid, c.gid, c.mode)
		if got != c.want || !strings.HasPrefix(text, c.wantText) || (text == "") != (got == accepted) {
			t.Errorf("%s of user %d, group %d, mode %#o: verdict %d, %q, want %d, %q", c.name, c.uid, c.gid, c.mode, got, text, c.want, c.wantText)
		}
	}
	for _, name := range []string{"fanfare-", "fanfare-g", "fanfare-x", "fanfare-test-17", "fanfare-01", "fanfare-+1", "fanfare--1", "fanfare-g-1", "fanfare-1000';reboot'", "1000", "g7", "fanfare-fanfare-1"} {
		if p, ok := placeOf(name); ok {
			t.Errorf("%q is the place %+v", name, p)
		}
	}
}

// A file must have the type, links, owner, mode and size of a members file before an endpoint writes to it.
// docs/protocol §28.1.
func TestIsMembersFile(t *testing.T) {
	own, group := place{id: 1000}, place{shared: true, id: 7}
	for _, c := range []struct {
		in       place
		other    bool // not a regular file
		links    uint64
		uid, gid int
		mode     uint32
		size     int64
		want     bool
	}{
		{own, false, 1, 1000, 1, 0o600, pageBytes, true},
		{own, true, 1, 1000, 1, 0o600, pageBytes, false},
		{own, false, 2, 1000, 1, 0o600, pageBytes, false},
		{own, false, 1, 1001, 1, 0o600, pageBytes, false},
		{own, false, 1, 1000, 1, 0o640, pageBytes, false},
		{own, false, 1, 1000, 1, 0o600, 100, false},
		{own, false, 1, 1000, 1, 0o600, 2 * pageBytes, false},
		{group, false, 1, 1001, 7, 0o660, pageBytes, true},
		{group, false, 1, 1001, 7, 0o600, pageBytes, false}, // another user's file of its own fabric
		{group, false, 1, 1001, 7, 0o640, pageBytes, false}, // an endpoint's file that is being made
		{group, false, 1, 7, 1001, 0o660, pageBytes, false},
		{group, false, 1, 1001, 7, 0o660, 0, false},
	} {
		if got := c.in.isMembersFile(!c.other, c.links, c.uid, c.gid, c.mode, c.size); got != c.want {
			t.Errorf("%+v: isMembersFile %v, want %v", c, got, c.want)
		}
	}
}
