package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/rdma"
)

// mckey is the counterpart of rdma-core's mckey(1): it joins an RDMA multicast
// group and sends to it, or receives from it. The two can be mixed on a network.
//
// mckeyside.go joins and leaves, mckeydata.go sends and receives, and
// mckeyreport.go says what happened.
type mckey struct {
	url               string
	groupText, mgid   string
	bindText          string
	send, sendOnly    bool
	connections       int
	count             uint64
	size              int
	rate              float64
	timeout, settling time.Duration
	json, quiet       bool

	sim         bool // the URL names a simulated subnet
	group, bind rdma.Addr
	report      *mckeyReport
}

// Defaults of mckey(1), and what it does not have: limits to waiting.
const (
	mckeyGroup    = "239.1.2.3"
	mckeyCount    = 10
	mckeySize     = 100
	mckeyTimeout  = 30 * time.Second
	mckeySettling = 3 * time.Second
	mckeyMaxConns = 64
	// mckeyMaxCount times all pairs of connections is still a number.
	mckeyMaxCount = 1 << 48
)

// Exit codes of mckey beside those of all commands.
const (
	exitNoGroup  = 3 // not joined, or the membership was lost
	exitStrange  = 4 // messages came that are not as mckey's
	exitNoDevice = 5
)

// exitError ends a command with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// schemesWithout lists URL schemes for people.
func schemesWithout(not string) string {
	var list []string
	for _, s := range fabricurl.RDMASchemes() {
		if s != not {
			list = append(list, s+"://DEVICE")
		}
	}
	return strings.Join(list, ", ")
}

func (m *mckey) run(ctx context.Context, e *env) error {
	m.report = newMckeyReport(m, e)
	host, err := fabricurl.OpenHost(m.url)
	var ue *fabricurl.Error
	switch {
	case errors.As(err, &ue):
		return &usageError{err}
	case err != nil:
		err = &exitError{exitNoDevice, err}
	default:
		defer host.Close()
		err = m.sides(ctx, host)
	}
	if sum := m.report.summarize(err); err == nil {
		err = sum
	}
	return err
}

// sides runs what this process is: the sender, the receiver, or both.
func (m *mckey) sides(ctx context.Context, host *fabricurl.Host) (err error) {
	end := func(s *mckeySide) {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}
	if host.Peer == nil {
		role := roleReceiver
		if m.send {
			role = roleSender
		}
		s := &mckeySide{m: m, role: role, host: host, expect: m.count}
		defer end(s)
		if err := s.join(ctx, m.group); err != nil {
			return err
		}
		return s.transfer(ctx)
	}
	// Each receiving connection hears all sending ones.
	rx := &mckeySide{m: m, role: roleReceiver, host: host, expect: m.count * uint64(m.connections)}
	defer end(rx)
	if err := rx.join(ctx, m.group); err != nil {
		return err
	}
	tx := &mckeySide{m: m, role: roleSender, host: host.Peer}
	defer end(tx)
	if err := tx.join(ctx, rx.senderGroup(m.group)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var sendErr error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() {
		if sendErr = tx.transfer(ctx); sendErr != nil {
			cancel(sendErr)
		}
	})
	recvErr := rx.transfer(ctx)
	if recvErr != nil {
		cancel(recvErr)
	}
	wg.Wait()
	if sendErr != nil {
		return sendErr
	}
	return recvErr
}

var errMckeyTimeout = errors.New("time is up")

// withTimeout bounds a step by -timeout.
func (m *mckey) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, m.timeout, errMckeyTimeout)
}

// noGroup is err with exit code 3, unless the context ended for another reason
// than -timeout.
func noGroup(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && cause != errMckeyTimeout {
		return cause
	}
	return &exitError{exitNoGroup, err}
}
