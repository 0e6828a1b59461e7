package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
	"github.com/fanfaremq/fanfare/transport/signed"
)

type tapSummary struct {
	Type string `json:"type"` // "summary"
	tap.Totals
	Written  uint64            `json:"written"`   // packets
	LostHere uint64            `json:"lost_here"` // packets that this host lost on their way to tap
	Reasons  map[string]uint64 `json:"reasons"`   // why packets are malformed
	Lacking  map[string]uint64 `json:"lacking"`   // data packets that cannot be read, by the dictionary that is not given
	Skipped  map[string]uint64 `json:"skipped"`   // frames and datagrams that were not looked at
	Streams  []tapStream       `json:"streams"`
	Error    string            `json:"error,omitempty"`
}

type tapStream struct {
	Publisher string  `json:"publisher"`
	Name      string  `json:"name"`
	Epoch     uint64  `json:"epoch"`
	Group     *int    `json:"group"`
	Address   string  `json:"address"`
	Seconds   float64 `json:"seconds"`
	PacketsPS float64 `json:"packets_per_second"`
	BytesPS   float64 `json:"bytes_per_second"`
	Receivers int     `json:"receivers"`
	Ended     bool    `json:"ended"`
	tap.Counts
}

func publisherID(id uint64) string { return pubsub.PublisherID(id).String() }

func (r *tapRun) sum(src tap.Source) tapSummary {
	sum := tapSummary{Type: "summary", Totals: r.obs.Totals, Written: r.written, LostHere: src.Lost(), Reasons: r.obs.Reasons, Lacking: r.obs.Lacking, Skipped: src.Skipped(), Streams: []tapStream{}}
	for _, s := range r.obs.Streams() {
		x := tapStream{Publisher: publisherID(s.Publisher), Name: s.Name, Epoch: s.Epoch, Seconds: s.Last.Sub(s.First).Seconds(), Receivers: s.Receivers, Ended: s.Ended, Counts: s.Counts}
		x.PacketsPS, x.BytesPS = s.Rate()
		if s.GroupKnown {
			x.Group, x.Address = &s.Group.Index, s.Group.Address
		}
		sum.Streams = append(sum.Streams, x)
	}
	return sum
}

func (r *tapRun) writeSummary(sum *tapSummary) error {
	if r.json {
		return r.out.object(sum)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s, %d bytes, of %s", count(sum.Packets, "packet"), sum.Bytes, count(len(sum.Streams), "stream"))
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{sum.Hellos, "hellos"}, {sum.Sealed, "sealed"}, {sum.Unopened, "of them not opened"}, {sum.Signed, "signed"}, {sum.Foreign, "foreign"}, {sum.Malformed, "malformed"}, {sum.OtherTag, "of another group"}, {sum.Unfollowed, "of more streams, not followed"},
	} {
		if x.n > 0 {
			fmt.Fprintf(&b, ", %d %s", x.n, x.what)
		}
	}
	b.WriteByte('\n')
	for _, s := range sum.Streams {
		s.write(&b)
	}
	for _, reason := range r.obs.ReasonList() {
		fmt.Fprintf(&b, "-- malformed: %d: %s\n", sum.Reasons[reason], reason)
	}
	for _, name := range slices.Sorted(maps.Keys(sum.Lacking)) {
		fmt.Fprintf(&b, "-- %s compressed with dictionary %s, which is not given: the messages in them are not counted; give -dict FILE\n", count(sum.Lacking[name], "data packet"), name)
	}
	for reason, n := range sum.Skipped {
		fmt.Fprintf(&b, "-- not looked at: %d: %s\n", n, reason)
	}
	if sum.LostHere > 0 {
		fmt.Fprintf(&b, "-- this host lost %s on their way to tap: gaps may be its own\n", count(sum.LostHere, "packet"))
	}
	return r.out.write([]byte(b.String()))
}

// write writes a stream in lines: who, how much, what was missing, what receivers said.
func (s *tapStream) write(b *strings.Builder) {
	name, group := s.Publisher, "unknown group"
	if s.Name != "" {
		name += " (" + s.Name + ")"
	}
	if s.Group != nil {
		group = tap.Group{Index: *s.Group, Address: s.Address}.String()
	}
	fmt.Fprintf(b, "-- publisher %s, epoch %016x, %s", name, s.Epoch, group)
	if s.Ended {
		b.WriteString(", ended")
	}
	rate := fmt.Sprintf("%.0f a second, %.0f bytes a second", s.PacketsPS, s.BytesPS)
	if s.PacketsPS == 0 {
		rate = fmt.Sprintf("%d bytes, within %s, too short for a rate", s.Bytes, short(time.Duration(s.Seconds*float64(time.Second))))
	}
	fmt.Fprintf(b, "\n     %s, %s: %s, %s, %s, %s\n", count(s.Packets, "packet"), rate,
		count(s.Data, "data packet"), count(s.Messages, "message"), count(s.Heartbeats, "heartbeat"), count(s.Announces, "announce"))
	fmt.Fprintf(b, "     %d missing: %d repaired, %d late, %d gone, %d open; %s, %d of them for others; %s\n", s.Missing, s.Repaired, s.Late, s.Gone, s.Open,
		count(s.Repairs, "repair"), s.Unneeded, count(s.Duplicates, "duplicate"))
	fmt.Fprintf(b, "     %s, of %s seen: %s for %s, statuses: %d, %s, %d gone\n", count(s.Receivers, "receiver"), "those", count(s.NAKs, "NAK"), count(s.NAKPackets, "packet"), s.Statuses, count(s.NCFs, "NCF"), s.Gones)
}

// keysFile is the keyring that sealed packets are opened with: that of -keys, or of the URL.
func (r *tapRun) keysFile() (string, error) {
	switch {
	case r.keys != "" && r.fabric.Keys != "":
		return "", usagef("keys= of -t, and -keys: leave one out")
	case r.keys != "":
		return r.keys, nil
	}
	return r.fabric.Keys, nil
}

func (r *tapRun) readKeys() error {
	file, err := r.keysFile()
	if err != nil || file == "" {
		return err
	}
	list, err := keyring.Read(file)
	if err != nil {
		return err
	}
	set, err := sealed.NewKeyset(list)
	if err != nil {
		return err
	}
	r.obs.Unsealer = sealed.NewReader(set)
	return nil
}

// jsonSealed is what a sealed packet shows without a key.
type jsonSealed struct {
	Key      string    `json:"key"`
	Sender   string    `json:"sender"`
	Counter  uint32    `json:"counter"`
	Time     time.Time `json:"time"`
	Unopened string    `json:"unopened,omitempty"` // why
}

func sealedOf(x *tap.Sealed) *jsonSealed {
	if x == nil {
		return nil
	}
	o := &jsonSealed{Key: sealed.KeyID(x.Key).String(), Sender: fmt.Sprintf("%x", x.Salt), Counter: x.Counter, Time: x.At()}
	if x.Err != nil {
		o.Unopened = x.Err.Error()
	}
	return o
}

// jsonSigned is what a packet says of its signature.
type jsonSigned struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time"`
	Counter uint64    `json:"counter"`
	Node    uint8     `json:"node"`
	Packets int       `json:"packets"` // of the train, at most
}

func signedOf(x *tap.Signed) *jsonSigned {
	if x == nil || x.Err != nil {
		return nil
	}
	at := time.Unix(int64(x.Time), 0).UTC()
	return &jsonSigned{signed.KeyID(x.Key()).String(), at, x.Counter, x.Node, 1 << x.Depth()}
}
