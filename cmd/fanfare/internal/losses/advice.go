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

type advice struct {
	why string             // the sentence that says what it means; empty: that of pubsub.Causes
	do  *template.Template // what to do about it, of an Evidence; nil: what pubsub.Causes says
}

func say(text string) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"reader": reader, "said": said, "because": because, "notArriving": notArriving, "onTheWay": onTheWay, "largerBuffer": largerBuffer, "moreShared": moreShared, "readable": readable,
	}).Parse(text))
}

// table says what to do about each cause (pubsub.Causes) and event. A test finds those that are missing.
var table = map[string]advice{
	// Causes of drops.
	"unsent":              {},
	"no_memory":           {do: say("{{moreShared .}}")},
	"fabric":              {do: say("{{onTheWay .}}")},
	"socket_overflow":     {do: say("{{largerBuffer .}}")},
	"receive_queue_empty": {do: say(`Raise rq= in the URL of {{or .Process "the subscriber"}}, such as rq=16384, or give that process more processor time.`)},
	"truncated":           {},
	"injected":            {},
	"bad_checksum":        {}, "malformed": {}, "forged": {}, "version": {}, "filtered": {},
	"refused":    {},
	"unreadable": {},
	"not_opened": {},
	"not_signed": {},

	// Causes of gaps.
	"overrun":        {do: say(`Make the reader of {{reader .}} faster, or raise Config.ReceiveWindowBytes (8 MiB unless set) there.`)},
	"slow_consumer":  {do: say(`The reader of {{reader .}} is too slow: make it faster, or choose another policy for it (option SlowConsumer, sub -slow).`)},
	"gone":           {do: say(`Raise Config.WindowBytes (8 MiB unless set) of {{or .Publisher "the publisher"}}, which says how far back it repairs; and see under DROPPED ON THE WAY what lost the packets first.`)},
	"deadline":       {do: say(`See whether NAKs get from this host to {{or .Address .Publisher "the publisher"}} (unicast: a firewall?), what loses the repairs, and whether its full packets pass (MTUs that differ: fanfare doctor -peer); or raise Config.RecoveryDeadline (2 s unless set).`)},
	"released":       {do: say(`{{if .Idle}}{{notArriving .}}{{else}}The reader of {{reader .}} blocked {{or .Publisher "the publisher"}} until it was released: make it faster, give it a policy that blocks no publisher (sub -slow latest), or raise Config.StallLimit of the publisher (pub -stall-limit).{{end}}`)},
	"publisher_lost": {why: "The publisher fell silent before it had sent, or repaired, everything.", do: say(`See why {{or .Publisher "the publisher"}} died, or what cut it off: its log, its host, the network between.`)},
	"restart":        {},
	"too_large":      {},
	"misnumbered":    {}, "unnamed": {}, "too_many_topics": {},

	// Events that go with loss.
	"publisher_restarted":     {why: "The publisher fell silent, and another instance of its name came up.", do: say(`See why {{or .Publisher "the publisher"}} was not closed: Close waits until subscribers have everything.`)},
	"publisher_refused":       {why: "A publisher is not heard: there are too many, or there is no memory for it.", do: say(`Raise Config.MaxPublishers or Config.ReceiveMemoryBytes of {{or .Process "this process"}}, as the error says: {{said .Err "see the log"}}.`)},
	"publisher_fault":         {why: "A publisher breaks the rules of the protocol.", do: say(`Find the program of {{or .Publisher "that publisher"}}: {{said .Err "see the log"}}.`)},
	"topic_collision":         {why: "Two names of topics have the same id, and a publisher uses the other one.", do: say(`Rename one of the two topics: {{said .Err "the log names them"}}.`)},
	"released_by_a_publisher": {why: "A publisher no longer waits for this bus, because this bus blocked it.", do: say(`{{if .Idle}}{{notArriving .}}{{else}}Make the reader of {{reader .}} faster, or give it a policy that blocks no publisher (sub -slow latest).{{end}}`)},
	"subscription_evicted":    {why: "A subscription was ended, because it read too slowly: it did not get later messages.", do: say(`Make the reader of {{reader .}} faster, allow more (MaxBehind, sub -behind), or choose a policy other than evict; and subscribe again.`)},
	"bad_packets":             {why: "Packets with a wrong or missing checksum came from there and were dropped.", do: say(`Look at cable, card and driver between {{or .Address "the host that the log names"}} and this host (ethtool -S), or find out whether packets are forged there (fanfare tap).`)},
	"packets_unreadable":      {why: "Packets that are not sealed or signed as this bus asks for were dropped; or it has no valid key itself, and sends nothing.", do: say("{{readable .}}")},
	"dictionary_missing":      {why: "A publisher compresses with a dictionary that is not here: nothing of it can be read.", do: say(`Give {{or .Process "this process"}} the dictionary that {{or .Publisher "the publisher"}} has (Config.Dictionaries, sub -dict): {{said .Err "the log names it"}}.`)},
	"config_mismatch":         {why: "Another bus on the same addresses is configured differently: what it publishes may not be heard.", do: say(`Give both the same configuration: {{said .Err "the log says in what they differ"}}.`)},
	"group_lost":              {why: "The interface or the fabric lost a multicast group; the bus joins it again.", do: say(`Check the interface: {{said .Err "the log says why"}}. What was published meanwhile is repaired as far as publishers' windows reach.`)},
	"group_failed":            {why: "A multicast group could not be joined: nothing of it is heard.", do: say(`fanfare doctor looks at groups and limits (net.ipv4.igmp_max_memberships): {{said .Err "the log says why"}}.`)},
	"cannot_send":             {why: "Nothing of what was published could be sent for a while: publishers wait when there is no more room, and subscribers hear nothing.", do: say(`Mend what keeps {{or .Process "this process"}} from sending: {{said .Err "the log says what"}}.`)},
	"cannot_reply":            {why: "NAKs and statuses to a publisher could not be sent: what was lost on the way from it was not repaired, and it did not wait for this bus.", do: say(`Let {{or .Process "this process"}} send to {{or .Address "that publisher"}}: {{said .Err "the log says what keeps it"}}.`)},
	"subscriber_silent":       {why: "A subscriber said nothing any more and is not waited for: it was killed, stopped or cut off, and what it misses it has lost.", do: say(`See whether {{or .Subscriber "that subscriber"}} still runs: was it killed, stopped, or cut off from the network? If its host only stood still for a while, such as a container that had used up its share of the processors, raise Config.Silence of the publisher (1 s unless set; pub -silence).`)},
	"subscriber_released":     {why: "A subscriber held publishers up for too long and is not waited for: it will miss what it cannot catch up with.", do: say(`See what keeps {{or .Subscriber "that subscriber"}} from reading: fanfare loss on its host names the subscription.`)},
	"leg_down":                {why: "A leg does not carry what another does: nothing is lost by that, and the next failure is not covered.", do: say(`Mend {{or .Leg "that leg"}} before one more fails: its interface, its network, and whether the publisher is open on it{{because .Err}}.`)},
	"duplicate_name":          {why: "Two buses publish under one name: messages of both are delivered, numbered by each for itself.", do: say(`Give each bus a Config.Name of its own (pub -name): one is {{or .Publisher "in the log"}}{{because .Err}}.`)},
	"stood_still":             {why: "This process did not run: packets for it were not read, and losses of others not repaired.", do: say(`See what stopped {{or .Process "this process"}} (SIGSTOP, a debugger, a frozen container), or what else takes the processor.`)},
	"unfindable":              {why: "New processes can no longer discover this one, since its files in shared memory were removed: messages do not pass between them.", do: say(`Restart {{or .Process "this process"}}: {{said .Err "the log says what was removed, and how to have it kept"}}.`)},
	"unmet":                   {why: "This process cannot meet other processes of its fabric: messages do not pass between them.", do: say(`Give {{or .Process "this process"}} more descriptors (ulimit -n), or bring all to one version{{because .Err}}.`)},
	"slow_subscriber":         {why: "A subscriber was too far behind for too long and is not waited for.", do: say(`Make {{or .Subscriber "that subscriber"}} faster, or raise Config.SlowBehind of this publisher (pub -slow-behind).`)},
}

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

func Why(label string) string {
	return cmp.Or(table[label].why, Causes()[label].Help, "This program does not know that cause: it is of a newer version.")
}

func Do(label string, e Evidence) string {
	if do := table[label].do; do != nil {
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
