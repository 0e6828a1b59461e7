package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// source is a bus that tests made up.
type source struct {
	name string
	long string        // a text
	wait chan struct{} // if not nil, Inspect waits for it, or ctx

	mu     sync.Mutex
	asked  int
	events []Event
}

func (s *source) Inspect(ctx context.Context) Bus {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	b := Bus{Identity: Identity{ID: "1", Name: s.name}, Ended: s.long}
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-ctx.Done():
			b.Incomplete = "busy"
		}
	}
	return b
}

func (s *source) Events(after uint64) (all []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Sequence > after {
			all = append(all, e)
		}
	}
	return all
}

func (s *source) happen(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, Event{Sequence: uint64(len(s.events)) + 1, Kind: kind})
}

// inDir has processes' sockets in a directory of the test's own.
func inDir(t *testing.T) string {
	if !supported {
		t.Skip("no sockets with owners and modes here")
	}
	dir := filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(Variable, dir)
	return dir
}

func names(s *Snapshot) (names []string) {
	for _, b := range s.Buses {
		names = append(names, b.Name)
	}
	return names
}

// One socket for all buses, which the last one removes, with all goroutines.
func TestRegistry(t *testing.T) {
	dir := inDir(t)
	before := runtime.NumGoroutine()
	var r registry
	log := slog.New(slog.DiscardHandler)
	removeA := r.add(&source{name: "a"}, log)
	removeB := r.add(&source{name: "b"}, log)
	sockets, err := List(dir)
	if err != nil || len(sockets) != 1 || pidOf(sockets[0]) != os.Getpid() {
		t.Fatalf("sockets %q, %v", sockets, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, sockets[0]: 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	c, err := Dial(t.Context(), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Snapshot(t.Context())
	if err != nil || fmt.Sprint(names(s)) != "[a b]" || s.Version != Version || s.Process.PID != os.Getpid() || s.Time.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	removeA()
	removeA()
	time.Sleep(shareFor)
	if s, err := c.Snapshot(t.Context()); err != nil || fmt.Sprint(names(s)) != "[b]" {
		t.Errorf("%+v, %v", s, err)
	}
	removeB()
	if _, err := c.Snapshot(t.Context()); err == nil {
		t.Error("a client is answered after the last bus has ended")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	testenv.AwaitGoroutines(t, before)
	removeC := r.add(&source{name: "c"}, log) // and again
	defer removeC()
	if all, err := ReadAll(t.Context(), dir); err != nil || len(all) != 1 || all[0].Err != nil || fmt.Sprint(names(all[0].Snapshot)) != "[c]" {
		t.Errorf("%+v, %v", all, err)
	}
}

// Where no socket can be made one line says why, and nothing else changes.
func TestNoSocket(t *testing.T) {
	if !supported {
		t.Skip("never has a socket")
	}
	file := filepath.Join(t.TempDir(), "file")
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		Off: "is off", file: "directory", file + "/x": "directory", "relative": "absolute path", open: "may be written to by others",
		filepath.Join(t.TempDir(), strings.Repeat("x", 110)): "invalid argument",
	} {
		t.Setenv(Variable, where)
		var out strings.Builder
		var r registry
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r.add(&source{}, log)()
		level := "level=DEBUG"
		if where == open || where == file { // somebody has to see to that
			level = "level=WARN"
		}
		if s := out.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, level) || !strings.Contains(s, want) {
			t.Errorf("%s: logged %q, want %q", where, s, want)
		}
	}
}

// A directory that is not the user's own is not used, nor is XDG_RUNTIME_DIR of another.
func TestDirs(t *testing.T) {
	if !supported {
		t.Skip("no directories with owners here")
	}
	t.Setenv(Variable, "")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	run := t.TempDir()
	want := filepath.Join(temp, fmt.Sprintf("fanfare-%d", os.Geteuid()))
	for _, c := range []struct{ xdg, want string }{
		{run, filepath.Join(run, "fanfare")}, {"", want}, {"relative", want}, {filepath.Join(run, "missing"), want},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.xdg)
		if dir, err := makeDir(); err != nil || dir != c.want {
			t.Errorf("XDG_RUNTIME_DIR=%s: %s, %v; want %s", c.xdg, dir, err, c.want)
		}
	}
	if os.Geteuid() != 0 {
		return // what follows needs files of others
	}
	if err := os.Chown(run, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", run)
	if dir, err := makeDir(); err != nil || dir != want {
		t.Errorf("with another user's XDG_RUNTIME_DIR: %s, %v", dir, err)
	}
	if err := os.Chown(want, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if dir, err := makeDir(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("another user's directory: %s, %v", dir, err)
	}
}

// Another user can make the directory first: then there is no socket, and a warning says so, and what to do.
// docs/security.md.
func TestDirectoryTakenByAnother(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv(Variable, "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	taken := tempDir(os.Geteuid())
	for name, c := range map[string]struct {
		make func() error
		says string
	}{
		"a file":              {func() error { return os.WriteFile(taken, nil, 0o600) }, "is no directory"},
		"open to others":      {func() error { return errors.Join(os.Mkdir(taken, 0o700), os.Chmod(taken, 0o777)) }, "may be written to by others"},
		"another's directory": {func() error { return errors.Join(os.Mkdir(taken, 0o700), os.Chown(taken, 65534, 65534)) }, "belongs to user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another's directory" && os.Geteuid() != 0 {
				testenv.Skip(t, "it takes root to give a directory away")
			}
			defer os.RemoveAll(taken)
			if err := c.make(); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			var r registry
			r.add(&source{}, slog.New(slog.NewTextHandler(&out, nil)))()
			if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "belongs to another user") || !strings.Contains(out.String(), c.says) {
				t.Errorf("the log says %q, want %q", out.String(), c.says)
			}
		})
	}
}

// What a killed process has left behind is removed by who lists; what listens, or is no
// socket of ours, stays.
func TestStale(t *testing.T) {
	dir := inDir(t)
	var r registry
	defer r.add(&source{}, slog.New(slog.DiscardHandler))()
	stale := filepath.Join(dir, "4000000-00.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	other := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if sockets, err := List(dir); err != nil || len(sockets) != 2 {
		t.Errorf("a socket that is just being made: %q, %v", sockets, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	if sockets, err := List(dir); err != nil || len(sockets) != 1 || pidOf(sockets[0]) != os.Getpid() {
		t.Errorf("%q, %v", sockets, err)
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the stale socket is still there")
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
	if _, err := List(filepath.Join(dir, "missing")); err == nil {
		t.Error("a named directory that does not exist is no error")
	}
}

// What is asked wrongly is answered, and costs a bounded amount.
func TestRequests(t *testing.T) {
	dir := inDir(t)
	var r registry
	defer r.add(&source{}, slog.New(slog.DiscardHandler))()
	sockets, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"hello\n":                   `{"error":"\"hello\" is no request: they are snapshot and events"}`,
		"\n":                        `{"error":"\"\" is no request`,
		strings.Repeat("x", 300):    `{"error":"a request is a line`,
		"\x00\xff\n":                `{"error":`,
		" snapshot \r\n":            `{"version":1,`,
		"nonsense\nsnapshot\n":      `{"error":`,
		"GET / HTTP/1.1\r\n\r\n":    `{"error":`,
		"snapshot\nsnapshot\nbye\n": `{"version":1,`,
	} {
		c, err := net.Dial("unix", sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Error(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) || !json.Valid([]byte(line)) {
			t.Errorf("%q: %q, %v", request, line, err)
		}
		c.Close()
	}
}

// A client too many is told so, and one that reads nothing holds nobody up, nor the end.
func TestClients(t *testing.T) {
	dir := inDir(t)
	before := runtime.NumGoroutine()
	var r registry
	x := &source{long: strings.Repeat("long ", 1<<20)}
	remove := r.add(x, slog.New(slog.DiscardHandler))
	sockets, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var deaf []net.Conn
	for range maxClients - 1 {
		c, err := net.Dial("unix", sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "snapshot\nsnapshot\n")
		deaf = append(deaf, c)
	}
	good, err := Dial(t.Context(), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until List's own connection has gone
		if _, err = good.Snapshot(t.Context()); err == nil || time.Now().After(limit) {
			break
		}
		good.Close()
		if good, err = Dial(t.Context(), sockets[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), sockets[0]); err == nil || !strings.Contains(err.Error(), "16 others look at this process already") {
		t.Errorf("a client too many: %v", err)
	}
	if most := 3 + int(time.Since(began)/shareFor); len(deaf) > 0 && x.asked > most {
		t.Errorf("%d snapshots were taken, want %d at most: they are not shared", x.asked, most)
	}
	remove()
	good.Close()
	for _, c := range deaf {
		c.Close()
	}
	testenv.AwaitGoroutines(t, before)
}

// A bus that does not answer is told of, with the others, and does not hold the end up.
func TestBusyBus(t *testing.T) {
	dir := inDir(t)
	var r registry
	log := slog.New(slog.DiscardHandler)
	busy := &source{name: "busy", wait: make(chan struct{})}
	removeA := r.add(busy, log)
	removeB := r.add(&source{name: "idle"}, log)
	all, err := ReadAll(t.Context(), dir)
	if err != nil || len(all) != 1 || all[0].Err != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	if b := all[0].Snapshot.Buses; len(b) != 2 || b[0].Incomplete != "busy" || b[1].Incomplete != "" || b[1].Name != "idle" {
		t.Errorf("%+v", b)
	}
	removeA()
	removeB()
}

// Events come as they happen, those before first, until the client hangs up.
func TestFollow(t *testing.T) {
	dir := inDir(t)
	before := runtime.NumGoroutine()
	var r registry
	x := new(source)
	remove := r.add(x, slog.New(slog.DiscardHandler))
	x.happen("one")
	sockets, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = c.follow(t.Context(), func(e *Event) bool {
		got = append(got, e.Kind)
		if len(got) < 3 {
			x.happen(fmt.Sprint("more", len(got)))
		}
		return len(got) < 3
	})
	if err != nil || fmt.Sprint(got) != "[one more1 more2]" {
		t.Errorf("%v, %v", got, err)
	}
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	d, err := Dial(ctx, sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.follow(ctx, func(e *Event) bool { cancel(); return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled follow: %v", err)
	}
	e, err := Dial(t.Context(), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	first := make(chan struct{}, 16)
	ended := make(chan error)
	go func() {
		ended <- e.follow(context.Background(), func(*Event) bool { first <- struct{}{}; return true })
	}()
	<-first
	remove()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("follow of a process that closes its last bus: %v", err)
	}
	testenv.AwaitGoroutines(t, before)
}

// Snapshots of another version, and what is none, are refused.
func TestForeignAnswers(t *testing.T) {
	dir := inDir(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ answer, want string }{
		{`{"version":2}` + "\n", "version 2"},
		{"not json\n", "cannot be read"},
		{`{"version":1,"time":7}` + "\n", "cannot be read"},
		{`{"version":1,"buses":[{"repair":{"buckets":[{"index":100000,"count":1}]}}]}` + "\n", "index 100000"},
		{`{"error":"no"}` + "\n", "no"},
		{"{", "EOF"},
		{"", "EOF"},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d-x.sock", i+1))
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		answer := c.answer
		go func() {
			if c, err := l.Accept(); err == nil {
				bufio.NewReader(c).ReadString('\n')
				io.WriteString(c, answer)
				c.Close()
			}
		}()
		if _, err := Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.answer, err, c.want)
		}
		l.Close()
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"PacketsSent": "packets_sent", "NAKs": "naks", "NAKPackets": "nak_packets", "NCFSent": "ncf_sent", "NCFs": "ncfs", "GSORefused": "gso_refused",
		"PKeyViolations": "p_key_violations", "Lost": "lost", "RTT": "rtt", "ReceiveQueueEmpty": "receive_queue_empty", "LostOnWay": "lost_on_way", "NAKGone": "nak_gone",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// follow asks for events, and calls f with each event until ctx ends, f reports false, or the process hangs up,
// which is io.EOF.
func (c *Client) follow(ctx context.Context, f func(*Event) bool) error {
	stop := context.AfterFunc(ctx, func() { c.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.c.Write([]byte("events\n")); err != nil {
		return err
	}
	for {
		line, err := c.line()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := answerError(line); err != nil {
			return err
		}
		e := new(Event)
		if err := json.Unmarshal(line, e); err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		if !f(e) {
			return nil
		}
	}
}

// A Logger that learns that there is no socket may open a bus itself.
func TestLoggerOpensABus(t *testing.T) {
	t.Setenv(Variable, Off)
	var r registry
	lines := 0
	h := lineFunc(func() {
		lines++
		if !r.mu.TryLock() {
			t.Error("a line is logged under the registry's lock")
			return
		}
		r.mu.Unlock()
		t.Cleanup(r.add(&source{}, slog.New(slog.DiscardHandler)))
	})
	t.Cleanup(r.add(&source{}, slog.New(h)))
	if n := len(r.list()); lines != 1 || n != 2 {
		t.Errorf("%d lines, %d buses", lines, n)
	}
}

// lineFunc is a slog.Handler that calls a function for each line.
type lineFunc func()

func (lineFunc) Enabled(context.Context, slog.Level) bool    { return true }
func (f lineFunc) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f lineFunc) WithGroup(string) slog.Handler             { return f }
func (f lineFunc) Handle(context.Context, slog.Record) error { f(); return nil }
