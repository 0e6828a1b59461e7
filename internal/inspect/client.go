package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// List returns the paths of sockets, by process number: where has directories with sockets, or sockets; without where
// the directories are Dirs. It removes sockets in the directories if no process listens. A directory that does not
// exist, or belongs to another user, is an error only if where contains it.
func List(where ...string) (sockets []string, err error) {
	sockets, _, err = list(where)
	return sockets, err
}

// list is List, and also returns the directories that belong to the wrong user.
func list(where []string) (sockets []string, foreign []*ForeignError, err error) {
	if len(where) == 0 {
		all := userDirs()
		if len(all) == 0 {
			return nil, nil, ErrOff
		}
		for _, p := range all {
			err := belongs(p.dir, p.user)
			if err == nil {
				err = addSockets(&sockets, p.dir)
			}
			if x := (*ForeignError)(nil); errors.As(err, &x) {
				foreign = append(foreign, x)
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
		}
	}
	for _, x := range where {
		info, err := os.Stat(x)
		if err == nil && info.IsDir() {
			err = addSockets(&sockets, x)
		} else if err == nil {
			sockets = append(sockets, x)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(sockets, func(a, b string) int { return pidOf(a) - pidOf(b) })
	return slices.Compact(sockets), foreign, nil
}

// addSockets adds the sockets in a directory.
func addSockets(sockets *[]string, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); pidOf(path) != 0 && !removeStale(path) {
			*sockets = append(*sockets, path)
		}
	}
	return nil
}

// removeStale removes a socket without a listener: its process was killed. It reports whether the socket no longer
// exists.
func removeStale(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return false
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	info, statErr := os.Lstat(path)
	if !errors.Is(err, syscall.ECONNREFUSED) || statErr != nil {
		return false
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < staleAfter { // below zero: the clock was set back
		return false
	}
	return os.Remove(path) == nil
}

// Client is a connection to one process. Only one goroutine may use it.
type Client struct {
	c  net.Conn
	in *bufio.Reader
}

// Dial connects to the process of a socket. If the process belongs neither to this user nor to root, it returns a
// ForeignError; root also accepts other users in their own directories.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := trusted(c, path); err != nil {
		c.Close()
		return nil, err
	}
	return &Client{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.c.Close() }

// Snapshot requests a snapshot. Without a deadline in ctx it waits at most 5 s.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	stop := c.until(ctx)
	defer stop()
	if _, err := c.c.Write([]byte("snapshot\n")); err != nil {
		if line, readErr := c.line(); readErr == nil { // the reason why the connection was closed
			err = answerError(line)
		}
		return nil, err
	}
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	if err := answerError(line); err != nil {
		return nil, err
	}
	s := new(Snapshot)
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	if s.Version != Version {
		return nil, fmt.Errorf("its snapshots have version %d, but this program reads version %d: use the fanfare of the version with which the process was built", s.Version, Version)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("the snapshot is invalid: %w", err)
	}
	return s, nil
}

// until sets the deadline of a call.
func (c *Client) until(ctx context.Context) (stop func() bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(5 * time.Second)
	}
	c.c.SetDeadline(deadline)
	return context.AfterFunc(ctx, func() { c.c.SetDeadline(time.Unix(1, 0)) })
}

// line reads one line of at most maxAnswer bytes.
func (c *Client) line() ([]byte, error) {
	var all []byte
	for {
		part, err := c.in.ReadSlice('\n')
		if all = append(all, part...); err == nil {
			return all, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(all) > maxAnswer {
			return nil, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
		}
	}
}

// answerError returns the error in an answer, if there is one.
func answerError(line []byte) error {
	if !bytes.HasPrefix(line, []byte(`{"error":`)) {
		return nil
	}
	var f failure
	if err := json.Unmarshal(line, &f); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return errors.New(f.Error)
}

// Seen is the answer of one socket: a snapshot or an error. If a directory was not read, Socket is its path and Err a
// ForeignError.
type Seen struct {
	Socket   string
	Snapshot *Snapshot
	Err      error
}

// ReadAll reads snapshots from all sockets of List concurrently. It omits processes that have ended meanwhile, or were
// killed and left their socket, unless where contains them.
func ReadAll(ctx context.Context, where ...string) ([]Seen, error) {
	sockets, foreign, err := list(where)
	if err != nil {
		return nil, err
	}
	all := make([]Seen, len(sockets))
	var wait sync.WaitGroup
	for i, path := range sockets {
		wait.Go(func() {
			all[i].Socket = path
			all[i].Snapshot, all[i].Err = Read(ctx, path)
		})
	}
	wait.Wait()
	for _, x := range foreign {
		all = append(all, Seen{Socket: x.Path, Err: x})
	}
	return slices.DeleteFunc(all, func(x Seen) bool {
		return errors.Is(x.Err, fs.ErrNotExist) || errors.Is(x.Err, syscall.ECONNREFUSED) && !slices.Contains(where, x.Socket)
	}), nil
}

// Read reads one snapshot from a socket.
func Read(ctx context.Context, path string) (*Snapshot, error) {
	c, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Snapshot(ctx)
}

// Name returns the name of a process for output: its program and number. A process that was only detected on the
// network has an address instead of a program, and no number.
func (p *Process) Name() string {
	name := strings.TrimSuffix(p.Program, ".exe")
	if p.PID != 0 {
		name = fmt.Sprintf("%s[%d]", name, p.PID)
	}
	return name
}

// Heard reports whether the process was only detected on the network, without a socket.
func (p *Process) Heard() bool { return p.PID == 0 }
