// Package losses turns the loss records of all processes into a report for operators: what was
// lost, when, on which path, why, and how to fix it.
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

// Evidence is what is known about a loss besides its cause. Empty texts and zero numbers are unknown.
type Evidence struct {
	Publisher  string // of the messages: name, id, address
	Address    string // of the publisher
	Subscriber string // name and address, for events of a subscriber
	Reader     string // topics of the subscription that lost the messages or was released
	Process    string // the process of that subscription
	Leg        string // for events of a leg
	// BufferMax is the largest receive buffer that the kernel grants (net.core.rmem_max), Asked the
	// size requested by the bus, Granted the size granted, in bytes.
	BufferMax, Asked, Granted int
	Shared                    []string // directories of the bus's shared memory
	Err                       string   // of the event
	// Idle: slow reading is not why the publisher released this bus: packets did not arrive.
	Idle bool
}

func advice(text string) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"reader": reader, "said": quoted, "because": because, "notArriving": notArriving, "moreShared": moreShared, "readable": readable,
	}).Parse(text))
}

// remedies are the advice on causes and events.
var remedies = sync.OnceValue(func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	for i := range report.Causes {
		all[report.Causes[i].Label] = advice(report.Causes[i].Do)
	}
	for event, line := range report.Losses() {
		all[event] = advice(line.Do)
	}
	return all
})

func networkAdvice(e *Evidence) string {
	publisher := cmp.Or(e.Publisher, "the publisher")
	if strings.HasPrefix(e.Address, "shm://") { // no switch involved
		return "Check whether " + publisher + " counts no_memory (df -h " + sharedDirs(e, "") + "), and whether " + cmp.Or(e.Process, "this process") + " had descriptors and memory left (metric fanfare_transport_receive_errors_total)."
	}
	return "Check whether a link was down then (group_lost, here or at the publisher). Check the switch between " + publisher + " and this host: with IGMP snooping it needs a querier " +
		"(fanfare doctor detects it), its ports count errors and discards, and its MTU must pass full packets (fanfare doctor -peer). ethtool -S on both hosts shows packets that the network cards dropped. If the publisher is too fast for a port, lower its Config.Rate."
}

// notArriving is for a bus that was released and is not the reason.
func notArriving(e *Evidence) string {
	return "Find out why packets of " + cmp.Or(e.Publisher, "the publisher") + ", or its repairs, did not reach this host (cannot_send of the publisher, its interface, the network between), or raise Config.StallLimit of the publisher (pub -stall-limit)."
}

// largerBuffer is the advice for a larger receive buffer. Raising the kernel's limit does not help
// if the bus requested no more.
func largerBuffer(e *Evidence) string {
	want := 32 << 20
	for want < 4*max(e.Asked, e.Granted) && want < 1<<30 {
		want *= 2
	}
	process := cmp.Or(e.Process, "the process")
	more := fmt.Sprintf(" If it continues, %s gets too little processor time.", process)
	if e.Granted == 0 {
		more += fmt.Sprintf(" Over shm:// and mem:// there is no such buffer: raise queue= in the URL of %s.", process)
	}
	set := fmt.Sprintf("sysctl -w net.core.rmem_max=%d", want)
	switch {
	case e.Granted > 0 && e.Granted >= e.Asked:
		return fmt.Sprintf("Request a larger receive buffer than the current %d bytes: %s, and rcvbuf=%dM in the URL of %s.", e.Granted, set, want>>20, process) + more
	case e.BufferMax > 0:
		return fmt.Sprintf("Raise the kernel's limit (now %d bytes): %s, and restart %s.", e.BufferMax, set, process) + more
	}
	return fmt.Sprintf("Raise the kernel's limit: %s, and restart %s.", set, process) + more
}

// quoted is the error of an event in quotation marks: it comes from a process and may contain text
// from the network, so it must not look like advice. Without an error it is otherwise.
func quoted(err, otherwise string) string {
	if err == "" {
		return otherwise
	}
	return "“" + err + "”"
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return " (" + quoted(err, "") + ")"
}

func reader(e *Evidence, otherwise string) string {
	if e.Reader != "" && e.Process != "" {
		return e.Reader + " in " + e.Process
	}
	return cmp.Or(e.Reader, e.Process, otherwise)
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

// isEvent reports whether the label is of an event that accompanies losses.
func isEvent(label string) bool { return report.Losses()[label] != nil }

func Why(label string) string {
	if line := report.Losses()[label]; line != nil {
		return line.Why()
	}
	return cmp.Or(Causes()[label].Help, "This program does not know that cause: the process has a newer version.")
}

func Do(label string, e Evidence) string {
	switch do := remedies()[label]; {
	case label == "fabric":
		return networkAdvice(&e)
	case label == "socket_overflow":
		return largerBuffer(&e)
	case do != nil:
		var text strings.Builder
		if err := do.Execute(&text, &e); err != nil {
			return err.Error()
		}
		return text.String()
	}
	return "Use the fanfare command of the version that the process uses: it knows this cause."
}

func moreShared(e *Evidence, otherwise string) string {
	if len(e.Shared) == 0 {
		return otherwise
	}
	more := "mount -o remount,size=1G " + sharedDirs(e, "")
	if len(e.Shared) > 1 {
		more = "mount -o remount,size=1G for each"
	}
	if slices.Contains(e.Shared, shm.DefaultDir) {
		more += "; docker run --shm-size=1g"
	}
	return "Find out what uses the memory (df -h " + sharedDirs(e, "") + "; du -sh " + sharedDirs(e, "/*") + "). Give it more (" + more + "), or use another directory (dir= in the URL, the same for all processes). A stopped subscriber also holds memory."
}

// sharedDirs are the directories of the bus's shared memory as shell words, each followed by behind.
func sharedDirs(e *Evidence, behind string) string {
	if len(e.Shared) == 0 {
		return "DIR   # dir= in the URL, otherwise /dev/shm"
	}
	words := make([]string, len(e.Shared))
	for i, dir := range e.Shared {
		words[i] = shellword.Of(dir) + behind
	}
	return strings.Join(words, " ")
}

// readable is the advice for packets that cannot be opened. A keyring does not help against an
// untrusted signature, and if the bus's own keys have expired, other senders are not the cause.
func readable(e *Evidence, otherwise string) string {
	process, from := cmp.Or(e.Process, "this process"), cmp.Or(e.Address, "the address in the log")
	reason := quoted(e.Err, "see the log for the reason")
	contains := func(text string) bool { return strings.Contains(e.Err, text) } // addresses have no spaces
	switch {
	case e.Err == "":
		return otherwise
	case e.Err == expired:
		return "Add a currently valid key to the keyring of " + process + ", which sends nothing until then (fanfare key rotate -in 0s), and give that file to all buses of these groups: " + reason + "."
	case contains(" 5 minutes"):
		return "Set the clocks of both hosts, or find out what replays old packets from " + from + ": " + reason + "."
	case contains("another version of"):
		return "Run the same version of Fanfare on both sides, or find out which program sends from " + from + ": " + reason + "."
	case contains("not signed") || contains("signing key"):
		return "Add the line of that publisher (fanfare key sign-show) to the file of trust= of " + process + ", or give the publisher a signing key that is in the file (sign= in the URL), or find out which program sends from " + from + ": " + reason + "."
	}
	return "Give all buses of these groups the same keyring (keys= in the URL), or find out which program sends from " + from + ": " + reason + "."
}

// expired is the error of a bus without a valid key.
var expired = (&transport.UnreadableError{Reason: transport.UnreadableNoKey}).Error()
