package elsewhere

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Bounds on an answer, whoever gives it. It is held against them before anything is made of it,
// for an object of two bytes becomes a structure of many. A host with 32 buses, each with as many
// topics, subscriptions and events as a snapshot has, fits (TestLargeHost).
const (
	maxBytes     = 8 << 20
	maxProcesses = 4096
	maxBuses     = 1024
	maxObjects   = 128 << 10
	maxValues    = 1 << 20 // of all lists and objects together
	maxWhy       = 300     // bytes of an error that a server says, or one of its processes
	maxSocket    = 300     // of the path of a socket there
	maxWait      = 5 * time.Second
)

// client asks servers. It follows no redirects: an answer is from where it was asked. It takes
// nothing that is compressed, of which few bytes become many.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// read asks the server at addr, and waits maxWait at most.
func read(ctx context.Context, addr string) ([]inspect.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+Path, nil)
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a host: %w", addr, err)
	}
	r.Host = "localhost" // under which it answers whatever it is called here
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, errors.New("what listens there is no fanfare web, or one that does not serve snapshots yet")
	case resp.StatusCode == http.StatusSwitchingProtocols: // behind it is a connection that does not end with ctx
		return nil, errors.New("it answers with another protocol than HTTP, which was not asked for")
	case resp.StatusCode != http.StatusOK:
		why, _ := io.ReadAll(io.LimitReader(resp.Body, maxWhy))
		return nil, fmt.Errorf("it answers %d %s: %q", resp.StatusCode, http.StatusText(resp.StatusCode), strings.TrimSpace(string(why)))
	case resp.Header.Get("Content-Encoding") != "":
		return nil, fmt.Errorf("its answer is compressed (%.20q), which no fanfare web does", resp.Header.Get("Content-Encoding"))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1)) // which ends with ctx
	if err != nil {
		return nil, fmt.Errorf("its snapshots cannot be read: %w", err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("its answer has more than %d MiB", maxBytes>>20)
	}
	if err := countObjects(text); err != nil {
		return nil, err
	}
	return decode(ctx, text, addr)
}

// decode takes an answer apart.
func decode(ctx context.Context, text []byte, addr string) ([]inspect.Seen, error) {
	host, _, _ := net.SplitHostPort(addr)
	d := json.NewDecoder(bytes.NewReader(text))
	var all []inspect.Seen
	for ctx.Err() == nil {
		var x seen
		if err := d.Decode(&x); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("its snapshots cannot be read: %w", err)
		}
		if len(all) == maxProcesses {
			return nil, fmt.Errorf("its answer has more than %d processes", maxProcesses)
		}
		all = append(all, x.from(addr, host))
	}
	return nil, context.Cause(ctx)
}

// depthOfBus is how deep an object of a bus is: {"snapshot":{"buses":[{.
const depthOfBus = 4

// countObjects holds the objects of an answer against their bounds, without making anything of
// them. Of what is no JSON it may count anything: that is not decoded.
func countObjects(text []byte) error {
	depth, objects, buses, values := 0, 0, 0, 0
	inString := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == ',':
			values++
		case c == '{' || c == '[':
			if depth++; c == '{' {
				if objects++; depth == depthOfBus {
					buses++
				}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if buses > maxBuses {
		return fmt.Errorf("its answer has more than %d buses", maxBuses)
	}
	if values > maxValues {
		return fmt.Errorf("its answer has more than %d values", maxValues)
	}
	if objects > maxObjects {
		return fmt.Errorf("its answer has more than %d objects", maxObjects)
	}
	return nil
}

// seen is inspect.Seen in JSON.
type seen struct {
	Socket   string            `json:"socket"`
	Snapshot *inspect.Snapshot `json:"snapshot,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// from is what a process of another host has said.
func (x *seen) from(addr, host string) inspect.Seen {
	s := inspect.Seen{Socket: addr + " " + cut(x.Socket, maxSocket), Snapshot: x.Snapshot}
	switch {
	case x.Snapshot == nil:
		s.Err = errors.New(cmp.Or(cut(x.Error, maxWhy), "it says nothing"))
	case x.Snapshot.Version != inspect.Version:
		s.Snapshot, s.Err = nil, fmt.Errorf("its snapshots are of version %d, and this program reads version %d", x.Snapshot.Version, inspect.Version)
	case x.Snapshot.Process.PID < 1: // which would be one that was only heard
		s.Snapshot, s.Err = nil, fmt.Errorf("its snapshot is of process %d, which cannot be", x.Snapshot.Process.PID)
	default:
		if err := x.Snapshot.Check(); err != nil {
			s.Snapshot, s.Err = nil, fmt.Errorf("its snapshot says what cannot be: %w", err)
			break
		}
		p := &x.Snapshot.Process
		p.At = cmp.Or(p.Host, host, addr) // never empty: that is this host
		if strings.Trim(p.At, hostLetters) != "" {
			p.At = addr
		}
	}
	return s
}

// cut leaves the beginning of a long text.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// hostLetters are what names and addresses of hosts are made of. With others a name may look like
// another one, or like none.
const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:%"
