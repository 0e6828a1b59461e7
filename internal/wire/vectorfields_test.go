package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// hexBytes are bytes that are hexadecimal in JSON.
type hexBytes string

func (h hexBytes) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString([]byte(h))), nil }

func (h *hexBytes) UnmarshalText(b []byte) error {
	x, err := hex.DecodeString(string(b))
	*h = hexBytes(x)
	return err
}

type dataFields struct {
	Sequence   uint64      `json:"sequence"`
	PacketSize int         `json:"packet_size"`
	Runs       []runFields `json:"runs"`
	Padding    hexBytes    `json:"padding"`
}

type runFields struct {
	Kind     uint8           `json:"kind"`
	Flags    uint8           `json:"run_flags"`
	Topic    uint64          `json:"topic_id"`
	Number   uint64          `json:"number"`
	Messages []hexBytes      `json:"messages,omitempty"`
	Fragment *fragmentFields `json:"fragment,omitempty"`
	Name     hexBytes        `json:"name,omitempty"`
	State    *stateFields    `json:"state,omitempty"`
	Index    *indexFields    `json:"index,omitempty"`
}

type stateFields struct {
	Marks uint8    `json:"marks"`
	Round uint32   `json:"round"`
	Bytes hexBytes `json:"bytes"`
}

type indexFields struct {
	Marks   uint8          `json:"marks"`
	Answers []answerFields `json:"answers"`
}

type answerFields struct {
	Receiver uint64 `json:"receiver_id"`
	Question uint32 `json:"question"`
}

type fragmentFields struct {
	Total  int      `json:"total"`
	Offset int      `json:"offset"`
	Bytes  hexBytes `json:"bytes"`
}

type heartbeatFields struct {
	Lead           uint64   `json:"lead"`
	Trail          uint64   `json:"trail"`
	SentAt         uint64   `json:"sent_at"`
	Backoff        int64    `json:"backoff_window_ns"`
	Receivers      uint32   `json:"receivers"`
	StatusInterval int64    `json:"status_interval_us"`
	Interval       int64    `json:"heartbeat_interval_us"`
	PacketSize     int      `json:"packet_size"`
	RTT            int64    `json:"round_trip_ns"`
	Groups         uint32   `json:"groups"`
	Mapping        uint8    `json:"mapping"`
	MapParam       uint16   `json:"map_parameter"`
	Checksum       uint8    `json:"checksum_kind"`
	Holder         uint64   `json:"holder"`
	Held           int64    `json:"held_ms"`
	Released       bool     `json:"released"`
	Name           hexBytes `json:"name"`
	LegTags        []uint32 `json:"leg_tags"`
	// Asked has at most one element.
	Asked []uint64 `json:"asked_topics"`
	// Timings has at most one element.
	Timings []timingFields `json:"timings"`
}

type timingFields struct {
	Clock  uint64 `json:"clock"`
	Packet uint64 `json:"timed_packet"`
	At     uint64 `json:"timed_at_ns"`
	Next   uint64 `json:"next"`
}

type rangesFields struct {
	Receiver uint64      `json:"receiver_id"`
	Base     uint64      `json:"base"`
	Reason   uint8       `json:"reason"`
	Wait     int64       `json:"wait_us"`
	Ranges   [][2]uint64 `json:"first_and_count"`
}

type statusFields struct {
	Receiver  uint64   `json:"receiver_id"`
	Next      uint64   `json:"next"`
	Limit     uint64   `json:"limit"`
	Echo      uint64   `json:"echo"`
	EchoDelay int64    `json:"echo_delay_ns"`
	Lost      uint32   `json:"lost"`
	Unread    uint32   `json:"unread"`
	Since     uint64   `json:"since"`
	Question  uint32   `json:"question"`
	Topics    []uint64 `json:"topic_ids"`
	Name      hexBytes `json:"name"`
	Tag       hexBytes `json:"tag,omitempty"`
}

type helloFields struct {
	Groups     uint32   `json:"groups"`
	Mapping    uint8    `json:"mapping"`
	MapParam   uint16   `json:"map_parameter"`
	Checksum   uint8    `json:"checksum_kind"`
	PacketSize int      `json:"packet_size"`
	Topics     uint32   `json:"topics"`
	Answer     bool     `json:"answer"`
	Waits      bool     `json:"waits"`
	Name       hexBytes `json:"name"`
	Filter     hexBytes `json:"topic_filter"`
}

type replyFields struct {
	Receiver uint64   `json:"receiver_id"`
	Topic    uint64   `json:"topic_id"`
	Number   uint64   `json:"number"`
	Total    int      `json:"total"`
	Offset   int      `json:"offset"`
	Bytes    hexBytes `json:"bytes"`
}

type recallFields struct {
	Replies []recalledFields `json:"replies"`
}

type recalledFields struct {
	Receiver uint64 `json:"receiver_id"`
	Topic    uint64 `json:"topic_id"`
	Number   uint64 `json:"number"`
	Offset   int    `json:"offset"`
}

// fieldsOf parses a packet into the struct of its type.
func fieldsOf(tb testing.TB, b []byte) (vectorHeader, any, error) {
	tb.Helper()
	h, err := ParseHeader(b)
	if err != nil {
		return vectorHeader{}, nil, err
	}
	head := vectorHeader{
		Version: b[2], Type: uint8(h.Type), TypeName: h.Type.String(), Flags: uint8(h.Flags), GroupTag: h.GroupTag,
		Checksum: uint32(b[12]) | uint32(b[13])<<8 | uint32(b[14])<<16 | uint32(b[15])<<24, Publisher: uint64(h.Publisher), Epoch: uint64(h.Epoch),
	}
	var fields any
	switch h.Type {
	case TypeData:
		fields, err = dataFieldsOf(tb, b)
	case TypeHeartbeat:
		var x Heartbeat
		x, err = ParseHeartbeat(b)
		fields = &heartbeatFields{
			x.Lead, x.Trail, x.SentAt, int64(x.Backoff), x.Receivers, x.StatusInterval.Microseconds(), x.Interval.Microseconds(), x.PacketSize, int64(x.RTT),
			x.Settings.Groups, uint8(x.Settings.Mapping.Kind), x.Settings.Mapping.Param, uint8(x.Settings.Checksum), x.Holder, x.Held.Milliseconds(), x.Released, hexBytes(x.Name), append([]uint32{}, x.Legs.List()...), askedOf(x.Asked), timingsOf(x.Timing),
		}
	case TypeNAK, TypeNCF, TypeGone:
		var d rangesDesc
		d, err = describeRanges(tb, b)
		f := &rangesFields{Receiver: d.Receiver, Base: d.Base, Reason: uint8(d.Reason), Wait: d.Wait.Microseconds()}
		for _, r := range d.Ranges {
			f.Ranges = append(f.Ranges, [2]uint64{r.First, r.N})
		}
		fields = f
	case TypeStatus:
		var d statusDesc
		d, err = describeStatus(b)
		fields = &statusFields{d.Receiver, d.Next, d.Limit, d.Echo, int64(d.EchoDelay), d.Lost, d.Unread, d.Since, d.Question, append([]uint64{}, d.Topics...), hexBytes(d.Name), hexBytes(d.Tag)}
	case TypeHello:
		var x Hello
		x, err = ParseHello(b)
		fields = &helloFields{x.Groups, uint8(x.Mapping.Kind), x.Mapping.Param, uint8(x.Checksum), x.PacketSize, x.Topics, x.Answer, x.Waits, hexBytes(x.Name), hexBytes(x.Filter[:])}
	}
	switch h.Type {
	case TypeReply:
		var x Reply
		x, err = ParseReply(b)
		fields = &replyFields{x.Receiver, x.Topic, x.Number, x.Total, x.Offset, hexBytes(x.Bytes)}
	case TypeRecall:
		var x Recall
		x, err = ParseRecall(b)
		f := &recallFields{}
		for i := range x.Count {
			f.Replies = append(f.Replies, recalledFields(x.At(i)))
		}
		fields = f
	}
	return head, fields, err
}

func askedOf(id uint64) []uint64 {
	if id == 0 {
		return []uint64{}
	}
	return []uint64{id}
}

func timingsOf(t Timing) []timingFields {
	if t.Clock == 0 {
		return []timingFields{}
	}
	return []timingFields{timingFields(t)}
}

func dataFieldsOf(tb testing.TB, b []byte) (*dataFields, error) {
	d, err := describeData(tb, b)
	if err != nil {
		return nil, err
	}
	f := &dataFields{Sequence: d.Seq, PacketSize: d.PacketSize, Runs: []runFields{}}
	end := len(d.append(nil, Header{}, 0))
	f.Padding = hexBytes(b[end:])
	for _, r := range d.Runs {
		x := runFields{Kind: uint8(r.Kind), Flags: uint8(r.Flags), Topic: r.Topic, Number: r.Number}
		for _, m := range r.Messages {
			x.Messages = append(x.Messages, hexBytes(m))
		}
		x.Name = hexBytes(r.Name)
		if s := r.State; s != nil {
			x.State = &stateFields{uint8(s.Marks), s.Round, hexBytes(s.Bytes)}
		}
		if r.Index != nil {
			x.Index = &indexFields{uint8(r.Index.Marks), []answerFields{}}
			for _, a := range r.Index.Answers {
				x.Index.Answers = append(x.Index.Answers, answerFields(a))
			}
		}
		if r.Kind == RunFragment {
			x.Fragment = &fragmentFields{r.Total, r.Offset, hexBytes(r.Fragment)}
		}
		f.Runs = append(f.Runs, x)
	}
	return f, nil
}

// desc returns the packet as the values of the other tests.
func (f *dataFields) desc() (d dataDesc) {
	d = dataDesc{Seq: f.Sequence, PacketSize: f.PacketSize}
	for _, r := range f.Runs {
		x := runDesc{Kind: RunKind(r.Kind), Flags: RunFlags(r.Flags), Topic: r.Topic, Number: r.Number}
		for _, m := range r.Messages {
			x.Messages = append(x.Messages, string(m))
		}
		x.Name = string(r.Name)
		if s := r.State; s != nil {
			x.State = &stateDesc{StateMarks(s.Marks), s.Round, string(s.Bytes)}
		}
		if i := r.Index; i != nil {
			x.Index = &indexDesc{Marks: IndexMarks(i.Marks)}
			for _, a := range i.Answers {
				x.Index.Answers = append(x.Index.Answers, answerDesc(a))
			}
		}
		if r.Fragment != nil {
			x.Total, x.Offset, x.Fragment = r.Fragment.Total, r.Fragment.Offset, string(r.Fragment.Bytes)
		}
		d.Runs = append(d.Runs, x)
	}
	return d
}

func (f *heartbeatFields) value() Heartbeat {
	h := Heartbeat{
		Lead: f.Lead, Trail: f.Trail, SentAt: f.SentAt, Backoff: time.Duration(f.Backoff), Receivers: f.Receivers,
		StatusInterval: time.Duration(f.StatusInterval) * time.Microsecond, Interval: time.Duration(f.Interval) * time.Microsecond,
		PacketSize: f.PacketSize, RTT: time.Duration(f.RTT), Holder: f.Holder, Held: time.Duration(f.Held) * time.Millisecond, Released: f.Released,
		Settings: Settings{Groups: f.Groups, Mapping: Mapping{MappingKind(f.Mapping), f.MapParam}, Checksum: Checksum(f.Checksum)},
		Legs:     LegsOf(f.LegTags),
	}
	if f.Name != "" {
		h.Name = []byte(f.Name)
	}
	if len(f.Asked) > 0 {
		h.Asked = f.Asked[0]
	}
	if len(f.Timings) > 0 {
		h.Timing = Timing(f.Timings[0])
	}
	return h
}

func (f *rangesFields) desc() rangesDesc {
	d := rangesDesc{Receiver: f.Receiver, Base: f.Base, Reason: Reason(f.Reason), Wait: time.Duration(f.Wait) * time.Microsecond}
	for _, r := range f.Ranges {
		d.Ranges = append(d.Ranges, rangeDesc{r[0], r[1]})
	}
	return d
}

func (f *statusFields) desc() statusDesc {
	return statusDesc{
		Status: Status{
			Receiver: f.Receiver, Next: f.Next, Limit: f.Limit, Echo: f.Echo, EchoDelay: time.Duration(f.EchoDelay),
			Lost: f.Lost, Unread: f.Unread, Since: f.Since, Question: f.Question, Name: []byte(f.Name), Tag: []byte(f.Tag),
		},
		Topics: f.Topics,
	}
}

func (f *helloFields) value() Hello {
	return Hello{
		Settings:   Settings{Groups: f.Groups, Mapping: Mapping{MappingKind(f.Mapping), f.MapParam}, Checksum: Checksum(f.Checksum)},
		PacketSize: f.PacketSize, Topics: f.Topics, Answer: f.Answer, Waits: f.Waits, Name: []byte(f.Name), Filter: TopicFilter([]byte(f.Filter)),
	}
}

func (f *replyFields) value() Reply {
	return Reply{f.Receiver, f.Topic, f.Number, f.Total, f.Offset, []byte(f.Bytes)}
}

func (f *recallFields) append(b []byte, h Header) []byte {
	start := len(b)
	b = AppendRecallHeader(b, h)
	for _, x := range f.Replies {
		b = AppendRecalled(b, (*Recalled)(&x))
	}
	FinishRecall(b[start:], len(f.Replies))
	return b
}

// build makes the packet of header and fields.
func build(tb testing.TB, head vectorHeader, raw json.RawMessage) []byte {
	tb.Helper()
	h := Header{Type: Type(head.Type), Flags: Flags(head.Flags), GroupTag: head.GroupTag, Publisher: events.ID(head.Publisher), Epoch: events.ID(head.Epoch)}
	var b []byte
	switch h.Type {
	case TypeData:
		f := fieldsFrom[dataFields](raw)
		d := f.desc()
		b = append(d.append(nil, h, 0), f.Padding...)
	case TypeHeartbeat:
		x := fieldsFrom[heartbeatFields](raw).value()
		b = AppendHeartbeat(nil, h, &x)
	case TypeNAK, TypeNCF, TypeGone:
		d := fieldsFrom[rangesFields](raw).desc()
		b = d.append(tb, nil, h)
	case TypeStatus:
		d := fieldsFrom[statusFields](raw).desc()
		b = d.append(nil, h)
	case TypeHello:
		x := fieldsFrom[helloFields](raw).value()
		b = AppendHello(nil, h, &x)
	case TypeReply:
		x := fieldsFrom[replyFields](raw).value()
		b = AppendReply(nil, h, &x)
	case TypeRecall:
		b = fieldsFrom[recallFields](raw).append(nil, h)
	}
	if h.Flags&FlagChecksum != 0 {
		SetChecksum(b)
	}
	return b
}

func fieldsFrom[T any](raw json.RawMessage) *T {
	f := new(T)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		panic(fmt.Sprintf("%s: %v", vectorsFile, err))
	}
	return f
}
