package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor/peer"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/udp"
)

type doctorPeer struct {
	listen bool
	ask    string
	group  string
	ttl    int
	watch  time.Duration

	address netip.Addr     // of ask
	meet    netip.AddrPort // of group
}

// defaultMeeting is the group and port where both sides of doctor meet. It is none that
// udp:// uses unless told to.
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
	if p.meet, err = netip.ParseAddrPort(p.group); err != nil || !p.meet.Addr().Is4() || !p.meet.Addr().IsMulticast() || p.meet.Port() == 0 {
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

// config says where this side is: on the interface given, or on that of the route to the
// peer, or on that of udp://.
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

// What is written with a second host: where a listener is, who asks it, and all that a test has measured.
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
		err = d.tell(finding("peer", doctor.Fail, "fanfare doctor -listen   # on that host; a packet filter has to let UDP port "+fmt.Sprint(at.Port())+" in",
			"nobody answers at %v, asked from %v on %s: %s", at, cfg.Addr, cfg.Interface.Name, strings.TrimPrefix(err.Error(), peer.ErrNoAnswer.Error()+": ")))
	case errors.Is(err, peer.ErrBusy):
		err = d.tell(finding("peer", doctor.Fail, "", "the listener at %v is busy with others: try again later", at))
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
		if err := d.tell(f); err != nil {
			return err
		}
	}
	return nil
}
