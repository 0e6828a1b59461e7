package mem

import (
	"errors"
	"net"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// An endpoint does not end while another may be copying into it: a sender of another endpoint, even of a closing one,
// or a reply.
func TestEndWaitsForCopies(t *testing.T) {
	for name, section := range map[string]func(s *Sender) (enter, exit func()){
		"sender": func(s *Sender) (func(), func()) { return s.section.Enter, s.section.Exit },
		"reply":  func(s *Sender) (func(), func()) { return s.t.replying.Enter, s.t.replying.Exit },
	} {
		t.Run(name, func(t *testing.T) {
			n := NewNetwork()
			open := func() *Transport {
				tr, err := Open(Config{Network: n})
				if err != nil {
					t.Fatal(err)
				}
				return tr
			}
			a, b := open(), open()
			s, err := a.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			enter, exit := section(s.(*Sender))
			enter()
			batch := transport.NewBatch(1)
			a.Close()
			b.Close()
			for range 10 {
				if a.Poll(batch) != nil || b.Poll(batch) != nil {
					t.Fatal("ended while another endpoint may be copying into it")
				}
			}
			exit()
			for _, tr := range []*Transport{a, b} {
				if err := tr.Poll(batch); !errors.Is(err, net.ErrClosed) {
					t.Fatalf("Poll: error %v, want %v", err, net.ErrClosed)
				}
			}
		})
	}
}
