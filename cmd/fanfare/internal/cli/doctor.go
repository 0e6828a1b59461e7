package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// doctorRun says whether this host is fit: what package doctor finds in /sys
// and /proc, and what self-tests show (doctorself.go); or whether the network is, with a
// second host (doctorpeer.go).
type doctorRun struct {
	iface   string
	noTests bool
	timeout time.Duration
	json    bool
	quiet   bool
	peer    doctorPeer

	e     *env
	lines *jsonLines
	sum   doctorSummary
}

// exitWarnings is the exit code of a host that is fit but for warnings.
const exitWarnings = 3

// doctorSummary counts findings by their level (type "summary").
type doctorSummary struct {
	Type  string       `json:"type"`
	Level doctor.Level `json:"level"` // the worst
	OK    int          `json:"ok"`
	Info  int          `json:"info"`
	Warn  int          `json:"warn"`
	Fail  int          `json:"fail"`
}

// doctorFinding is a finding as JSON (type "finding").
type doctorFinding struct {
	Type string `json:"type"`
	doctor.Finding
}

func (d *doctorRun) run(ctx context.Context, e *env) error {
	d.e, d.lines = e, newJSONLines(e.stdout)
	facts, err := doctor.ThisHost()
	if err != nil {
		return err
	}
	if err := d.where(facts); err != nil {
		return err
	}
	switch {
	case d.peer.listen:
		return d.answer(ctx)
	case d.peer.ask != "":
		return d.test(ctx)
	}
	asked := bufferSizes()
	facts.ReceiveBytes, facts.SendBytes = asked.ReceiveAsked, asked.SendAsked
	choice, err := udp.DefaultInterface(udp.Config{})
	facts.Default, facts.DefaultErr = doctor.Link(choice), err
	facts.Buses, facts.Silent = runningBuses(ctx)
	lookAtShared(facts)
	for _, f := range doctor.Check(facts) {
		if err := d.tell(f); err != nil {
			return err
		}
	}
	if !d.noTests {
		for _, test := range d.selfTests(facts) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := d.tell(test(ctx)); err != nil {
				return err
			}
		}
	}
	return d.verdict()
}

// bufferSizes is what transport/udp asks for, told by one that is opened on
// loopback; zero where there is none.
func bufferSizes() udp.SocketLimits {
	t, err := udp.Open(udp.Config{Interface: sys.LoopbackName(), Groups: 1})
	if err != nil {
		return udp.SocketLimits{}
	}
	defer finish(t)
	return t.SocketLimits()
}

// tell writes a finding, and counts it.
func (d *doctorRun) tell(f doctor.Finding) error {
	d.sum.Level = max(d.sum.Level, f.Level)
	*[]*int{&d.sum.OK, &d.sum.Info, &d.sum.Warn, &d.sum.Fail}[f.Level]++
	switch {
	case d.json:
		return d.lines.write(doctorFinding{"finding", f})
	case d.quiet && f.Level < doctor.Warn:
		return nil
	}
	_, err := fmt.Fprintf(d.e.stdout, "%-5s %-9s %s\n", f.Level, f.Area, f.Text)
	if err == nil && f.Fix != "" {
		_, err = fmt.Fprintf(d.e.stdout, "      %-9s try: %s\n", "", f.Fix)
	}
	return err
}

// verdict writes the summary and returns it as an exit code.
func (d *doctorRun) verdict() error {
	s := &d.sum
	s.Type = "summary"
	var err error
	switch text := ""; {
	case d.json:
		err = d.lines.write(s)
	case !d.quiet:
		switch s.Level {
		case doctor.Fail:
			text = fmt.Sprintf("not fit: %s and %s", count(s.Fail, "failure"), count(s.Warn, "warning"))
		case doctor.Warn:
			text = "fit, with " + count(s.Warn, "warning")
		default:
			text = "fit"
		}
		what := "This host"
		if d.peer.active() {
			what = "The network"
		}
		_, err = fmt.Fprintf(d.e.stdout, "%s is %s.\n", what, text)
	}
	switch {
	case err != nil:
		return err
	case s.Level == doctor.Fail:
		return errReported
	case s.Level == doctor.Warn:
		return &exitError{exitWarnings, errReported}
	}
	return nil
}
