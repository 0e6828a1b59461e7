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

// List returns the paths of sockets: those in the directories where, or of sockets, or those in Dirs if there are
// none, by process number. A socket in a directory without a process that answers is removed. A directory that does
// not exist, or is another user's, is an error only if it is named.
func List(where ...string) (sockets []string, err error) {
	sockets, _, err = list(where)
	return sockets, err
}

// list is List, and returns the directories that belong to the wrong user.
func list(where []string) (sockets []string, foreign []*ForeignError, err error) {
	if len(where) == 0 {
		all := places()
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

// addSockets adds those of a directory.
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

// removeStale removes a socket without a listener: the process was killed. It reports whether that is gone.
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
	if age := time.Since(info.ModTime()); age >= 0 && age < staleAfter { // below zero the clock was set back since
		return false
	}
	return os.Remove(path) == nil
}

// Client is a connection to one process. One goroutine uses it.
type Client struct {
	c  net.Conn
	in *bufio.Reader
}

// Dial connects to the process of a socket. One of another user than this one and root is not
// believed (ForeignError), but by root in a directory of that user's own.
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

// Close hangs up.
func (c *Client) Close() error { return c.c.Close() }

// Snapshot asks for a snapshot. Without a deadline in ctx it waits 5 s at most.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	stop := c.until(ctx)
	defer stop()
	if _, err := c.c.Write([]byte("snapshot\n")); err != nil {
		if line, readErr := c.line(); readErr == nil { // why it has hung up
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
		return nil, fmt.Errorf("its snapshots are of version %d, and this program reads version %d: use the fanfare that the process was built with", s.Version, Version)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("the snapshot says what cannot be: %w", err)
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

// line reads one line, of maxAnswer bytes at most.
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
			return nil, fmt.Errorf("an answer of more than %d MiB", maxAnswer>>20)
		}
	}
}

// answerError is the error that an answer says, if it is one.
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

// Seen is what one socket has answered: a snapshot or an error. Where a directory was not read
// Socket is its path, and Err a ForeignError.
type Seen struct {
	Socket   string
	Snapshot *Snapshot
	Err      error
}

// ReadAll reads snapshots at all sockets that List finds, side by side. A process that has
// ended meanwhile, or was killed so that its socket is still there, is left out unless where names it.
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

// Read reads one snapshot at a socket.
func Read(ctx context.Context, path string) (*Snapshot, error) {
	c, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Snapshot(ctx)
}

// Name is what people call a process: its program and number. One that was only heard has an address
// in place of a program, and no number.
func (p *Process) Name() string {
	name := strings.TrimSuffix(p.Program, ".exe")
	if p.PID != 0 {
		name = fmt.Sprintf("%s[%d]", name, p.PID)
	}
	return name
}

// Heard reports whether it was only heard on the wire, and not asked.
func (p *Process) Heard() bool { return p.PID == 0 }
