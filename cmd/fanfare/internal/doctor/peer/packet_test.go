package peer

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

func TestPacket(t *testing.T) {
	for _, p := range []packet{
		{Kind: kindHello, Session: 1},
		{Kind: kindReport, Row: rowInfo, FromListener: true, Session: 1 << 63, Cookie: 7, Number: 8, Count: 9, Sent: -10, Received: 11, Size: 12, Body: []byte("{}")},
		{Kind: kindProbe, Row: rowWatch, Number: 1<<32 - 1},
	} {
		b := p.append([]byte("before"), 100)[6:]
		if len(b) != 100 {
			t.Errorf("%+v has %d bytes, want 100", p, len(b))
		}
		if got, err := parse(b); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("packet %+v became %+v, error %v", p, got, err)
		}
		for n := range headerSize + len(p.Body) {
			if _, err := parse(b[:n]); err == nil {
				t.Errorf("the first %d bytes of %+v are accepted", n, p)
			}
		}
	}
	good := (&packet{Kind: kindEcho}).append(nil, 0)
	for at, value := range map[int]byte{0: 'X', 4: 2, 5: 0, 6: byte(rows), 7: 2, 63: 1} {
		bad := bytes.Clone(good)
		bad[at] = value
		if p, err := parse(bad); err == nil {
			t.Errorf("with byte %d as %d the packet is accepted: %+v", at, value, p)
		}
	}
	bad := bytes.Clone(good)
	bad[5] = byte(kindProbe) + 1
	if _, err := parse(bad); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

func FuzzPacket(f *testing.F) {
	f.Add((&packet{Kind: kindReport, Row: rowInfo, Body: []byte("{}")}).append(nil, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(b)
		if err != nil {
			return
		}
		if again, err := parse(p.append(nil, len(b))); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("packet %+v became %+v, error %v", p, again, err)
		}
	})
}

func TestTally(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint32
		want    Tally
	}{
		{"in order", []uint32{0, 1, 2}, Tally{Received: 3, Latest: 2}},
		{"a hole", []uint32{0, 2}, Tally{Received: 2, Latest: 2}},
		{"copies", []uint32{0, 0, 1, 1, 1}, Tally{Received: 2, Duplicates: 3, Latest: 1}},
		{"reordered", []uint32{1, 0, 3, 2}, Tally{Received: 4, Reordered: 2, Latest: 3}},
		{"a late duplicate is no reordering", []uint32{0, 1, 0}, Tally{Received: 2, Duplicates: 1, Latest: 1}},
		{"beyond the row", []uint32{maxProbes, maxProbes - 1, 1<<32 - 1}, Tally{Received: 1, Latest: maxProbes - 1}},
	} {
		var got Tally
		for _, n := range c.numbers {
			got.add(n, arrival{})
		}
		if got.seen = c.want.seen; got != c.want {
			t.Errorf("%s: tally %+v, want %+v", c.name, got, c.want)
		}
	}
	var got Tally
	got.add(0, arrival{Size: 100, TTL: 64, Merged: true})
	got.add(0, arrival{Size: 300, TTL: 62})
	got.add(1, arrival{Size: 200})
	if got.Largest != 300 || got.TTL != 62 || got.Merged != 1 {
		t.Errorf("tally %+v, want the largest size 300, the latest TTL 62 and 1 merged packet", got)
	}
	if got := (Tally{Received: -1, Duplicates: 1 << 40, Largest: 1 << 40, TTL: 1000}).clean(); got != (Tally{Duplicates: maxProbes, Largest: maxSize, TTL: 255}) {
		t.Errorf("cleaned tally %+v, want %d duplicates, the largest size %d and TTL 255", got, maxProbes, maxSize)
	}
}

// RFC 3376 §4.1, RFC 2236 §2, RFC 1112 appendix I.
func TestReadQuery(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want query
		ok   bool
	}{
		{"version 3", []byte{0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0}, query{3, 125 * time.Second}, true},
		{"version 3, an hour and more", []byte{0x11, 100, 0, 0, 0, 0, 0, 0, 2, 0xdc, 0, 0}, query{3, (0xc | 0x10) << (5 + 3) * time.Second}, true},
		{"version 2", []byte{0x11, 100, 0, 0, 0, 0, 0, 0}, query{version: 2}, true},
		{"version 1", []byte{0x11, 0, 0, 0, 0, 0, 0, 0}, query{version: 1}, true},
		{"of one group", []byte{0x11, 100, 0, 0, 239, 1, 2, 3}, query{}, false},
		{"a report", []byte{0x22, 0, 0, 0, 0, 0, 0, 1}, query{}, false},
		{"short", []byte{0x11, 100, 0, 0, 0, 0, 0}, query{}, false},
		{"nothing", nil, query{}, false},
	} {
		if got, ok := readQuery(c.b); got != c.want || ok != c.ok {
			t.Errorf("%s: query %+v, %v, want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// The largest packet is found for any size, also if the network loses some, and in few rows.
func TestLargest(t *testing.T) {
	for _, size := range []int{92, 93, 1500, 9000, 65535} {
		for _, passes := range []int{0, 91, 92, 93, 576, 1279, 1420, 1499, 1500, 4000, 8999, 9000, 65535} {
			rows, losing := 0, true
			got, err := largest(size, func(sizes []int) (int, error) {
				rows++
				best := 0
				for i, size := range sizes {
					if size <= passes && !(losing && rows == 2 && i == len(sizes)-1) { // one is lost, in the second row
						best = max(best, size)
					}
				}
				return best, nil
			})
			want := min(passes, size)
			if want < headers+headerSize {
				want = 0
			}
			if err != nil || got != want || rows > 16 {
				t.Errorf("up to %d, %d pass: found %d in %d rows, error %v, want %d in at most 16", size, passes, got, rows, err, want)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	y, n := true, false
	for _, c := range []struct {
		arrived []bool
		want    Outcome
	}{
		{nil, Outcome{}},
		{[]bool{y, y, y}, Outcome{Received: 3}},
		{[]bool{n, n, n, n, n}, Outcome{}},
		{[]bool{y, y, n, n, n}, Outcome{Received: 2, Stopped: 2}},
		{[]bool{y, y, y, n, n}, Outcome{Received: 3}},                // too short to decide
		{[]bool{y, n, n, n, n, y}, Outcome{Received: 2}},             // it resumed
		{[]bool{n, y, n, n, n, n}, Outcome{Received: 1, Stopped: 2}}, // it began late
	} {
		if got := outcome(c.arrived); got != c.want {
			t.Errorf("outcome of arrivals %v is %+v, want %+v", c.arrived, got, c.want)
		}
	}
}
