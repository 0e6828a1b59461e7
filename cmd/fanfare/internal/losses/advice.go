// Package losses makes of the records of all processes what an operator wants to know:
// what was lost, when, on which path, why, and what to do about it.
package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/shellword"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// Evidence is what is known of a loss beside its cause. Texts may be empty and numbers zero: not known.
type Evidence struct {
	Publisher  string // of the messages: name, id, address
	Address    string // of it
	Subscriber string // of events that are about one: name and address
	Reader     string // the topics of the subscription that lost them, or was let go
	Process    string // in which it is
	Leg        string // of events of one
	// BufferMax is the largest receive buffer that the kernel grants (net.core.rmem_max),
	// Asked what the bus has asked for, Granted what it got: in bytes.
	BufferMax, Asked, Granted int
	Shared                    []string // the directories of the bus's shared memory
	Err                       string   // of the event
	// Idle says that nothing was unread when the publisher let this bus go: packets did not arrive.
	Idle bool
}

func say(text string) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"reader": reader, "said": said, "because": because, "notArriving": notArriving, "onTheWay": onTheWay, "largerBuffer": largerBuffer, "moreShared": moreShared, "readable": readable,
	}).Parse(text))
}

// remedies say what to do about causes, of an Evidence, where that is more than pubsub.Causes says, and about events.
var remedies = func() map[string]*template.Template {
	all := map[string]*template.Template{
		"no_memory":           say("{{moreShared .}}"),
		"fabric":              say("{{onTheWay .}}"),
		"socket_overflow":     say("{{largerBuffer .}}"),
		"receive_queue_empty": say(`Raise rq= in the URL of {{or .Process "the subscriber"}}, such as rq=16384, or give that process more processor time.`),
		"overrun":             say(`Make the reader of {{reader .}} faster, or raise Config.ReceiveWindowBytes (8 MiB unless set) there.`),
		"slow_consumer":       say(`The reader of {{reader .}} is too slow: make it faster, or choose another policy for it (option SlowConsumer, sub -slow).`),
		"gone":                say(`Raise Config.WindowBytes (8 MiB unless set) of {{or .Publisher "the publisher"}}, which says how far back it repairs; and see under DROPPED ON THE WAY what lost the packets first.`),
		"deadline":            say(`See whether NAKs get from this host to {{or .Address .Publisher "the publisher"}} (unicast: a firewall?), what loses the repairs, and whether its full packets pass (MTUs that differ: fanfare doctor -peer); or raise Config.RecoveryDeadline (2 s unless set).`),
		"released":            say(`{{if .Idle}}{{notArriving .}}{{else}}The reader of {{reader .}} blocked {{or .Publisher "the publisher"}} until it was released: make it faster, give it a policy that blocks no publisher (sub -slow latest), or raise Config.StallLimit of the publisher (pub -stall-limit).{{end}}`),
	}
	for event, loss := range report.Losses() {
		all[event] = say(loss.Do)
	}
	return all
}()

func onTheWay(e *Evidence) string {
	publisher := cmp.Or(e.Publisher, "the publisher")
	if strings.HasPrefix(e.Address, "shm://") { // there is no switch
		return "See whether " + publisher + " counts no_memory (df -h " + sharedDirs(e, "") + "), and whether " + cmp.Or(e.Process, "this process") + " had descriptors and memory left (metric fanfare_transport_receive_errors_total)."
	}
	return "Look at the switch between " + publisher + " and this host: with IGMP snooping it needs a querier " +
		"(fanfare doctor finds one), and its ports count errors and discards. ethtool -S on both hosts shows what the cards dropped. Where the publisher is too fast for a port, lower its Config.Rate."
}

// notArriving is for a bus that has read all that arrived.
func notArriving(e *Evidence) string {
	return "All that arrived was read: see what kept packets of " + cmp.Or(e.Publisher, "the publisher") + ", or its repairs, from this host (cannot_send of the publisher, its interface, the network between), or raise Config.StallLimit of the publisher (pub -stall-limit)."
}

// largerBuffer is the line that sets a larger receive buffer. To raise what the kernel
// grants is in vain where the bus has asked for no more.
func largerBuffer(e *Evidence) string {
	want := 32 << 20
	for want < 4*max(e.Asked, e.Granted) && want < 1<<30 {
		want *= 2
	}
	process := cmp.Or(e.Process, "the process")
	more := fmt.Sprintf(" If it goes on, %s gets too little processor time.", process)
	if e.Granted == 0 {
		more += fmt.Sprintf(" Over shm:// and mem:// there is no such buffer: raise queue= in the URL of %s.", process)
	}
	set := fmt.Sprintf("sysctl -w net.core.rmem_max=%d", want)
	switch {
	case e.Granted > 0 && e.Granted >= e.Asked:
		return fmt.Sprintf("Ask for a larger receive buffer than the %d bytes that it has: %s, and rcvbuf=%dM in the URL of %s.", e.Granted, set, want>>20, process) + more
	case e.BufferMax > 0:
		return fmt.Sprintf("Raise what the kernel grants (now %d bytes): %s, and start %s again.", e.BufferMax, set, process) + more
	}
	return fmt.Sprintf("Raise what the kernel grants: %s, and start %s again.", set, process) + more
}

// said is what an event's error says, as a quotation: a process wrote it, and it may have
// words in it that came from the network. It is no advice. Without one it is otherwise.
func said(err, otherwise string) string {
	if err == "" {
		return otherwise
	}
	return "“" + err + "”"
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return " (" + said(err, "") + ")"
}

func reader(e *Evidence) string {
	switch {
	case e.Reader != "" && e.Process != "":
		return e.Reader + " in " + e.Process
	case e.Reader == "" && e.Process == "":
		return "the subscription"
	}
	return cmp.Or(e.Reader, e.Process)
}

func DoAt(label string, b *inspect.Bus, process string, bufferMax int) string {
	h := host{process, bufferMax, time.Time{}, b}
	return Do(label, h.evidence(&Finding{Process: process}, "", ""))
}

var Causes = sync.OnceValue(func() map[string]pubsub.CauseInfo {
	all := make(map[string]pubsub.CauseInfo)
	for _, c := range pubsub.Causes() {
		all[c.Label] = c
	}
	return all
})

// isEvent reports whether the label is that of an event that goes with loss.
func isEvent(label string) bool { return report.Losses()[label] != nil }

func Why(label string) string {
	if loss := report.Losses()[label]; loss != nil {
		return loss.Why
	}
	return cmp.Or(Causes()[label].Help, "This program does not know that cause: it is of a newer version.")
}

func Do(label string, e Evidence) string {
	if do := remedies[label]; do != nil {
		var text strings.Builder
		if err := do.Execute(&text, &e); err != nil {
			return err.Error()
		}
		return text.String()
	}
	return cmp.Or(Causes()[label].Remedy, "Use the fanfare that the process was built with: it knows this cause.")
}

func moreShared(e *Evidence) string {
	if len(e.Shared) == 0 {
		return Causes()["no_memory"].Remedy
	}
	more := "mount -o remount,size=1G " + sharedDirs(e, "")
	if len(e.Shared) > 1 {
		more = "mount -o remount,size=1G for each"
	}
	if slices.Contains(e.Shared, shm.DefaultDir) {
		more += "; docker run --shm-size=1g"
	}
	return "See what takes the memory (df -h " + sharedDirs(e, "") + "; du -sh " + sharedDirs(e, "/*") + "). Give it more (" + more + "), or use another place (dir= in the URL, the same for all processes). A subscriber that has stopped keeps some, too."
}

// sharedDirs are the directories of the bus's shared memory as words of a shell, each with behind at its end.
func sharedDirs(e *Evidence, behind string) string {
	if len(e.Shared) == 0 {
		return "of the directory of shared memory: dir= in the URL, else /dev/shm"
	}
	words := make([]string, len(e.Shared))
	for i, dir := range e.Shared {
		words[i] = shellword.Of(dir) + behind
	}
	return strings.Join(words, " ")
}

// readable is how packets come to be opened again. A keyring is in vain where a signature is not trusted, and where a
// bus's own keys have expired no other sender is to be looked for.
func readable(e *Evidence) string {
	process, from := cmp.Or(e.Process, "this process"), cmp.Or(e.Address, "the address in the log")
	reason := said(e.Err, "the log says why they do not open")
	says := func(text string) bool { return strings.Contains(e.Err, text) } // no address has a space
	switch {
	case e.Err == "":
		return "Give all buses of these groups the same keyring (keys= in the URL), with a key that is valid now (fanfare key show), and " + process +
			" a file of trust= with the lines of all publishers that sign; or find out what sends from " + from + ": " + reason + "."
	case e.Err == expired:
		return "Add a key that is valid now to the keyring of " + process + ", which sends nothing until then (fanfare key rotate -in 0s), and give that file to all buses of these groups: " + reason + "."
	case says(" 5 minutes"):
		return "Set the clocks of both hosts, or find out what plays back old packets from " + from + ": " + reason + "."
	case says("another version of"):
		return "Run the same version of Fanfare on both sides, or find out what sends from " + from + ": " + reason + "."
	case says("not signed") || says("signing key"):
		return "Give the file of trust= of " + process + " the line of that publisher (fanfare key sign-show), or that publisher a signing key that is in it (sign= in the URL), or find out what sends from " + from + ": " + reason + "."
	}
	return "Give all buses of these groups the same keyring (keys= in the URL), or find out what sends from " + from + ": " + reason + "."
}

// expired is what a bus says that has no valid key.
var expired = (&transport.UnreadableError{Reason: transport.UnreadableNoKey}).Error()
