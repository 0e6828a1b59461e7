package sys

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"
)

// A socket gets all but what is unwanted: of that address and port, and with those bytes.
func TestKeepOut(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			rx, to := open(t, host)
			tx, from := open(t, host)
			other, _ := open(t, host)
			sa := NewSockaddr(to, 0)
			in, bufs := newBatch(1, 64)
			drops, _ := socketDrops(rx)
			got := func(fd int, payload string) bool {
				t.Helper()
				if errno := SendTo(fd, []byte(payload), &sa); errno != 0 {
					t.Fatal(errno)
				}
				n := 0
				for before := drops; n == 0 && drops == before; runtime.Gosched() {
					n, _ = in.Recv(rx, 1)
					drops, _ = socketDrops(rx) // what is kept out is counted there
				}
				if n == 1 && !bytes.Equal(bufs[0][:in.Size(0)], []byte(payload)) {
					t.Fatalf("%q came of %q", bufs[0][:in.Size(0)], payload)
				}
				return n == 1
			}
			one := Unwanted{from, []byte("ab\xffdwxyz"), []byte("\xff\xff\x00\xff\xff\xff\xff\xff")}
			two := Unwanted{from, []byte("1234"), []byte("\xff\xff\xff\xff")}
			elsewhere := Unwanted{netip.AddrPortFrom(from.Addr().Next(), from.Port()), []byte("5678"), []byte("\xff\xff\xff\xff")}
			for _, c := range []struct {
				list []Unwanted
				out  string // which of the payloads are kept out
			}{
				{nil, ""},
				{[]Unwanted{one}, "AB"},
				{[]Unwanted{elsewhere, two, one}, "ABE"},
				{[]Unwanted{two}, "E"},
				{nil, ""},
			} {
				must(t, KeepOut(rx, c.list))
				out := ""
				for i, payload := range []string{"abcdwxyz", "ab\x00dwxyz and more", "abcdwxy", "abcdwxyy", "1234", "5678", ""} {
					if !got(tx, payload) {
						out += string(rune('A' + i))
					}
					if !got(other, payload) {
						t.Errorf("%q of another port does not come", payload)
					}
				}
				if out != c.out {
					t.Errorf("%d unwanted: %q are kept out, want %q", len(c.list), out, c.out)
				}
			}
			list := make([]Unwanted, MaxUnwanted)
			for i := range list {
				list[i] = Unwanted{elsewhere.From, make([]byte, 32), bytes.Repeat([]byte{1}, 32)}
			}
			list[MaxUnwanted-1] = one
			must(t, KeepOut(rx, list))
			if got(tx, "abcdwxyz") || !got(tx, "1234") {
				t.Errorf("with %d unwanted", MaxUnwanted)
			}
			if KeepOut(-1, []Unwanted{one}) == nil || KeepOut(-1, nil) == nil {
				t.Error("no error of a socket that is none")
			}
		})
	}
}
