//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// What a transport does when its interface changes, always in Poll:
//
//	down, or no address        Lost, nothing is sent ─► back: memberships renewed, Joined
//	deleted                    Lost, nothing is sent ─► back under another index: the
//	                                                    groups' sockets made anew, Joined
//	no carrier                 Lost, but members on  ─► carrier: memberships renewed, Joined
//	                           this host still hear
//	another address in place   no event; the unicast socket moves to it
//	cannot be checked          no change             ─► checked again

// recheckAfter is the time until the interface is checked again after a failed check, or after a change that could not
// be applied.
const recheckAfter = 250 * time.Millisecond

// linkCheckDue reports whether followLink has something to do.
func (t *Transport) linkCheckDue() bool {
	return t.linkNews || !t.checkAt.IsZero() && !time.Now().Before(t.checkAt)
}

// untilCheck is timeout, or the time until the next check of the interface if that is less.
func (t *Transport) untilCheck(timeout time.Duration) time.Duration {
	if t.checkAt.IsZero() {
		return timeout
	}
	left := max(0, time.Until(t.checkAt))
	if timeout < 0 {
		return left
	}
	return min(timeout, left)
}

// followLink handles the kernel's messages about interfaces.
func (t *Transport) followLink() {
	t.linkNews = false
	check := false
	var why error // the interface was down or removed, perhaps briefly
	for changes := t.watch.Read(); len(changes) > 0; changes = t.watch.Read() {
		for _, c := range changes {
			relevant, err := t.changed(c)
			check = check || relevant
			if err != nil {
				why = err
			}
		}
	}
	if !check && t.checkAt.IsZero() {
		return
	}
	t.checkAt = time.Time{}
	// Messages may be outdated, so the current state is read.
	l, err := t.link().current(&t.cfg)
	if err != nil && isAway(err) {
		t.detach(false)
		t.lose(err)
		return
	}
	if why != nil {
		t.lose(why)
	}
	if err != nil {
		t.checkAt = time.Now().Add(recheckAfter)
		return
	}
	if err := t.attach(&l); err != nil {
		t.checkAt = time.Now().Add(recheckAfter)
		t.detach(false)
		if t.lost && check && !errors.Is(err, unix.EADDRNOTAVAIL) { // after a change of the address, until the next message
			t.reportLost(err)
		}
		t.lose(err)
	}
}

// changed handles a change of the interface in use. It reports whether the interface must be checked, and why the
// memberships have ended, or nil.
func (t *Transport) changed(c sys.LinkChange) (check bool, why error) {
	at := t.at.Load()
	switch {
	case c.Kind == sys.LinkOther:
		return false, nil
	case c.Kind == sys.LinkUnknown:
		return true, nil
	case c.Index != at.index:
		return at.gone, nil // it may be the interface that was removed
	case c.Kind == sys.LinkDeleted:
		t.detach(true)
		return true, linkGone(at.name)
	case c.Kind == sys.LinkChanged && c.Flags&unix.IFF_UP == 0:
		t.detach(false)
		return true, linkDown(at.name)
	case c.Kind == sys.LinkChanged && c.Flags&unix.IFF_RUNNING == 0 && at.running:
		now := *at
		now.running = false
		t.at.Store(&now)
		return true, linkCut(at.name)
	}
	return true, nil
}

// detach ends sending until attach.
func (t *Transport) detach(deleted bool) {
	now := *t.at.Load()
	now.gone = true
	if deleted {
		now.index = 0 // another interface may get this index
	}
	t.at.Store(&now)
}

// lose reports, once, that the memberships are lost.
func (t *Transport) lose(why error) {
	if t.lost {
		return
	}
	t.lost = true
	t.reportLost(why)
	for _, s := range t.groups {
		if s != nil {
			t.received.Lost.Add(1)
		}
	}
}

func (t *Transport) reportLost(why error) {
	t.events.SendersLost(why)
	for group, s := range t.groups {
		if s != nil {
			t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Lost, Err: why})
		}
	}
}

// attach makes the transport use l with its current state, and reports the memberships as joined if they were lost and
// there is a carrier.
func (t *Transport) attach(l *link) error {
	at := t.at.Load()
	moved := l.index != at.index
	local := at.local
	if moved || l.addr != at.addr {
		var err error
		if local, err = t.moveUnicast(at, l); err != nil {
			return unicastError(l, int(at.local.Port()), fmt.Errorf("again: %w", err))
		}
	}
	if at.running && !l.running {
		t.lose(linkCut(l.name))
	}
	if at.gone || *l != at.link {
		t.setLocal(*l, local)
	}
	for _, s := range t.groups {
		switch {
		case s == nil:
		case moved || s.fd < 0:
			t.exit(s)
			t.rejoined(s, t.enter(s.group, l))
		case at.gone || l.running && !at.running:
			if err := groupLimit(s.renew(groupAddr(t.cfg.Range.Addr(), s.group), l)); err != nil {
				t.exit(s)
				t.rejoined(s, err)
			}
		}
	}
	if !t.lost || !l.running {
		return nil
	}
	t.lost = false
	t.events.SendersJoined()
	for group, s := range t.groups {
		if s != nil && s.fd >= 0 {
			t.joined(group)
		}
	}
	return nil
}

// rejoined handles the result of joining a group again; was is its previous socket. A failure, such as a missing
// descriptor, may be temporary: the group is lost meanwhile.
func (t *Transport) rejoined(was *socket, err error) {
	switch {
	case err == nil && !t.lost && was.lost:
		t.joined(was.group)
	case errors.Is(err, transport.ErrGroupLimit):
		t.checkAt = time.Now().Add(recheckAfter)
		t.groups[was.group] = &socket{fd: -1, group: was.group, lost: true}
		if !was.lost {
			t.received.Lost.Add(1)
			t.events.Post(t.notJoined(was.group, transport.Lost, err))
		}
	case err != nil:
		t.joinFailed(was.group, err)
	}
}

// moveUnicast makes the unicast socket use the address of l. Its descriptor does not change, because Senders may be
// using it.
func (t *Transport) moveUnicast(at *attachment, l *link) (netip.AddrPort, error) {
	if l.addr == at.addr && !l.addr.IsLinkLocalUnicast() {
		return at.local, t.unicast.setupSend(&t.cfg, l)
	}
	// Peers know the port.
	s, err := openUnicast(&t.cfg, l, int(at.local.Port()))
	if errors.Is(err, unix.EADDRINUSE) && t.cfg.UnicastPort == 0 {
		s, err = openUnicast(&t.cfg, l, 0)
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer s.close()
	local, err := sys.LocalAddr(s.fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if err := unix.Dup3(s.fd, t.unicast.fd, unix.O_CLOEXEC); err != nil {
		return netip.AddrPort{}, os.NewSyscallError("dup3", err)
	}
	t.unicast.drops = 0
	return local, t.watchSocket(t.unicast) // the old socket was removed from the epoll descriptor
}

// renew joins a group again, so that switches that have dropped the membership get a report. The kernel does so by
// itself for IPv6 (addrconf_notify in net/ipv6/addrconf.c), and for IPv4 when the interface goes up, but not when a
// carrier returns.
func (s *socket) renew(addr netip.Addr, l *link) error {
	if !addr.Is4() {
		return nil
	}
	sys.Leave(s.fd, addr, l.index)
	return sys.Join(s.fd, addr, l.index)
}
