package cli

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// doctorRun says whether this host is fit: what package doctor finds in /sys
// and /proc, and what self-tests show (doctorself.go).
type doctorRun struct {
	iface   string
	noTests bool
	timeout time.Duration
	json    bool
	quiet   bool

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

func doctorCommand(fs *flag.FlagSet) func(context.Context, *env, []string) error {
	d := new(doctorRun)
	fs.StringVar(&d.iface, "iface", "", "")
	fs.BoolVar(&d.noTests, "notest", false, "")
	durationVar(fs, "timeout", &d.timeout, 5*time.Second)
	fs.BoolVar(&d.json, "json", false, "")
	fs.BoolVar(&d.quiet, "q", false, "")
	return func(ctx context.Context, e *env, operands []string) error {
		switch {
		case len(operands) > 0:
			return usagef("doctor takes no arguments: %q is too many", operands[0])
		case d.timeout <= 0:
			return usagef("-timeout %v must be more than 0", d.timeout)
		case isSet(fs, "iface") && d.iface == "":
			return usagef("-iface is empty: give the name of a network interface or of an RDMA device")
		case d.noTests && d.iface != "":
			return usagef("-iface is for tests, and -notest is for none: give one of them")
		}
		d.e, d.lines = e, newJSONLines(e.stdout)
		return d.run(ctx)
	}
}

func (d *doctorRun) run(ctx context.Context) error {
	facts := doctor.ThisHost()
	if err := d.where(facts); err != nil {
		return err
	}
	asked := bufferSizes()
	facts.ReceiveBytes, facts.SendBytes = asked.ReceiveAsked, asked.SendAsked
	choice, err := udp.DefaultInterface(udp.Config{})
	facts.Default, facts.DefaultErr = doctor.Link(choice), err
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
	t, err := udp.Open(udp.Config{Interface: loopbackName(), Groups: 1})
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
		_, err = fmt.Fprintf(d.e.stdout, "This host is %s.\n", text)
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

const doctorHelp = `Say whether this host is fit for Fanfare, and what to do where it is not.

Usage: fanfare doctor [flags]

It looks at RDMA devices and ports, locked memory, interfaces, routes, IGMP,
filters and socket buffers, and tests each transport on loopback. Each line is a
finding: ok, info (good to know), warn or fail, with a command that mends it.

Flags:
  -iface NAME     test on this network interface or RDMA device too, by its name
                  or its address: some 100 packets go out to multicast groups on
                  its network. Default: on loopback only, and no test of rdma://
  -notest         no tests: only look
  -timeout D      how long a test may take. Default 5s
  -json           findings as JSON objects on standard output, the last a summary
  -q              only warnings and failures on standard output

Examples:
  fanfare doctor
  fanfare doctor -iface eth0
  fanfare doctor -json | jq 'select(.level == "fail")'

` + exitHelp + `  3         fit, with warnings
It is 0 when nothing was warned of, and 1 when something failed.
`
