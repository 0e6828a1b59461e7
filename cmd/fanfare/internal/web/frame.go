package web

import (
	"encoding/json"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// Frame is what browsers are told each second. What comes from the wire may be hostile:
// the page shows it as text.
type Frame struct {
	Sequence  uint64    `json:"sequence"`
	Point     []float64 `json:"point"` // milliseconds since 1970, the rates of counters, and times in microseconds (point)
	Verdict   string    `json:"verdict"`
	Lost      uint64    `json:"lost"` // gaps of the last hour
	Findings  []finding `json:"findings"`
	Slow      []slow    `json:"slow"`
	Processes []process `json:"processes"`
	Map       picture   `json:"map"`
	Events    []event   `json:"events,omitempty"` // those that are new
	Error     string    `json:"error,omitempty"`
}

type finding struct {
	Kind  losses.Kind `json:"kind"`
	Cause string      `json:"cause"`
	First int64       `json:"first"`
	Last  int64       `json:"last"`
	Title string      `json:"title"`
	Who   string      `json:"who"`
	Where string      `json:"where"`
	Why   string      `json:"why"`
	Do    string      `json:"do"`
}

type process struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
	Buses []bus  `json:"buses"`
}

type bus struct {
	Name      string  `json:"name"`
	URL       string  `json:"url"`
	Published float64 `json:"published"`
	Delivered float64 `json:"delivered"`
	Missing   float64 `json:"missing"`
	Note      string  `json:"note,omitempty"`
}

// slow is a subscriber that publishers know, or a subscription, that is behind.
type slow struct {
	Who    string  `json:"who"`
	What   string  `json:"what"`
	State  string  `json:"state"` // losses.SubscriberState, SubscriptionState; or loses: for good, because of that
	Behind uint64  `json:"behind"`
	For    float64 `json:"for"` // seconds
	Where  string  `json:"where"`
}

type event struct {
	At    int64  `json:"at"`
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Where string `json:"where"`
}

const (
	maxFindings  = 40
	maxSlow      = 20
	maxProcesses = 64
	maxEvents    = 100 // of one frame, and those a page begins with
	maxPoints    = 900
)

const numbers = 17

// marshal is the frame as browsers are told it. One that cannot be written is told of in its place:
// pages would be still, and not know why.
func (f *Frame) marshal() (*Frame, []byte) {
	text, err := json.Marshal(f)
	if err == nil {
		return f, text
	}
	instead := emptyFrame(f.Sequence)
	instead.Error = "what they say cannot be shown: " + err.Error()
	instead.Point = make([]float64, numbers)
	instead.Point[0] = float64(time.Now().UnixMilli())
	if len(f.Point) > 0 {
		instead.Point[0] = f.Point[0]
	}
	if text, err = json.Marshal(instead); err != nil {
		panic(err) // there is nothing in it but this text and zeros
	}
	return instead, text
}

// emptyFrame is one of which nothing is known yet. Its lists are there: the page goes through them.
func emptyFrame(sequence uint64) *Frame {
	return &Frame{Sequence: sequence, Findings: []finding{}, Slow: []slow{}, Processes: []process{}, Map: draw(nil, time.Time{})}
}
