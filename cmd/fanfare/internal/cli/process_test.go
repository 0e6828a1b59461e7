package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// patience is the -silence of publishers none of whose subscribers may be given up: a busy host may
// give a subscriber no processor time for longer than the default.
const patience = "20s"

func TestProcesses(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	once := feed(t)
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	writeFile(t, in, once)
	n := repeats()
	want := bytes.Repeat(once, n)
	for _, subs := range []int{1, 4} {
		for _, faults := range []string{"", "loss=0.01,dup=0.02,reorder=0.05", "loss=0.1,dup=0.02,reorder=0.05"} {
			t.Run(fmt.Sprintf("%d-%s", subs, faults), func(t *testing.T) {
				url := loopbackURL(t)
				spoil := func(seed int) string {
					if faults == "" {
						return ""
					}
					return fmt.Sprintf("%s,seed=%d", faults, seed)
				}
				var all []*process
				for i := range subs {
					out := filepath.Join(dir, fmt.Sprint("out", i))
					all = append(all, spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", out, "-faults", spoil(i+1), "md.itch"))
				}
				p := spawn(t, "pub", "-t", url, "-framing", "itch", "-file", in, "-repeat", fmt.Sprint(n), "-wait", fmt.Sprint(subs), "-silence", patience,
					"-faults", spoil(100), "md.itch")
				p.end(t, 0)
				t.Log(p.stderr.String())
				for i, s := range all {
					s.end(t, 0)
					t.Log(s.stderr.String())
					equal(t, fmt.Sprint("subscriber ", i), read(t, filepath.Join(dir, fmt.Sprint("out", i))), want)
				}
			})
		}
	}
}

// No loss is silent: received messages and gaps together cover everything published.
func TestProcessesHeavyLoss(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	once := feed(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	writeFile(t, in, once)
	n := repeats()
	sent := split(t, bytes.Repeat(once, n))
	for _, c := range []struct{ flow, rate, faults string }{
		{"min", "0", "loss=0.3"},
		{"min", "0", "loss=0.3,dup=0.02,reorder=0.05,burst=8"},
		{"none", "500000", "loss=0.3,burst=8"},
		{"none", "0", "loss=0.3"}, // loses packets of all subscribers
	} {
		t.Run(c.flow+"-"+c.rate+"-"+c.faults, func(t *testing.T) {
			url := loopbackURL(t)
			s := spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", out, "-json", "-faults", c.faults+",seed=1", "md.itch")
			p := spawn(t, "pub", "-t", url, "-framing", "itch", "-file", in, "-repeat", fmt.Sprint(n), "-wait", "1", "-silence", patience,
				"-flow", c.flow, "-rate", c.rate, "-faults", c.faults+",seed=2", "md.itch")
			<-p.waited
			<-s.waited
			t.Log(p.stderr.String())
			account(t, s, split(t, read(t, out)), sent)
		})
	}
}

// account compares the messages and gaps of a sub -json with what was published.
func account(t *testing.T, s *process, got, sent [][]byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(s.stdout.String()), "\n")
	var sum subSummary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum.Type != "summary" {
		t.Fatalf("the last line is no summary: error %v, line %q", err, lines[len(lines)-1])
	}
	var gaps []jsonGap
	for _, l := range lines {
		var g jsonGap
		if err := json.Unmarshal([]byte(l), &g); err == nil && g.Type == "gap" {
			gaps = append(gaps, g)
		}
	}
	if uint64(len(got)) != sum.Messages || len(gaps) != sum.GapCount {
		t.Errorf("the summary has %d messages and %d gaps, the output %d and %d", sum.Messages, sum.GapCount, len(got), len(gaps))
	}
	output := s.stderr.String()
	// Gaps of unknown size or topic are reported as such. If there are very many at once, some lines are omitted.
	if named := strings.Count(output, "lost: ") + strings.Count(output, "cannot be known: "); named > len(gaps) || named < min(len(gaps), gapsAtOnce) {
		t.Errorf("%d lines on standard error name %d gaps, want at most all and at least %d", named, len(gaps), min(len(gaps), gapsAtOnce))
	}
	code := s.cmd.ProcessState.ExitCode()
	if (code == 0) != sum.Complete || (code == 0) != (len(gaps) == 0 && sum.Publishers[0].State == "ended") {
		t.Errorf("exit code %d with %d gaps, publisher %s, want 0 exactly if complete: %v", code, len(gaps), sum.Publishers[0].State, sum.Complete)
	}
	next := 0 // number of the next message
	check := func(until int) {
		for ; next < until && len(got) > 0; next++ {
			if !bytes.Equal(got[0], sent[next]) {
				t.Fatalf("message %d is not what was published", next)
			}
			got = got[1:]
		}
	}
	for _, g := range gaps {
		if g.Count == 0 || g.Topic != "md.itch" {
			t.Logf("gap of unknown size: %+v", g)
			continue
		}
		check(int(g.First))
		if next != int(g.First) {
			t.Fatalf("gap at %d, but the output ends at %d", g.First, next)
		}
		next += int(g.Count)
	}
	check(len(sent))
	if len(got) > 0 {
		t.Errorf("%d messages too many", len(got))
	}
	if next != len(sent) && sum.Complete {
		t.Errorf("sub reports complete with %d messages, want %d", next, len(sent))
	}
	if next != len(sent) && !sum.LostUnknown && sum.Publishers[0].State == "ended" {
		t.Errorf("messages and gaps cover %d of %d, and the others are not reported", next, len(sent))
	}
	t.Logf("%d messages, %d gaps, %d lost", sum.Messages, len(gaps), sum.Lost)
}

// A subscriber is killed: the other one receives everything, the publisher reports that one stopped
// answering, and a new subscriber joins in the middle of the stream.
func TestProcessesKillSubscriber(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url := loopbackURL(t)
	half := bytes.Repeat(feed(t), 50)
	dir := t.TempDir()
	out := func(i int) string { return filepath.Join(dir, fmt.Sprint("out", i)) }
	victim := spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", out(0), "md.itch")
	other := spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", out(1), "md.itch")
	p := spawn(t, "pub", "-t", url, "-framing", "itch", "-wait", "2", "-silence", "8s", "md.itch")
	if _, err := p.stdin.Write(half); err != nil {
		t.Fatal(err)
	}
	await(t, "both to have the first half", func() bool {
		return len(read(t, out(0))) == len(half) && len(read(t, out(1))) == len(half)
	})
	victim.kill()
	late := spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", out(2), "-json", "md.itch")
	await(t, "the new one to detect the publisher", func() bool { return strings.Contains(late.stdout.String(), `"up"`) })
	if _, err := p.stdin.Write(half); err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	p.end(t, 1)
	other.end(t, 0)
	late.end(t, 0)
	equal(t, "the neighbour", read(t, out(1)), append(bytes.Clone(half), half...))
	equal(t, "the new one", read(t, out(2)), half)
	equal(t, "the killed one", read(t, out(0)), half)
	if s := p.stderr.String(); strings.Count(s, " stopped answering, silent for ") != 1 || !strings.Contains(s, "1 subscriber stopped answering before having received everything") {
		t.Errorf("the publisher printed %q, want one subscriber that stopped answering", s)
	}
}

// A publisher is killed: a subscriber reports that and ends with 1; one that stays continues with
// the next publisher, or with the same one restarted.
func TestProcessesKillPublisher(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	for _, name := range []string{"", "primary"} {
		t.Run("name "+name, func(t *testing.T) {
			url := loopbackURL(t)
			half := bytes.Repeat(feed(t), 50)
			whole := append(bytes.Clone(half), half...)
			dir := t.TempDir()
			leaves, kept := filepath.Join(dir, "leaves"), filepath.Join(dir, "stays")
			a := spawn(t, "sub", "-until", "end", "-t", url, "-framing", "itch", "-o", leaves, "md.itch")
			b := spawn(t, "sub", "-t", url, "-framing", "itch", "-o", kept, "-n", fmt.Sprint(len(split(t, half))+len(split(t, whole))), "md.itch")
			p := spawn(t, "pub", "-t", url, "-framing", "itch", "-wait", "2", "-silence", patience, "-name", name, "md.itch")
			if _, err := p.stdin.Write(half); err != nil {
				t.Fatal(err)
			}
			await(t, "both to have the first half", func() bool {
				return len(read(t, leaves)) == len(half) && len(read(t, kept)) == len(half)
			})
			p.kill()
			a.end(t, 1)
			equal(t, "the one that leaves", read(t, leaves), half)
			if s := a.stderr.String(); !strings.Contains(s, "fell silent before its end") {
				t.Errorf("the leaving subscriber printed %q, want the loss before its end", s)
			}
			// Otherwise it may have everything before it declares the first one lost.
			await(t, "the one that stays to report the loss of the publisher", func() bool { return strings.Contains(b.stderr.String(), "fell silent before its end") })
			p = spawn(t, "pub", "-t", url, "-framing", "itch", "-wait", "1", "-silence", patience, "-name", name, "md.itch")
			p.stdin.Write(whole)
			p.stdin.Close()
			p.end(t, 0)
			b.end(t, 1)
			equal(t, "the one that stays", read(t, kept), append(bytes.Clone(half), whole...))
		})
	}
}

// A publisher restarts with the same name before it is declared lost.
func TestProcessesRestartPublisher(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url := loopbackURL(t)
	half := bytes.Repeat(feed(t), 50)
	out := filepath.Join(t.TempDir(), "out")
	s := spawn(t, "sub", "-t", url, "-framing", "itch", "-o", out, "-n", fmt.Sprint(2*len(split(t, half))), "md.itch")
	for i := range 2 {
		p := spawn(t, "pub", "-t", url, "-framing", "itch", "-wait", "1", "-silence", patience, "-name", "primary", "md.itch")
		if i == 1 { // otherwise it may have everything before the first one is declared lost
			await(t, "the loss of the first one", func() bool { return strings.Contains(s.stderr.String(), "before its end") })
		}
		if _, err := p.stdin.Write(half); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			p.stdin.Close()
			p.end(t, 0)
			break
		}
		await(t, "the first half", func() bool { return len(read(t, out)) == len(half) })
		p.kill()
	}
	s.end(t, 1)
	equal(t, "the subscriber", read(t, out), append(bytes.Clone(half), half...))
}

func TestProcessSignal(t *testing.T) {
	programOnly(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no interrupt that one process can send to another (os.Process.Signal)")
	}
	url := loopbackURL(t)
	s := spawn(t, "sub", "-until", "end", "-t", url, "x")
	p := spawn(t, "pub", "-t", url, "-wait", "1", "-silence", patience, "x")
	io.WriteString(p.stdin, "1\n")
	await(t, "the message", func() bool { return s.stdout.String() == "1\n" })
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.end(t, 130)
	// Subscribers have left in order: the publisher does not wait for them.
	p.stdin.Close()
	p.end(t, 0)
}
