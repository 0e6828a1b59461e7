package engine

import (
	"slices"

	"github.com/fanfaremq/fanfare/transport"
)

// joins are the loop's memberships as a receiver, shared by subscriptions, the search for hellos, and surveys. The
// first user joins a group, and the last leaves it. Loop only.
type joins []joinState // by group index

type joinState uint8

const (
	notJoined joinState = iota
	joining
	joinedUp
)

// up reports whether the transport receives the group.
func (j joins) up(index int) bool { return j[index] == joinedUp }

// note records a change of a membership.
func (j joins) note(e *transport.Event) {
	switch {
	case e.Role != transport.RoleReceiver || e.Group < 0 || e.Group >= len(j) || j[e.Group] == notJoined:
	case e.State == transport.Joined:
		j[e.Group] = joinedUp
	case e.State == transport.Failed:
		j[e.Group] = notJoined
	case e.State == transport.Lost:
		j[e.Group] = joining
	}
}

// join starts to join a group, unless it is joined or being joined.
func (l *Loop) join(index int) error {
	if l.joins[index] != notJoined {
		return nil
	}
	if err := l.t.Join(index); err != nil {
		return err
	}
	l.joins[index] = joining
	return nil
}

// leave leaves a group unless it is still needed. It reports whether it did.
func (l *Loop) leave(index int) (left bool, err error) {
	needed := l.groups[index] != nil || index == 0 && l.hellos.joined ||
		slices.ContainsFunc(l.surveys, func(s *Survey) bool { return s.groups[index] != nil })
	if needed || l.joins[index] == notJoined {
		return false, nil
	}
	l.joins[index] = notJoined
	return true, l.t.Leave(index)
}
