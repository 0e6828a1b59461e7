package lab

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Streams of the commands, and checks of their results.

// writeFeed writes n messages, each with its length before it, as expected by "fanfare pub -framing itch": of 8 to 400
// bytes, and one in 250 of 5000, which takes several full packets at any RDMA MTU. All are different.
func writeFeed(t *testing.T, file string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var b []byte
	for i := range n {
		size := 8 + rng.IntN(393)
		if i%250 == 100 {
			size = 5000
		}
		msg := bytes.Repeat(fmt.Appendf(nil, "%08d", i), 625)[:size]
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(msg))), msg...)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readFeed reads a file written by writeFeed or "fanfare sub -framing itch".
func readFeed(t *testing.T, file string) (messages [][]byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			t.Fatalf("%s ends within a message", file)
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		messages = append(messages, b[2:n])
		b = b[n:]
	}
	return messages
}

// pubResult is the part of the summary of "fanfare pub -json" that tests use.
type pubResult struct {
	Messages, NAKs, Repairs, Silent uint64
	Delivered                       bool
	Error                           string
}

// subResult is the part of the summary of "fanfare sub -json" that tests use.
type subResult struct {
	Messages, Packets, Missing, Repaired, Lost uint64
	End                                        string
	Complete                                   bool
	Gaps                                       []struct{ First, Count uint64 }
	Error                                      string
}

// summaryOf finds the summary in the output of a command with -json.
func summaryOf[R pubResult | subResult](t *testing.T, output string) (r R) {
	t.Helper()
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, `{"type":"summary"`) {
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("the summary is no JSON object: %v in %s", err, line)
			}
			return r
		}
	}
	t.Fatalf("no summary in\n%s", output)
	return r
}

// wantComplete checks that both sides report the stream as complete, and that it is.
func wantComplete(t *testing.T, dir, got, pub, sub string) (pubResult, subResult) {
	t.Helper()
	sameFiles(t, filepath.Join(dir, "feed"), filepath.Join(dir, got))
	p, s := summaryOf[pubResult](t, pub), summaryOf[subResult](t, sub)
	n := uint64(len(readFeed(t, filepath.Join(dir, "feed"))))
	if p.Messages != n || !p.Delivered || p.Error != "" {
		t.Errorf("publisher: %+v, want %d messages, delivered", p, n)
	}
	if s.Messages != n || !s.Complete || s.Lost != 0 || len(s.Gaps) > 0 || s.End != "publisher" || s.Error != "" {
		t.Errorf("subscriber: %+v, want %d messages, complete", s, n)
	}
	return p, s
}

// wantConsistent checks that the messages written by a subscriber match its report: the whole feed except for reported
// gaps, up to the reported end. It reports whether that is everything. status is the subscriber's exit status.
func wantConsistent(t *testing.T, dir, got, sub string, status int) (complete bool) {
	t.Helper()
	s := summaryOf[subResult](t, sub)
	feed, messages := readFeed(t, filepath.Join(dir, "feed")), readFeed(t, filepath.Join(dir, got))
	if s.Messages != uint64(len(messages)) {
		t.Errorf("the subscriber reports %d messages, but wrote %d", s.Messages, len(messages))
	}
	at := 0 // in the feed
	for i, m := range messages {
		for _, g := range s.Gaps {
			if g.First == uint64(at) {
				at += int(g.Count)
			}
		}
		if at >= len(feed) || !bytes.Equal(m, feed[at]) {
			t.Errorf("received message %d is %.16q, want published message %d; gaps: %+v", i, m, at, s.Gaps)
			return false
		}
		at++
	}
	complete = at == len(feed) && len(messages) == len(feed)
	if s.Complete != complete || (status == 0) != complete {
		t.Errorf("%d of %d messages, but the subscriber exits with status %d and reports %+v", len(messages), len(feed), status, s)
	}
	if !complete && len(s.Gaps) == 0 && s.Error == "" && s.End == "publisher" && !strings.Contains(sub, "fell silent before its end") {
		t.Errorf("%d messages, want %d or a reason:\n%s", len(messages), len(feed), sub)
	}
	return complete
}

// exitStatus finds "status N", which a VM's command prints after a program.
func exitStatus(t *testing.T, output string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^status (\d+)$`).FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("no status in\n%s", output)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dropped returns the number of packets that each netem reports as dropped, in the format of "tc -s qdisc".
func dropped(t *testing.T, output string) (list []int) {
	t.Helper()
	for _, part := range strings.Split(output, "qdisc ") {
		m := regexp.MustCompile(`(?s)^netem .* \(dropped (\d+)`).FindStringSubmatch(part)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	if len(list) == 0 {
		t.Fatalf("no statistics of netem in\n%s", output)
	}
	return list
}

// largest returns the size of the longest datagram, in bytes of payload.
func largest(list []Datagram) (n int) {
	for _, d := range list {
		n = max(n, len(d.Data))
	}
	return n
}

// constants returns the values of BTH and DETH of a sender.
func constants(list []Datagram) (all [][20]byte) {
	for _, d := range list {
		if !slices.Contains(all, d.Constant) {
			all = append(all, d.Constant)
		}
	}
	return all
}

const rocePort = 4791

// complaint is the filter for packets that Wireshark reports as invalid.
const complaint = `_ws.malformed || _ws.expert.severity >= "Warning"`

func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	if out, err := exec.Command("cmp", want, got).CombinedOutput(); err != nil {
		t.Errorf("files %s and %s differ: %v %s", want, got, err, out)
	}
}
