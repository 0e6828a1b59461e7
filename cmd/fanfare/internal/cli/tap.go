package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
	"github.com/fanfaremq/fanfare/transport/signed"
)

type tapRun struct {
	common
	file, iface         string
	groupList, typeList string
	publisher, topic    string
	dicts               []string
	keys                string
	max                 uint64
	until               time.Duration
	summary             bool
	filter              tapFilter
	fabric              *fabricurl.Fabric

	e       *env
	out     *tapWriter
	obs     *tap.Observer
	written uint64
	line    []byte
	failed  int // groups that could not be joined
	fault   error
}

func (r *tapRun) run(ctx context.Context, e *env) error {
	r.e = e
	last := ctx
	if r.until > 0 {
		var stop context.CancelFunc
		last, stop = context.WithDeadlineCause(ctx, time.Now().Add(r.until), errUntil)
		defer stop()
	}
	stdout := newOutWriter(last, e.stdout)
	defer stdout.close()
	r.out = newTapWriter(stdout)
	defer r.out.close()
	src, groups, err := r.open()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &usageError{err}
	}
	defer src.Close()
	defer context.AfterFunc(last, src.Interrupt)()
	defer r.watchInProcess(e)()
	r.obs = tap.NewObserver(groups, r.found)
	if err := r.readKeys(); err != nil {
		return err
	}
	dicts, err := tapDictionaries(r.dicts)
	if err != nil {
		return err
	}
	r.obs.Dictionaries(dicts)
	if r.topic != "" {
		r.obs.NameTopic(r.filter.topic, r.topic)
	}
	err = r.read(src)
	if errors.Is(err, tap.ErrInterrupted) {
		if err = context.Cause(last); errors.Is(err, errUntil) {
			err = nil
		}
	}
	return r.finish(src, err)
}

func (r *tapRun) open() (tap.Source, *tap.Groups, error) {
	if r.file == "" && r.iface == "" {
		return r.openSocket()
	}
	first, n, err := r.fabric.Groups()
	if err == nil {
		err = r.filter.beyond(n)
	}
	if err != nil {
		return nil, nil, err
	}
	groups := tap.GroupsFrom(first, n)
	if r.iface != "" {
		src, err := tap.OpenInterface(r.iface, groups)
		return src, groups, err
	}
	src, err := openCapture(r.e, r.file, groups)
	return src, groups, err
}

func openCapture(e *env, name string, groups *tap.Groups) (tap.Source, error) {
	in := e.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, pathError(err)
		}
		in = f
	}
	src, err := tap.OpenFile(in, groups)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, pathError(err))
	}
	return src, nil
}

func (r *tapRun) openSocket() (tap.Source, *tap.Groups, error) {
	t, err := r.fabric.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	if err := r.filter.beyond(t.Capabilities().Groups); err != nil {
		finish(t)
		return nil, nil, err
	}
	s, err := tap.OpenSocket(t, r.filter.groups, func(group int, err error) {
		r.failed++
		r.e.console.line("group %d (%s) cannot be joined: %v", group, t.GroupAddress(group), err)
	})
	if err != nil {
		return nil, nil, err
	}
	return s, tap.NewGroups(s.Addresses()), nil
}

func (r *tapRun) read(src tap.Source) error {
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.obs.Locate(p)
		if !r.filter.counts(p) {
			continue
		}
		r.obs.Observe(p)
		if r.fault == nil && !r.summary && r.filter.shows(p) {
			r.fault = r.packet(p)
			r.written++
		}
		switch {
		case r.fault != nil:
			return r.fault
		case r.written == r.max && r.max > 0:
			return nil
		}
	}
}

const tapTime = "15:04:05.000000"

// tapPacket is a packet (type "packet"), written before its header and fields.
type tapPacket struct {
	Type   string      `json:"type"`
	Time   time.Time   `json:"time"`
	From   string      `json:"from"`
	To     string      `json:"to"`
	Group  *int        `json:"group,omitempty"`
	Bytes  int         `json:"bytes"`
	Sealed *jsonSealed `json:"sealed,omitempty"`
	Signed *jsonSigned `json:"signed,omitempty"`
	Error  string      `json:"error,omitempty"`
}

func (r *tapRun) packet(p *tap.Packet) error {
	x := tapPacket{Type: "packet", Time: p.Time, From: p.From, To: p.To, Bytes: p.Bytes(), Sealed: sealedOf(p.Sealed), Signed: signedOf(p.Signed)}
	if g, known := p.Group(); known {
		x.Group = &g.Index
	}
	if p.Read.Err != nil {
		x.Error = p.Read.Err.Error()
	}
	b := r.line[:0]
	if r.json {
		text, err := json.Marshal(&x)
		if err != nil {
			return err
		}
		if b = append(b, text...); p.Sealed == nil || p.Sealed.Err == nil {
			b = append(p.Read.JSON(append(b[:len(b)-1], ','), r.obs), '}')
		}
	} else {
		b = x.text(b)
		if len(p.Read.Header) > 0 {
			b = p.Read.Text(append(b, ' '), r.obs)
		}
	}
	r.line = append(b, '\n')
	return r.out.write(r.line)
}

func (x *tapPacket) text(b []byte) []byte {
	b = fmt.Appendf(x.Time.AppendFormat(b, tapTime), " %s > %s", x.From, x.To)
	if x.Group != nil {
		b = fmt.Appendf(b, " group=%d", *x.Group)
	}
	if s := x.Sealed; s != nil && s.Unopened == "" {
		b = fmt.Appendf(b, " sealed=%s", s.Key)
	} else if s != nil {
		b = fmt.Appendf(b, " bytes=%d sealed=%s sender=%s counter=%d time=%s unopened=%q", x.Bytes, s.Key, s.Sender, s.Counter, s.Time.Format(time.RFC3339), s.Unopened)
	}
	if s := x.Signed; s != nil {
		b = fmt.Appendf(b, " signed=%s train=%d node=%d", s.Key, s.Counter, s.Node)
	}
	if x.Error != "" {
		b = fmt.Appendf(b, " bytes=%d refused=%q", x.Bytes, x.Error)
	}
	return b
}

type tapFinding struct {
	Type      string    `json:"type"` // "finding"
	Time      time.Time `json:"time"`
	Finding   tap.Kind  `json:"finding"`
	Publisher events.ID `json:"publisher,omitempty"`
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch,omitempty"`
	Group     *int      `json:"group,omitempty"`
	First     *uint64   `json:"first,omitempty"`
	Count     uint64    `json:"count,omitempty"`
	Nth       uint64    `json:"nth"` // occurrences of this kind so far, in the stream or in total
	Text      string    `json:"text"`
}

func (r *tapRun) found(f tap.Finding) {
	if r.fault != nil {
		return
	}
	if !r.json {
		text := ""
		if f.Stream != nil && f.GroupKnown {
			text = f.Group.String() + ": "
		}
		if f.Nth > 10 {
			text = fmt.Sprintf("(the %s) %s", plural.Nth(f.Nth), text)
		}
		r.fault = r.out.write(fmt.Appendf(nil, "** %s %s: %s%s\n", f.Time.Format(tapTime), f.Kind, text, printable(f.Text)))
		return
	}
	x := tapFinding{Type: "finding", Time: f.Time, Finding: f.Kind, Count: f.Count, Nth: f.Nth, Text: printable(f.Text)}
	if f.GroupKnown {
		x.Group = &f.Group.Index
	}
	if f.Count > 0 {
		x.First = &f.First
	}
	if s := f.Stream; s != nil {
		x.Publisher, x.Name, x.Epoch = s.Publisher, s.Name, s.Epoch
	}
	r.fault = r.out.object(x)
}

// tapWriter writes lines and flushes them within tapFlush.
type tapWriter struct {
	mu    sync.Mutex
	buf   *bufio.Writer // guarded by mu
	lines *jsonLines    // guarded by mu
	close func()
}

const tapFlush = 50 * time.Millisecond // how long a line may wait for further lines

func newTapWriter(w io.Writer) *tapWriter {
	t := &tapWriter{buf: bufio.NewWriterSize(w, firstBuffer)}
	t.lines = newJSONLines(t.buf)
	t.close = every(tapFlush, func(time.Time) { t.flush() })
	return t
}

func (t *tapWriter) locked(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return outputError(f()) // an error of the buffer is sticky and returned by the next write
}

func (t *tapWriter) write(line []byte) error {
	return t.locked(func() error { _, err := t.buf.Write(line); return err })
}

func (t *tapWriter) object(v any) error { return t.locked(func() error { return t.lines.write(v) }) }
func (t *tapWriter) flush() error       { return t.locked(t.buf.Flush) }

func (r *tapRun) finish(src tap.Source, err error) error {
	sum := r.sum(src)
	if err != nil && !errors.As(err, new(*signalError)) {
		sum.Error = plain(err)
	}
	err = cmp.Or(err, r.writeSummary(&sum), r.out.flush())
	if err == nil && (sum.LostHere > 0 || r.failed > 0) {
		return errReported
	}
	return err
}

type tapSummary struct {
	Type string `json:"type"` // "summary"
	tap.Totals
	Written      uint64            `json:"written"`   // packets
	LostHere     uint64            `json:"lost_here"` // packets that this host dropped before tap read them
	Reasons      map[string]uint64 `json:"reasons"`   // by reason: malformed packets
	MissingDicts map[string]uint64 `json:"lacking"`   // data packets that cannot be read, by the missing dictionary
	Skipped      map[string]uint64 `json:"skipped"`   // frames and datagrams that were not analysed, by reason
	Streams      []tapStream       `json:"streams"`
	Error        string            `json:"error,omitempty"`
}

type tapStream struct {
	Publisher events.ID `json:"publisher"`
	Name      string    `json:"name"`
	Epoch     events.ID `json:"epoch"`
	Group     *int      `json:"group"`
	Address   string    `json:"address"`
	Seconds   float64   `json:"seconds"`
	PacketsPS float64   `json:"packets_per_second"`
	BytesPS   float64   `json:"bytes_per_second"`
	Receivers int       `json:"receivers"`
	Ended     bool      `json:"ended"`
	tap.Counts
}

func (r *tapRun) sum(src tap.Source) tapSummary {
	sum := tapSummary{Type: "summary", Totals: r.obs.Totals, Written: r.written, LostHere: src.Lost(), Reasons: r.obs.Reasons, MissingDicts: r.obs.MissingDicts, Skipped: src.Skipped(), Streams: []tapStream{}}
	for _, s := range r.obs.Streams() {
		x := tapStream{Publisher: s.Publisher, Name: s.Name, Epoch: s.Epoch,
			Seconds: s.Last.Sub(s.First).Seconds(), Receivers: s.Receivers, Ended: s.Ended, Counts: s.Counts}
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
	for _, name := range slices.Sorted(maps.Keys(sum.MissingDicts)) {
		fmt.Fprintf(&b, "-- %s compressed with dictionary %s, which is missing: messages in them are not counted; add -dict FILE\n", count(sum.MissingDicts[name], "data packet"), name)
	}
	for reason, n := range sum.Skipped {
		fmt.Fprintf(&b, "-- not analysed: %d: %s\n", n, reason)
	}
	if sum.LostHere > 0 {
		fmt.Fprintf(&b, "-- this host dropped %s before tap could read them: gaps may have this cause\n", count(sum.LostHere, "packet"))
	}
	return r.out.write([]byte(b.String()))
}

func (s *tapStream) write(b *strings.Builder) {
	name, group := s.Publisher.String(), "unknown group"
	if s.Name != "" {
		name += " (" + s.Name + ")"
	}
	if s.Group != nil {
		group = tap.Group{Index: *s.Group, Address: s.Address}.String()
	}
	fmt.Fprintf(b, "-- publisher %s, epoch %s, %s", name, s.Epoch, group)
	if s.Ended {
		b.WriteString(", ended")
	}
	rate := fmt.Sprintf("%.0f a second, %.0f bytes a second", s.PacketsPS, s.BytesPS)
	if s.PacketsPS == 0 {
		rate = fmt.Sprintf("%d bytes in %s, too short for a rate", s.Bytes, plural.Duration(time.Duration(s.Seconds*float64(time.Second))))
	}
	fmt.Fprintf(b, "\n     %s, %s: %s, %s, %s\n", count(s.Packets, "packet"), rate,
		count(s.Data, "data packet"), count(s.Messages, "message"), count(s.Heartbeats, "heartbeat"))
	fmt.Fprintf(b, "     %d missing: %d repaired, %d late, %d gone, %d open; %s, %d of them for others; %s\n", s.Missing, s.Repaired, s.Late, s.Gone, s.Open,
		count(s.Repairs, "repair"), s.Unneeded, count(s.Duplicates, "duplicate"))
	fmt.Fprintf(b, "     %s, of %s seen: %s for %s, statuses: %d, %s, %d gone\n", count(s.Receivers, "receiver"), "those", count(s.NAKs, "NAK"), count(s.NAKPackets, "packet"), s.Statuses, count(s.NCFs, "NCF"), s.Gones)
}

// keysFile is the keyring for opening sealed packets: from -keys or from the URL.
func (r *tapRun) keysFile() (string, error) {
	switch {
	case r.keys != "" && r.fabric.Keys != "":
		return "", usagef("keys= of -t and -keys are both given: use one of the two")
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

// jsonSealed is what can be read of a sealed packet without a key.
type jsonSealed struct {
	Key      string    `json:"key"`
	Sender   string    `json:"sender"`
	Counter  uint32    `json:"counter"`
	Time     time.Time `json:"time"`
	Unopened string    `json:"unopened,omitempty"` // the reason
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

type jsonSigned struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time"`
	Counter uint64    `json:"counter"`
	Node    uint8     `json:"node"`
	Packets int       `json:"packets"` // in the signed train, at most
}

func signedOf(x *tap.Signed) *jsonSigned {
	if x == nil || x.Err != nil {
		return nil
	}
	at := time.Unix(int64(x.Time), 0).UTC()
	return &jsonSigned{signed.KeyID(x.Key()).String(), at, x.Counter, x.Node, 1 << x.Depth()}
}
