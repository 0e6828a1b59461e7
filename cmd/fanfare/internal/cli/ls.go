package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ls asks the processes of this host for their topics, and lists those of publishers on the network.
type ls struct {
	common
	patterns []string
	listen   time.Duration
	sockets  []string // sockets of the processes to ask; empty: all processes of this user
	hereOnly bool     // the flag -here
	wire     bool     // listen on a fabric
	host     bool     // ask processes of this host
	blank    bool     // a list of processes was printed above the list of topics on the network

	e      *env
	failed []top.Failed // processes that did not answer
}

func (l *ls) run(ctx context.Context, e *env) error {
	l.e = e
	var processes []jsonProcess
	if l.host {
		if err := placesExist(l.sockets); err != nil && (l.hereOnly || len(l.sockets) > 0) {
			return err
		}
		var err error
		if processes, err = l.here(ctx); err != nil && (l.hereOnly || len(l.sockets) > 0) {
			return err
		}
	}
	if !l.wire {
		if len(processes) == 0 {
			o := top.Options{Places: l.sockets}
			if !slices.Contains(l.patterns, ">") {
				return fmt.Errorf("no process on this host publishes or subscribes to %s (searched in %s)", strings.Join(l.patterns, ", "), o.Where())
			}
			return errors.New(top.NoProcess(o.Where()))
		}
		return cmp.Or(l.showHere(processes), unanswered(l.failed))
	}
	if len(processes) > 0 {
		if err := l.showHere(processes); err != nil {
			return err
		}
		l.blank = true
	}
	err, silent := l.survey(ctx, e), unanswered(l.failed)
	if err != nil && silent != nil && !l.quiet {
		e.console.line("%v", silent)
	}
	return cmp.Or(err, silent)
}

func (l *ls) survey(ctx context.Context, e *env) error {
	bus, log, closeBus, err := l.open(ctx, e, pubsub.Config{Loopback: true, OnEvent: l.event})
	if err != nil {
		return err
	}
	defer closeBus()
	log.release(!l.quiet, l.quiet, mismatchWords)
	survey, err := bus.Survey(l.patterns...)
	if err != nil {
		return err
	}
	defer survey.Close()
	endWatch := l.watchInProcess(e)
	stop := startMeter(e.console, !l.quiet, l.status(survey))
	interrupted := sleep(ctx, l.listen) // if interrupted, show the results so far
	stop()
	endWatch()
	list, err := survey.Topics()
	if err != nil {
		return err
	}
	err = l.verdict(list)
	if err != nil && l.blank && l.apart.Load() == nil {
		if !l.quiet { // after a list of processes, a network without publishers is no error
			e.console.line("on the network, at %s: %v", strings.Join(l.urls, " "), err)
		}
		err = nil
	}
	return cmp.Or(l.show(list, err), interrupted, err)
}

func (l *ls) event(e events.Event) {
	l.fabricEvent(l.e, e)
	if m := separating(e); m != nil {
		if l.apart.Store(m); !l.quiet {
			l.e.console.line("%v", m)
		}
	}
}

func (l *ls) status(survey *pubsub.Survey) func(time.Duration) string {
	began := time.Now()
	return func(time.Duration) string {
		list, err := survey.Topics()
		if err != nil {
			return ""
		}
		left := max(0, l.listen-time.Since(began)).Round(100 * time.Millisecond)
		return surveySummary(list) + fmt.Sprintf(", listening for another %v", left)
	}
}

func surveySummary(t *pubsub.TopicList) string {
	return list(count(len(t.Topics), "topic"), count(t.Publishers, "publisher"), count(t.Joined, "group"))
}

func (l *ls) verdict(t *pubsub.TopicList) error {
	m := l.apart.Load()
	if err := l.unreadable.onlyUnreadable("no publisher detected"); err != nil && len(t.Topics) == 0 {
		return err
	}
	detected := fmt.Sprintf("detected in %v in %s", t.For.Round(100*time.Millisecond), count(t.Joined, "group"))
	switch {
	case len(t.Topics) > 0:
		return nil
	case t.Joined == 0 && t.Err != nil:
		return fmt.Errorf("no group could be joined: %w", t.Err)
	case t.Joined == 0:
		return fmt.Errorf("no group was joined within %v: listen longer with -for, or run 'fanfare doctor'", l.listen)
	case m != nil:
		return mismatchError(fmt.Errorf("no topic was %s: %w", detected, m))
	case t.Unnamed > 0:
		return fmt.Errorf("no name of a topic was %s: %s had messages but no name yet; listen longer with -for", detected, count(t.Unnamed, "topic"))
	case t.Incomplete > 0:
		return fmt.Errorf("no topic was %s: %s had not named any topics yet; listen longer with -for", detected, count(t.Incomplete, "publisher"))
	case t.Publishers > 0:
		return fmt.Errorf("none of the topics of %s matches %s", count(t.Publishers, "publisher"), strings.Join(l.patterns, ", "))
	}
	return fmt.Errorf("no publisher was %s: an idle publisher sends once a second; check that it uses the same -t and is on this network. "+
		"Run 'fanfare doctor' to check this host", detected)
}

func (l *ls) show(t *pubsub.TopicList, verdict error) error {
	if l.json {
		return l.showJSON(t, verdict)
	}
	if l.blank && len(t.Topics) > 0 {
		fmt.Fprintln(l.e.stdout)
	}
	if err := lsTable(l.e.stdout, t); err != nil {
		return err
	}
	if l.quiet || len(t.Topics) == 0 {
		return nil
	}
	l.e.console.line("%s, within %v", surveySummary(t), t.For.Round(100*time.Millisecond))
	for _, add := range lsNotes(t) {
		l.e.console.line("%s", add)
	}
	return nil
}

func lsNotes(t *pubsub.TopicList) (notes []string) {
	add := func(yes bool, format string, args ...any) {
		if yes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(t.Failed > 0, "%d of %s could not be joined: %v", t.Failed, count(t.Groups, "group"), t.Err)
	add(t.Incomplete > 0, "%s had not named all topics yet (a subscriber may block them): listen longer with -for", count(t.Incomplete, "publisher"))
	add(t.Unnamed > 0, "%s had messages but no name yet: listen longer with -for", count(t.Unnamed, "topic"))
	add(t.Refused > 0, "too many topics or publishers: %d times one was left out; use a narrower pattern", t.Refused)
	return notes
}

func lsTable(w io.Writer, t *pubsub.TopicList) error {
	if len(t.Topics) == 0 {
		return nil
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "TOPIC\tMESSAGES\tPER SECOND\tPUBLISHER\tADDRESS\tGROUP")
	for i := range t.Topics {
		x := &t.Topics[i]
		for _, p := range x.Publishers {
			fmt.Fprintf(tab, "%s\t%d\t%s\t%s\t%s\t%s\n", x.Name, p.Messages, lsRate(p.Rate), cmp.Or(printable(p.Name), p.ID.String()), cmp.Or(printable(p.Address), "-"), x.GroupAddress)
		}
	}
	return tab.Flush()
}

func lsRate(perSecond float64) string {
	if perSecond > 0 && perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return si(perSecond)
}

type jsonTopic struct {
	Type       string               `json:"type"` // "topic"
	Topic      string               `json:"topic"`
	Group      string               `json:"group"` // address
	GroupIndex int                  `json:"group_index"`
	Rate       float64              `json:"messages_per_second"`
	Publishers []jsonTopicPublisher `json:"publishers"`
}

type jsonTopicPublisher struct {
	ID       string    `json:"publisher"`
	Name     string    `json:"name"`
	Epoch    events.ID `json:"epoch"`
	Address  string    `json:"address"`
	Messages uint64    `json:"messages"`
	Rate     float64   `json:"messages_per_second"`
}

type lsSummary struct {
	Type       string  `json:"type"` // "summary"
	Topics     int     `json:"topics"`
	Publishers int     `json:"publishers"`
	Incomplete int     `json:"publishers_incomplete"` // with topics not named yet
	Unnamed    int     `json:"topics_unnamed"`
	Groups     int     `json:"groups"`
	Joined     int     `json:"groups_joined"`
	Refused    uint64  `json:"refused"`
	Seconds    float64 `json:"seconds"`
	Error      string  `json:"error,omitempty"`
}

func (l *ls) showJSON(t *pubsub.TopicList, verdict error) error {
	lines := newJSONLines(l.e.stdout)
	for i := range t.Topics {
		x := &t.Topics[i]
		out := jsonTopic{Type: "topic", Topic: x.Name, Group: x.GroupAddress, GroupIndex: x.Group, Rate: x.Rate()}
		for _, p := range x.Publishers {
			out.Publishers = append(out.Publishers,
				jsonTopicPublisher{p.ID.String(), p.Name, p.Epoch, p.Address, p.Messages, p.Rate})
		}
		if err := lines.write(&out); err != nil {
			return err
		}
	}
	return lines.write(&lsSummary{
		"summary", len(t.Topics), t.Publishers, t.Incomplete, t.Unnamed, t.Groups, t.Joined, t.Refused, t.For.Seconds(),
		plain(cmp.Or(verdict, t.Err)),
	})
}

func lsCommand() command {
	return command{
		name:    "ls",
		summary: "list publishers, subscribers and topics, on this host and on the network",
		usage:   "fanfare ls [flags] [PATTERN...]",
		about: `It asks the processes of this host that have a bus what they publish and subscribe to,
through their sockets. Then it listens to the fabric for some seconds, asks the
publishers that it detects for their topics, and lists those that match PATTERN, also
topics without messages at present. It does not subscribe: publishers do not wait for
it. With -t it only listens; with -here or -socket it only asks processes, which
takes no time. Arguments without a flag are patterns: use -socket to name a process.

In a pattern the token * matches any single token, and > at the end matches one or
more tokens. Quote patterns for the shell: 'md.*.AAPL', 'md.>'.`,
		notes: `MESSAGES is the number of messages published on the topic since the publisher started
(for a subscription: delivered), and PER SECOND the rate while ls listened. An idle
publisher sends once a second: listening for less than two seconds may miss it.

With -json each process is an object {"type":"process","pid":...,"program":...,
"buses":[{"id":...,"urls":[...],"publishes":[...],"subscribes":[...]}]}, and each
topic on the network {"type":"topic","topic":...,"group":...,"publishers":[
{"publisher":...,"address":...,"messages":...,"messages_per_second":...}]}; the last
object is the summary, if ls listened.`,
		examples: `fanfare ls
fanfare ls -here
fanfare ls -for 10s 'md.>'
fanfare ls -t udp://239.20.0.0/16?iface=eth0 -json`,
		exits: []word{mismatchExit},
		exitNotes: `It is 1 when no topic was detected, with -here when no process has one, or when a
process of this host did not answer; standard error gives the reason if it is
known.`,
		flags: flagsOf(func() *ls { return new(ls) }),
	}
}

func (l *ls) register(fs *flagSet) {
	l.registerURL(fs)
	boolVar(fs, &l.hereOnly, "here", "list only the processes of this host")
	urlsVar(fs, &l.sockets, "socket", nil, "ask only the process with this socket, or those with sockets in this directory (a `PATH`; may be given several times)")
	above(durationVar(fs, &l.listen, "for", 3*time.Second, "listen for D (such as 500ms, 10s)"), 0)
	l.registerOther(fs)
}

func (l *ls) check(fs *flagSet, operands []string) error {
	if l.hereOnly && fs.isSet("t") {
		return usagef("-here asks the processes of this host, and -t names a fabric to listen to: use one of the two")
	}
	l.host = l.hereOnly || len(l.sockets) > 0 || !fs.isSet("t")
	l.wire = fs.isSet("t") || !l.hereOnly && len(l.sockets) == 0
	if l.patterns = operands; len(operands) == 0 {
		l.patterns = []string{">"}
	}
	return cmp.Or(checkTopics(l.patterns, pubsub.CheckPattern), l.common.check())
}

type jsonProcess struct {
	Type    string    `json:"type"` // "process"
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Host    string    `json:"host"`
	Fanfare string    `json:"fanfare"`
	Socket  string    `json:"socket"`
	Buses   []jsonBus `json:"buses"`
	Error   string    `json:"error,omitempty"` // why it did not answer
}

type jsonBus struct {
	ID         string             `json:"id"`
	Name       string             `json:"name"`
	URLs       []string           `json:"urls"`
	Publishes  []jsonPublished    `json:"publishes"`
	Subscribes []jsonSubscription `json:"subscribes"`
	Incomplete string             `json:"incomplete,omitempty"` // why the lists may be incomplete
	LeftOut    int                `json:"left_out,omitempty"`   // topics and subscriptions omitted because there are too many
}

type jsonPublished struct {
	Topic       string `json:"topic"`
	Group       string `json:"group"`
	Messages    uint64 `json:"messages"`
	Subscribers int    `json:"subscribers"`
}

type jsonSubscription struct {
	Topics   []string `json:"topics"`
	Messages uint64   `json:"messages"`
	Lost     uint64   `json:"lost"` // messages; excludes gaps of unknown size
	Pending  int      `json:"pending"`
}

func (l *ls) here(ctx context.Context) ([]jsonProcess, error) {
	seen, err := readAll(ctx, l.sockets...)
	if err != nil {
		return nil, err
	}
	var all []jsonProcess
	for i := range seen {
		x := &seen[i]
		switch {
		case x.Err != nil:
			f := top.Failed{Socket: x.Socket, Error: losses.Unanswered(x.Err)}
			l.failed = append(l.failed, f)
			all = append(all, jsonProcess{Type: "process", Socket: f.Socket, Buses: []jsonBus{}, Error: f.Error})
		case x.Snapshot.Process.PID != os.Getpid():
			if p := l.process(x); len(p.Buses) > 0 {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func (l *ls) process(x *inspect.Seen) jsonProcess {
	s := x.Snapshot
	p := jsonProcess{Type: "process", PID: s.Process.PID, Program: s.Process.Program, Host: s.Process.Host, Fanfare: s.Process.Fanfare, Socket: x.Socket}
	for i := range s.Buses {
		b := &s.Buses[i]
		out := jsonBus{ID: b.ID, Name: b.Name, URLs: b.URLs, Publishes: []jsonPublished{},
			Subscribes: []jsonSubscription{}, Incomplete: b.Incomplete, LeftOut: b.TopicsLeftOut + b.SubscriptionsLeftOut}
		for _, t := range b.Topics {
			if l.matches(t.Name) {
				out.Publishes = append(out.Publishes, jsonPublished{t.Name, t.Group, t.Messages, t.Subscribers})
			}
		}
		for _, sub := range b.Subscriptions {
			if !slices.ContainsFunc(sub.Topics, l.matches) {
				continue
			}
			y := jsonSubscription{Topics: sub.Topics, Messages: sub.Messages, Pending: sub.Pending}
			for _, c := range sub.Lost {
				y.Lost += c.Messages
			}
			out.Subscribes = append(out.Subscribes, y)
		}
		if len(out.Publishes)+len(out.Subscribes) > 0 || slices.Contains(l.patterns, ">") {
			p.Buses = append(p.Buses, out)
		}
	}
	return p
}

func (l *ls) matches(topic string) bool {
	of, err := pattern.Parse(topic)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(l.patterns, func(text string) bool {
		p, err := pattern.Parse(text)
		return err == nil && p.Overlaps(of)
	})
}

func unanswered(failed []top.Failed) error {
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %s", failed[0].Socket, failed[0].Error)
	}
	return fmt.Errorf("%s did not answer, the first at %s: %s", count(len(failed), "process"), failed[0].Socket, failed[0].Error)
}

func (l *ls) showHere(all []jsonProcess) error {
	if l.json {
		lines := newJSONLines(l.e.stdout)
		for i := range all {
			if err := lines.write(&all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range all {
		for _, b := range p.Buses {
			if b.LeftOut > 0 && !l.quiet {
				l.e.console.line("bus %s of %s has too many topics to list: %s with fewer messages omitted", cmp.Or(b.Name, b.ID), p.Program, count(b.LeftOut, "topic"))
			}
		}
	}
	return hereTable(l.e.stdout, all)
}

func hereTable(w io.Writer, all []jsonProcess) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := false
	row := func(p *jsonProcess, b *jsonBus, does, topic string, messages uint64, peers string) {
		if !header {
			fmt.Fprintln(tab, "PROCESS\tBUS\tDOES\tTOPIC\tMESSAGES\tSUBSCRIBERS\tFABRIC")
			header = true
		}
		id := inspect.Process{PID: p.PID, Program: p.Program}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(id.Name()), printable(cmp.Or(b.Name, b.ID)), does, printable(topic), messages, peers, printable(strings.Join(b.URLs, " ")))
	}
	for i := range all {
		p := &all[i]
		for j := range p.Buses {
			b := &p.Buses[j]
			for _, t := range b.Publishes {
				row(p, b, "publishes", t.Topic, t.Messages, fmt.Sprint(t.Subscribers))
			}
			for _, s := range b.Subscribes {
				row(p, b, "subscribes", strings.Join(s.Topics, " "), s.Messages, "-")
			}
			if len(b.Publishes)+len(b.Subscribes) == 0 {
				row(p, b, "-", "-", 0, "-")
			}
		}
	}
	return tab.Flush()
}
