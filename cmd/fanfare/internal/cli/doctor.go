package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor/peer"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/shm"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// doctorRun says whether this host is fit, by facts and self-tests; or whether the network is, with a second host.
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

const exitWarnings = 3 // the exit code of a host that is fit but for warnings

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
		if err := d.report(f); err != nil {
			return err
		}
	}
	if !d.noTests {
		for _, test := range d.selfTests(facts) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := d.report(test(ctx)); err != nil {
				return err
			}
		}
	}
	return d.verdict()
}

// bufferSizes is what transport/udp asks for, as found by one that is opened on loopback; zero where there is none.
func bufferSizes() udp.SocketLimits {
	t, err := udp.Open(udp.Config{Interface: sys.LoopbackName(), Groups: 1})
	if err != nil {
		return udp.SocketLimits{}
	}
	defer finish(t)
	return t.SocketLimits()
}

func (d *doctorRun) report(f doctor.Finding) error {
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
other and to the group, 2 MiB/s at most. -listen answers any host. To hear IGMP
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
	boolVar(fs, &d.json, "json", jsonFindings)
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

func lookAtShared(facts *doctor.Facts) {
	if runtime.GOOS != "linux" {
		return // there is no shm://
	}
	facts.UID, facts.EndpointBytes = os.Geteuid(), shm.EndpointBytes
	dirs, used := sharedDirs(facts.Buses)
	for _, dir := range dirs {
		m := doctor.SharedMemory{Dir: printable(dir), Used: used[dir]}
		m.Memory, m.Err = shm.DescribeDir(dir)
		for i := range m.Places { // others may have chosen their names
			m.Places[i].Path = printable(m.Places[i].Path)
		}
		facts.Shared = append(facts.Shared, m)
	}
}

// sharedDirs are the directories for shared memory: that of shm:// without dir=, and those that buses have, which
// use them.
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

type doctorPeer struct {
	listen bool
	ask    string
	group  string
	ttl    int
	watch  time.Duration

	address netip.Addr     // of ask
	meet    netip.AddrPort // of group
}

// defaultMeeting is the group and port where both sides of doctor meet. It is none of the defaults of udp://.
const defaultMeeting = "239.20.255.3:7401"

// longestWatch bounds -for: the numbers of probes end there.
const longestWatch = time.Hour

func (p *doctorPeer) register(fs *flagSet) {
	boolVar(fs, &p.listen, "listen", "answer a second host's 'doctor -peer', until interrupted")
	stringVar(fs, &p.ask, "peer", "", "test the network between this host and the one at `ADDRESS`, where 'doctor -listen' runs")
	stringVar(fs, &p.group, "group", defaultMeeting, "with -listen and -peer: the multicast group and UDP port, `GROUP:PORT`, the same on both sides")
	within(intVar(fs, &p.ttl, "ttl", 1, "with -listen and -peer: the TTL `N` of multicast, 1 to 255, as ttl= in a URL"), 1, 255)
	within(durationVar(fs, &p.watch, "for", 5*time.Second, "with -peer: how long all tests together take at least. What is left is for whether multicast goes on, "+
		"and for an IGMP query to be heard: 135s for the latter, 270s for both"), 0, longestWatch)
}

func (p *doctorPeer) active() bool { return p.listen || p.ask != "" }

func (p *doctorPeer) check(fs *flagSet) error {
	if fs.isSet("peer") && p.ask == "" {
		return usagef("-peer is empty: give the address of the host where 'fanfare doctor -listen' runs")
	}
	if !p.active() {
		for _, name := range []string{"group", "ttl", "for"} {
			if fs.isSet(name) {
				return usagef("-%s goes with -listen or -peer", name)
			}
		}
		return nil
	}
	for _, name := range []string{"notest", "timeout"} {
		if fs.isSet(name) {
			return usagef("-%s is for tests of this host alone, without -listen and -peer", name)
		}
	}
	switch {
	case p.listen && p.ask != "":
		return usagef("-listen answers and -peer asks: give one of them on each host")
	case p.listen && fs.isSet("for"):
		return usagef("-for goes with -peer: -listen ends when it is interrupted")
	}
	var err error
	if p.meet, err = netip.ParseAddrPort(p.group); err != nil || !p.meet.Addr().Is4() ||
		!p.meet.Addr().IsMulticast() || p.meet.Port() == 0 {
		return usagef("-group %q must be an IPv4 multicast group and a UDP port, such as %s", p.group, defaultMeeting)
	}
	if p.ask == "" {
		return nil
	}
	if p.address, err = netip.ParseAddr(p.ask); err != nil {
		addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", p.ask)
		if err != nil || len(addrs) == 0 {
			return usagef("-peer %q must be the IPv4 address, or the name, of the host where 'fanfare doctor -listen' runs", p.ask)
		}
		p.address = addrs[0].Unmap()
	}
	if !p.address.Is4() || p.address.IsMulticast() || p.address.IsUnspecified() {
		return usagef("-peer %v must be an IPv4 address of one host", p.address)
	}
	return nil
}

// config says where this side is: on the interface given, or on that of the route to the peer, or on that of udp://.
func (p *doctorPeer) config(iface string) (cfg peer.Config, err error) {
	facts, err := doctor.ThisHost()
	if err != nil {
		return cfg, err
	}
	cfg = peer.Config{Group: p.meet, TTL: p.ttl, Environment: facts.Environment()}
	var ifc *net.Interface
	switch {
	case iface != "":
		ifc, err = sys.FindInterface(iface)
	case p.address.IsValid():
		var c net.Conn // which sends nothing: it finds the route
		if c, err = net.Dial("udp4", netip.AddrPortFrom(p.address, p.meet.Port()).String()); err == nil {
			cfg.Addr = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
			c.Close()
			ifc, err = sys.FindInterface(cfg.Addr.String())
		}
	default:
		var choice udp.Choice
		if choice, err = udp.DefaultInterface(udp.Config{}); err == nil {
			ifc, err = sys.FindInterface(choice.Name)
		}
	}
	if err != nil {
		return cfg, err
	}
	cfg.Interface = *ifc
	if cfg.Addr.IsValid() {
		return cfg, nil
	}
	addrs, err := sys.InterfaceAddrs(ifc)
	for _, a := range addrs {
		if a.Is4() {
			cfg.Addr = a
			return cfg, nil
		}
	}
	return cfg, errors.Join(fmt.Errorf("interface %s has no IPv4 address", ifc.Name), err)
}

// What is written with a second host: where a listener is, which host asks it, and all that a test has measured.
type (
	doctorListening struct {
		Type      string `json:"type"`
		Address   string `json:"address"`
		Interface string `json:"interface"`
		Group     string `json:"group"`
	}
	doctorAsked struct {
		Type string `json:"type"`
		From string `json:"from"`
	}
	doctorNetwork struct {
		Type string `json:"type"`
		*peer.Result
	}
)

func (d *doctorRun) answer(ctx context.Context) error {
	cfg, err := d.peer.config(d.iface)
	if err != nil {
		return err
	}
	l, err := peer.Listen(cfg, func(from netip.AddrPort) {
		if d.json {
			_ = d.lines.write(doctorAsked{"asked", from.String()}) // a reader that has gone ends nothing here
		} else if !d.quiet {
			fmt.Fprintf(d.e.stdout, "%v asks.\n", from)
		}
	})
	if err != nil {
		return fmt.Errorf("%w: is another 'fanfare doctor -listen' running? -group takes another port", err)
	}
	if d.json {
		err = d.lines.write(doctorListening{"listening", cfg.Addr.String(), cfg.Interface.Name, cfg.Group.String()})
	} else if !d.quiet {
		other := "fanfare doctor -peer " + cfg.Addr.String()
		if d.peer.group != defaultMeeting {
			other += " -group " + d.peer.group
		}
		_, err = fmt.Fprintf(d.e.stdout, "Listening on %s (%v). On the other host: %s\n", cfg.Interface.Name, cfg.Addr, other)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err != nil {
		cancel() // so that the sockets are closed
	}
	l.Run(ctx)
	return err
}

func (d *doctorRun) test(ctx context.Context) error {
	cfg, err := d.peer.config(d.iface)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(d.peer.address, d.peer.meet.Port())
	r, err := peer.Ask(ctx, cfg, at, d.peer.watch, func(what string) { d.e.console.status("testing: " + what) })
	d.e.console.clear()
	switch {
	case errors.Is(err, peer.ErrNoAnswer):
		err = d.report(finding("peer", doctor.Fail, "fanfare doctor -listen   # on that host; a packet filter has to let UDP port "+fmt.Sprint(at.Port())+" in",
			"no answer from %v, asked from %v on %s: %s", at, cfg.Addr, cfg.Interface.Name, strings.TrimPrefix(err.Error(), peer.ErrNoAnswer.Error()+": ")))
	case errors.Is(err, peer.ErrBusy):
		err = d.report(finding("peer", doctor.Fail, "", "the listener at %v is busy with others: try again later", at))
	case err != nil:
		return err
	default:
		err = d.results(r)
	}
	if err != nil {
		return err
	}
	return d.verdict()
}

func (d *doctorRun) results(r *peer.Result) error {
	if d.json {
		if err := d.lines.write(doctorNetwork{"network", r}); err != nil {
			return err
		}
	}
	findings := r.Findings()
	if r.Finished && !r.Passes() {
		facts, err := doctor.ThisHost()
		if err != nil {
			return err
		}
		findings = append(findings, facts.Surroundings()...)
	}
	for _, f := range findings {
		if err := d.report(f); err != nil {
			return err
		}
	}
	return nil
}
