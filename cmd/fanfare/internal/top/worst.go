package top

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// worst is what is to be looked at first, in a line.
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
		return alarm, fmt.Sprintf("group %s is subscribed to and not joined: nothing of it is heard", printable(g.Group))
	}
	if x := first(f.Topics, func(x *Topic) bool { return x.Stuck > 0 }); x != nil {
		return alarm, fmt.Sprintf("%s: nothing of %s could be sent for %s: %s", printable(x.Process), printable(x.Topic), duration(x.Stuck), f.whyStuck(&x.Of))
	}
	silenced := best(f.Subscriptions, func(x *Subscription) bool { return x.hearing.Silenced() },
		func(a, b *Subscription) bool { return a.LostFor < b.LostFor })
	if silenced != nil {
		return alarm, silenced.unheardText()
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
		if x := first(f.Losses, func(x *Loss) bool { return x.Cause.Cause == "socket_overflow" && x.Rate > 0 }); x != nil {
			do = printable(x.Do)
		}
		return warn, fmt.Sprintf("sockets overflow: %s datagrams/s. %s", si(float64(f.Total.SocketDropRate)), do)
	}
	most := best(f.Losses, func(x *Loss) bool { return x.Rate > 0 && x.Cause.Cause != "filtered" },
		func(a, b *Loss) bool { return a.Rate > b.Rate })
	if most != nil {
		return warn, fmt.Sprintf("dropped: %s, %s packets/s at %s", most.Cause.Cause, si(float64(most.Rate)), printable(most.Process))
	}
	if f.Host.SmallSockets > 0 {
		return calm, fmt.Sprintf("%d of %d sockets have smaller buffers than they asked for: net.core.rmem_max is %s", f.Host.SmallSockets, f.Host.Sockets, bytesText(float64(f.Host.ReceiveBufferMax)))
	}
	for i := range f.unheard {
		return calm, printable(f.unheard[i].Text())
	}
	return calm, ""
}

// process is which process a socket is of, as far as its name says.
func process(socket string) string {
	if pid, _, ok := strings.Cut(filepath.Base(socket), "-"); ok && strings.Trim(pid, "0123456789") == "" {
		return "process " + pid
	}
	return socket
}

// losing says who has lost most for good within the last minute; empty: nobody.
func (f *Figures) losing() string {
	var most inspect.Loss
	var in string
	for i := range f.Buses {
		b := &f.Buses[i]
		if lost := losses.LostLately(b.seen, f.Time); len(lost) > 0 && (in == "" || lost[0].Messages > most.Messages) {
			most, in = lost[0], b.Process
		}
	}
	if in == "" {
		return ""
	}
	what := "messages"
	if most.Messages > 0 {
		what = count(most.Messages, "message")
	}
	if most.Subscription != "" {
		what += " of " + most.Subscription
	}
	return printable(fmt.Sprintf("lost for good within a minute: %s at %s, cause %s; fanfare loss says more", what, in, most.Cause))
}

func (f *Figures) whyStuck(of *Of) string {
	// The newest is the first.
	if e := first(f.Events, func(e *Event) bool { return e.Of.key == of.key && e.Event.Kind == "cannot_send" }); e != nil {
		return printable(e.Event.Text)
	}
	return "its log says why"
}

func (x *Subscription) unheardText() string {
	return printable(x.Process + ": " + x.hearing.Text(x.seen))
}

func (s *Subscriber) slowText() string {
	return fmt.Sprintf("slow: %s, subscriber of %s: %s", printable(s.Subscriber), printable(s.Process), printable(s.about()))
}

// suspicious says what may become bad, or already is for somebody: readers that are too slow,
// buses that cannot hear each other, or have one name.
func (f *Figures) suspicious() string {
	if x := first(f.Subscribers, func(x *Subscriber) bool { return x.State == losses.Silent || x.State == losses.Gone }); x != nil {
		return fmt.Sprintf("%s: %s, subscriber of %s: %s", x.State, printable(x.Subscriber), printable(x.Process), printable(x.about()))
	}
	if x := first(f.Subscribers, func(x *Subscriber) bool { return x.State == losses.Behind || x.State == losses.Holds }); x != nil {
		return x.slowText()
	}
	if x := first(f.Subscriptions, func(x *Subscription) bool { return x.State == losses.Behind }); x != nil {
		return fmt.Sprintf("slow: the reader of %s in %s has %s not read", printable(strings.Join(x.Topics, " ")), printable(x.Process), count(x.Pending, "packet"))
	}
	if x := first(f.Subscriptions, func(x *Subscription) bool { return x.hearing.Why != "" }); x != nil {
		return x.unheardText()
	}
	e := first(f.Events, func(e *Event) bool {
		return f.Time.Sub(e.Event.Time) < time.Minute && (e.Event.Kind == "config_mismatch" || e.Event.Kind == "duplicate_name")
	})
	if e != nil {
		return fmt.Sprintf("%s: %s", printable(e.Process), printable(e.Event.Text))
	}
	if u := first(f.unheard, func(u *losses.Unheard) bool { return u.Elsewhere != "" }); u != nil {
		return printable(u.Text())
	}
	return ""
}
