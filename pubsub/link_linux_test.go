//go:build !fanfare_plainudp

package pubsub

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// publisherPipe is set in the environment of the publisher's process.
const publisherPipe = "FANFARE_TEST_PUBLISHER"

// TestInterfaceComesAndGoes runs a publisher and a subscriber in two network namespaces. The ends of the link between
// them go down and up, and are removed and added again. The stream continues each time, and no loss is silent: each
// message is delivered once, in order, or is in a gap.
func TestInterfaceComesAndGoes(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	far := startFar(t, publishOverWire)
	if far == nil {
		return
	}
	connect := func() {
		t.Helper()
		testenv.AddVeth(t, "near", "far", 0)
		testenv.MoveLink(t, "far", far.pid)
		testenv.AddAddr(t, "near", "10.88.0.1/24")
		testenv.LinkUp(t, "near")
		far.ask(t, "address")
		far.ask(t, "up")
	}
	connect()
	tr, err := udp.Open(overWire("near"))
	if err != nil {
		t.Fatal(err)
	}
	var log logLines
	b, err := Config{RecoveryDeadline: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var in ledger
	in.start(t, subscribe(t, b, "x"))
	far.ask(t, "start")
	in.grows(t, "at first")

	// waitLost waits until the transport has lost its group n times.
	waitLost := func(n uint64) {
		t.Helper()
		until(t, "the membership is lost", func() bool { return tr.Stats().MembershipsLost >= n })
	}
	testenv.LinkDown(t, "near")
	waitLost(1)
	testenv.LinkUp(t, "near")
	in.grows(t, "after the subscriber's end was down")

	far.ask(t, "down")
	waitLost(2) // no carrier
	far.ask(t, "up")
	in.grows(t, "after the publisher's end was down")

	testenv.DelLink(t, "near")
	waitLost(3)
	connect()
	in.grows(t, "after the wire was replaced")
	if in.gaps() > 0 {
		t.Errorf("%d messages are lost, although no interruption was longer than the window and the deadlines", in.gaps())
	}

	// Longer than Config.Silence and than the window lasts.
	testenv.LinkDown(t, "near")
	waitLost(4)
	far.ask(t, "outlast")
	testenv.LinkUp(t, "near")
	in.grows(t, "after a long interruption")
	if in.gaps() == 0 {
		t.Error("nothing is lost, although messages left the publisher's window")
	}

	published := far.ask(t, "stop")
	in.ends(t, published)
	if st := tr.Stats(); st.MembershipsLost < 4 || st.Joins != st.MembershipsLost+1 {
		t.Errorf("%d joins, %d memberships lost, want at least 4 lost, and one join more", st.Joins, st.MembershipsLost)
	}
	if n := log.count("membership of a group was lost"); n < 4 {
		t.Errorf("the log reports %d losses, want at least 4:\n%s", n, log.String())
	}
	if own := log.count("publisher lost: this bus itself was cut off"); own == 0 || log.count("publisher lost") > own || log.count(`level=WARN msg="publisher is received again"`) != own {
		t.Errorf("the log does not say that the publisher was lost for lack of a link, and received again:\n%s", log.String())
	}
}

func overWire(iface string) udp.Config {
	return udp.Config{Interface: iface, Range: netip.MustParsePrefix("239.20.0.0/24"), Port: 7430, Groups: 1}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 24_000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("timeout waiting until %s", what)
}

// ledger records each message of a stream as delivered or lost.
type ledger struct {
	next, lost atomic.Uint64 // messages delivered or in gaps; messages in gaps
	err        error         // valid after done
	done       chan struct{}
}

func (l *ledger) start(t *testing.T, s *Subscription) {
	l.done = make(chan struct{})
	ctx := testContext(t)
	go func() {
		defer close(l.done)
		for l.err == nil {
			m, err := s.Next(ctx)
			var gap *GapError
			switch next := l.next.Load(); {
			case errors.As(err, &gap):
				if gap.First != next || gap.Count == 0 || gap.Topic != "x" {
					l.err = fmt.Errorf("at message %d: %w, from %d", next, err, gap.First)
				}
				l.lost.Add(gap.Count)
				l.next.Add(gap.Count)
			case err != nil:
				l.err = err
			case m.Number != next || string(m.Data) != strconv.FormatUint(next, 10):
				l.err = fmt.Errorf("message %d is %q, want number %d", m.Number, m.Data, next)
			default:
				l.next.Add(1)
			}
		}
	}()
}

// gaps is the number of messages in gaps.
func (l *ledger) gaps() uint64 { return l.lost.Load() }

// grows waits until 500 more messages are delivered or in gaps.
func (l *ledger) grows(t *testing.T, when string) {
	t.Helper()
	came := func() uint64 { return l.next.Load() - l.lost.Load() }
	for begin := came(); came() < begin+500; {
		select {
		case <-l.done:
			t.Fatalf("%s: reading ended: %v", when, l.err)
		case <-t.Context().Done():
			t.Fatalf("%s: the test's time ended before 500 messages arrived", when)
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Logf("%s: %d messages, %d of them in gaps", when, l.next.Load(), l.lost.Load())
}

// ends checks that all published messages were delivered or are in gaps.
func (l *ledger) ends(t *testing.T, published string) {
	t.Helper()
	until(t, "all "+published+" messages are delivered or in gaps", func() bool {
		return published == strconv.FormatUint(l.next.Load(), 10)
	})
	select {
	case <-l.done:
		if !errors.Is(l.err, io.EOF) {
			t.Errorf("reading ended with %v, want %v", l.err, io.EOF)
		}
	default:
	}
	t.Logf("%s messages, %d of them in gaps", published, l.lost.Load())
}

// farProcess is the process at the far end of the link.
type farProcess struct {
	pid     int
	orders  io.Writer
	answers *bufio.Scanner
}

// startFar runs the test in a namespace, and publish in another namespace and process, at the far end of its links.
// It returns nil in the two other processes, where the test must return.
func startFar(t *testing.T, publish func(*testing.T)) *farProcess {
	t.Helper()
	if os.Getenv(publisherPipe) != "" {
		publish(t)
		return nil
	}
	if !testenv.Namespace(t) {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.NamespaceCommand(t, "-test.run=^"+t.Name()+"$", "-test.v", testenv.TimeLimit(t))
	cmd.Env = append(cmd.Env, publisherPipe+"=1")
	cmd.ExtraFiles = []*os.File{w}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		orders.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the publisher's process: %v\n%s", err, out.String())
		}
		r.Close()
	})
	return &farProcess{pid: cmd.Process.Pid, orders: orders, answers: bufio.NewScanner(r)}
}

// ask sends a command and returns the answer.
func (e *farProcess) ask(t *testing.T, order string) string {
	t.Helper()
	if _, err := fmt.Fprintln(e.orders, order); err != nil {
		t.Fatal(err)
	}
	if !e.answers.Scan() {
		t.Fatalf("the publisher's process has not answered %q", order)
	}
	return e.answers.Text()
}

// publishOverWire runs the process at the far end.
func publishOverWire(t *testing.T) {
	var pub *streamOfNumbers
	var log logLines
	obey(func(order string) (answer string) {
		switch order {
		case "address":
			testenv.AddAddr(t, "far", "10.88.0.2/24")
		case "up":
			testenv.LinkUp(t, "far")
		case "down":
			testenv.LinkDown(t, "far")
		case "start":
			tr, err := udp.Open(overWire("far"))
			if err != nil {
				t.Fatal(err)
			}
			pub = startNumbers(t, &log, func(c Config) (*Bus, error) { return c.OpenTransport(tr) })
		case "outlast":
			until(t, "the subscriber is given up", func() bool {
				return log.count("publishers no longer wait for a subscriber: this bus itself was cut off") > 0
			})
			begin := pub.n.Load()
			until(t, "messages have left the window", func() bool { return pub.n.Load() > begin+1000 })
		case "stop":
			answer = pub.stop(t)
			if n := log.count("membership of a group was lost"); n < 3 {
				t.Errorf("the log reports %d losses, want at least 3:\n%s", n, log.String())
			}
		}
		return answer
	})
}

// obey answers the commands of ask until the pipe is closed.
func obey(do func(order string) (answer string)) {
	answers := os.NewFile(3, "answers")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Fprintln(answers, do(in.Text()))
	}
}

// streamOfNumbers publishes "0", "1", "2" … until it is stopped.
type streamOfNumbers struct {
	b       *Bus
	n       atomic.Uint64
	stopped atomic.Bool
	done    chan error
}

func startNumbers(t *testing.T, log *logLines, open func(Config) (*Bus, error)) *streamOfNumbers {
	t.Helper()
	s := &streamOfNumbers{done: make(chan error, 1)}
	// A small window, so that a long interruption loses messages; and long deadlines for short interruptions on a busy
	// host.
	c := Config{WindowBytes: 64 << 10, Silence: 15 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}
	var err error
	if s.b, err = open(c); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, s.b, "x")
	wait(t, testContext(t), p, 1)
	go func() {
		for !s.stopped.Load() {
			if err := p.Publish(context.Background(), strconv.AppendUint(nil, s.n.Load(), 10)); err != nil {
				s.done <- err
				return
			}
			s.n.Add(1)
			time.Sleep(100 * time.Microsecond)
		}
		s.done <- nil
	}()
	return s
}

// stop ends publishing and returns the number of messages published.
func (s *streamOfNumbers) stop(t *testing.T) string {
	t.Helper()
	s.stopped.Store(true)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	if err := s.b.Close(); err != nil {
		t.Error(err)
	}
	return strconv.FormatUint(s.n.Load(), 10)
}
