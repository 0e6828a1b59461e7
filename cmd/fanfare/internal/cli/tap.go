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
	"os"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/plural"
)

// tapRun is fanfare tap: package tap finds, this writes.
type tapRun struct {
	common
	file, iface         string
	groupList, typeList string
	publisher, topic    string
	dicts               []string
	keys                string
	most                uint64
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
	if r.fabric != nil {
		defer watchAlone(e, r.fabric.String())()
	}
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

// openCapture opens a capture file; - is standard input.
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
		case r.written == r.most && r.most > 0:
			return nil
		}
	}
}

const tapTime = "15:04:05.000000"

// tapPacket is a packet (type "packet"), before its header and fields.
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
	Publisher string    `json:"publisher,omitempty"`
	Name      string    `json:"name,omitempty"`
	Epoch     uint64    `json:"epoch,omitempty"`
	Group     *int      `json:"group,omitempty"`
	First     *uint64   `json:"first,omitempty"`
	Count     uint64    `json:"count,omitempty"`
	Nth       uint64    `json:"nth"` // how often this kind was found so far, of the stream or in all
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
		x.Publisher, x.Name, x.Epoch = publisherID(s.Publisher), s.Name, s.Epoch
	}
	r.fault = r.out.object(x)
}

// tapWriter writes lines, and sees to it that they are out soon although nothing follows.
type tapWriter struct {
	mu    sync.Mutex
	buf   *bufio.Writer // under mu
	lines *jsonLines    // under mu
	close func()
}

// tapFlush is how long a line may wait for others.
const tapFlush = 50 * time.Millisecond

func newTapWriter(w io.Writer) *tapWriter {
	t := &tapWriter{buf: bufio.NewWriterSize(w, firstBuffer)}
	t.lines = newJSONLines(t.buf)
	t.close = every(tapFlush, func(time.Time) { t.flush() })
	return t
}

func (t *tapWriter) write(line []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.buf.Write(line)
	return outputError(err)
}

func (t *tapWriter) object(v any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return outputError(t.lines.write(v))
}

func (t *tapWriter) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return outputError(t.buf.Flush()) // an error stays, and the next write returns it
}

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
