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

const exitWarnings = 3 // exit code when there are warnings and no failures

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
	case d.peer.listener != "":
		return d.test(ctx)
	}
	requested := bufferSizes()
	facts.ReceiveBytes, facts.SendBytes = requested.ReceiveAsked, requested.SendAsked
	choice, err := udp.DefaultInterface(udp.Config{})
	facts.Default, facts.DefaultErr = doctor.Link(choice), err
	facts.Buses, facts.Silent = runningBuses(ctx)
	inspectShared(facts)
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

// bufferSizes is the size that transport/udp requests and the size granted, read from a transport opened on loopback;
// zero if none can be opened.
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
			text = fmt.Sprintf("not ready: %s and %s", count(s.Fail, "failure"), count(s.Warn, "warning"))
		case doctor.Warn:
			text = "ready, with " + count(s.Warn, "warning")
		default:
			text = "ready"
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
		summary: "check this host and its network for problems, and suggest fixes",
		usage: `fanfare doctor [flags]
fanfare doctor -listen [flags]
fanfare doctor -peer ADDRESS [flags]`,
		about: `It checks RDMA devices and ports, locked memory, interfaces, routes, IGMP, packet
filters, socket buffers and shared memory (/dev/shm, and dir= of running buses), asks
the running buses whether their groups are sealed, and tests each transport on
loopback. Each line is a finding: ok, info (good to know), warn or fail, with a
command that fixes it.

With -listen on one host and -peer on another it tests the network between them:
whether multicast arrives in each direction, and continues to; loss, duplicates,
reordering, the largest packet, GSO and GRO, IGMP queriers, round trip and clocks.`,
		notes: `Both sides of -listen and -peer send some thousand packets of up to the MTU to each
other and to the group, at most 2 MiB/s. -listen answers any host. Receiving IGMP
queries requires root (CAP_NET_RAW); all other tests require no privilege. Linux and
IPv4 only.

With -json and -peer the measurements are an object {"type":"network",...} before the
findings; -listen writes {"type":"listening",...}, and {"type":"asked",...} for each
test.`,
		examples: `fanfare doctor
fanfare doctor -iface eth0
fanfare doctor -listen -iface eth0
fanfare doctor -peer 10.0.0.2
fanfare doctor -peer 10.0.0.2 -for 270s
fanfare doctor -json | jq 'select(.level == "fail")'`,
		exits:     []word{{"3", "warnings, no failures"}},
		exitNotes: `It is 0 without warnings and failures, and 1 when something failed.`,
		flags:     flagsOf(func() *doctorRun { return new(doctorRun) }),
	}
}

func (d *doctorRun) register(fs *flagSet) {
	stringVar(fs, &d.iface, "iface", "", "also test on the network interface or RDMA device `NAME`, or with this address. Some 100 packets "+
		"are sent to multicast groups on its network. Without it only loopback is tested, and rdma:// is not. With -listen the default is the interface of udp://, with -peer that of the route to the peer")
	boolVar(fs, &d.noTests, "notest", "check the configuration only, without tests")
	above(durationVar(fs, &d.timeout, "timeout", 5*time.Second, "maximum duration of a test"), 0)
	d.peer.register(fs)
	boolVar(fs, &d.json, "json", jsonFindings)
	boolVar(fs, &d.quiet, "q", "only warnings and failures on standard output")
}

func (d *doctorRun) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("doctor takes no arguments: %q is too many", operands[0])
	case fs.isSet("iface") && d.iface == "":
		return usagef("-iface is empty: use the name of a network interface or of an RDMA device")
	case d.noTests && d.iface != "":
		return usagef("-iface selects where to test, and -notest disables tests: use one of the two")
	}
	return d.peer.check(fs)
}

// runningBuses are the buses of the processes that this user may inspect. silent are the sockets without an answer.
func runningBuses(ctx context.Context) (buses []doctor.Bus, silent []string) {
	seen, err := readAll(ctx)
	switch {
	case errors.Is(err, inspect.ErrOff):
		return nil, nil // processes have no sockets here
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

func inspectShared(facts *doctor.Facts) {
	if runtime.GOOS != "linux" {
		return // no shm:// on this system
	}
	facts.UID, facts.EndpointBytes = os.Geteuid(), shm.EndpointBytes
	dirs, used := sharedDirs(facts.Buses)
	for _, dir := range dirs {
		m := doctor.SharedMemory{Dir: printable(dir), Used: used[dir]}
		m.Memory, m.Err = shm.DescribeDir(dir)
		for i := range m.Places { // other users may have chosen the names
			m.Places[i].Path = printable(m.Places[i].Path)
		}
		facts.Shared = append(facts.Shared, m)
	}
}

// sharedDirs lists the directories for shared memory, that of shm:// without dir= and those of
// running buses, and which of them buses use.
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
	listen   bool
	listener string
	group    string
	ttl      int
	watch    time.Duration

	address      netip.Addr     // of listener
	groupAddress netip.AddrPort // of group
}

// defaultMeeting is the group and port that both sides of doctor use. No default of udp:// uses it.
const defaultMeeting = "239.20.255.3:7401"

// maxWatch bounds -for: the numbers of probes would run out after it.
const maxWatch = time.Hour

func (p *doctorPeer) register(fs *flagSet) {
	boolVar(fs, &p.listen, "listen", "answer 'doctor -peer' of another host until interrupted")
	stringVar(fs, &p.listener, "peer", "", "test the network between this host and the one at `ADDRESS`, where 'doctor -listen' runs")
	stringVar(fs, &p.group, "group", defaultMeeting, "with -listen and -peer: the multicast group and UDP port, `GROUP:PORT`, the same on both sides")
	within(intVar(fs, &p.ttl, "ttl", 1, "with -listen and -peer: the multicast TTL `N`, from 1 to 255, as ttl= in a URL"), 1, 255)
	within(durationVar(fs, &p.watch, "for", 5*time.Second, "with -peer: minimum duration of all tests together. The time that remains after the other tests checks that multicast continues, "+
		"and waits for an IGMP query: 135s for the query, 270s for both"), 0, maxWatch)
}

func (p *doctorPeer) active() bool { return p.listen || p.listener != "" }

func (p *doctorPeer) check(fs *flagSet) error {
	if fs.isSet("peer") && p.listener == "" {
		return usagef("-peer is empty: use the address of the host where 'fanfare doctor -listen' runs")
	}
	if !p.active() {
		for _, name := range []string{"group", "ttl", "for"} {
			if fs.isSet(name) {
				return usagef("-%s needs -listen or -peer", name)
			}
		}
		return nil
	}
	for _, name := range []string{"notest", "timeout"} {
		if fs.isSet(name) {
			return usagef("-%s is only for tests of this host, without -listen and -peer", name)
		}
	}
	switch {
	case p.listen && p.listener != "":
		return usagef("use -listen on one host and -peer on the other, not both on one host")
	case p.listen && fs.isSet("for"):
		return usagef("-for needs -peer: -listen runs until interrupted")
	}
	var err error
	if p.groupAddress, err = netip.ParseAddrPort(p.group); err != nil || !p.groupAddress.Addr().Is4() ||
		!p.groupAddress.Addr().IsMulticast() || p.groupAddress.Port() == 0 {
		return usagef("-group %q must be an IPv4 multicast group and a UDP port, such as %s", p.group, defaultMeeting)
	}
	if p.listener == "" {
		return nil
	}
	if p.address, err = netip.ParseAddr(p.listener); err != nil {
		addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", p.listener)
		if err != nil || len(addrs) == 0 {
			return usagef("-peer %q must be the IPv4 address, or the name, of the host where 'fanfare doctor -listen' runs", p.listener)
		}
		p.address = addrs[0].Unmap()
	}
	if !p.address.Is4() || p.address.IsMulticast() || p.address.IsUnspecified() {
		return usagef("-peer %v must be an IPv4 address of one host", p.address)
	}
	return nil
}

// config determines the interface of this side: that of -iface, otherwise of the route to the peer, or of udp://.
func (p *doctorPeer) config(iface string) (cfg peer.Config, err error) {
	facts, err := doctor.ThisHost()
	if err != nil {
		return cfg, err
	}
	cfg = peer.Config{Group: p.groupAddress, TTL: p.ttl, Environment: facts.Environment()}
	var ifc *net.Interface
	switch {
	case iface != "":
		ifc, err = sys.FindInterface(iface)
	case p.address.IsValid():
		var c net.Conn // connecting a UDP socket sends nothing and selects the route
		if c, err = net.Dial("udp4", netip.AddrPortFrom(p.address, p.groupAddress.Port()).String()); err == nil {
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

// JSON objects of tests with a second host: the address of the listener, the host that asks it, and all measurements.
type (
	doctorListening struct {
		Type      string `json:"type"`
		Address   string `json:"address"`
		Interface string `json:"interface"`
		Group     string `json:"group"`
	}
	doctorRequest struct {
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
			_ = d.lines.write(doctorRequest{"asked", from.String()}) // if standard output is closed, the listener continues
		} else if !d.quiet {
			fmt.Fprintf(d.e.stdout, "Testing with %v.\n", from)
		}
	})
	if err != nil {
		return fmt.Errorf("%w: is another 'fanfare doctor -listen' running? -group sets another port", err)
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
		cancel() // closes the sockets
	}
	l.Run(ctx)
	return err
}

func (d *doctorRun) test(ctx context.Context) error {
	cfg, err := d.peer.config(d.iface)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(d.peer.address, d.peer.groupAddress.Port())
	r, err := peer.Examine(ctx, cfg, at, d.peer.watch, func(what string) { d.e.console.status("testing: " + what) })
	d.e.console.clear()
	switch {
	case errors.Is(err, peer.ErrNoAnswer):
		err = d.report(finding("peer", doctor.Fail, "fanfare doctor -listen   # on that host; packet filters must accept UDP port "+fmt.Sprint(at.Port()),
			"no answer from %v, asked from %v on %s: %s", at, cfg.Addr, cfg.Interface.Name, strings.TrimPrefix(err.Error(), peer.ErrNoAnswer.Error()+": ")))
	case errors.Is(err, peer.ErrBusy):
		err = d.report(finding("peer", doctor.Fail, "", "the listener at %v is busy with other hosts: try again later", at))
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
