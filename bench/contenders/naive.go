package contenders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// naive is the multicast loop that a Go programmer would write: one WriteTo and one ReadFrom for
// each message, on net.UDPConn. Losses are not repaired.
type naive struct{}

// Publish implements worker.Contender.
func (naive) Publish(ctx context.Context, r *worker.Run) error {
	g, err := parseGroup(r.Spec.Address, r.Spec.Interface)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: g.local.AsSlice()})
	if err != nil {
		return err
	}
	defer c.Close()
	p := ipv4.NewPacketConn(c)
	if err := cmp.Or(p.SetMulticastInterface(g.iface), p.SetMulticastLoopback(true),
		c.SetWriteBuffer(r.Spec.SendBuf)); err != nil {
		return fmt.Errorf("naive: %w", err)
	}
	r.Ready("")
	to := net.UDPAddrFromAddrPort(g.addr)
	return r.Pump(ctx, func(_ int, msg []byte) error {
		_, err := c.WriteTo(msg, to)
		return err
	}, nil)
}

// Subscribe implements worker.Contender.
func (naive) Subscribe(ctx context.Context, r *worker.Run) error {
	g, err := parseGroup(r.Spec.Address, r.Spec.Interface)
	if err != nil {
		return err
	}
	c, err := net.ListenMulticastUDP("udp4", g.iface, net.UDPAddrFromAddrPort(g.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetReadBuffer(r.Spec.RecvBuf); err != nil {
		return fmt.Errorf("naive: receive buffer: %w", err)
	}
	// Setting a deadline for each message would be a needless cost: this goroutine sets one at the end.
	go func() { // ends with the publisher or ctx
		select {
		case <-r.Stopped():
			c.SetReadDeadline(time.Now().Add(stragglers))
		case <-ctx.Done():
			c.SetReadDeadline(time.Now())
		}
	}()
	v := r.Receiver(true)
	r.Ready("")
	b := make([]byte, 1<<16)
	for !v.Done() {
		n, _, err := c.ReadFrom(b)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			break
		}
		if err != nil {
			return err
		}
		v.Message(b[:n])
	}
	return context.Cause(ctx)
}

// stragglers is how long a subscriber with losses waits for the last message after the publisher has ended.
const stragglers = 200 * time.Millisecond
