// Package inspect lets other processes on this host see the buses of a process: its identity, the topics it
// publishes and subscribes to, losses and their causes, slow readers.
//
// A process with a bus has one socket, however many buses it has:
//
//	$XDG_RUNTIME_DIR/fanfare/<pid>-<random>.sock
//
// and where there is no such directory of the user's own, /tmp/fanfare-<uid>/ takes its
// place. The first bus makes it (Register), the last one that ends removes it. The next process that lists sockets
// removes those of killed processes (List). Only the same user and root may connect. Nothing can be changed by it.
//
// The protocol is lines of text. A client writes a request, and the process answers with one JSON document a line:
//
//	snapshot    a Snapshot; the client may ask again and again
//	events      the events that are remembered, and from then on each as it happens,
//	            until the client hangs up or writes anything more: each an Event
//
// An answer {"error":"..."} has the reason if there is no other. A snapshot is not taken more often than every 100 ms,
// however many clients ask: they share it. A client that does not read for 5 s, or asks nothing for a minute, is
// disconnected; no bus waits for a client.
//
// The variable FANFARE_INSPECT, in the environment of a process, is "off", and then it has
// no socket, or the absolute path of another directory for it.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Variable is the name of the environment variable that says where sockets are, or that there are none.
const Variable = "FANFARE_INSPECT"

// Off is the value of Variable for no socket.
const Off = "off"

const (
	maxClients = 16
	maxRequest = 256                    // bytes of a line
	maxAnswer  = 64 << 20               // bytes of a line, to a client
	shareFor   = 100 * time.Millisecond // that a snapshot is given to others, too
	// without an answer by then, a snapshot lacks what only the bus's goroutine knows
	answerWithin = 300 * time.Millisecond
	writeWithin  = 5 * time.Second
	askWithin    = time.Minute
	pollEvents   = 200 * time.Millisecond
	staleAfter   = 2 * time.Second // a socket that is younger may not listen yet
)

// Source is a bus that can be looked at. Its methods are called from several goroutines.
type Source interface {
	// Inspect says what there is to say. When ctx ends it returns what it has by then.
	Inspect(ctx context.Context) Bus
	// Events are those with a Sequence above after that are remembered.
	Events(after uint64) []Event
}

// ErrOff says that processes have no sockets here: Variable is Off, or the system has none
// that could be kept from others.
var ErrOff = errors.New("processes cannot be looked at: " + Variable + " is " + Off + ", or this system has no such sockets")

// failure is an answer that says why there is none.
type failure struct {
	Error string `json:"error"`
}

func failureLine(text string) []byte {
	b, _ := json.Marshal(failure{text}) // a string can always be written
	return append(b, '\n')
}
