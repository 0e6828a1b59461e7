package cli

import (
	"errors"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Another process that is configured differently: what pub, sub and ping make of it.

// exitMismatch is the exit code of who waited for what cannot come, because the other
// side is configured differently.
const exitMismatch = 3

var mismatchExit = word{"3", "what was waited for cannot come: the other side is configured differently (such as another groups= in its -t, or, where it is whose packets are waited for, other keys); " +
	"the line says how"}

// jsonMismatch is a bus that is configured differently.
type jsonMismatch struct {
	Type        string           `json:"type"` // "mismatch"
	Publisher   string           `json:"publisher"`
	Name        string           `json:"name"`
	Address     string           `json:"address"`
	Relevant    bool             `json:"relevant"` // it may publish our topics, or subscribe to them
	Differences []jsonDifference `json:"differences"`
}

type jsonDifference struct {
	Field    pubsub.ConfigField `json:"field"`
	Ours     string             `json:"ours"`
	Theirs   string             `json:"theirs"`
	Harmless bool               `json:"harmless"`
	Do       string             `json:"do,omitempty"`
}

func mismatchAsJSON(m *pubsub.ConfigMismatchError, relevant bool) *jsonMismatch {
	out := &jsonMismatch{Type: "mismatch", Publisher: m.Publisher.String(), Name: m.Name, Address: m.Address, Relevant: relevant}
	for _, d := range m.Differences {
		out.Differences = append(out.Differences, jsonDifference{d.Field, d.Ours, d.Theirs, d.Harmless, d.Advice})
	}
	return out
}

// apart returns the mismatch of an event that keeps the two sides apart, or nil.
func apart(e events.Event) *pubsub.ConfigMismatchError {
	var m *pubsub.ConfigMismatchError
	if errors.As(e.Err, &m) && !m.Harmless() {
		return m
	}
	return nil
}

// cannotCome makes a mismatch the reason why a command has waited in vain, with an exit
// code of its own. Other errors stay as they are.
func cannotCome(err error) error {
	var m *pubsub.ConfigMismatchError
	if errors.As(err, &m) {
		return &exitError{exitMismatch, err}
	}
	return err
}
