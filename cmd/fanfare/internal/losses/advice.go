// Package losses makes of the records of all processes what an operator wants to know:
// what was lost, when, on whose way, why, and what to do about it.
package losses

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Evidence is what is known of a loss beside its cause, for advice to be definite. Texts
// may be empty and numbers zero: not known.
type Evidence struct {
	Publisher  string // whose messages they are: name, id, address
	Address    string // of it
	Subscriber string // of events that are about one: name and address
	Reader     string // the topics of the subscription that lost them, or was let go
	Process    string // in which it is
	Leg        string // of events of one
	// BufferMax is the largest receive buffer that the kernel grants (net.core.rmem_max),
	// Asked what the bus has asked for, Granted what it got: in bytes.
	BufferMax, Asked, Granted int
	// Shared are the directories of the bus's shared memory.
	Shared []string
	Err    string // of the event
	// Idle says that nothing was unread when the publisher let this bus go: packets did not arrive.
	Idle bool
}

// advice is what is said of one cause or event.
type advice struct {
	why string                 // the sentence that says what it means; empty: that of pubsub.Causes
	do  func(*Evidence) string // what to do about it, for what is known; nil: what pubsub.Causes says
}

// table says of each cause (pubsub.Causes) and each event in records of losses what to do.
// A test finds those that are missing.
var table = map[string]advice{
	// Causes of drops.
	"unsent":    {},
	"no_memory": {do: moreShared},
	"fabric": {do: func(e *Evidence) string {
		if strings.HasPrefix(e.Address, "shm://") { // there is no switch
			return "See whether " + cmp.Or(e.Publisher, "the publisher") + " counts no_memory (df -h " + sharedDirs(e, "") + "), and whether " + cmp.Or(e.Process, "this process") + " had descriptors and memory left (metric fanfare_transport_receive_errors_total)."
		}
		return "Look at the switch between " + cmp.Or(e.Publisher, "the publisher") + " and this host: with IGMP snooping it needs a querier " +
			"(fanfare doctor finds one), and its ports tell errors and discards. ethtool -S on both hosts tells what the cards dropped. Where the publisher is too fast for a port, lower its Config.Rate."
	}},
	"socket_overflow": {do: largerBuffer},
	"receive_queue_empty": {do: func(e *Evidence) string {
		return "Raise rq= in the URL of " + cmp.Or(e.Process, "the subscriber") + ", such as rq=16384, or give that process more processor time."
	}},
	"truncated":    {},
	"injected":     {},
	"bad_checksum": {}, "malformed": {}, "forged": {}, "version": {}, "filtered": {},
	"refused":    {},
	"unreadable": {},
	"not_opened": {},
	"not_signed": {},

	// Causes of gaps.
	"overrun": {do: func(e *Evidence) string {
		return "Make the reader of " + reader(e) + " faster, or raise Config.ReceiveWindowBytes (8 MiB unless set) there."
	}},
	"slow_consumer": {do: func(e *Evidence) string {
		return "The reader of " + reader(e) + " is too slow: make it faster, or choose another policy for it (option SlowConsumer, sub -slow)."
	}},
	"gone": {do: func(e *Evidence) string {
		return "Raise Config.WindowBytes (8 MiB unless set) of " + cmp.Or(e.Publisher, "the publisher") + ", which says how far back it repairs; and see under DROPPED ON THE WAY what lost the packets first."
	}},
	"deadline": {do: func(e *Evidence) string {
		return "See whether NAKs get from this host to " + cmp.Or(e.Address, e.Publisher, "the publisher") + " (unicast: a firewall?), what loses the repairs, and whether its full packets pass (MTUs that differ: fanfare doctor -peer); or raise Config.RecoveryDeadline (2 s unless set)."
	}},
	"released": {do: func(e *Evidence) string {
		if e.Idle {
			return notArriving(e)
		}
		return "The reader of " + reader(e) + " held " + cmp.Or(e.Publisher, "the publisher") + " up until that went on: make it faster, give it a policy that holds nobody up (sub -slow latest), or raise Config.StallLimit of the publisher (pub -stall-limit)."
	}},
	"publisher_lost": {why: "The publisher fell silent before it had sent, or repaired, everything.", do: func(e *Evidence) string {
		return "See why " + cmp.Or(e.Publisher, "the publisher") + " died, or what cut it off: its log, its host, the network between."
	}},
	"restart":     {},
	"too_large":   {},
	"misnumbered": {}, "unnamed": {}, "too_many_topics": {},

	// Events that go with loss.
	"publisher_restarted": {why: "The publisher fell silent, and another instance of its name came up.", do: func(e *Evidence) string {
		return "See why " + cmp.Or(e.Publisher, "the publisher") + " was not closed: Close waits until subscribers have everything."
	}},
	"publisher_refused": {why: "A publisher is not heard: there are too many, or there is no memory for it.", do: func(e *Evidence) string {
		return "Raise Config.MaxPublishers or Config.ReceiveMemoryBytes of " + cmp.Or(e.Process, "this process") + ", as the error says: " + said(e.Err, "see the log") + "."
	}},
	"publisher_fault": {why: "A publisher breaks the rules of the protocol.", do: func(e *Evidence) string {
		return "Find the program of " + cmp.Or(e.Publisher, "that publisher") + ": " + said(e.Err, "see the log") + "."
	}},
	"topic_collision": {why: "Two names of topics have the same id, and a publisher uses the other one.", do: func(e *Evidence) string {
		return "Rename one of the two topics: " + said(e.Err, "the log names them") + "."
	}},
	"released_by_a_publisher": {why: "A publisher does not wait for this bus any more, which held it up.", do: func(e *Evidence) string {
		if e.Idle {
			return notArriving(e)
		}
		return "Make the reader of " + reader(e) + " faster, or give it a policy that holds nobody up (sub -slow latest)."
	}},
	"subscription_evicted": {why: "A subscription was ended, because it read too slowly: what came after it never got.", do: func(e *Evidence) string {
		return "Make the reader of " + reader(e) + " faster, allow more (MaxBehind, sub -behind), or choose a policy other than evict; and subscribe again."
	}},
	"bad_packets": {why: "Packets with a wrong or missing checksum came from there and were dropped.", do: func(e *Evidence) string {
		return "Look at cable, card and driver between " + cmp.Or(e.Address, "the host that the log names") + " and this host (ethtool -S), or find who forges packets there (fanfare tap)."
	}},
	"packets_unreadable": {why: "Packets that are not sealed or signed as this bus asks for were dropped; or it has no valid key itself, and sends nothing.", do: readable},
	"dictionary_missing": {why: "A publisher compresses with a dictionary that is not here: nothing of it can be read.", do: func(e *Evidence) string {
		return "Give " + cmp.Or(e.Process, "this process") + " the dictionary that " + cmp.Or(e.Publisher, "the publisher") + " has (Config.Dictionaries, sub -dict): " + said(e.Err, "the log names it") + "."
	}},
	"config_mismatch": {why: "Another bus on the same addresses is configured differently: what it publishes may not be heard.", do: func(e *Evidence) string {
		return "Give both the same configuration: " + said(e.Err, "the log says in what they differ") + "."
	}},
	"group_lost": {why: "The interface or the fabric lost a multicast group; the bus joins it again.", do: func(e *Evidence) string {
		return "See what became of the interface: " + said(e.Err, "the log says why") + ". What was published meanwhile is repaired as far as publishers' windows reach."
	}},
	"group_failed": {why: "A multicast group could not be joined: nothing of it is heard.", do: func(e *Evidence) string {
		return "fanfare doctor looks at groups and limits (net.ipv4.igmp_max_memberships): " + said(e.Err, "the log says why") + "."
	}},
	"cannot_send": {why: "Nothing of what was published could be sent for a while: publishers wait when there is no more room, and subscribers hear nothing.", do: func(e *Evidence) string {
		return "Mend what keeps " + cmp.Or(e.Process, "this process") + " from sending: " + said(e.Err, "the log says what") + "."
	}},
	"cannot_reply": {why: "NAKs and statuses to a publisher could not be sent: what was lost on the way from it was not repaired, and it did not wait for this bus.", do: func(e *Evidence) string {
		return "Let " + cmp.Or(e.Process, "this process") + " send to " + cmp.Or(e.Address, "that publisher") + ": " + said(e.Err, "the log says what keeps it") + "."
	}},
	"subscriber_silent": {why: "A subscriber said nothing any more and is not waited for: it was killed, stopped or cut off, and what it misses it has lost.", do: func(e *Evidence) string {
		return "See whether " + cmp.Or(e.Subscriber, "that subscriber") + " still runs: was it killed, stopped, or cut off from the network? If its host only stood still for a while, such as a container that had used up its share of the processors, raise Config.Silence of the publisher (1 s unless set; pub -silence)."
	}},
	"subscriber_released": {why: "A subscriber held publishers up for too long and is not waited for: it will miss what it cannot catch up with.", do: func(e *Evidence) string {
		return "See what keeps " + cmp.Or(e.Subscriber, "that subscriber") + " from reading: fanfare loss on its host names the subscription."
	}},
	"leg_down": {why: "A leg does not carry what another does: nothing is lost by that, and the next failure is not covered.", do: func(e *Evidence) string {
		return "Mend " + cmp.Or(e.Leg, "that leg") + " before one more fails: its interface, its network, and whether the publisher is open on it" + because(e.Err) + "."
	}},
	"duplicate_name": {why: "Two buses publish under one name: messages of both are delivered, numbered by each for itself.", do: func(e *Evidence) string {
		return "Give each bus a Config.Name of its own (pub -name): one is " + cmp.Or(e.Publisher, "in the log") + because(e.Err) + "."
	}},
	"stood_still": {why: "This process did not run, so that nobody read what came, or repaired what others lacked.", do: func(e *Evidence) string {
		return "See what stopped " + cmp.Or(e.Process, "this process") + " (SIGSTOP, a debugger, a frozen container), or what else takes the processor."
	}},
	"unfindable": {why: "Who comes does not meet this process any more, since its files in shared memory were removed: what is published on the one side is not heard on the other.", do: func(e *Evidence) string {
		return "Restart " + cmp.Or(e.Process, "this process") + ": " + said(e.Err, "the log says what was removed, and how to have it kept") + "."
	}},
	"unmet": {why: "Others of its fabric are there whom this process cannot meet: what is published on the one side is not heard on the other.", do: func(e *Evidence) string {
		return "Give " + cmp.Or(e.Process, "this process") + " more descriptors (ulimit -n), or bring all to one version" + because(e.Err) + "."
	}},
	"slow_subscriber": {why: "A subscriber was too far behind for too long and is not waited for.", do: func(e *Evidence) string {
		return "Make " + cmp.Or(e.Subscriber, "that subscriber") + " faster, or raise Config.SlowBehind of this publisher (pub -slow-behind)."
	}},
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

// because is what an event's error says, where there is one.
func because(err string) string {
	if err == "" {
		return ""
	}
	return " (" + said(err, "") + ")"
}

// reader names the subscription that is too slow.
func reader(e *Evidence) string {
	switch {
	case e.Reader != "" && e.Process != "":
		return e.Reader + " in " + e.Process
	case e.Reader == "" && e.Process == "":
		return "the subscription"
	}
	return cmp.Or(e.Reader, e.Process)
}

// DoAt says what to do about a cause of drops and losses of a bus.
func DoAt(label string, b *inspect.Bus, process string, bufferMax int) string {
	h := host{process, bufferMax, time.Time{}, b}
	return Do(label, h.evidence(&Finding{Process: process}, "", ""))
}

// infos are the causes by label.
var infos = sync.OnceValue(func() map[string]pubsub.CauseInfo {
	all := make(map[string]pubsub.CauseInfo)
	for _, c := range pubsub.Causes() {
		all[c.Label] = c
	}
	return all
})

// Why says what a cause or an event means.
func Why(label string) string {
	return cmp.Or(table[label].why, infos()[label].Help, "This program does not know that cause: it is of a newer version.")
}

// Do says what to do about it.
func Do(label string, e Evidence) string {
	if f := table[label].do; f != nil {
		return f(&e)
	}
	return cmp.Or(infos()[label].Remedy, "Use the fanfare that the process was built with: it knows this cause.")
}
