package reliable

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Sender is the sending side of one stream. It is not safe for concurrent use: its owner serialises all calls. Only
// Packets may be filled concurrently.
type Sender struct {
	Running
	cfg      SenderConfig
	header   wire.Header
	template [wire.DataHeaderLen]byte // header of every data packet

	blocks sendBlocks
	win    sendWindow

	blocked events.Reason // why the last packet was not admitted

	out       outbox
	flow      flowState
	limiter   tokenBucket
	repairs   repairs
	heartbeat heartbeat
	timer     sendTimer
	await     awaiting
	control   SenderControl
	answers   uint64 // packets that control has handled
	members   members
	stall     stall
	rtt       rttEstimator
	end       endState
	stats     stats.SenderPackets
}

// endState says whether the stream ends, or a caller waits until all members have everything.
type endState struct {
	begun bool    // the stream ends with its assigned packets
	at    Instant // when the end began
	hurry hurry
}

// hurry says whether a caller waits until members have everything while the stream continues.
type hurry uint8

const (
	unhurried hurry = iota
	hurried         // a caller waits, and members were asked since
	toBeAsked       // a caller began to wait after the last heartbeat: the next one asks at once
)

// stageBlocks is the number of blocks for copies of packets to be repaired, and control packets: several, because the
// transport may still read the last ones.
const stageBlocks = 4

// NewSender returns a sender with packet memory mem, at least cfg.LeastBlocks() blocks of cfg.BlockBytes() each. It
// fails if cfg is invalid or mem too small. AddMemory enlarges the window.
func NewSender(cfg SenderConfig, mem []byte, now Instant) (*Sender, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	size := cfg.perBlock() * cfg.PacketSize
	if len(mem) < size*cfg.LeastBlocks() {
		return nil, fmt.Errorf("%d bytes of packet memory, a stream needs %d", len(mem), size*cfg.LeastBlocks())
	}
	s := &Sender{
		cfg:    cfg,
		header: wire.Header{GroupTag: cfg.GroupTag, Publisher: cfg.Publisher, Epoch: cfg.Epoch}, control: noSenderControl{},
	}
	s.blocks.perBlock, s.blocks.perTrain = cfg.perBlock(), cfg.perTrain()
	wire.PutDataHeader(s.template[:], s.header, cfg.PacketSize)
	for i := range s.out.stages {
		s.out.stages[i].block = &block{mem: mem[:size:size]}
		mem = mem[size:]
	}
	s.AddMemory(mem)
	s.members.init(cfg.MaxReceivers)
	s.stall = stall{limit: cfg.StallLimit, flow: cfg.Flow}
	s.repairs.init(&s.cfg, now)
	s.members.trailing.since = s.up(now)
	s.limiter.init(float64(cfg.Rate), max(float64(cfg.Rate)/1000, float64(2*cfg.MaxTrainBytes)), now)
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.heartbeat.start(now)
	return s, nil
}

// Lead is the sequence that the next new packet will have.
func (s *Sender) Lead() uint64 { return s.win.next }

// Trail is the sequence of the oldest packet that can be repaired.
func (s *Sender) Trail() uint64 { return s.win.trail }

// Packet returns packet seq, which must be within the window.
func (s *Sender) Packet(seq uint64) []byte { return s.blocks.packet(s.win.at(seq)) }

// Transmitted is the sequence below which all packets were sent once.
func (s *Sender) Transmitted() uint64 { return s.win.sent }

// PacketSize is the size of a full packet in bytes.
func (s *Sender) PacketSize() int { return s.cfg.PacketSize }

// BlockPackets is how many full packets a block holds.
func (s *Sender) BlockPackets() int { return s.blocks.perBlock }

// Handle processes a unicast packet to this stream: a NAK, a status or one of the message layer. It counts and drops
// others. address returns the text of its source, and is called only when needed; it may be nil. docs/protocol §13.1.
func (s *Sender) Handle(now Instant, b []byte, address func() string) {
	h, err := wire.ParseHeader(b)
	if err == nil && (h.Publisher != s.cfg.Publisher || h.Epoch != s.cfg.Epoch || h.GroupTag != s.cfg.GroupTag) {
		s.stats.Foreign++
		return
	}
	if err == nil {
		err = wire.Verify(b, s.cfg.Checksum)
	}
	if err == nil {
		err = s.take(now, &h, b, address)
	}
	if err != nil {
		s.refuse(&s.stats.Malformed, address, err)
	}
}

// take takes in a packet of this stream. It returns why it is malformed, if it is.
func (s *Sender) take(now Instant, h *wire.Header, b []byte, address func() string) error {
	switch h.Type {
	case wire.TypeNAK:
		r, err := wire.ParseRanges(b)
		if err != nil {
			return err
		}
		if r.End > s.win.sent {
			s.refuse(&s.stats.NAKInvalid, address, errNever)
		}
		asked := s.stats.NAKPackets + s.stats.NAKGone
		s.handleNAK(now, r)
		first, _, _ := r.Next()
		s.cfg.Sink.Asked(r.Receiver, first, s.stats.NAKPackets+s.stats.NAKGone-asked)
	case wire.TypeStatus:
		st, err := wire.ParseStatus(b)
		if err == nil && st.Next > s.win.next {
			err = errNever
		}
		if err != nil {
			return err
		}
		s.handleStatus(now, h.Flags, &st, address)
	default:
		known, err := s.control.Handle(now, *h, b, address)
		switch {
		case err != nil:
			return err
		case known:
			s.answers++
		default:
			s.stats.Foreign++
		}
	}
	return nil
}

// Deadline is when Next will have something to send, unless something else happens before. Packets that wait for the
// transport to release memory do not count: Completed ends that wait.
func (s *Sender) Deadline() Instant {
	d := Never
	if s.out.freeStage() != nil {
		d = min(s.heartbeat.due, s.repairs.deadline(s.cfg.PacketSize), s.control.Deadline())
	}
	if s.blocked == events.ReasonRate && !s.end.begun { // after the end no new data is sent
		d = min(d, s.limiter.due(s.cfg.PacketSize))
	}
	return d
}

// End announces that the stream ends with its assigned packets: heartbeats state it until all members have everything
// (Drained) or the owner gives up. docs/protocol §11.1.
func (s *Sender) End(now Instant) {
	if !s.end.begun {
		s.end.begun = true
		s.end.at = now
		s.heartbeat.restart(now)
	}
}

// Ended reports whether End was called.
func (s *Sender) Ended() bool { return s.end.begun }

// Hurry asks members at once, and then on the ladder, what they have, until all have everything: a caller waits for
// that (Drained). With anew they are asked again even if another caller is waiting already.
func (s *Sender) Hurry(now Instant, anew bool) {
	if (anew || s.end.hurry == unhurried) && !s.end.begun && !s.Drained() {
		s.end.hurry = toBeAsked
		s.heartbeat.restart(now)
	}
}

// Drained reports whether as many members as flow control needs, or all if it waits for none, have all assigned
// packets. After End it reports whether all have, and have answered the end. docs/protocol §11.1.
func (s *Sender) Drained() bool {
	if s.win.next == 0 && len(s.members.list) == 0 {
		return true // nothing was published
	}
	if s.end.begun { // members may still get missing packets
		return s.win.sent == s.win.next && s.members.complete(s.win.next) &&
			s.heartbeat.sinceRestart >= endHeartbeats && s.members.answered()
	}
	return s.settled()
}

// Progress is a number that changes when anything happened that may concern a caller waiting for room or for
// subscribers.
func (s *Sender) Progress() uint64 {
	st := &s.stats
	return s.win.next + s.win.sent + s.out.done + st.Statuses + st.NAKs + st.ReceiversLeft +
		st.ReceiversSilent + st.ReceiversReleased + st.HeartbeatsSent + s.answers
}

// endHeartbeats is the minimum number of heartbeats with the end flag.
const endHeartbeats = 3
