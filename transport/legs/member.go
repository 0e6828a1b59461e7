package legs

import (
	"errors"
	"slices"

	"github.com/fanfaremq/fanfare/transport"
)

// member names a membership.
type member struct {
	group int
	role  transport.Role
}

// legState is the state of a leg in a membership.
type legState uint8

const (
	outside legState = iota
	entering
	inside
	lost
	leaving
	failed
)

// membership is the state of the legs in one group and role, and what was reported of it. Loop only.
//
//	          one leg is inside                 none is any more
//	outside ────────────────► reported joined ───────────────► reported lost
//	   ▲                            │      ▲                          │
//	   │      all have left         │      └── one is inside again ───┘
//	   └────────────────────────────┘
type membership struct {
	of       [transport.MaxLegs]legState
	errs     [transport.MaxLegs]error // of a leg that is lost or failed
	reported transport.Membership
	open     bool // something was reported, other than Left
}

// Join implements transport.Transport. It fails only if every leg refuses.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	key := member{group, transport.RoleReceiver}
	m := t.member(key)
	if m.left() {
		t.emit(key, m, transport.Left) // before the last leg has reported it
		m = t.member(key)
	}
	var errs []error
	for i, l := range t.legs {
		if s := m.of[i]; l.ended || s == inside || s == lost || s == entering {
			continue
		}
		l.reclaim()
		if err := l.Join(group); err != nil {
			errs = append(errs, err)
			t.change(key, m, i, failed, err)
			continue
		}
		t.change(key, m, i, entering, nil)
	}
	if len(errs) == len(t.legs) {
		delete(t.members, key)
		return join(errs...)
	}
	return nil
}

// Leave implements transport.Transport.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	key := member{group, transport.RoleReceiver}
	m := t.members[key]
	if m == nil {
		return nil
	}
	for i, l := range t.legs {
		if s := m.of[i]; l.ended || s == outside {
			continue
		} else if s == failed {
			t.change(key, m, i, outside, nil)
			continue
		}
		t.change(key, m, i, leaving, nil)
		l.reclaim()
		if err := l.Leave(group); err != nil {
			return err
		}
	}
	t.report(key, m)
	return nil
}

func (t *Transport) member(key member) *membership {
	m := t.members[key]
	if m == nil {
		m = &membership{}
		t.members[key] = m
	}
	return m
}

// joined handles a leg's event about a membership.
func (t *Transport) joined(at int, e *transport.Event) {
	switch e.Kind {
	case transport.Undiscoverable:
		t.undiscoverable(at, e.Err)
		return
	case transport.Unmet: // endpoints on that leg, which another leg may reach
		t.pending = append(t.pending, *e)
		return
	}
	key := member{e.Group, e.Role}
	m := t.member(key)
	to := map[transport.Membership]legState{transport.Joined: inside, transport.Left: outside,
		transport.Lost: lost, transport.Failed: failed}[e.State]
	if to == outside && m.of[at] == entering {
		return // it was joined again meanwhile
	}
	t.change(key, m, at, to, e.Err)
	t.report(key, m)
}

// left reports whether Leave was called and a leg has not left yet.
func (m *membership) left() bool { return slices.Contains(m.of[:], leaving) }

// change records the state of a leg in a membership, and reports the leg if it now carries less than it should, or all
// again. Leaving a group, or retrying, does not show that a leg carries anything.
func (t *Transport) change(key member, m *membership, at int, to legState, err error) {
	l := t.legs[at]
	bad := func(s legState) bool { return s == lost || s == failed }
	if bad(m.of[at]) {
		l.bad--
	}
	if bad(to) {
		l.bad++
	}
	m.of[at], m.errs[at] = to, err
	switch {
	case l.bad > 0 && !l.lost:
		t.reportLeg(at, true, err)
	case l.bad == 0 && l.lost && to != entering && t.carries(at):
		t.reportLeg(at, false, nil)
	}
}

// carries reports whether a leg is in a group.
func (t *Transport) carries(at int) bool {
	for _, m := range t.members {
		if m.of[at] == inside {
			return true
		}
	}
	return false
}

// report reports what has changed in a membership.
func (t *Transport) report(key member, m *membership) {
	var n [failed + 1]int
	for i, l := range t.legs {
		if !l.ended {
			n[m.of[i]]++
		}
	}
	live := n[outside] + n[entering] + n[inside] + n[lost] + n[leaving] + n[failed]
	now := transport.Left
	switch {
	case n[inside] > 0:
		now = transport.Joined
	case n[lost] > 0:
		now = transport.Lost
	case n[failed] == live && live > 0:
		now = transport.Failed
	case n[entering] > 0 || n[leaving] > 0 || n[failed] > 0 || !m.open:
		return // another leg may still join
	}
	if m.open && now == m.reported || !m.open && now == transport.Left {
		return
	}
	t.emit(key, m, now)
}

// emit reports the state of a membership.
func (t *Transport) emit(key member, m *membership, now transport.Membership) {
	m.reported, m.open = now, now == transport.Joined || now == transport.Lost
	e := transport.Event{Group: key.group, Role: key.role, State: now}
	switch now {
	case transport.Joined:
		t.received.Joins.Add(1)
	case transport.Failed:
		t.received.JoinsFailed.Add(1)
		e.Err = join(m.errs[:]...)
	case transport.Lost:
		t.received.Lost.Add(1)
		e.Err = join(m.errs[:]...)
	case transport.Left:
		delete(t.members, key)
	}
	t.pending = append(t.pending, e)
}

// reportLeg reports that a leg carries less than it should, or all again.
func (t *Transport) reportLeg(at int, less bool, err error) {
	l := t.legs[at]
	l.lost = less
	l.up.Store(!less)
	e := transport.Event{Kind: transport.LegJoined, Leg: uint8(at)}
	if less {
		e.Kind, e.Err = transport.LegLost, err
	}
	t.pending = append(t.pending, e)
}

// reportStuck reports that a leg accepts no packets, or accepts them again.
func (t *Transport) reportStuck() {
	for i, l := range t.legs {
		if stuck := l.stuck.Load() > 0 || l.leftStuck.Load(); stuck != l.reportedStuck && !l.ended {
			l.reportedStuck = stuck
			if stuck {
				l.bad++
			} else {
				l.bad--
			}
			if l.bad > 0 != l.lost {
				t.reportLeg(i, stuck, errStuck)
			}
		}
	}
}

var errStuck = errors.New("its send queue has been full for a while: packets are sent on the other legs only")

// undiscoverable records that new endpoints cannot discover this one on a leg, although they may use another leg: until
// Close this leg carries less than it should, whatever its memberships. It is also reported for a leg that is lost for
// another reason.
func (t *Transport) undiscoverable(at int, err error) {
	t.legs[at].bad++
	t.reportLeg(at, true, err)
}

// legEnded records that a leg has ended by itself; the others continue.
func (t *Transport) legEnded(at int, err error) {
	l := t.legs[at]
	l.ended, l.failed = true, err
	l.bad++
	t.reportLeg(at, true, err)
	for key, m := range t.members {
		m.errs[at] = err
		t.report(key, m)
	}
}
