//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// A limited number of jobs run concurrently. The goroutines end when there are no jobs.
func TestWorkers(t *testing.T) {
	w := workers{max: 3}
	release := make(chan struct{})
	began, ended := make(chan int, 10), make(chan int, 10)
	for i := range 10 {
		w.begin(func() {
			began <- i
			<-release
			ended <- i
		})
	}
	for range 3 {
		<-began
	}
	select {
	case i := <-began:
		t.Errorf("job %d began while three others ran", i)
	default:
	}
	if n := working(); n != 3 {
		t.Errorf("%d goroutines, want 3", n)
	}
	close(release)
	for range 10 {
		<-ended
	}
	for range 1000 {
		if working() == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := working(); n != 0 {
		t.Errorf("%d goroutines remain, want none", n)
	}
	w.begin(func() { ended <- 10 })
	if i := <-ended; i != 10 {
		t.Errorf("job %d ran, want 10", i)
	}
}

func working() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "verbs.(*workers).run(")
}

// fakeAH is a handle that counts as an object of its domain until it is closed.
type fakeAH struct {
	rdma.AH
	domain *fakeDomain
}

func (a fakeAH) Close() error {
	a.domain.release()
	return nil
}

type fakeDomain struct{ objects atomic.Int64 }

func (d *fakeDomain) release() bool { return d.objects.Add(-1) == 0 }

// makingAH is a handle that is being made until answer receives its result.
type makingAH struct {
	*pendingAH
	domain *fakeDomain
	began  chan struct{}
	answer chan error
	done   chan struct{}
}

func newMakingAH() *makingAH {
	m := &makingAH{domain: &fakeDomain{}, began: make(chan struct{}), answer: make(chan error), done: make(chan struct{})}
	m.domain.objects.Add(1)
	m.pendingAH = newPendingAH(m.domain, func() (rdma.AH, error) {
		close(m.began)
		if err := <-m.answer; err != nil {
			return nil, err
		}
		return fakeAH{domain: m.domain}, nil
	}, func() { close(m.done) })
	return m
}

func (m *makingAH) left(t *testing.T, what string, want int64) {
	t.Helper()
	if n := m.domain.objects.Load(); n != want {
		t.Errorf("%s: the domain has %d objects, want %d", what, n, want)
	}
}

func TestPendingHandle(t *testing.T) {
	refused := rdma.Errorf("create AH", syscall.ETIMEDOUT, "no answer")

	m := newMakingAH()
	go m.run()
	<-m.began
	if _, err := m.AH(); err != rdma.ErrNoEvent || m.Done() {
		t.Errorf("an unfinished address handle: error %v, done %v, want %v and false", err, m.Done(), rdma.ErrNoEvent)
	}
	m.answer <- nil
	<-m.done
	if err := m.Wait(context.Background()); err != nil || !m.Done() {
		t.Errorf("after it was made: %v, done %v", err, m.Done())
	}
	ah, err := m.AH()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AH(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second AH fails with %v, want %v", err, net.ErrClosed)
	}
	m.Cancel()
	m.left(t, "returned", 1)
	ah.Close()
	m.left(t, "closed", 0)

	m = newMakingAH()
	go m.run()
	m.answer <- refused
	<-m.done
	if _, err := m.AH(); err != refused {
		t.Errorf("the address handle's error is %v, want %v", err, refused)
	}
	if err := m.Wait(context.Background()); err != refused {
		t.Errorf("Wait for a refused address handle fails with %v, want %v", err, refused)
	}
	m.left(t, "refused", 0)

	for _, answer := range []error{nil, refused} {
		m = newMakingAH()
		go m.run()
		<-m.began
		m.Cancel()
		m.Cancel()
		if _, err := m.AH(); !errors.Is(err, net.ErrClosed) || m.Done() {
			t.Errorf("AH of a cancelled address handle fails with %v, done %v, want %v and false", err, m.Done(), net.ErrClosed)
		}
		m.left(t, "cancelled while it is being made", 1)
		m.answer <- answer
		<-m.done
		m.left(t, "cancelled, and made", 0)
	}

	m = newMakingAH()
	go m.run()
	m.answer <- nil
	<-m.done
	m.Cancel()
	m.left(t, "cancelled when it was made", 0)

	m = newMakingAH()
	m.Cancel()
	m.left(t, "cancelled before its turn", 0)
	if !m.Done() {
		t.Error("cancelled before its turn, but not done")
	}
	m.run() // its turn
	select {
	case <-m.began:
		t.Error("made although it was cancelled")
	default:
	}
}
