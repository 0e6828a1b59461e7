package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// testTimeout prevents endless waits; no test asserts times.
const testTimeout = 5 * time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), testTimeout, errors.New("test timeout"))
	t.Cleanup(cancel)
	return ctx
}

// running is a command that runs in this process.
type running struct {
	stdout, stderr syncBuffer
	done           chan struct{}
	code           int
	cancel         context.CancelCauseFunc
}

// syncBuffer is a buffer written by one goroutine and read by another.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func start(t *testing.T, stdin io.Reader, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(testContext(t))
	r := &running{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.done)
		r.code = Run(ctx, args, stdin, &r.stdout, &r.stderr)
	}()
	t.Cleanup(func() {
		cancel(nil)
		<-r.done
	})
	return r
}

// end waits for the command to end with this exit code.
func (r *running) end(t *testing.T, code int) {
	t.Helper()
	<-r.done
	if r.code != code {
		t.Errorf("exit code %d, want %d; standard error:\n%s", r.code, code, r.stderr.String())
	}
}

// plainStderr is the standard error of a command, without reports that the process did not run.
func plainStderr(stderr *syncBuffer) string { return standstill.ReplaceAllString(stderr.String(), "") }

var standstill = regexp.MustCompile(`(?m)^fanfare [a-z]+: this process did not run for .*\n`)

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// records returns n messages in framing itch, and the messages.
func records(t testing.TB, n int) (stream string, msgs []string) {
	for i := range n {
		msgs = append(msgs, fmt.Sprintf("%08d%s", i, strings.Repeat("x", i*7%40)))
	}
	return join(t, msgs, framingITCH), msgs
}

// objects decodes what -json has written.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := d.Decode(&o)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("standard output is no JSON: %v in %q", err, text)
		}
		list = append(list, o)
	}
}
