package tap

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

const group0, group1 = "239.20.0.0:7400", "239.20.0.1:7400"

// rig passes packets to an Observer and collects its findings.
type rig struct {
	*Observer
	at    time.Time
	found []string
	all   []Finding
}

func newRig() *rig {
	r := &rig{at: time.Unix(1000, 0)}
	r.Observer = NewObserver(GroupsFrom(netip.MustParseAddrPort(group0), 4), func(f Finding) {
		r.all = append(r.all, f)
		r.found = append(r.found, string(f.Kind)+": "+f.Text)
	})
	return r
}

// on observes a packet to group 0, d after the previous one.
func (r *rig) on(d time.Duration, b []byte) *Packet {
	r.at = r.at.Add(d)
	p := &Packet{Time: r.at, From: "10.0.0.7:40000", To: group0, Address: group0, Data: b}
	r.Locate(p)
	r.Observe(p)
	return p
}

func (r *rig) drain() []string {
	f := r.found
	r.found = nil
	return f
}

// expect checks that exactly these findings were made, each by a part of its text.
func (r *rig) expect(t *testing.T, want ...string) {
	t.Helper()
	got := r.drain()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("found %q, want %q", got, want)
	}
}

func header(epoch events.ID, f wire.Flags) wire.Header {
	return wire.Header{Flags: f, GroupTag: wire.GroupTag(group0), Publisher: 0x77, Epoch: epoch}
}

func dataPacket(seq uint64, f wire.Flags) []byte {
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+2)
	wire.PutDataHeader(b, header(3, f), 1472)
	wire.SetSeq(b, seq)
	wire.PutRun(b[wire.DataHeaderLen:], 9, []byte("hi"))
	return b
}

func heartbeatPacket(lead, trail uint64, f wire.Flags) []byte {
	return wire.AppendHeartbeat(nil, header(3, f), &wire.Heartbeat{Lead: lead, Trail: trail, PacketSize: 1472, Receivers: 2, Name: []byte("feed")})
}

func rangesPacket(typ wire.Type, receiver uint64, first, n uint64) []byte {
	var w wire.RangesBuilder
	w.Begin(nil, header(3, 0), typ, receiver, first, 0, 0, 1472)
	w.Add(first, n)
	return w.Finish()
}

// Missing packets are reported, and what happens to them. docs/protocol §4.1, §5.1, §6.1.
func TestGaps(t *testing.T) {
	r := newRig()
	r.on(0, dataPacket(8, wire.FlagRepair)) // does not begin the stream
	r.expect(t, "stream: publisher 0000000000000077: first packet from 10.0.0.7:40000, with epoch 0000000000000003")
	r.on(0, dataPacket(10, 0))
	r.on(0, dataPacket(9, 0)) // of before the start
	r.expect(t)
	r.on(0, dataPacket(14, 0))
	r.expect(t, "gap: publisher 0000000000000077: 3 packets, 11 to 13, are missing")
	r.on(time.Millisecond, dataPacket(12, wire.FlagRepair))
	r.on(time.Millisecond, dataPacket(11, wire.FlagRepair))
	r.expect(t)
	r.on(time.Millisecond, dataPacket(13, wire.FlagRepair))
	r.expect(t, "repaired: publisher 0000000000000077: 3 packets, 11 to 13, are repaired after 3ms")
	r.on(0, dataPacket(13, wire.FlagRepair)) // for somebody else
	r.expect(t)
	r.on(0, dataPacket(14, 0))
	r.expect(t, "duplicate: publisher 0000000000000077: packet 14 received again, not as a repair")
	r.on(0, heartbeatPacket(17, 5, 0))
	r.expect(t, "gap: publisher 0000000000000077 (feed): 2 packets, 15 to 16, are missing")
	r.on(time.Millisecond, dataPacket(15, 0))
	r.on(time.Millisecond, dataPacket(16, 0))
	r.expect(t, "2 packets, 15 to 16, are received late, without repair, after 2ms")
	r.on(0, heartbeatPacket(20, 5, 0))
	r.on(0, rangesPacket(wire.TypeGone, 0, 18, 1))
	r.on(0, heartbeatPacket(20, 20, 0))
	r.expect(t, "gap: ", "1 of the missing packets will not arrive: the publisher cannot", "2 of the missing packets will not arrive: they are older")
	r.on(0, dataPacket(farJump+22, 0))
	r.expect(t, "implausible: ")
	r.on(0, heartbeatPacket(20, 20, wire.FlagEnd))
	r.on(0, heartbeatPacket(20, 20, wire.FlagEnd))
	r.expect(t, "end: publisher 0000000000000077 (feed): the stream ends before packet 20")
	s := r.Streams()[0]
	want := Counts{
		Packets: 17 + 1, Bytes: s.Bytes, Data: 7, Messages: 7, Heartbeats: 5, Gones: 1, Repairs: 5, Missing: 8, Repaired: 3, Late: 2, Gone: 3, Duplicates: 1, Unneeded: 1,
	}
	if s.Counts != want || s.Receivers != 2 || !s.Ended || s.Name != "feed" {
		t.Errorf("counts %+v, want %+v of 2 receivers and an ended publisher feed: %+v", s.Counts, want, s)
	}
	if p, b := s.Rate(); p != 0 || b != 0 {
		t.Errorf("%f packets and %f bytes a second, want 0; the capture lasted %v", p, b, s.Last.Sub(s.First))
	}
	r.on(time.Second, heartbeatPacket(20, 20, wire.FlagEnd))
	if p, b := s.Rate(); p < 10 || p > 20 || b < p {
		t.Errorf("%f packets and %f bytes a second, of %v, want 10 to 20 packets", p, b, s.Last.Sub(s.First))
	}
}

// A gap that is closed after a part of it was reported gone is not reported as repaired.
func TestClosedGap(t *testing.T) {
	r := newRig()
	r.on(0, dataPacket(10, 0))
	r.on(0, dataPacket(15, 0))
	r.on(0, rangesPacket(wire.TypeGone, 0, 11, 2))
	r.on(1234567, dataPacket(13, 0))
	r.drain()
	r.on(0, dataPacket(14, wire.FlagRepair))
	r.expect(t, "closed: publisher 0000000000000077: 2 of 4 missing packets are gone, 2 are received, some late and some repaired, after 1.23ms")
	r.on(0, dataPacket(18, 0))
	r.on(0, rangesPacket(wire.TypeGone, 0, 17, 1))
	r.drain()
	r.on(time.Second, dataPacket(16, wire.FlagRepair))
	r.expect(t, "closed: publisher 0000000000000077: 1 of 2 missing packets is gone, 1 is repaired after 1s")
}

// Many NAKs or repairs are storms, reported once a second.
func TestStorms(t *testing.T) {
	r := newRig()
	r.on(0, heartbeatPacket(0, 0, 0))
	r.drain()
	for i := range 3 * storm {
		r.on(time.Millisecond, rangesPacket(wire.TypeNAK, uint64(i%7+1), 5, 2))
	}
	r.expect(t, "nak_storm: publisher 0000000000000077 (feed): NAK storm: 100 NAKs of 7 receivers within 100ms request 200 packets")
	for range 3 * storm {
		r.on(20*time.Millisecond, rangesPacket(wire.TypeNAK, 1, 5, 2))
	}
	r.expect(t)
	r.at = r.at.Add(time.Minute)
	for i := range 2 * storm {
		r.on(time.Millisecond, dataPacket(uint64(i), 0))
		r.on(0, dataPacket(uint64(i), wire.FlagRepair))
		r.on(0, dataPacket(uint64(i), wire.FlagRepair))
	}
	r.expect(t, "repair_storm: ")
	if s := r.Streams()[0]; s.NAKs != 6*storm || s.NAKPackets != 12*storm || s.Receivers != 7 {
		t.Errorf("counts %+v of %d receivers, want %d NAKs for %d packets from 7", s.Counts, s.Receivers, 6*storm, 12*storm)
	}
}

// Invalid and foreign packets are reported by kind.
func TestForeignPackets(t *testing.T) {
	r := newRig()
	r.on(0, []byte("GET / HTTP/1.1"))
	r.expect(t, "foreign: 14 bytes from 10.0.0.7:40000 to 239.20.0.0:7400 are not a packet of Fanfare")
	r.on(0, nil)
	r.expect(t, "foreign: 0 bytes")
	r.on(0, dataPacket(1, 0)[:40])
	r.expect(t, "malformed: 40 bytes from 10.0.0.7:40000 to 239.20.0.0:7400: wire: packet is truncated")
	bad := dataPacket(1, 0)
	wire.SetChecksum(bad)
	bad[50]++
	r.on(0, bad)
	r.expect(t, "wire: checksum does not match")
	other := dataPacket(1, 0)
	h := header(3, 0)
	h.GroupTag = wire.GroupTag(group1)
	wire.PutDataHeader(other, h, 1472)
	if p := r.on(0, other); p.group.Index != 1 {
		t.Errorf("group %v, want index 1", p.group)
	}
	r.expect(t, "other_group: a data from 10.0.0.7:40000 to 239.20.0.0:7400 has group tag "+fmt.Sprintf("%08x", h.GroupTag)+", the tag of group 1 (239.20.0.1:7400)")
	h.GroupTag = 7
	wire.PutDataHeader(other, h, 1472)
	r.on(0, other)
	r.expect(t, "the tag of no known group")
	if r.Foreign != 2 || r.Malformed != 2 || r.OtherTag != 2 || r.Packets != 6 || len(r.Streams()) != 0 {
		t.Errorf("totals %+v, want 6 packets: 2 foreign, 2 malformed and 2 with another tag; and no stream", r.Totals)
	}
	if list := r.ReasonList(); len(list) != 2 {
		t.Errorf("reasons %q, want 2", list)
	}
}

// Another instance of a publisher is a separate stream.
func TestRestart(t *testing.T) {
	r := newRig()
	r.on(0, heartbeatPacket(5, 0, 0))
	b := wire.AppendHeartbeat(nil, header(4, 0), &wire.Heartbeat{PacketSize: 1472})
	r.on(0, b)
	r.on(0, wire.AppendHello(nil, header(4, 0), &wire.Hello{}))
	r.expect(t, "stream: ", "restart: publisher 0000000000000077: another instance of this publisher appeared, with epoch 0000000000000004")
	if len(r.Streams()) != 2 || r.Hellos != 1 {
		t.Errorf("%d streams and %d hellos, want 2 and 1", len(r.Streams()), r.Hellos)
	}
}

// Memory and the number of findings are bounded.
func TestBounds(t *testing.T) {
	r := newRig()
	for i := range uint64(maxStreams + 100) {
		r.on(0, wire.AppendHeartbeat(nil, header(events.ID(i), 0), &wire.Heartbeat{PacketSize: 1472}))
	}
	if len(r.Streams()) != maxStreams || r.Unfollowed != 100 {
		t.Errorf("%d streams, %d not tracked", len(r.Streams()), r.Unfollowed)
	}
	r = newRig()
	for i := range uint64(4 * maxSpans) {
		r.on(0, dataPacket(2*i, 0))
	}
	s := r.Streams()[0]
	if len(s.spans) != maxSpans || s.Missing != 4*maxSpans-1 || s.Open != s.Missing {
		t.Errorf("%d gaps tracked, want %d with %d packets missing: %+v", len(s.spans), maxSpans, 4*maxSpans-1, s.Counts)
	}
	texts := 0
	for _, f := range r.drain() {
		if strings.HasPrefix(f, "gap: ") {
			texts++
		}
	}
	if texts != 10+6 { // 16, 32, 64, 128, 256 and 512
		t.Errorf("%d reports of %d gaps, want 16", texts, s.Missing)
	}
	for i := range uint64(2 * maxReceivers) {
		r.on(0, rangesPacket(wire.TypeNAK, i+1, 5, 2))
	}
	if len(s.members) != maxReceivers || len(s.burst.from) != maxReceivers {
		t.Errorf("%d members, %d in the burst, want %d each", len(s.members), len(s.burst.from), maxReceivers)
	}
	for i := range uint64(2 * maxTopics) {
		r.NameTopic(i, "t")
	}
	if len(r.topics) > maxTopics {
		t.Errorf("%d topics, want at most %d", len(r.topics), maxTopics)
	}
}

// For any packets in any order the counters are consistent.
func FuzzObserve(f *testing.F) {
	f.Add([]byte{1, 2, 3, 10, 5, 0x85, 4})
	f.Fuzz(func(t *testing.T, script []byte) {
		r := newRig()
		for i, x := range script {
			seq := uint64(x & 31)
			switch x >> 5 {
			case 0, 1:
				r.on(time.Millisecond, dataPacket(seq, 0))
			case 2, 3:
				r.on(time.Millisecond, dataPacket(seq, wire.FlagRepair))
			case 4:
				r.on(0, heartbeatPacket(seq+4, seq, 0))
			case 5:
				r.on(0, rangesPacket(wire.TypeGone, 0, seq, uint64(i%5+1)))
			case 6:
				r.on(0, rangesPacket(wire.TypeNAK, seq, seq, 3))
			case 7:
				r.on(0, script[:i])
			}
		}
		for _, s := range r.Streams() {
			open := uint64(0)
			for i, x := range s.spans {
				open += x.end - x.first
				if x.first >= x.end || i > 0 && s.spans[i-1].end > x.first || x.end > s.high {
					t.Fatalf("gaps %v, want them in order, apart and below %d", s.spans, s.high)
				}
			}
			if s.Missing != s.Repaired+s.Late+s.Gone+s.Open || s.Open != open {
				t.Errorf("counts %+v, want %d packets open and all missing ones accounted for", s.Counts, open)
			}
		}
	})
}

// A sealed packet is shown with its header and does not count as foreign; with the key it is read
// like others, whichever group it was sent to. docs/protocol §27.2, §27.8.
func TestSealedPackets(t *testing.T) {
	v := testenv.ReadSealedVectors(t)
	set := func(id uint32, secret []byte) *sealed.Keyset {
		s, err := sealed.NewKeyset([]sealed.Key{{ID: sealed.KeyID(id), Secret: [32]byte(secret)}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	id, secret := v.Keys[0].ID, unhex(t, v.Keys[0].Secret)
	other := func() *sealed.Keyset {
		b := bytes.Clone(secret)
		b[0]++
		return set(id, b)
	}
	for _, c := range []struct {
		name     string
		keys     *sealed.Keyset
		wantText string
	}{
		{"without a key", nil, "cannot be opened: no key"},
		{"with another key", set(5, secret), "cannot be opened: key 0x1f3a9c07 is not given"},
		{"with another secret", other(), "does not verify with the key that it names"},
		{"with the key", set(id, secret), ""},
	} {
		var texts []string
		o := NewObserver(NewGroups(nil), func(f Finding) {
			if f.Kind == KindSealed {
				texts = append(texts, f.Text)
			}
		})
		if c.keys != nil {
			o.Unsealer = sealed.NewReader(c.keys)
		}
		opened := 0
		for _, x := range v.Good {
			p := &Packet{Data: unhex(t, x.Sealed), From: "a", To: "b", Address: "somewhere"}
			o.Locate(p)
			o.Observe(p)
			if p.Sealed == nil || p.Sealed.Key != id || p.Bytes() != len(x.Sealed)/2 {
				t.Fatalf("%s: packet %+v of %d bytes, want it sealed with key %v and %d bytes", c.name, p.Sealed, p.Bytes(), id, len(x.Sealed)/2)
			}
			if p.Sealed.Err == nil && bytes.Equal(p.Data, unhex(t, x.Packet)) {
				opened++
			}
		}
		n := uint64(len(v.Good))
		if c.wantText == "" {
			if opened != len(v.Good) || o.Unopened != 0 || o.Sealed != n || len(texts) > 0 {
				t.Errorf("%s: %d of %d opened, %d not, findings %q, want %d opened and no findings", c.name, opened, n, o.Unopened, texts, len(v.Good))
			}
		} else if opened > 0 || o.Unopened != n || o.Sealed != n || o.Foreign+o.Malformed != 0 || len(texts) == 0 || !strings.Contains(texts[0], "sealed with key 0x1f3a9c07") || !strings.Contains(texts[0], c.wantText) {
			t.Errorf("%s: %d sealed, %d foreign, findings %q, want %d sealed, none foreign and %q", c.name, o.Sealed, o.Foreign, texts, n, c.wantText)
		}
	}
}

// Packets of a sealed train that segmentation offload recorded as one datagram are split.
func TestSealedTrain(t *testing.T) {
	var train []byte
	for i := range 5 {
		p := append([]byte("Fs\x01\x00"), byte(i+7), 0, 0, 0)
		for j := range 32 { // key, time, sender and train
			p = append(p, byte(100+j))
		}
		p = append(p, bytes.Repeat([]byte{byte(i)}, 100-i/4*50)...)
		train = append(train, p...)
	}
	var lens []int
	for p := range split(train) {
		lens = append(lens, len(p))
	}
	if !slices.Equal(lens, []int{140, 140, 140, 140, 90}) {
		t.Errorf("split into %v, want 140 four times and 90", lens)
	}
}

// A signed packet is read and shown with its key id; one with an unknown version of the signature
// is malformed. docs/protocol §29.2, §29.9.
func TestSignedPackets(t *testing.T) {
	var v struct {
		Good []struct {
			Key             uint32
			Counter         uint64
			Packets, Signed []string
		}
	}
	testenv.Vectors(t, "signed.json", &v)
	o := NewObserver(NewGroups(nil), func(Finding) {})
	n := uint64(0)
	for _, x := range v.Good {
		for i := range x.Signed {
			b, err := hex.DecodeString(x.Signed[i])
			if err != nil {
				t.Fatal(err)
			}
			p := &Packet{Data: b, From: "a", To: "b"}
			o.Locate(p)
			o.Observe(p)
			if n++; p.Signed == nil || p.Signed.Err != nil || p.Signed.Key() != x.Key || p.Signed.Counter != x.Counter || p.Bytes() != len(b) || hex.EncodeToString(p.Data) != x.Packets[i] {
				t.Fatalf("signed packet %+v, want key %v, counter %d and the vector's bytes", p.Signed, x.Key, x.Counter)
			}
		}
	}
	if o.Signed != n || o.Foreign != 0 {
		t.Errorf("%d packets signed and %d foreign, want %d and none", o.Signed, o.Foreign, n)
	}
	before := o.Malformed
	o.Observe(&Packet{Data: append([]byte("Fg\x02"), make([]byte, 200)...), From: "a", To: "b"})
	if o.Malformed != before+1 || o.Foreign != 0 || o.Reasons["signed: "+wire.ErrVersion.Error()] != 1 {
		t.Errorf("another version: %d malformed, %d foreign, %v", o.Malformed-before, o.Foreign, o.Reasons)
	}
}

// The same for signed packets.
func TestSignedTrain(t *testing.T) {
	var train []byte
	for i := range 5 {
		p := make([]byte, wire.SignedHead(3)+wire.HeaderLen+100-i/4*50)
		wire.PutSigned(p, &wire.Signed{Node: uint8(8 + i), Time: 7, Counter: 8, Salt: []byte("12345678")})
		train = append(train, p...)
	}
	var lens []int
	for p := range split(train) {
		lens = append(lens, len(p))
	}
	if full := wire.SignedHead(3) + wire.HeaderLen + 100; !slices.Equal(lens, []int{full, full, full, full, full - 50}) {
		t.Errorf("split into %v, want %d four times and %d", lens, full, full-50)
	}
}
