package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func tapCommand() command {
	return command{
		name:    "tap",
		summary: "show the packets on the network and what is wrong with them",
		usage:   "fanfare tap [flags]",
		about: `It joins the groups of a fabric as a passive receiver: publishers do not know of it,
do not wait for it and send no repairs for it. With -r it reads a capture file, with
-i it captures at a network interface. These two also show NAKs and statuses, which
are sent to publishers only; but packets of a group without a member on this host may
not reach its interface.

Each packet is a line: time, source > destination, and its fields, named as in
docs/protocol. Lines that begin with ** are findings: streams, gaps and their repair,
NAK storms, duplicates, foreign traffic, packets that receivers refuse and the reason,
packets of another group, missing dictionaries. The first ten findings of each kind
are shown, then the 16th, the 32nd and so on.
The summary counts all.`,
		notes: `With -json each packet is an object {"type":"packet","time":...,"from":...,
"to":...,"group":...,"header":{...},"fields":{...}} with names and values as in
docs/vectors/packets.json (names of topics and buses are text, other bytes
hexadecimal) and "error" if receivers refuse it, findings are objects of type
"finding", and the last object is the summary. A sealed packet also has "sealed":
{"key":...,"sender":...,"counter":...,"time":...}, and if it could not be opened,
"unopened" with the reason and no further fields. A signed packet has
"signed": {"key":...,"time":...,"counter":...,"node":...,"packets":...}, which tap
does not verify: packets is how many the signature may cover.`,
		examples: `fanfare tap
fanfare tap -t 'udp://?iface=eth0' -group 3 -type data,heartbeat -n 100
fanfare tap -topic md.xnas.AAPL -until 10s
fanfare tap -i eth0 -type nak,status
fanfare tap -i lo -t 'udp://?iface=lo&port=7500'
fanfare tap -r incident.pcapng -summary
fanfare tap -r incident.pcapng -keys /etc/fanfare/keys
fanfare tap -r incident.pcap -json -type data | jq '.fields.sequence // empty'
fanfare tap -r - < incident.pcap`,
		exitNotes: `It is 0 when -n, -until or the end of the file ended it, whatever the findings. It is
1 when this host dropped packets before tap read them, when a file is damaged or
truncated, or when no group could be joined.`,
		flags: flagsOf(func() *tapRun { return new(tapRun) }),
	}
}

func (r *tapRun) register(fs *flagSet) {
	r.common.registerURL(fs)
	stringVar(fs, &r.file, "r", "", "read the capture `FILE`, pcap or pcapng (.gz too), instead of joining; - is standard input. With -t only packets of that fabric's groups count, otherwise all")
	stringVar(fs, &r.iface, "i", "", "capture at the network interface `NAME` instead of joining; requires root or CAP_NET_RAW. With -t only packets of that fabric's groups count, otherwise all")
	stringVar(fs, &r.groupList, "group", "", "only these groups, a `LIST` such as 0,3,8-11")
	stringVar(fs, &r.publisher, "publisher", "", "only streams of this publisher, by `NAME` or by the 16 digits of an id, and hellos that it sends")
	stringVar(fs, &r.typeList, "type", "", "write only packets of these types, a `LIST` of "+strings.Join(typeNames(), ", ")+"; all are counted")
	stringVar(fs, &r.keys, "keys", "", "open sealed packets with the keyring `FILE` (fanfare key); keys=FILE in -t does the same. Expired keys are used, too")
	dictVar(fs, &r.dicts, "Packets compressed with it are shown with their content")
	stringVar(fs, &r.topic, "topic", "", "write only packets that name this `TOPIC`: data, statuses and hellos; all are counted")
	above(countVar(fs, &r.max, "n", 0, "end after writing `COUNT` packets"), 0)
	above(durationVar(fs, &r.until, "until", 0, "end after D (such as 30s, 5m)"), 0)
	boolVar(fs, &r.summary, "summary", "print only findings and the summary, no packets")
	boolVar(fs, &r.json, "json", "packets, findings and summary as JSON on standard output")
}

func (r *tapRun) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("tap takes no arguments: %q is too many; use -r for a file and -topic for a topic", operands[0])
	case r.file != "" && r.iface != "":
		return usagef("-r and -i are both given: use one of the two")
	case r.summary && (r.max > 0 || r.typeList != "" || r.topic != ""):
		return usagef("-n, -type and -topic select packets to print, and -summary prints none: leave one out")
	}
	r.filter.known = (r.file != "" || r.iface != "") && fs.isSet("t")
	var err error
	if r.filter.groups, err = parseGroups(r.groupList); err != nil {
		return err
	}
	if r.filter.types, err = parseTypes(r.typeList); err != nil {
		return err
	}
	if r.topic != "" {
		if err := checkTopics([]string{r.topic}, pubsub.CheckTopic); err != nil {
			return err
		}
		r.filter.topic, r.filter.byTopic = wire.TopicID(r.topic), true
	}
	if r.publisher != "" {
		r.filter.byPublisher = true
		var id pubsub.PublisherID
		if id.UnmarshalText([]byte(r.publisher)) == nil {
			r.filter.publisher = id
		} else {
			r.filter.publisher = events.ID(wire.TopicID("publisher:"+r.publisher) | 1) // docs/protocol §3.12
		}
	}
	if len(r.urls) > 1 {
		return usagef("tap listens on one leg: use -t once")
	}
	if r.fabric, err = fabricurl.Parse(r.urls[0]); err != nil {
		return &usageError{err}
	}
	_, err = r.keysFile()
	return err
}

// parseGroups parses a list of groups and ranges; nil: all.
func parseGroups(list string) (groups []int, err error) {
	if list == "" {
		return nil, nil
	}
	wrong := usagef("-group %s must be a list of groups from 0 to %d, such as 0,3,8-11", strconv.Quote(list), math.MaxUint16)
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		a, err1 := strconv.ParseUint(low, 10, 16)
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || a > b {
			return nil, wrong
		}
		for g := a; g <= b; g++ {
			groups = append(groups, int(g))
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

func typeNames() (names []string) {
	for t := wire.TypeData; t <= wire.LastType; t++ {
		if t.Known() {
			names = append(names, t.String())
		}
	}
	return names
}

// parseTypes parses a list of packet types; nil: all.
func parseTypes(list string) (types []wire.Type, err error) {
	if list == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		t := wire.TypeData
		for t <= wire.LastType && (!t.Known() || t.String() != item) {
			t++
		}
		if t > wire.LastType {
			return nil, usagef("-type %q is not one of %s", item, strings.Join(typeNames(), ", "))
		}
		types = append(types, t)
	}
	return types, nil
}

type tapFilter struct {
	groups      []int
	known       bool // only packets of the fabric's groups
	types       []wire.Type
	topic       uint64
	byTopic     bool
	publisher   events.ID
	byPublisher bool
}

// beyond returns an error for groups that a fabric of n groups does not have.
func (f *tapFilter) beyond(n int) error {
	if k := len(f.groups); k > 0 && f.groups[k-1] >= n {
		return &usageError{fmt.Errorf("-group %d: this fabric has the groups 0 to %d", f.groups[k-1], n-1)}
	}
	return nil
}

func (f *tapFilter) counts(p *tap.Packet) bool {
	g, known := p.Group()
	if f.known && !known || f.groups != nil && (!known || !slices.Contains(f.groups, g.Index)) {
		return false
	}
	if !f.byPublisher {
		return true
	}
	_, h, err := wire.ParseKept(p.Data)
	return err == nil && h.Publisher == f.publisher
}

func (f *tapFilter) shows(p *tap.Packet) bool {
	if f.types == nil && !f.byTopic {
		return true
	}
	if p.Read.Err != nil || f.types != nil && !slices.Contains(f.types, p.Read.Type) {
		return false
	}
	return !f.byTopic || f.hasTopic(p)
}

func (f *tapFilter) hasTopic(p *tap.Packet) bool {
	switch p.Read.Type {
	case wire.TypeData:
		for r, rest, ok := wire.NextRun(p.Runs); ok; r, rest, ok = wire.NextRun(rest) {
			if r.Topic == f.topic {
				return true
			}
		}
	case wire.TypeStatus:
		s, _ := wire.ParseStatus(p.Data)
		for i := range s.Topics() {
			if s.Topic(i) == f.topic {
				return true
			}
		}
	case wire.TypeHello:
		h, _ := wire.ParseHello(p.Data)
		return h.Filter.May(f.topic)
	}
	return false
}
