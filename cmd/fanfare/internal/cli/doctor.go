package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/shm"
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

type doctorSummary struct {
	Type  string       `json:"type"`
	Level doctor.Level `json:"level"` // the worst
	OK    int          `json:"ok"`
	Info  int          `json:"info"`
	Warn  int          `json:"warn"`
	Fail  int          `json:"fail"`
}

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

func doctorCommand() command {
	return command{
		name:    "doctor",
		summary: "say whether this host is fit, and what to do where it is not",
		usage: `fanfare doctor [flags]
fanfare doctor -listen [flags]
fanfare doctor -peer ADDRESS [flags]`,
		about: `It looks at RDMA devices and ports, locked memory, interfaces, routes, IGMP,
filters, socket buffers and shared memory (/dev/shm, and dir= of buses that run),
asks the buses that run whether their groups are open, and tests each transport on
loopback. Each line is a finding: ok, info (good to know), warn or fail, with a
command that mends it.

With -listen on one host and -peer on another it tests the network between them:
whether multicast passes, each way, and goes on; loss, copies, reordering, the
largest packet, GSO and GRO, IGMP queriers, round trip and clocks.`,
		notes: `Both sides of -listen and -peer send some thousand packets of up to the MTU to each
other and to the group, 2 MiB/s at most. -listen answers whoever asks. To hear IGMP
queries takes root (CAP_NET_RAW); all else takes no privilege. Linux, and IPv4, only.

With -json and -peer what was measured is an object {"type":"network",...} before
the findings; -listen writes {"type":"listening",...}, and {"type":"asked",...}
for each test.`,
		examples: `fanfare doctor
fanfare doctor -iface eth0
fanfare doctor -listen -iface eth0
fanfare doctor -peer 10.0.0.2
fanfare doctor -peer 10.0.0.2 -for 270s
fanfare doctor -json | jq 'select(.level == "fail")'`,
		exits:     []word{{"3", "fit, with warnings"}},
		exitNotes: `It is 0 when nothing was warned of, and 1 when something failed.`,
		flags:     flagsOf(func() *doctorRun { return new(doctorRun) }),
	}
}

func (d *doctorRun) register(fs *flagSet) {
	stringVar(fs, &d.iface, "iface", "", "test on the network interface or RDMA device `NAME` too; its address will do. Some 100 packets "+
		"go out to multicast groups on its network. Without it: on loopback only, and no test of rdma://. With -listen the default is that of udp://, with -peer that of the route to it")
	boolVar(fs, &d.noTests, "notest", "no tests: only look")
	above(durationVar(fs, &d.timeout, "timeout", 5*time.Second, "how long a test may take"), 0)
	d.peer.register(fs)
	boolVar(fs, &d.json, "json", "findings as JSON objects on standard output, the last a summary")
	boolVar(fs, &d.quiet, "q", "only warnings and failures on standard output")
}

func (d *doctorRun) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("doctor takes no arguments: %q is too many", operands[0])
	case fs.isSet("iface") && d.iface == "":
		return usagef("-iface is empty: give the name of a network interface or of an RDMA device")
	case d.noTests && d.iface != "":
		return usagef("-iface is for tests, and -notest is for none: give one of them")
	}
	return d.peer.check(fs)
}

// runningBuses are the buses of this host's processes, as far as this user may ask them, and which did not answer.
func runningBuses(ctx context.Context) (buses []doctor.Bus, silent []string) {
	seen, err := readAll(ctx)
	switch {
	case errors.Is(err, inspect.ErrOff):
		return nil, nil // there is no place where processes can be asked
	case err != nil:
		return nil, []string{printable(err.Error())}
	}
	for _, x := range seen {
		if x.Err != nil {
			silent = append(silent, printable(x.Socket+": "+losses.Unanswered(x.Err)))
			continue
		}
		for i := range x.Snapshot.Buses {
			b := &x.Snapshot.Buses[i]
			out := doctor.Bus{Process: printable(x.Snapshot.Process.Name()), Name: printable(b.Name), Open: b.Fabric.Open}
			for _, url := range b.URLs {
				out.URLs = append(out.URLs, printable(url))
			}
			buses = append(buses, out)
		}
	}
	return buses, silent
}

// lookAtShared gathers the facts of the shared memory that shm:// has by itself, and that buses of this host have.
func lookAtShared(facts *doctor.Facts) {
	if runtime.GOOS != "linux" {
		return // there is no shm://
	}
	facts.UID, facts.EndpointBytes = os.Geteuid(), shm.EndpointBytes
	dirs, used := sharedDirs(facts.Buses)
	for _, dir := range dirs {
		m := doctor.SharedMemory{Dir: printable(dir), Used: used[dir]}
		m.Memory, m.Err = shm.LookAt(dir)
		for i := range m.Places { // whose names others may have chosen
			m.Places[i].Path = printable(m.Places[i].Path)
		}
		facts.Shared = append(facts.Shared, m)
	}
}

// sharedDirs are the directories for shared memory: that of shm:// without dir=, and those that buses have, which use them.
func sharedDirs(buses []doctor.Bus) (dirs []string, used map[string]bool) {
	dirs, used = []string{shm.DefaultDir}, make(map[string]bool)
	for i := range buses {
		for _, raw := range buses[i].URLs {
			dir, ok := fabricurl.SharedDir(raw)
			if !ok {
				continue
			}
			used[dir] = true
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, used
}
