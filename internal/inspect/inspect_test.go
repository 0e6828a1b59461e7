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

// source is a bus made by tests.
type source struct {
	name string
	long string        // a long text in its snapshot
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

// inDir makes processes use a directory of the test for their sockets, which it returns.
func inDir(t *testing.T) string {
	if !supported {
		t.Skip("this system has no sockets with owners and modes")
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

// All buses share one socket, which ends with the last one, with all goroutines.
func TestRegistry(t *testing.T) {
	dir := inDir(t)
	before := runtime.NumGoroutine()
	var r registry
	log := slog.New(slog.DiscardHandler)
	removeA := r.add(&source{name: "a"}, log)
	removeB := r.add(&source{name: "b"}, log)
	sockets, err := List(dir)
	if err != nil || len(sockets) != 1 || pidOf(sockets[0]) != os.Getpid() {
		t.Fatalf("sockets %q, error %v, want the one of this process", sockets, err)
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
		t.Errorf("snapshot %+v, error %v, want buses a and b of this process", s, err)
	}
	removeA()
	removeA()
	time.Sleep(shareFor)
	if s, err := c.Snapshot(t.Context()); err != nil || fmt.Sprint(names(s)) != "[b]" {
		t.Errorf("snapshot %+v, error %v, want bus b alone", s, err)
	}
	removeB()
	if _, err := c.Snapshot(t.Context()); err == nil {
		t.Error("a client gets an answer after the last bus has ended")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
	testenv.AwaitGoroutines(t, before)
	removeC := r.add(&source{name: "c"}, log) // and again
	defer removeC()
	if all, err := ReadAll(t.Context(), dir); err != nil || len(all) != 1 || all[0].Err != nil || fmt.Sprint(names(all[0].Snapshot)) != "[c]" {
		t.Errorf("snapshots %+v, error %v, want one, with bus c alone", all, err)
	}
}

// If no socket can be made one line has the reason, and nothing else changes.
func TestNoSocket(t *testing.T) {
	if !supported {
		t.Skip("this system never has a socket")
	}
	file := filepath.Join(t.TempDir(), "file")
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		Off: "is off", file: "directory", file + "/x": "directory", "relative": "absolute path", open: "can be written by others",
		filepath.Join(t.TempDir(), strings.Repeat("x", 110)): "invalid argument",
	} {
		t.Setenv(Variable, where)
		var out strings.Builder
		var r registry
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r.add(&source{}, log)()
		level := "level=DEBUG"
		if where == open || where == file { // an operator must act
			level = "level=WARN"
		}
		if s := out.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, level) || !strings.Contains(s, want) {
			t.Errorf("%s: logged %q, want %q", where, s, want)
		}
	}
}

// A directory of another user is not used, nor is the XDG_RUNTIME_DIR of another user.
func TestDirs(t *testing.T) {
	if !supported {
		t.Skip("this system has no directories with owners")
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
		return // the rest needs files of other users
	}
	if err := os.Chown(run, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", run)
	if dir, err := makeDir(); err != nil || dir != want {
		t.Errorf("makeDir with another user's XDG_RUNTIME_DIR: %s, error %v, want %s", dir, err, want)
	}
	if err := os.Chown(want, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if dir, err := makeDir(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("makeDir in another user's directory: %s, error %v, want that it belongs to user 65534", dir, err)
	}
}

// Another user can make the directory first: then there is no socket, and a warning has advice. docs/security.md.
func TestDirectoryOfAnotherUser(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv(Variable, "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	taken := tempDir(os.Geteuid())
	for name, c := range map[string]struct {
		make func() error
		says string
	}{
		"a file":              {func() error { return os.WriteFile(taken, nil, 0o600) }, "is not a directory"},
		"open to others":      {func() error { return errors.Join(os.Mkdir(taken, 0o700), os.Chmod(taken, 0o777)) }, "can be written by others"},
		"another's directory": {func() error { return errors.Join(os.Mkdir(taken, 0o700), os.Chown(taken, 65534, 65534)) }, "belongs to user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another's directory" && os.Geteuid() != 0 {
				testenv.Skip(t, "it takes root to change the owner of a directory")
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

// List removes the socket of a killed process; sockets in use and other files stay.
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
		t.Errorf("sockets with a new one that does not listen yet: %q, error %v, want 2", sockets, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	if sockets, err := List(dir); err != nil || len(sockets) != 1 || pidOf(sockets[0]) != os.Getpid() {
		t.Errorf("sockets %q, error %v, want the one of this process", sockets, err)
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the stale socket is still there")
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
	if _, err := List(filepath.Join(dir, "missing")); err == nil {
		t.Error("a given directory that does not exist is not an error")
	}
}

// Invalid requests get an answer, at limited cost.
func TestRequests(t *testing.T) {
	dir := inDir(t)
	var r registry
	defer r.add(&source{}, slog.New(slog.DiscardHandler))()
	sockets, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"hello\n":                   `{"error":"\"hello\" is not a request: requests are snapshot and events"}`,
		"\n":                        `{"error":"\"\" is not a request`,
		strings.Repeat("x", 300):    `{"error":"a request must be a line`,
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
			t.Errorf("answer to %q: %q, error %v, want a JSON line that begins with %s", request, line, err, want)
		}
		c.Close()
	}
}

// A client too many gets an error, and clients that do not read delay neither others nor the end.
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
	var idle []net.Conn
	for range maxClients - 1 {
		c, err := net.Dial("unix", sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "snapshot\nsnapshot\n")
		idle = append(idle, c)
	}
	good, err := Dial(t.Context(), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until the connection of List has ended
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
	if _, err := Read(t.Context(), sockets[0]); err == nil || !strings.Contains(err.Error(), "16 other clients already inspect this process") {
		t.Errorf("one client too many: error %v, want that 16 others inspect this process", err)
	}
	if most := 3 + int(time.Since(began)/shareFor); len(idle) > 0 && x.asked > most {
		t.Errorf("%d snapshots were taken, want %d at most: they are not shared", x.asked, most)
	}
	remove()
	good.Close()
	for _, c := range idle {
		c.Close()
	}
	testenv.AwaitGoroutines(t, before)
}

// A bus that does not answer is listed as busy with the others, and does not delay the end.
func TestBusyBus(t *testing.T) {
	dir := inDir(t)
	var r registry
	log := slog.New(slog.DiscardHandler)
	busy := &source{name: "busy", wait: make(chan struct{})}
	removeA := r.add(busy, log)
	removeB := r.add(&source{name: "idle"}, log)
	all, err := ReadAll(t.Context(), dir)
	if err != nil || len(all) != 1 || all[0].Err != nil {
		t.Fatalf("snapshots %+v, error %v, want one without an error", all, err)
	}
	if b := all[0].Snapshot.Buses; len(b) != 2 || b[0].Incomplete != "busy" || b[1].Incomplete != "" || b[1].Name != "idle" {
		t.Errorf("buses %+v, want an incomplete one that is busy, and the complete one idle", b)
	}
	removeA()
	removeB()
}

// Events arrive as they happen, earlier ones first, until the client closes the connection.
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
		t.Errorf("received %v, error %v, want one, more1 and more2", got, err)
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
		t.Errorf("a cancelled follow: error %v, want %v", err, context.Canceled)
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
		t.Errorf("follow of a process that closes its last bus: error %v, want %v", err, io.EOF)
	}
	testenv.AwaitGoroutines(t, before)
}

// Snapshots of another version, and invalid ones, are refused.
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
			t.Errorf("reading the answer %q: error %v, want one containing %q", c.answer, err, c.want)
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

// follow requests events, and calls f with each one until ctx ends, f reports false, or the process closes the
// connection, which is io.EOF.
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

// A Logger may open a bus when it gets the line about a missing socket.
func TestLoggerOpensABus(t *testing.T) {
	t.Setenv(Variable, Off)
	var r registry
	lines := 0
	h := lineFunc(func() {
		lines++
		if !r.mu.TryLock() {
			t.Error("a line is logged while the registry's lock is held")
			return
		}
		r.mu.Unlock()
		t.Cleanup(r.add(&source{}, slog.New(slog.DiscardHandler)))
	})
	t.Cleanup(r.add(&source{}, slog.New(h)))
	if n := len(r.list()); lines != 1 || n != 2 {
		t.Errorf("%d lines, %d buses, want 1 and 2", lines, n)
	}
}

// lineFunc is a slog.Handler that calls a function for each line.
type lineFunc func()

func (lineFunc) Enabled(context.Context, slog.Level) bool    { return true }
func (f lineFunc) WithAttrs([]slog.Attr) slog.Handler        { return f }
func (f lineFunc) WithGroup(string) slog.Handler             { return f }
func (f lineFunc) Handle(context.Context, slog.Record) error { f(); return nil }
