package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

type demo struct {
	subscribers int
	messages    uint64
	loss        float64
	flavor      string
	json        bool

	e      *env
	report demoReport
}

const (
	demoTopic = "demo.numbers"
	// demoMTU is smaller than InfiniBand's 4096, so that few messages need many datagrams.
	demoMTU            = 1024
	demoSize           = 200 // bytes of a message; the first 20 hold its number
	demoMaxSubscribers = 64
	demoTimeout        = time.Minute
)

// demoRuns gives each run its own subnet.
var demoRuns atomic.Uint64

func (d *demo) subnetURL(name string) string {
	q := url.Values{"flavor": {d.flavor}, "mtu": {strconv.Itoa(demoMTU)}, "loss": {strconv.FormatFloat(d.loss, 'g', -1, 64)}}
	return "sim://" + name + "?" + q.Encode()
}

var errDemoTime = errors.New("time is up")

func (d *demo) run(ctx context.Context, e *env) error {
	d.e = e
	name := fmt.Sprintf("demo-%d", demoRuns.Add(1))
	d.report = demoReport{Type: "summary", URL: d.subnetURL(name), Topic: demoTopic, Messages: d.messages, Size: demoSize, started: time.Now()}
	pubBus, err := selfConfig().Open(ctx, d.report.URL)
	if err != nil {
		return err
	}
	defer pubBus.Close()
	subnet := simnet.Lookup(name)
	buses := make([]*pubsub.Bus, d.subscribers)
	counts := make([]demoCount, d.subscribers)
	limited, cancel := context.WithTimeoutCause(ctx, demoTimeout, errDemoTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range buses {
		if buses[i], err = selfConfig().Open(ctx, d.report.URL); err != nil {
			return err
		}
		defer buses[i].Close()
		sub, err := buses[i].Subscribe(demoTopic)
		if err != nil {
			return err
		}
		wg.Go(func() { counts[i].read(limited, sub, d) })
	}
	// Wait for the readers in any case before their buses close.
	defer wg.Wait()
	defer cancel()
	err = d.publish(limited, pubBus)
	if err != nil {
		cancel() // no further messages can come
	}
	wg.Wait()
	d.report.end(d, subnet, pubBus, buses, counts)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	d.report.Error = plain(err)
	if err := d.report.write(d); err != nil {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("publishing: %w", err)
	case !d.report.Complete:
		return errReported // the report gives the reason
	}
	return nil
}

func (d *demo) publish(ctx context.Context, bus *pubsub.Bus) error {
	pub, err := bus.Publisher(demoTopic)
	if err != nil {
		return err
	}
	if err := pub.WaitSubscribers(ctx, d.subscribers); err != nil {
		return err
	}
	d.report.started = time.Now()
	msg := []byte(strings.Repeat(".", demoSize))
	for i := range d.messages {
		copy(msg, fmt.Sprintf("%020d", i))
		if err := pub.Publish(ctx, msg); err != nil {
			return err
		}
	}
	return pub.Drain(ctx)
}

type demoCount struct {
	inOrder uint64 // messages in sequence
	gaps    uint64 // messages reported lost in gaps
	fault   string // the first error, if any
}

func (c *demoCount) read(ctx context.Context, sub *pubsub.Subscription, d *demo) {
	for next := uint64(0); next < d.messages; {
		m, err := sub.Next(ctx)
		var gap *pubsub.GapError
		switch {
		case errors.As(err, &gap):
			c.gaps += gap.Count
			next += gap.Count
			if c.fault == "" {
				c.fault = gap.Error()
			}
		case err != nil:
			c.fault = err.Error()
			return
		case m.Number != next || len(m.Data) != demoSize || string(m.Data[:20]) != fmt.Sprintf("%020d", next):
			c.fault = fmt.Sprintf("received message %d, expected %d", m.Number, next)
			return
		default:
			c.inOrder++
			next++
		}
	}
}

func demoCommand() command {
	return command{
		name:    "demo",
		summary: "show pub/sub over a simulated RDMA subnet that loses datagrams",
		usage:   "fanfare demo [flags]",
		about: `One publisher and several subscribers run in this process over a simulated subnet.
The output lists the members of the multicast group, the datagrams sent, lost and
repaired, and whether every subscriber received all messages.`,
		notes: `The subnet exists in this process only, as does that of -t sim://NAME in other
commands: use udp:// between two processes.`,
		examples: `fanfare demo
fanfare demo -subscribers 20 -loss 0.1
fanfare demo -flavor roce -json`,
		flags: flagsOf(func() *demo { return new(demo) }),
	}
}

func (d *demo) register(fs *flagSet) {
	choiceVar(fs, &d.flavor, "flavor", "the kind of subnet", word{"ib", "InfiniBand"}, word{"roce", "RoCE v2"})
	within(intVar(fs, &d.subscribers, "subscribers", 3, "`N` subscribers, each on its own host"), 1, demoMaxSubscribers)
	above(countVar(fs, &d.messages, "n", 5000, "publish `N` messages"), 0)
	within(numberVar(fs, &d.loss, "loss", 0.02, "lose each copy of a datagram with probability `P`"), 0, 0.99)
	boolVar(fs, &d.json, "json", jsonResult)
}

func (d *demo) check(_ *flagSet, operands []string) error {
	if len(operands) > 0 {
		return usagef("demo takes no arguments: %q is too many", operands[0])
	}
	return nil
}

type demoReport struct {
	Type        string           `json:"type"` // "summary"
	URL         string           `json:"url"`  // of the subnet
	Topic       string           `json:"topic"`
	Group       string           `json:"group"` // IP address
	MGID        string           `json:"mgid"`
	MLID        string           `json:"mlid,omitempty"` // InfiniBand only
	Members     []demoMember     `json:"members"`
	Messages    uint64           `json:"messages"`
	Size        int              `json:"size"` // bytes
	Seconds     float64          `json:"seconds"`
	Sent        uint64           `json:"datagrams_sent"` // by the publisher, to the group
	Data        uint64           `json:"datagrams_data"` // of them, first transmissions
	Repairs     uint64           `json:"datagrams_repairs"`
	Control     uint64           `json:"datagrams_control"`
	Lost        uint64           `json:"datagrams_lost"` // copies that the subnet dropped, of data and control
	NAKs        uint64           `json:"naks"`           // received by the publisher
	Replies     uint64           `json:"replies"`        // unicast datagrams to the publisher, NAKs among them
	Subscribers []demoSubscriber `json:"subscribers"`
	Complete    bool             `json:"complete"` // all messages at all subscribers, in order, exactly once
	Error       string           `json:"error,omitempty"`

	started time.Time
}

type demoMember struct {
	Host  string `json:"host"`
	Port  string `json:"address"`
	Role  string `json:"role"`
	State string `json:"state"` // as the fabric reports it
}

type demoSubscriber struct {
	Host      string `json:"host"`
	Datagrams uint64 `json:"datagrams"`
	Missing   uint64 `json:"missing"`
	Repaired  uint64 `json:"repaired"`
	NAKs      uint64 `json:"naks"`
	Messages  uint64 `json:"messages"` // in order
	Gaps      uint64 `json:"gaps"`     // messages lost, as reported by gaps
	Fault     string `json:"fault,omitempty"`
}

func (r *demoReport) end(d *demo, subnet *simnet.Subnet, pub *pubsub.Bus, subs []*pubsub.Bus, counts []demoCount) {
	r.Seconds = time.Since(r.started).Seconds()
	st := pub.Stats()
	for _, p := range st.Publications {
		r.Group = strings.TrimPrefix(p.Address, "ud:")
		r.Data, r.Repairs, r.Control, r.NAKs = p.PacketsSent, p.RepairsSent, p.ControlSent, p.NAKs
	}
	r.Sent, r.Replies = r.Data+r.Repairs+r.Control, st.Transport.PacketsReceived
	r.Lost = subnet.Fabric.Stats().Lost
	r.members(d, subnet)
	r.Complete = true
	for i, bus := range subs {
		s := demoSubscriber{Host: subnet.Host(i + 1).HostName(), Messages: counts[i].inOrder,
			Gaps: counts[i].gaps, Fault: counts[i].fault}
		bst := bus.Stats()
		s.Datagrams = bst.Transport.PacketsReceived
		for _, g := range bst.Groups {
			s.Missing, s.Repaired, s.NAKs = g.Missing, g.Repaired, g.NAKs
		}
		r.Complete = r.Complete && s.Messages == d.messages && s.Fault == ""
		r.Subscribers = append(r.Subscribers, s)
	}
}

// members asks the subnet for the members: the subnet administrator on InfiniBand, the IGMP reports on RoCE.
func (r *demoReport) members(d *demo, subnet *simnet.Subnet) {
	addr, err := rdma.ParseAddr(r.Group)
	if err != nil {
		return // no group exists: nothing was published
	}
	states := make(map[string]string)
	if subnet.Fabric.Flavor() == fabric.InfiniBand {
		mgid := rdma.MGIDForIB(addr, rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)
		r.MGID = mgid.String()
		if _, mlid, ok := subnet.Fabric.Record(mgid); ok {
			r.MLID = mlid.String()
		}
		joined := subnet.Fabric.Members(mgid)
		for i := range d.subscribers + 1 {
			host := subnet.Host(i)
			if state, ok := joined[host.Port(0, 1)]; ok {
				states[host.HostName()] = joinState(state)
			}
		}
	} else {
		mgid := rdma.MGIDForRoCE(addr, rdma.GIDTypeRoCEv2)
		r.MGID = mgid.String()
		for _, rec := range subnet.Fabric.Trace() {
			if rec.Kind == fabric.IGMPReport && rec.MGID == mgid {
				states[rec.Host] = "IGMP member"
			}
		}
	}
	for i := range d.subscribers + 1 {
		host := subnet.Host(i)
		m := demoMember{host.HostName(), host.Addr().String(), "subscriber", cmp.Or(states[host.HostName()], "none")}
		if i == 0 {
			m.Role = "publisher"
			if m.State == "none" && r.MLID == "" {
				m.State = "none: senders need no IGMP report"
			}
		}
		r.Members = append(r.Members, m)
	}
}

// joinState is the text for the JoinState bits of an MCMemberRecord.
func joinState(s rdma.JoinState) string {
	switch s {
	case rdma.StateFullMember:
		return "full member (0x1)"
	case rdma.StateSendOnlyFullMember:
		return "send-only full member (0x8)"
	}
	return fmt.Sprintf("JoinState %#x", uint8(s))
}

func (r *demoReport) write(d *demo) error {
	if d.json {
		return newJSONLines(d.e.stdout).write(r)
	}
	var b bytes.Buffer
	r.print(d, &b)
	_, err := b.WriteTo(d.e.stdout)
	return err
}

func (r *demoReport) print(d *demo, w io.Writer) {
	kind := map[string]string{"ib": "InfiniBand", "roce": "RoCE v2"}[d.flavor]
	fmt.Fprintf(w, "A simulated %s subnet in this process: a switch and %s.\nThe switch drops %.4g %% of the datagrams to each port.\n\n", kind, count(d.subscribers+1, "host"), 100*d.loss)
	if r.Group == "" {
		fmt.Fprintf(w, "Nothing was published: %s\n", r.Error)
		return
	}
	fmt.Fprintf(w, "Topic %s is multicast group %s, MGID %s", r.Topic, r.Group, r.MGID)
	if r.MLID != "" {
		fmt.Fprintf(w, ", MLID %s", r.MLID)
	}
	fmt.Fprintf(w, ":\n\n")
	tw := tabwriter.NewWriter(w, 2, 0, 3, ' ', 0)
	fmt.Fprintf(tw, "  host\taddress\trole\tmembership\n")
	for _, m := range r.Members {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", m.Host, m.Port, m.Role, m.State)
	}
	tw.Flush()
	fmt.Fprintf(w, "\nPublished: %s of %d bytes, packed into %s of up to %d bytes.\nThe publisher sends each datagram once, the switch copies it to %s:\n\n",
		count(r.Messages, "message"), r.Size, count(r.Data, "datagram"), demoMTU, count(d.subscribers, "copy"))
	for _, row := range [][2]any{
		{"datagrams sent to the group", r.Sent},
		{"  new data", r.Data},
		{"  repairs, multicast", r.Repairs},
		{"  control, such as heartbeats", r.Control},
		{"copies dropped by the switch", r.Lost},
		{"replies to the publisher", r.Replies},
		{"  repair requests (NAKs)", r.NAKs},
	} {
		fmt.Fprintf(w, "  %-30s %7d\n", row[0], row[1])
	}
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 2, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "  host\tdatagrams\tmissing\trepaired\tNAKs\tmessages\t\n")
	for _, s := range r.Subscribers {
		fmt.Fprintf(tw, "  %s\t%d\t%d\t%d\t%d\t%d\t\n", s.Host, s.Datagrams, s.Missing, s.Repaired, s.NAKs, s.Messages)
	}
	tw.Flush()
	fmt.Fprintln(w)
	for _, s := range r.Subscribers {
		if s.Fault != "" {
			fmt.Fprintf(w, "%s received %d of %s in order: %s\n", s.Host, s.Messages, count(r.Messages, "message"), s.Fault)
		}
	}
	switch {
	case r.Error != "":
		fmt.Fprintf(w, "Publishing failed after %.2f s: %s\n", r.Seconds, r.Error)
	case r.Complete:
		receivers := "All " + count(d.subscribers, "subscriber")
		if d.subscribers == 1 {
			receivers = "The subscriber"
		}
		fmt.Fprintf(w, "%s received %s in order, exactly once (%.2f s).\n", receivers, count(r.Messages, "message"), r.Seconds)
	default:
		fmt.Fprintf(w, "Not every subscriber received all messages.\n")
	}
}
