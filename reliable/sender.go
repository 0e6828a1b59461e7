package reliable

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Sender is the publisher's side of one stream. It is not safe for concurrent use: its owner serialises all calls. Only
// Writers may be filled outside of that.
type Sender struct {
	Running
	cfg      SenderConfig
	header   wire.Header
	template [wire.DataHeaderLen]byte // of every data packet

	blocks sendBlocks
	win    sendWindow

	midMessage *Writer       // has assigned some, but not all fragments of a message
	blocked    events.Reason // why the last Assign stopped

	out       outbox
	flow      flowState
	limiter   tokenBucket
	repairs   repairs
	heartbeat heartbeat
	timer     sendTimer
	await     awaiting
	topics    topics
	state     *StateSender // nil: there is none
	packing   *packing     // nil: nothing is compressed
	members   members
	requests  requests
	stall     stall
	rtt       rttEstimator
	end       finish
	batches   batches
	stats     stats.Sender
}

// finish says whether a caller waits until all subscribers have everything.
type finish struct {
	begun bool    // the stream ends with what has its sequence
	at    Instant // when that began
	hurry hurry
}

// hurry says whether a caller waits for that though the stream continues.
type hurry uint8

const (
	unhurried hurry = iota
	hurried         // a caller does, and subscribers were asked since
	toBeAsked       // a caller has begun to since the last heartbeat: one asks at once
)

// stageBlocks is how many blocks hold copies of packets to be repaired and control packets: more than one, because a
// transport may still be sending from the last.
const stageBlocks = 4

// NewSender returns a sender over mem, which is cut into blocks of cfg.BlockBytes(): at least cfg.LeastBlocks() of
// them. The window grows with what AddMemory adds.
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
		header: wire.Header{GroupTag: cfg.GroupTag, Publisher: cfg.Publisher, Epoch: cfg.Epoch},
	}
	s.blocks.perBlock, s.blocks.perTrain = cfg.perBlock(), cfg.perTrain()
	wire.PutDataHeader(s.template[:], s.header, cfg.PacketSize)
	for i := range s.out.stages {
		s.out.stages[i].block = &block{mem: mem[:size:size]}
		mem = mem[size:]
	}
	s.AddMemory(mem)
	s.members.init(cfg.MaxReceivers)
	s.requests.due = Never
	s.stall = stall{limit: cfg.StallLimit, flow: cfg.Flow}
	s.repairs.init(&s.cfg, now)
	s.members.trailing.since = s.up(now)
	s.limiter.init(float64(cfg.Rate), max(float64(cfg.Rate)/1000, float64(2*cfg.MaxTrainBytes)), now)
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.heartbeat.start(now)
	if cfg.Packer != nil {
		s.packing = newPacking(cfg.Packer)
	}
	return s, nil
}

// Lead is the sequence that the next new packet will have.
func (s *Sender) Lead() uint64 { return s.win.next }

// Transmitted is the sequence below which everything was sent once.
func (s *Sender) Transmitted() uint64 { return s.win.sent }

// PacketSize is the size of a full packet in bytes.
func (s *Sender) PacketSize() int { return s.cfg.PacketSize }

// MaxInPacket is the longest message that goes in one packet, MaxInBlock the longest that Writer.Append takes.
func (s *Sender) MaxInPacket() int { return wire.MaxInPacket(s.cfg.PacketSize) }

// MaxInBlock: see MaxInPacket.
func (s *Sender) MaxInBlock() int {
	return max(s.MaxInPacket(), s.blocks.perBlock*wire.MaxFragment(s.cfg.PacketSize))
}

// Handle takes in one unicast packet, a NAK, a status or a reply, addressed to this
// stream. Anything else is counted and dropped.
func (s *Sender) Handle(now Instant, b []byte) { s.HandleFrom(now, b, nil) }

// HandleFrom is Handle of a packet that came from an address, the text of which is
// asked for when it is needed. docs/protocol §13.1.
func (s *Sender) HandleFrom(now Instant, b []byte, address func() string) {
	h, err := wire.ParseHeader(b)
	if err != nil {
		s.stats.Malformed++
		return
	}
	if h.Publisher != s.cfg.Publisher || h.Epoch != s.cfg.Epoch || h.GroupTag != s.cfg.GroupTag {
		s.stats.Foreign++
		return
	}
	if wire.Verify(b, s.cfg.Checksum) != nil {
		s.stats.Malformed++
		return
	}
	switch h.Type {
	case wire.TypeNAK:
		r, err := wire.ParseRanges(b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		asked := s.stats.NAKPackets + s.stats.NAKGone
		s.handleNAK(now, r)
		first, _, _ := r.Next()
		s.cfg.Sink.Asked(r.Receiver, first, s.stats.NAKPackets+s.stats.NAKGone-asked)
	case wire.TypeStatus:
		st, err := wire.ParseStatus(b)
		if err != nil || st.Next > s.win.next {
			s.stats.Malformed++ // a subscriber cannot have what was never sent
			return
		}
		s.handleStatus(now, h.Flags, &st, address)
	case wire.TypeReply:
		r, err := wire.ParseReply(b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		s.handleReply(now, h.Flags&wire.FlagSigned != 0, &r, address)
	default:
		s.stats.Foreign++
	}
}

// Deadline is when Next will have something to send that it has not now, if nothing else happens. What waits for the
// transport to release packet memory is not in it: Completed is what happens then.
func (s *Sender) Deadline() Instant {
	d := Never
	if s.out.freeStage() != nil {
		d = min(s.heartbeat.due, s.repairs.deadline(s.cfg.PacketSize), s.announcesAt(), s.requests.due)
	}
	if s.blocked == events.ReasonRate && !s.end.begun { // behind the end nothing goes any more
		d = min(d, s.limiter.due(s.cfg.PacketSize))
	}
	return d
}

// End announces that the stream ends with what has its sequence: heartbeats say so
// until all subscribers have everything (Drained) or the caller gives up. docs/protocol §11.1.
func (s *Sender) End(now Instant) {
	if !s.end.begun {
		s.end.begun = true
		s.end.at = now
		s.topics.announceAll(now) // so that all know whether it was of interest to them
		s.heartbeat.restart(now)
	}
}

// Hurry asks subscribers at once, and on the ladder, what they have, until all have everything: a caller waits for it
// (Drained). With anew they are asked again, though another caller waits already.
func (s *Sender) Hurry(now Instant, anew bool) {
	if (anew || s.end.hurry == unhurried) && !s.end.begun && !s.Drained() {
		s.end.hurry = toBeAsked
		s.heartbeat.restart(now)
	}
}

// Drained reports whether as many subscribers as flow control needs, or all if it waits for none, have everything that
// has a sequence; after End, whether all have, and have had a chance to learn of it. docs/protocol §11.1.
func (s *Sender) Drained() bool {
	if s.win.next == 0 && len(s.members.list) == 0 {
		return true // nothing was ever published
	}
	if s.end.begun { // all may still have what they lack
		return s.win.sent == s.win.next && s.members.complete(s.win.next) && s.topics.left == 0 &&
			s.heartbeat.sinceRestart >= endHeartbeats && s.members.answered()
	}
	return s.settled() && s.topics.left == 0
}

// Progress changes when something has happened that a caller that waits for room, or for subscribers, may want to know.
func (s *Sender) Progress() uint64 {
	st := &s.stats
	return s.win.next + s.win.sent + s.out.done + st.Statuses + st.NAKs + st.ReceiversLeft + st.ReceiversSilent + st.ReceiversReleased + st.HeartbeatsSent + st.AnnouncesSent + st.ReplyPackets
}

// endHeartbeats is how many heartbeats with the end go out at least.
const endHeartbeats = 3
