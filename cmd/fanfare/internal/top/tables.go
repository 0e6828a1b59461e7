package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

type table struct {
	name    string
	columns []column
	sort    int // the column that it is sorted by at first
	rows    []row
	empty   string // what to say where there are none
}

// column is one of a table. On a narrow terminal those with the highest rank are left out first, those with 0 never.
type column struct {
	name     string
	number   bool
	rank     int
	maxWidth int // characters; 0: as many as there are
}

type row struct {
	key   string // stays the same from one observation to the next
	cells []cell
	level level
	// detail are the lines that say more of it: what, and its value.
	detail func() [][2]string
}

func addRows[T any](t *table, list []T, detail func(*T) [][2]string, fill func(*T, *row)) {
	for i := range list {
		r := row{detail: func() [][2]string { return detail(&list[i]) }}
		fill(&list[i], &r)
		t.rows = append(t.rows, r)
	}
}

type cell struct {
	text  string
	value float64 // of a number
}

type level int

const (
	calm level = iota
	warn
	alarm
)

// table returns a view by its index in viewNames. It is made on first use: others may have 100,000 rows.
func (f *Figures) table(view int) *table {
	if f.made == nil {
		f.made = make([]*table, len(viewNames))
	}
	if f.made[view] == nil {
		t := []func() table{f.topicTable, f.streamTable, f.subscriberTable, f.groupTable, f.lossTable,
			f.busTable, f.legTable, f.eventTable}[view]()
		f.made[view] = &t
	}
	return f.made[view]
}

func (f *Figures) counts() (rows []int, others int) {
	for i := range f.Buses {
		others += f.Buses[i].TopicsLeftOut + f.Buses[i].SubscriptionsLeftOut
	}
	return []int{len(f.Topics) + len(f.Subscriptions), len(f.Streams), len(f.Subscribers), len(f.Groups),
		len(f.Losses), len(f.Buses), len(f.Legs), len(f.shownEvents)}, others
}

var viewNames = []string{"topics", "streams", "subscribers", "groups", "losses", "buses", "legs", "events"}

func text(s string) cell       { return cell{text: printable(s)} }
func number(x float64) cell    { return cell{si(x), x} }
func countCell(n uint64) cell  { return cell{si(float64(n)), float64(n)} }
func since(s float64) cell     { return cell{duration(s), s} }
func micro(us float64) cell    { return cell{microText(us), us} }
func names(list []string) cell { return cell{text: printable(strings.Join(list, ", "))} }

func rate(x Rate) cell {
	if !(x > 0) {
		return cell{"-", 0}
	}
	if x < 10 {
		return cell{fmt.Sprintf("%.1f", x), float64(x)}
	}
	return number(float64(x))
}

func (f *Figures) topicTable() table {
	t := table{name: "topics", sort: 2, empty: "nothing is published or subscribed to here", columns: []column{
		{"", false, 0, 3}, {"TOPIC", false, 0, 0}, {"MSG/S", true, 0, 0}, {"MESSAGES", true, 3, 0}, {"LOST MSG", true, 1, 0}, {"BEHIND", true, 1, 0}, {"PEERS", true, 2, 0}, {"STATE", false, 2, 0}, {"PROCESS", false, 1, 24}, {"BUS", false, 4, 20},
	}}
	addRows(&t, f.Topics, f.topicDetail, func(x *Topic, r *row) {
		r.key = fmt.Sprint("pub ", x.key, x.Group, x.Topic)
		state := stateOK
		if x.Stuck > 0 {
			state, r.level = losses.SendsNothing+" for "+duration(x.Stuck), alarm
		} else if x.Slow > 0 {
			state, r.level = fmt.Sprintf("%d slow", x.Slow), warn
		} else if x.Gone > 0 {
			state, r.level = fmt.Sprintf("%d gone", x.Gone), warn
		} else if u := f.undetectedOf(&x.Of, true); u != nil {
			state, r.level = undetectedText(u)
		}
		r.cells = []cell{text("pub"), text(x.Topic), rate(x.Rate), countCell(x.Messages), text("-"), countCell(x.Behind), countCell(uint64(x.Subscribers)), text(state), text(x.Process), text(x.Bus)}
	})
	addRows(&t, f.Subscriptions, f.subscriptionDetail, func(x *Subscription, r *row) {
		r.key = fmt.Sprint("sub ", x.key, x.Number)
		state := x.State
		switch x.State {
		case losses.Ended, stateLosing:
			r.level = alarm
		case losses.PublisherLost:
			if state, r.level = x.publisherState(), warn; x.hearing.Silenced() {
				r.level = alarm
			}
		case losses.Unread:
			state, r.level = "not read for "+duration(x.Unread), alarm
		case losses.Behind, stateLost:
			r.level = warn
		default:
			if u := f.undetectedOf(&x.Of, false); u != nil {
				state, r.level = undetectedText(u)
			}
			if x.hearing.Why != "" {
				r.level = warn
			}
		}
		lost := countCell(x.Lost)
		if x.Lost == 0 && x.Gaps > 0 {
			lost = cell{"?", 0.5} // how many is not known
		}
		r.cells = []cell{text("sub"), text(topicsText(x.Topics, x.seen.TopicsLeftOut)), rate(x.Rate), countCell(x.Messages), lost, countCell(uint64(x.Pending)), countCell(uint64(x.Peers)), text(state), text(x.Process), text(x.Bus)}
	})
	return t
}

// undetectedText is the state of a topic without a subscriber, or of a subscription without a publisher.
func undetectedText(u *losses.Undetected) (string, level) {
	switch {
	case u.OtherProcess != "":
		return "other is on " + u.OtherInterface, warn
	case u.Publishes:
		return "no subscriber", calm
	}
	return "no publisher", calm
}

func topicsText(topics []string, leftOut int) string {
	if more := leftOut + len(topics) - 2; len(topics) > 0 && more > 1 {
		return fmt.Sprintf("%s (and %d more)", topics[0], leftOut+len(topics)-1)
	}
	return strings.Join(topics, " ")
}

func (f *Figures) streamTable() table {
	t := table{name: "streams", sort: 2, empty: "no publisher is heard here", columns: []column{
		{"PUBLISHER", false, 0, 24}, {"GROUP", false, 2, 0}, {"PKT/S", true, 0, 0}, {"REPAIRED/S", true, 1, 0}, {"MISSING NOW", true, 1, 0}, {"LOST PKT", true, 0, 0}, {"LAG", true, 1, 0}, {"STATE", false, 2, 0}, {"PACKETS", true, 4, 0}, {"RECEIVED BY", false, 1, 24}, {"BUS", false, 4, 20},
	}}
	addRows(&t, f.Streams, f.streamDetail, func(x *Stream, r *row) {
		r.key = fmt.Sprint(x.key, x.Group, x.ID, x.Epoch)
		state := stateOK
		if x.LostFor > 0 {
			state = "lost " + duration(x.LostFor) + " ago"
		}
		if x.Lost > 0 || x.Missing > 0 || x.LostFor > 0 {
			r.level = warn
		}
		r.cells = []cell{text(x.Publisher), text(x.Group), rate(x.Rate), rate(x.RepairRate), countCell(uint64(x.Missing)),
			countCell(x.Lost), countCell(uint64(x.Lag)), text(state), countCell(x.Packets), text(x.Process), text(x.Bus)}
	})
	return t
}

func (f *Figures) subscriberTable() table {
	t := table{name: "subscribers", sort: 1, empty: "no publisher here has a subscriber", columns: []column{
		{"SUBSCRIBER", false, 0, 28}, {"BEHIND", true, 0, 0}, {"HELD FOR", true, 0, 0}, {"STATE", false, 0, 0}, {"ADDRESS", false, 2, 0}, {"GROUP", false, 3, 0}, {"ROOM", true, 4, 0}, {"HEARD", true, 4, 0}, {"PUBLISHER", false, 1, 24}, {"BUS", false, 4, 20},
	}}
	addRows(&t, f.Subscribers, f.subscriberDetail, func(x *Subscriber, r *row) {
		r.key = fmt.Sprint(x.key, x.Group, x.ID)
		if x.State == losses.Gone {
			r.key += x.Subscriber // its id is not known any more
		}
		switch x.State {
		case losses.Holds, losses.Released:
			r.level = alarm
		case losses.Silent, losses.Gone, losses.Behind:
			r.level = warn
		}
		r.cells = []cell{text(x.Subscriber), countCell(x.Behind), since(x.HeldFor), text(x.State),
			text(x.Address), text(x.Group), countCell(x.Room), since(x.Heard), text(x.Process), text(x.Bus)}
	})
	return t
}

func (f *Figures) groupTable() table {
	t := table{name: "groups", sort: 0, empty: "no group is in use", columns: []column{
		{"GROUP", false, 0, 0}, {"PUBLISHED BY", false, 0, 0}, {"SUBSCRIBED BY", false, 0, 0}, {"OUT PKT/S", true, 1, 0}, {"IN PKT/S", true, 1, 0}, {"REPAIRS/S", true, 2, 0}, {"NAKS/S", true, 3, 0}, {"INTERFACE", false, 2, 12},
	}}
	addRows(&t, f.Groups, f.groupDetail, func(x *Group, r *row) {
		r.key = x.Group + " " + x.Interface
		if x.Unjoined > 0 {
			r.level = alarm
		}
		r.cells = []cell{text(x.Group), names(x.Publishers), names(x.Subscribers), rate(x.SentRate),
			rate(x.Received), rate(x.RepairRate), rate(x.NAKRate), text(x.Interface)}
	})
	return t
}

func (f *Figures) lossTable() table {
	t := table{name: "losses", sort: 1, empty: "nothing was lost or discarded", columns: []column{
		{"CAUSE", false, 0, 0}, {"LOST MSG", true, 0, 0}, {"GAPS", true, 2, 0}, {"LOST PKT", true, 1, 0}, {"DATAGRAMS/S", true, 0, 0}, {"DATAGRAMS", true, 1, 0}, {"PROCESS", false, 1, 24}, {"WHAT TO DO", false, 3, 0},
	}}
	addRows(&t, f.Losses, f.lossDetail, func(x *Loss, r *row) {
		r.key = fmt.Sprint(x.key, x.Cause)
		switch {
		case x.Gaps > 0 || x.Lost > 0:
			r.level = alarm
		case x.Rate > 0 && x.Cause != "filtered":
			r.level = warn
		}
		r.cells = []cell{text(x.Cause), countCell(x.Messages), countCell(x.Gaps), countCell(x.Lost), rate(x.Rate),
			countCell(x.Dropped), text(x.Process), text(x.Do)}
	})
	return t
}

func (f *Figures) busTable() table {
	t := table{name: "buses", sort: 0, empty: "no process here has a bus", columns: []column{
		{"PROCESS", false, 0, 24}, {"BUS", false, 1, 20}, {"STATE", false, 0, 0}, {"OUT MSG/S", true, 1, 0}, {"IN MSG/S", true, 1, 0}, {"IN PKT/S", true, 3, 0}, {"MISSING", true, 1, 0}, {"REPAIRED", true, 1, 0}, {"LOST PKT", true, 1, 0}, {"SOCKET DROPS", true, 2, 0}, {"BUFFER", true, 2, 0}, {"REPAIR P99", true, 3, 0}, {"DELIVERY P99", true, 2, 0}, {"FABRIC", false, 2, 0},
	}}
	addRows(&t, f.Buses, f.busDetail, func(x *Bus, r *row) {
		r.key = fmt.Sprint(x.key)
		switch {
		case x.State == stateFailed || x.State == stateBusy:
			r.level = alarm
		case x.DropRate > 0:
			r.level = warn
		}
		buffer := cell{text: "-"}
		if n := x.Buffers.ReceiveGranted; n > 0 {
			buffer = cell{bytesText(float64(n)), float64(n)}
		}
		r.cells = []cell{text(x.Process), text(x.Bus), text(x.State), rate(x.SentRate), rate(x.DeliveredRate), rate(x.ReceivedRate), countCell(x.Missing), countCell(x.Repaired), countCell(x.Lost), countCell(x.SocketDrops), buffer, micro(x.seen.Repair.P99), micro(x.seen.Delivery.P99), text(strings.Join(x.URLs, " "))}
	})
	return t
}

func (f *Figures) legTable() table {
	t := table{name: "legs", sort: 0, empty: "no bus has several legs", columns: []column{
		{"LEG", false, 0, 0}, {"STATE", false, 0, 0}, {"PKT/S", true, 0, 0}, {"LOST", true, 1, 0}, {"FILLED", true, 1, 0}, {"BEHIND", true, 2, 0}, {"PROCESS", false, 1, 24}, {"BUS", false, 3, 20},
	}}
	addRows(&t, f.Legs, f.legDetail, func(x *Leg, r *row) {
		r.key = fmt.Sprint(x.key, x.URL)
		state := "up"
		switch {
		case !x.Up:
			state, r.level = "down", alarm
		case x.Silent > 0:
			state, r.level = fmt.Sprintf("%d silent", x.Silent), alarm
		}
		r.cells = []cell{text(x.URL), text(state), rate(x.Rate), countCell(x.Lost), countCell(x.Filled),
			micro(x.Skew), text(x.Process), text(x.Bus)}
	})
	return t
}

func (f *Figures) eventTable() table {
	t := table{name: "events", sort: 0, empty: "nothing has happened yet", columns: []column{
		{"AGO", true, 0, 0}, {"TIMES", true, 1, 0}, {"EVENT", false, 0, 0}, {"PROCESS", false, 1, 24},
	}}
	addRows(&t, f.shownEvents, f.eventDetail, func(x *Event, r *row) {
		ago := max(0, f.Time.Sub(x.Event.Time))
		r.key = x.same
		switch x.Event.Kind {
		case "publisher_up", "publisher_ended", "subscriber_up", "subscriber_left", "group_back", "leg_back", "publisher_resumed", "handler_returned", "no_subscriber_heard", "no_publisher_heard", "config_differs":
		case "publisher_lost", "group_lost", "group_failed", "leg_down", "subscriber_released", "released_by_a_publisher", "subscription_evicted":
			r.level = alarm
		default:
			r.level = warn
		}
		r.cells = []cell{{duration(ago.Round(time.Second).Seconds()), ago.Seconds()}, countCell(x.Times),
			text(x.Event.InGroups(x.groups)), text(x.Process)}
	})
	return t
}

// sorted returns the rows by a column: the largest numbers first, text by the alphabet. Equal rows are sorted by key.
func (t *table) sorted(by int, reverse bool) []row {
	rows := slices.Clone(t.rows)
	by = min(max(by, 0), len(t.columns)-1)
	numbers := t.columns[by].number
	if t.name == "events" && by == 0 {
		numbers, reverse = true, !reverse // the latest first
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		c := cmp.Compare(a.cells[by].text, b.cells[by].text)
		if numbers {
			c = cmp.Compare(b.cells[by].value, a.cells[by].value)
		}
		if reverse {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.key, b.key))
	})
	return rows
}

func matching(rows []row, filter string) []row {
	if filter == "" {
		return rows
	}
	filter = strings.ToLower(filter)
	return slices.DeleteFunc(rows, func(r row) bool {
		return !slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), filter) })
	})
}

type step struct {
	from, unit float64
	format     string
}

func scaled(x float64, steps []step) string {
	for _, s := range steps {
		if x >= s.from {
			return fmt.Sprintf(s.format, x/s.unit)
		}
	}
	return "-"
}

var (
	digits = []step{{999.5e9, 1e12, "%.2fT"}, {999.5e6, 1e9, "%.2fG"}, {999.5e3, 1e6, "%.2fM"}, {9995, 1e3, "%.1fk"}, {0, 1, "%.0f"}}
	sizes  = []step{{1 << 30, 1 << 30, "%.1f GiB"}, {1 << 20, 1 << 20, "%.1f MiB"}, {1 << 10, 1 << 10, "%.0f KiB"}, {0, 1, "%.0f B"}}
	micros = []step{{999.5e3, 1e6, "%.1f s"}, {9995, 1e3, "%.1f ms"}, {math.SmallestNonzeroFloat64, 1, "%.0f µs"}}
)

func si(x float64) string         { return scaled(x, digits) }
func bytesText(n float64) string  { return scaled(n, sizes) }
func microText(us float64) string { return scaled(us, micros) }

func duration(s float64) string {
	switch {
	case s <= 0:
		return "-"
	case s < 1:
		return fmt.Sprintf("%.0fms", s*1e3)
	case s < 10:
		return fmt.Sprintf("%.1fs", s)
	case s < 120:
		return fmt.Sprintf("%.0fs", s)
	case s < 7200:
		return fmt.Sprintf("%dm%02ds", int(s)/60, int(s)%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", int(s)/3600, int(s)/60%60)
	}
	return fmt.Sprintf("%dd%02dh", int(s)/86400, int(s)/3600%24)
}

func clock(t time.Time) string { return t.Format("15:04:05") }

func printable(s string) string { return losses.Printable(s) }

func width(s string) int { return utf8.RuneCountInString(s) }

func fit(s string, n int, right bool) string {
	w := width(s)
	switch {
	case n <= 0:
		return ""
	case w > n:
		r := []rune(s)
		return string(r[:n-1]) + "…"
	case right:
		return strings.Repeat(" ", n-w) + s
	}
	return s + strings.Repeat(" ", n-w)
}
