// Package requests measures how long requests take until their replies are here, at a
// requester and responders that are processes of their own, and counts what responders
// execute: each request once.
package requests

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Contender is a way to ask and to answer.
type Contender interface {
	// Respond answers each request with what it says, until ctx ends. It calls ready when it
	// would hear one, and executed with each.
	Respond(ctx context.Context, s *Spec, ready func(), executed func(msg []byte)) error
	// Ask connects, and waits for the responders. ask asks once, from several goroutines at
	// a time, and returns how many replies came: one, or with Spec.All one of each responder.
	Ask(ctx context.Context, s *Spec) (ask func(ctx context.Context, msg []byte) (replies int, err error), end func(), err error)
}

// Spec is what is measured.
type Spec struct {
	Contender  string  `json:"contender"`
	URL        string  `json:"url"` // of Fanfare's fabric, or of a broker
	Responders int     `json:"responders"`
	Requests   int     `json:"requests"`
	Askers     int     `json:"askers"` // goroutines that ask, each one request after the other
	Size       int     `json:"size"`   // bytes of a request, and of its reply
	Loss       float64 `json:"loss"`   // share of packets lost where Fanfare receives
	Seed       int     `json:"seed"`
	All        bool    `json:"all"` // wait for all responders
}

// Command is the first argument of a program that is to be a responder: Serve.
const Command = "requests-responder"

// Result is what came of it. Times are in microseconds.
type Result struct {
	Spec
	Answered int     `json:"answered"` // requests with all replies that were waited for
	Replies  int     `json:"replies"`
	Executed int     `json:"executed"` // by all responders
	Twice    int     `json:"twice"`    // of Executed: by a responder that had executed it before
	Rate     float64 `json:"requests_per_second"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
	Error    string  `json:"error,omitempty"` // of the first that failed
}

const (
	topic = "bench.request"
	// perRequest is how long a request may take.
	perRequest = 30 * time.Second
	idLen      = 8
)

// executed is what a responder has done.
type executed struct {
	Executed, Twice int
}

// Serve is a responder: the specification is the next argument, what it has done goes to out
// when in ends.
func Serve(ctx context.Context, spec string, contenders map[string]Contender, in io.Reader, out io.Writer) error {
	var s Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	var mu sync.Mutex
	var sum executed
	seen := make(map[uint64]bool)
	err := contenders[s.Contender].Respond(ctx, &s, func() { fmt.Fprintln(out, "ready") }, func(msg []byte) {
		mu.Lock()
		defer mu.Unlock()
		id := binary.LittleEndian.Uint64(msg)
		if sum.Executed++; seen[id] {
			sum.Twice++
		}
		seen[id] = true
	})
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, json.NewEncoder(out).Encode(&sum))
}

// responder is a process that Serve runs in.
type responder struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *json.Decoder
}

func startResponder(ctx context.Context, exe string, s Spec, number int) (*responder, error) {
	s.Seed += number
	spec, err := json.Marshal(&s)
	if err != nil {
		return nil, err
	}
	r := &responder{cmd: exec.CommandContext(ctx, exe, Command, string(spec))}
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, ready); err != nil {
		r.stdin.Close()
		return nil, fmt.Errorf("a responder does not begin: %w", errors.Join(err, r.cmd.Wait()))
	}
	r.out = json.NewDecoder(out)
	return r, nil
}

// end ends the process and returns what it has done.
func (r *responder) end() (x executed, err error) {
	r.stdin.Close()
	err = r.out.Decode(&x)
	return x, errors.Join(err, r.cmd.Wait())
}

// Measure runs exe as responders, and asks.
func Measure(ctx context.Context, exe string, s Spec, c Contender) (*Result, error) {
	if s.Size < idLen || s.Responders < 1 || s.Requests < 1 || s.Askers < 1 {
		return nil, fmt.Errorf("a request has %d bytes at least, and there is one responder, request and asker at least", idLen)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var responders []*responder
	for i := range s.Responders {
		r, err := startResponder(ctx, exe, s, 1+i)
		if err != nil {
			return nil, err
		}
		responders = append(responders, r)
	}
	ask, end, err := c.Ask(ctx, &s)
	if err != nil {
		return nil, err
	}
	res := measure(ctx, s, ask)
	end()
	for _, r := range responders {
		x, err := r.end()
		if err != nil {
			return nil, err
		}
		res.Executed += x.Executed
		res.Twice += x.Twice
	}
	return res, nil
}

func measure(ctx context.Context, s Spec, ask func(context.Context, []byte) (int, error)) *Result {
	res := &Result{Spec: s}
	times := hdrhistogram.New(1, int64(perRequest), 3)
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for range s.Askers {
		wg.Go(func() {
			msg := make([]byte, s.Size)
			for {
				id := next.Add(1)
				if id > int64(s.Requests) || ctx.Err() != nil {
					return
				}
				binary.LittleEndian.PutUint64(msg, uint64(id))
				begin := time.Now()
				one, cancel := context.WithTimeout(ctx, perRequest)
				n, err := ask(one, msg)
				cancel()
				took := time.Since(begin)
				mu.Lock()
				times.RecordValue(min(int64(took), int64(perRequest)))
				if res.Replies += n; err == nil {
					res.Answered++
				} else if res.Error == "" {
					res.Error = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	res.Rate = float64(res.Answered) / time.Since(start).Seconds()
	at := func(q float64) float64 { return float64(times.ValueAtQuantile(q)) / 1e3 }
	res.P50, res.P99, res.Max = at(50), at(99), float64(times.Max())/1e3
	return res
}

// Repeat measures the contenders of specs in turn, runs times each, and writes each result to out,
// for people or as JSON. progress is called before each run.
func Repeat(ctx context.Context, exe string, runs int, specs []Spec, known map[string]Contender, asJSON bool, out io.Writer, progress func(run int)) error {
	var wrong []string
	for run := range runs {
		for _, s := range specs {
			progress(run)
			r, err := Measure(ctx, exe, s, known[s.Contender])
			if err != nil {
				return fmt.Errorf("%s: %w", s.Contender, err)
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(r)
			} else {
				_, err = fmt.Fprintln(out, r.Text())
			}
			if err != nil {
				return err
			}
			if r.Answered < r.Requests || r.Twice > 0 {
				wrong = append(wrong, s.Contender)
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("requests of %s were not answered, or executed again", strings.Join(wrong, ", "))
	}
	return nil
}

// Text is the result for people.
func (r *Result) Text() string {
	text := fmt.Sprintf("%-8s %6.0f requests/s   p50 %7.1f µs   p99 %8.1f µs   max %8.1f µs   %d of %d answered, %d replies, executed %d times, %d of them again",
		r.Contender, r.Rate, r.P50, r.P99, r.Max, r.Answered, r.Requests, r.Replies, r.Executed, r.Twice)
	if r.Loss > 0 {
		text += "   " + strconv.FormatFloat(100*r.Loss, 'g', -1, 64) + " % loss"
	}
	if r.Error != "" {
		text += "   " + r.Error
	}
	return text
}
