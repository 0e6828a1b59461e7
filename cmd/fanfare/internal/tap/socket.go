package tap

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// Socket is a passive receiver of groups: it cannot send.
type Socket struct {
	t       transport.Transport
	address []string // of each group
	joined  int      // joins that did not fail
	batch   *transport.Batch
	train   int // trains of the batch already returned
	packet  int // packets of the train already returned
	now     time.Time
	ended   atomic.Bool
	failed  func(group int, err error)
}

// OpenSocket joins groups of a fabric, all if none are given. failed is called for groups that
// cannot be joined. The Socket owns the transport and closes it.
func OpenSocket(t transport.Transport, groups []int, failed func(group int, err error)) (*Socket, error) {
	caps := t.Capabilities()
	s := &Socket{t: t, batch: transport.NewBatch(caps.Batch), failed: failed}
	for g := range caps.Groups {
		s.address = append(s.address, t.GroupAddress(g))
		if len(groups) > 0 && !slices.Contains(groups, g) {
			continue
		}
		if err := t.Join(g); err != nil {
			s.Close()
			return nil, fmt.Errorf("group %d (%s): %w", g, s.address[g], err)
		}
		s.joined++
	}
	return s, nil
}

func (s *Socket) Next() (*Packet, error) {
	for {
		if s.train < len(s.batch.Trains) {
			t := &s.batch.Trains[s.train]
			if s.packet < t.Count() {
				p := &Packet{Time: s.now, Data: t.Packet(s.packet), To: "here"}
				if t.Group >= 0 && t.Group < len(s.address) {
					p.To, p.Address = s.address[t.Group], s.address[t.Group]
				}
				p.From = s.source(t)
				s.packet++
				return p, nil
			}
			s.t.Release(t)
			s.train, s.packet = s.train+1, 0
			continue
		}
		if err := s.poll(); err != nil {
			return nil, err
		}
	}
}

func (s *Socket) poll() error {
	if s.ended.Load() {
		return ErrInterrupted
	}
	s.train, s.packet = 0, 0
	s.batch.Trains, s.batch.Events = s.batch.Trains[:0], s.batch.Events[:0]
	if err := s.t.Poll(s.batch); err != nil {
		return err
	}
	for _, e := range s.batch.Events {
		if e.Role != transport.RoleReceiver || e.State != transport.Failed {
			continue
		}
		s.failed(e.Group, e.Err)
		if s.joined--; s.joined == 0 {
			return errors.New("no group could be joined")
		}
	}
	if len(s.batch.Trains) == 0 {
		return s.t.Wait(time.Second)
	}
	s.now = time.Now()
	return nil
}

func (s *Socket) source(t *transport.Train) string {
	return cmp.Or(s.t.SourceAddress(t.From), "unknown")
}

func (s *Socket) Interrupt() {
	s.ended.Store(true)
	s.t.Wake()
}

func (s *Socket) Lost() uint64 { return s.t.Stats().ReceiveOverflow }

func (s *Socket) Skipped() map[string]uint64 {
	st, skipped := s.t.Stats(), make(map[string]uint64)
	if n := st.Damaged; n > 0 {
		skipped["damaged, or not a datagram of this fabric"] = n
	}
	if n := st.ReceiveTruncated; n > 0 {
		skipped["longer than a receive buffer"] = n
	}
	return skipped
}

func (s *Socket) Close() error {
	for ; s.train < len(s.batch.Trains); s.train++ {
		s.t.Release(&s.batch.Trains[s.train])
	}
	s.batch.Trains = s.batch.Trains[:0]
	err := s.t.Close()
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		if e := s.t.Poll(s.batch); e != nil { // completes the close
			if !errors.Is(e, net.ErrClosed) {
				err = errors.Join(err, e)
			}
			break
		}
		for i := range s.batch.Trains {
			s.t.Release(&s.batch.Trains[i])
		}
		s.t.Wait(time.Millisecond)
	}
	return err
}

func (s *Socket) Addresses() []string { return s.address }

var _, _ Source = (*Socket)(nil), (*capture)(nil)
