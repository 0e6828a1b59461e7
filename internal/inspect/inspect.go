// Package inspect lets other processes on this host read the state of a process's buses: identity, published and
// subscribed topics, losses and their causes, slow readers.
//
// A process with a bus has one socket, however many buses it has:
//
//	$XDG_RUNTIME_DIR/fanfare/<pid>-<random>.sock
//
// and if the user has no such directory, /tmp/fanfare-<uid>/ is used instead. The first bus makes the socket
// (Register), the last one removes it. The next process that lists sockets removes those of killed processes (List).
// Only the same user and root may connect. Clients cannot change anything.
//
// The protocol consists of lines of text. A client writes a request, and the process answers with one JSON document per
// line:
//
//	snapshot    a Snapshot; the client may repeat the request
//	events      the stored events, and then each new event, until the client
//	            closes the connection or writes anything else: each an Event
//
// The answer {"error":"..."} has the reason if there is no other. Snapshots are taken at most every 100 ms, and shared
// by all clients. A client that does not read for 5 s, or requests nothing for a minute, is disconnected; no bus waits
// for a client.
//
// The environment variable FANFARE_INSPECT of a process can be "off", so that it has no socket, or the absolute path of
// another directory for the socket.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Variable is the name of the environment variable with the directory for sockets, or Off.
const Variable = "FANFARE_INSPECT"

// Off is the value of Variable for no socket.
const Off = "off"

const (
	maxClients = 16
	maxRequest = 256                    // bytes of a request
	maxAnswer  = 64 << 20               // bytes of an answer
	shareFor   = 100 * time.Millisecond // time for which clients share a snapshot
	// after this time a snapshot omits what only the bus's goroutine knows
	answerWithin = 300 * time.Millisecond
	writeWithin  = 5 * time.Second
	askWithin    = time.Minute
	pollEvents   = 200 * time.Millisecond
	staleAfter   = 2 * time.Second // a newer socket may not be listening yet
)

// Source is a bus that can be inspected. Several goroutines call its methods.
type Source interface {
	// Inspect returns the state of the bus, or the part that is known when ctx ends.
	Inspect(ctx context.Context) Bus
	// Events returns the stored events with a Sequence above after.
	Events(after uint64) []Event
}

// ErrOff means that processes have no sockets: Variable is Off, or the system has no sockets that are protected from
// other users.
var ErrOff = errors.New("processes cannot be inspected: " + Variable + " is " + Off + ", or this system has no suitable sockets")

// failure is the answer for an error.
type failure struct {
	Error string `json:"error"`
}

func failureLine(text string) []byte {
	b, _ := json.Marshal(failure{text}) // a string can always be marshaled
	return append(b, '\n')
}
