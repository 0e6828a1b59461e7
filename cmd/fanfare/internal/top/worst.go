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
	for _, b := range f.Buses {
		if b.State == stateFailed || b.State == stateBusy {
			return alarm, fmt.Sprintf("%s: %s", printable(b.Process), printable(b.Problem))
		}
	}
	if text := f.losing(); text != "" {
		return alarm, text
	}
	for _, g := range f.Groups {
		if g.Unjoined > 0 {
			return alarm, fmt.Sprintf("group %s is subscribed to and not joined: nothing of it is heard", printable(g.Group))
		}
	}
	for i := range f.Topics {
		if x := &f.Topics[i]; x.Stuck > 0 {
			return alarm, fmt.Sprintf("%s: nothing of %s could be sent for %s: %s", printable(x.Process), printable(x.Topic), duration(x.Stuck), f.whyStuck(&x.Of))
		}
	}
	if text := f.silenced(); text != "" {
		return alarm, text
	}
	var slow *Subscriber
	for i := range f.Subscribers {
		if x := &f.Subscribers[i]; (x.State == losses.Holds && x.HeldFor > 1 || x.State == losses.Released) && (slow == nil || x.HeldFor > slow.HeldFor) {
			slow = x
		}
	}
	if slow != nil {
		return alarm, fmt.Sprintf("slow: %s, subscriber of %s: %s", printable(slow.Subscriber), printable(slow.Process), printable(slow.about()))
	}
	for _, l := range f.Legs {
		if !l.Up || l.Silent > 0 {
			return alarm, fmt.Sprintf("leg %s of %s does not carry what it should", printable(l.URL), printable(l.Process))
		}
	}
	if text := f.suspicious(); text != "" {
		return warn, text
	}
	if f.Total.SocketDropRate > 0 {
		return warn, fmt.Sprintf("sockets overflow: %s datagrams/s. %s", si(float64(f.Total.SocketDropRate)), f.overflowAdvice())
	}
	var most *Loss
	for i := range f.Losses {
		if x := &f.Losses[i]; x.Rate > 0 && x.Cause.Cause != "filtered" && (most == nil || x.Rate > most.Rate) {
			most = x
		}
	}
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

// whyStuck is what a bus has said last of why it can send nothing.
func (f *Figures) whyStuck(of *Of) string {
	for i := range f.Events { // the newest first
		if e := &f.Events[i]; e.Of.key == of.key && e.Event.Kind == "cannot_send" {
			return printable(e.Event.Text)
		}
	}
	return "its log says why"
}

// silenced names the subscription that has lost its publisher last, where that is to be looked at.
// Empty: none has.
func (f *Figures) silenced() string {
	var last *Subscription
	for i := range f.Subscriptions {
		if x := &f.Subscriptions[i]; x.hearing.Silenced() && (last == nil || x.LostFor < last.LostFor) {
			last = x
		}
	}
	if last == nil {
		return ""
	}
	return printable(last.Process + ": " + last.hearing.Text(last.seen))
}

// suspicious says what may become bad, or already is for somebody: readers that are too slow,
// buses that cannot hear each other, or have one name.
func (f *Figures) suspicious() string {
	for i := range f.Subscribers {
		if x := &f.Subscribers[i]; x.State == losses.Silent || x.State == losses.Gone {
			return fmt.Sprintf("%s: %s, subscriber of %s: %s", x.State, printable(x.Subscriber), printable(x.Process), printable(x.about()))
		}
	}
	for i := range f.Subscribers {
		if x := &f.Subscribers[i]; x.State == losses.Behind || x.State == losses.Holds {
			return fmt.Sprintf("slow: %s, subscriber of %s: %s", printable(x.Subscriber), printable(x.Process), printable(x.about()))
		}
	}
	for i := range f.Subscriptions {
		if x := &f.Subscriptions[i]; x.State == losses.Behind {
			return fmt.Sprintf("slow: the reader of %s in %s has %s not read", printable(strings.Join(x.Topics, " ")), printable(x.Process), count(x.Pending, "packet"))
		}
	}
	for i := range f.Subscriptions {
		if x := &f.Subscriptions[i]; x.hearing.Why != "" {
			return printable(x.Process + ": " + x.hearing.Text(x.seen))
		}
	}
	for i := range f.Events {
		e := &f.Events[i]
		if f.Time.Sub(e.Event.Time) < time.Minute && (e.Event.Kind == "config_mismatch" || e.Event.Kind == "duplicate_name") {
			return fmt.Sprintf("%s: %s", printable(e.Process), printable(e.Event.Text))
		}
	}
	for i := range f.unheard {
		if u := &f.unheard[i]; u.Elsewhere != "" {
			return printable(u.Text())
		}
	}
	return ""
}

// overflowAdvice is what to do about the first socket that overflows.
func (f *Figures) overflowAdvice() string {
	return printable(find(f.Losses, func(x *Loss) bool { return x.Cause.Cause == "socket_overflow" && x.Rate > 0 }).Do)
}
