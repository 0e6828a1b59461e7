package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// server answers requests at a process's socket. It has one goroutine that accepts connections, and one or two for each
// client; close ends them all.
type server struct {
	l       *net.UnixListener
	sources func() []Source
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]struct{} // under mu; nil: closed

	shot shot
}

// openServer makes the process's socket in its directory.
func openServer(sources func() []Source) (*server, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	return listen(socketPath(dir), sources)
}

// listen makes a socket with mode 0600. Only the user can access its directory, so that no other user can connect
// before it has that mode.
func listen(path string, sources func() []Source) (*server, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(true)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &server{l: l, sources: sources, clients: make(map[net.Conn]struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Add(1)
	go s.accept()
	return s, nil
}

// close removes the socket, closes all connections and waits for all goroutines.
func (s *server) close() {
	s.cancel()
	s.l.Close()
	s.mu.Lock()
	for c := range s.clients {
		c.Close()
	}
	s.clients = nil
	s.mu.Unlock()
	s.running.Wait()
}

func (s *server) accept() {
	defer s.running.Done()
	for {
		c, err := s.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example because no file descriptor is free
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		if why := s.admit(c); why != "" {
			c.SetWriteDeadline(time.Now().Add(writeWithin))
			c.Write(failureLine(why)) // it does not wait, because the buffer is empty
			c.Close()
			continue
		}
		s.running.Add(1)
		go s.serve(c)
	}
}

// admit accepts a client, or returns why not.
func (s *server) admit(c *net.UnixConn) (why string) {
	if uid, ok := peerUser(c); ok && uid != os.Geteuid() && uid != 0 {
		return fmt.Sprintf("user %d may not inspect a process of user %d", uid, os.Geteuid())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.clients == nil:
		return "the process has closed its last bus"
	case len(s.clients) >= maxClients:
		return fmt.Sprintf("%d other clients already inspect this process", maxClients)
	}
	s.clients[c] = struct{}{}
	return ""
}

// serve answers one client until it closes the connection, or does not write or read for too long.
func (s *server) serve(c *net.UnixConn) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		c.Close()
	}()
	in := bufio.NewReaderSize(c, maxRequest)
	for {
		c.SetReadDeadline(time.Now().Add(askWithin))
		line, err := in.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				s.write(c, failureLine(fmt.Sprintf("a request must be a line of less than %d bytes", maxRequest)))
			}
			return
		}
		switch request := strings.TrimSpace(string(line)); request {
		case "snapshot":
			err = s.write(c, s.shot.take(s.ctx, s.sources))
		case "events":
			s.follow(c)
			return
		default:
			err = s.write(c, failureLine(fmt.Sprintf("%q is not a request: requests are snapshot and events", request)))
		}
		if err != nil {
			return
		}
	}
}

func (s *server) write(c net.Conn, line []byte) error {
	c.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := c.Write(line)
	return err
}

// follow writes events until the client closes the connection or writes anything.
func (s *server) follow(c *net.UnixConn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer cancel()
		c.SetReadDeadline(time.Time{})
		c.Read(make([]byte, 1)) // it ends with the connection
	}()
	defer c.Close() // so that it ends with this function
	seen := make(map[Source]uint64)
	tick := time.NewTicker(pollEvents)
	defer tick.Stop()
	for {
		for _, x := range s.sources() {
			for _, e := range x.Events(seen[x]) {
				seen[x] = e.Sequence
				line, err := json.Marshal(&e)
				if err != nil || s.write(c, append(line, '\n')) != nil {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// shot is the last snapshot, as text, which concurrent clients share.
type shot struct {
	mu   sync.Mutex
	at   time.Time // under mu, as line
	line []byte
}

func (x *shot) take(ctx context.Context, sources func() []Source) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.line != nil && time.Since(x.at) < shareFor {
		return x.line
	}
	line, err := json.Marshal(takeSnapshot(ctx, sources()))
	if err != nil {
		return failureLine("the snapshot cannot be written: " + err.Error())
	}
	x.at, x.line = time.Now(), append(line, '\n')
	return x.line
}

// takeSnapshot asks all buses concurrently, so that blocked ones delay the snapshot only by answerWithin in all.
func takeSnapshot(ctx context.Context, sources []Source) *Snapshot {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	s := &Snapshot{Version: Version, Process: thisProcess(), Host: thisHost(), Buses: make([]Bus, len(sources))}
	var all sync.WaitGroup
	for i, x := range sources {
		all.Go(func() { s.Buses[i] = x.Inspect(ctx) })
	}
	all.Wait()
	s.Time = time.Now()
	return s
}
