package top

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

func (o Of) lines() [][2]string {
	return [][2]string{{"process", printable(o.Process)}, {"bus", printable(o.Bus) + ", id " + o.BusID}}
}

func line(what, format string, args ...any) [2]string {
	return [2]string{what, printable(fmt.Sprintf(format, args...))}
}

func (f *Figures) topicDetail(x *Topic) [][2]string {
	lines := append([][2]string{line("topic", "%s", x.Topic), line("published by", "%s", x.Bus)}, x.lines()...)
	lines = append(lines, line("group", "%s", x.Group), line("messages", "%d, %s a second", x.Messages, rate(x.Rate).text), line("subscribers", "%d", x.Subscribers))
	lines = append(lines, f.undetectedLines(&x.Of, true)...)
	for i := range f.Subscribers {
		if s := &f.Subscribers[i]; s.key == x.key && s.Group == x.Group {
			lines = append(lines, line("  "+printable(s.Subscriber), "%s", s.about()))
		}
	}
	return lines
}

func (f *Figures) undetectedLines(of *Of, publishes bool) [][2]string {
	u := f.undetectedOf(of, publishes)
	if u == nil {
		return nil
	}
	return [][2]string{line("no peer", "%s", u.Text()), line("what to do", "%s", u.Do())}
}

func (s *Subscriber) about() string {
	text := fmt.Sprintf("%s behind, room for %d more", count(s.Behind, "packet"), s.Room)
	switch s.State {
	case losses.Holds:
		text += ", has blocked the publisher for " + duration(s.HeldFor)
	case losses.Released:
		text += ", was released: it had blocked the publisher for " + duration(s.HeldFor)
	case losses.Silent:
		text += ", has sent nothing for " + duration(s.Heard)
	case losses.Gone:
		text = fmt.Sprintf("fell silent, was %s behind, and publishers no longer wait for it: last packet %s ago", count(s.Behind, "packet"), duration(s.Heard))
	case losses.Behind:
		text += ", reads too slowly: it blocks the publisher or soon will, or loses messages"
	}
	if s.Address != "" {
		text += ", at " + s.Address
	}
	return text
}

func (f *Figures) subscriptionDetail(x *Subscription) [][2]string {
	lines := append([][2]string{line("subscription", "%s", strings.Join(x.Topics, " "))}, x.lines()...)
	how := "read by Next or Messages"
	if x.Handler {
		how = "a handler"
	}
	lines = append(lines, line("read by", "%s; when it is too slow: %s; from: %s", how, x.Policy, x.seen.From),
		line("messages", "%d, %s a second", x.Messages, rate(x.Rate).text), line("not read yet", "%s", count(x.Pending, "packet")))
	lines = append(lines, f.undetectedLines(&x.Of, false)...)
	if x.hearing.State != "" {
		lines = append(lines, line("publishers", "%s", x.publisherState()))
	}
	if x.Ended != "" {
		lines = append(lines, line("ended", "%s", x.Ended))
	}
	for _, c := range x.Causes {
		lines = append(lines, line("lost", "%s in %s: %s. %s", count(c.Messages, "message"), count(c.Gaps, "gap"), c.Cause, losses.Causes()[c.Cause].Remedy))
	}
	for _, p := range x.seen.Publishers {
		what := fmt.Sprintf("%s behind (group %s)", count(p.Lag, "packet"), p.Group)
		if p.Unread > 0 {
			what += ", holds it up and has read nothing for " + duration(p.Unread)
		}
		if p.LostFor > 0 {
			what += ", lost " + duration(p.LostFor) + " ago"
		}
		lines = append(lines, line("  from "+printable(cmp.Or(p.Name, p.Publisher)), "%s", what))
	}
	return lines
}

func (x *Subscription) publisherState() string {
	switch {
	case x.hearing.Of != nil:
		return x.hearing.State + " " + duration(x.LostFor) + " ago"
	case x.hearing.Why != "":
		return x.hearing.State + "; " + x.hearing.Why
	}
	return x.hearing.State
}

func (f *Figures) streamDetail(x *Stream) [][2]string {
	lines := append([][2]string{line("publisher", "%s, id %s, epoch %s", x.Publisher, x.ID, x.Epoch)}, x.lines()...)
	lines = append(lines, line("group", "%s", x.Group), line("packets", "%d, %s a second", x.Packets, rate(x.Rate).text),
		line("repaired", "%d, %s a second; %d are missing just now", x.Repaired, rate(x.RepairRate).text, x.Missing), line("lost", "%s permanently", count(x.Lost, "packet")),
		line("furthest behind", "%s not read yet", count(x.Lag, "packet")))
	for _, b := range f.Buses {
		if b.key != x.key {
			continue
		}
		if r := b.seen.Delivery; r.Count > 0 {
			lines = append(lines, line("delivery takes", "%s, 99 %% at most %s, longest %s (all streams of the bus, %s timed)", microText(r.P50), microText(r.P99), microText(r.Max), count(r.Count, "packet")))
		}
		r := b.seen.Repair
		lines = append(lines, line("repair takes", "%s, 99 %% at most %s, longest %s (all streams of the bus, %s)", microText(r.P50), microText(r.P99), microText(r.Max), count(r.Count, "repair")))
		if g := first(b.seen.Groups, func(g *inspect.Group) bool { return g.Address == x.Group }); g != nil {
			lines = append(lines, counterLines("of the group", g.Counters)...)
		}
	}
	return lines
}

func counterLines(what string, c inspect.Counters) (lines [][2]string) {
	for i, name := range slices.Sorted(maps.Keys(c)) {
		if i == 0 {
			lines = append(lines, [2]string{what, ""})
		}
		lines = append(lines, line("  "+name, "%d", c[name]))
	}
	return lines
}

func (f *Figures) subscriberDetail(x *Subscriber) [][2]string {
	lines := [][2]string{line("subscriber", "%s, id %s", x.Subscriber, x.ID), line("how it does", "%s", x.about()), line("group", "%s", x.Group)}
	if x.Tag != "" {
		lines = append(lines, line("tag", "%s", x.Tag))
	}
	lines = append(lines, line("publisher", "%s", x.Bus))
	lines = append(lines, x.lines()...)
	for _, e := range f.Events {
		if e.Event.Name == x.Subscriber && e.PID == x.PID {
			lines = append(lines, line(clock(e.Event.Time), "%s", e.Event.Text))
		}
	}
	return lines
}

func (f *Figures) groupDetail(x *Group) [][2]string {
	lines := [][2]string{line("group", "%s", x.Group), line("sent", "%s packets a second, %s repairs a second", rate(x.SentRate).text, rate(x.RepairRate).text),
		line("received", "%s packets a second", rate(x.Received).text), line("NAKs", "%s a second", rate(x.NAKRate).text)}
	if x.Unjoined > 0 {
		lines = append(lines, line("not joined", "%s, waiting to join it", count(x.Unjoined, "bus")))
	}
	for _, p := range x.Publishers {
		lines = append(lines, line("publisher", "%s", p))
	}
	for _, s := range x.Subscribers {
		lines = append(lines, line("subscriber", "%s", s))
	}
	return lines
}

func (f *Figures) lossDetail(x *Loss) [][2]string {
	c := losses.Causes()[x.Cause]
	lines := append([][2]string{line("cause", "%s", x.Cause), line("what it means", "%s", c.Help), line("what to do", "%s", x.Do)}, x.lines()...)
	lines = append(lines, line("lost", "%s, as far as known, in %s; %s", count(x.Messages, "message"), count(x.Gaps, "gap"), count(x.Lost, "packet")),
		line("datagrams", "%d, %s a second, with heartbeats and copies", x.Dropped, rate(x.Rate).text))
	if x.Cause == "socket_overflow" && f.Host.ReceiveBufferMax > 0 {
		lines = append(lines, line("net.core.rmem_max", "%s", bytesText(float64(f.Host.ReceiveBufferMax))))
	}
	return lines
}

func (f *Figures) busDetail(x *Bus) [][2]string {
	lines := append(x.lines(), line("state", "%s %s", x.State, x.Problem), line("open for", "%s", duration(f.Time.Sub(x.Since).Seconds())))
	for _, u := range x.URLs {
		lines = append(lines, line("fabric", "%s", u))
	}
	b := x.seen
	lines = append(lines, line("groups", "%d of packets of %d bytes; GSO %v, GRO %v", b.Fabric.Groups, b.Fabric.PacketSize, b.Fabric.GSO, b.Fabric.GRO))
	if g := x.Buffers; g.ReceiveAsked > 0 {
		lines = append(lines, line("receive buffer", "%s of %s that were asked for; net.core.rmem_max is %s", bytesText(float64(g.ReceiveGranted)), bytesText(float64(g.ReceiveAsked)), bytesText(float64(f.Host.ReceiveBufferMax))))
	}
	lines = append(lines, line("missing", "%s on the way: %d repaired, %d late, %d lost permanently", count(x.Missing, "packet"), x.Repaired, x.Late, x.Lost),
		line("socket drops", "%s, %s a second", count(x.SocketDrops, "datagram"), rate(x.DropRate).text))
	if r := x.seen.Delivery; r.Count > 0 {
		lines = append(lines, line("delivery takes", "%s, 90 %% at most %s, 99 %% %s, longest %s (%s timed)", microText(r.P50), microText(r.P90), microText(r.P99), microText(r.Max), count(r.Count, "packet")))
	}
	if r := x.seen.Repair; r.Count > 0 {
		lines = append(lines, line("repair takes", "%s, 90 %% at most %s, 99 %% %s, longest %s (%s)", microText(r.P50), microText(r.P90), microText(r.P99), microText(r.Max), count(r.Count, "repair")))
	}
	for _, kind := range slices.Sorted(maps.Keys(b.EventCounts)) {
		lines = append(lines, line("event "+kind, "%s", count(b.EventCounts[kind], "time")))
	}
	return append(lines, counterLines("counters", b.Counters)...)
}

func (f *Figures) legDetail(x *Leg) [][2]string {
	lines := append([][2]string{line("leg", "%s", x.URL)}, x.lines()...)
	return append(lines, line("up", "%v", x.Up), line("silent streams", "%d", x.Silent), line("lost", "%d, of which another leg brought %d", x.Lost, x.Filled), line("behind the first", "%s", microText(x.Skew)))
}

func (f *Figures) eventDetail(x *Event) [][2]string {
	e := &x.Event
	lines := append([][2]string{line("time", "%s", e.Time.Local().Format("2006-01-02 15:04:05.000")), line("event", "%s, %s", e.Kind, count(x.Times, "time")), line("says", "%s", e.Text)}, x.lines()...)
	for _, l := range [][2]string{{"group", e.Group}, {"publisher", e.Publisher}, {"subscriber", e.Subscriber}, {"name", e.Name}, {"address", e.Address}, {"topics", strings.Join(e.Topics, " ")}, {"leg", e.Leg}, {"error", e.Error}} {
		if l[1] != "" {
			lines = append(lines, line(l[0], "%s", l[1]))
		}
	}
	return lines
}

func (f *Figures) worst() (level, string) {
	for _, x := range f.Failed {
		return alarm, fmt.Sprintf("%s: %s", printable(process(x.Socket)), printable(x.Error))
	}
	if b := first(f.Buses, func(b *Bus) bool { return b.State == stateFailed || b.State == stateBusy }); b != nil {
		return alarm, fmt.Sprintf("%s: %s", printable(b.Process), printable(b.Problem))
	}
	if text := f.losing(); text != "" {
		return alarm, text
	}
	if g := first(f.Groups, func(g *Group) bool { return g.Unjoined > 0 }); g != nil {
		why := first(f.Events, func(e *Event) bool {
			return e.Event.Group == g.Group && (e.Event.Kind == "group_lost" || e.Event.Kind == "group_failed")
		})
		return alarm, printable("nothing is received in group " + g.Group + reason(why))
	}
	if x := first(f.Topics, func(x *Topic) bool { return x.Stuck > 0 }); x != nil {
		why := first(f.Events, func(e *Event) bool { return e.Of.key == x.key && e.Event.Kind == "cannot_send" })
		return alarm, printable(fmt.Sprintf("%s: cannot send %s for %s%s", x.Process, x.Topic, duration(x.Stuck), reason(why)))
	}
	silenced := best(f.Subscriptions, func(x *Subscription) bool { return x.hearing.Silenced() },
		func(a, b *Subscription) bool { return a.LostFor < b.LostFor })
	if silenced != nil {
		return alarm, silenced.undetectedText()
	}
	slow := best(f.Subscribers, func(x *Subscriber) bool {
		return x.State == losses.Holds && x.HeldFor > 1 || x.State == losses.Released
	},
		func(a, b *Subscriber) bool { return a.HeldFor > b.HeldFor })
	if slow != nil {
		return alarm, slow.slowText()
	}
	if l := first(f.Legs, func(l *Leg) bool { return !l.Up || l.Silent > 0 }); l != nil {
		return alarm, fmt.Sprintf("leg %s of %s does not carry what it should", printable(l.URL), printable(l.Process))
	}
	if text := f.suspicious(); text != "" {
		return warn, text
	}
	if f.Total.SocketDropRate > 0 {
		do := "" // about the first socket that overflows
		if x := first(f.Losses, func(x *Loss) bool { return x.Cause == "socket_overflow" && x.Rate > 0 }); x != nil {
			do = printable(x.Do)
		}
		return warn, fmt.Sprintf("sockets overflow: %s datagrams/s. %s", si(float64(f.Total.SocketDropRate)), do)
	}
	worst := best(f.Losses, func(x *Loss) bool { return x.Rate > 0 && x.Cause != "filtered" },
		func(a, b *Loss) bool { return a.Rate > b.Rate })
	if worst != nil {
		return warn, fmt.Sprintf("dropped: %s datagrams/s at %s, cause %s", si(float64(worst.Rate)), printable(worst.Process), worst.Cause)
	}
	if f.Host.SmallSockets > 0 {
		return calm, fmt.Sprintf("%d of %d sockets have smaller buffers than they asked for: net.core.rmem_max is %s", f.Host.SmallSockets, f.Host.Sockets, bytesText(float64(f.Host.ReceiveBufferMax)))
	}
	for i := range f.undetected {
		return calm, printable(f.undetected[i].Text())
	}
	return calm, ""
}

func process(socket string) string {
	if pid, _, ok := strings.Cut(filepath.Base(socket), "-"); ok && strings.Trim(pid, "0123456789") == "" {
		return "process " + pid
	}
	return socket
}

// losing says which subscription has lost most permanently within the last minute; empty: none.
func (f *Figures) losing() string {
	var worst inspect.Loss
	var in string
	for i := range f.Buses {
		b := &f.Buses[i]
		if lost := losses.LostLately(b.seen, f.Time); len(lost) > 0 && (in == "" || lost[0].Messages > worst.Messages) {
			worst, in = lost[0], b.Process
		}
	}
	if in == "" {
		return ""
	}
	what := "messages"
	if worst.Messages > 0 {
		what = count(worst.Messages, "message")
	}
	if worst.Subscription != "" {
		what += " of " + worst.Subscription
	}
	return printable(fmt.Sprintf("lost permanently within a minute: %s at %s, cause %s; fanfare loss says more", what, in, worst.Cause))
}

// reason is the error of the newest event about a condition, which may not be listed.
func reason(e *Event) string {
	switch {
	case e == nil:
		return ": its log says why"
	case e.Event.Behind > 0:
		return fmt.Sprintf(", %s waiting: %s", count(e.Event.Behind, "packet"), e.Event.Error)
	}
	return ": " + e.Event.Error
}

func (x *Subscription) undetectedText() string {
	return printable(x.Process + ": " + x.hearing.Text(x.seen))
}

func (s *Subscriber) slowText() string {
	return fmt.Sprintf("slow: %s, subscriber of %s: %s", printable(s.Subscriber), printable(s.Process), printable(s.about()))
}

// suspicious reports slow readers, and buses that receive nothing from each other or share a name.
func (f *Figures) suspicious() string {
	if x := first(f.Subscribers,
		func(x *Subscriber) bool { return x.State == losses.Silent || x.State == losses.Gone }); x != nil {
		return fmt.Sprintf("%s: %s, subscriber of %s: %s", x.State, printable(x.Subscriber), printable(x.Process), printable(x.about()))
	}
	if x := first(f.Subscribers,
		func(x *Subscriber) bool { return x.State == losses.Behind || x.State == losses.Holds }); x != nil {
		return x.slowText()
	}
	if x := first(f.Subscriptions, func(x *Subscription) bool { return x.State == losses.Behind }); x != nil {
		return fmt.Sprintf("slow: the reader of %s in %s has %s not read", printable(strings.Join(x.Topics, " ")), printable(x.Process), count(x.Pending, "packet"))
	}
	if x := first(f.Subscriptions, func(x *Subscription) bool { return x.hearing.Why != "" }); x != nil {
		return x.undetectedText()
	}
	e := first(f.Events, func(e *Event) bool {
		return f.Time.Sub(e.Event.Time) < time.Minute && (e.Event.Kind == "config_mismatch" || e.Event.Kind == "duplicate_name")
	})
	if e != nil {
		return fmt.Sprintf("%s: %s", printable(e.Process), printable(e.Event.Text))
	}
	if u := first(f.undetected, func(u *losses.Undetected) bool { return u.OtherProcess != "" }); u != nil {
		return printable(u.Text())
	}
	return ""
}
