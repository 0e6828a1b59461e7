package cli

import (
	"flag"
	"net/url"
	"slices"
	"strconv"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// adopt takes from -t what flags say otherwise, so that baselines measure beside Fanfare and
// the result tells the truth. What is asked for is the only datagram size of a sweep.
func (b *benchmark) adopt(fs *flag.FlagSet) error {
	u, err := url.Parse(b.URL)
	if err != nil {
		return usagef("-t: %w", err)
	}
	q := u.Query()
	if b.Transport == "roce" && u.Host != "" {
		q.Set("iface", u.Host)
	}
	oneSize := isSet(fs, "mtu") || q.Has("size")
	if !oneSize {
		b.MTU = bench.Defaults(b.Transport).MTU
	}
	for _, c := range []struct {
		option, flag string
		val          *int
	}{{"size", "mtu", &b.MTU}, {"rcvbuf", "rcvbuf", &b.RecvBuf}, {"sndbuf", "sndbuf", &b.SendBuf}} {
		n, err := bench.ParseBytes(q.Get(c.option))
		if err != nil {
			continue // it is not there, or the fabric will say what is wrong
		}
		if isSet(fs, c.flag) && n != *c.val {
			return contradiction(c.flag, strconv.Itoa(*c.val), c.option, q.Get(c.option))
		}
		*c.val = n
	}
	if name := q.Get("iface"); name != "" {
		if isSet(fs, "iface") && name != b.Interface {
			return contradiction("iface", b.Interface, "iface", name)
		}
		b.Interface = name
	}
	if oneSize && (b.scenario == "sizes" || b.scenario == "all") {
		b.MTUs = []int{b.MTU}
	}
	return nil
}

func contradiction(flag, val, option, of string) error {
	return usagef("-%s %s contradicts %s=%s of -t: give one of them", flag, val, option, of)
}

// meaningless are, by scenario, the flags that would change nothing in it. Whoever gives
// one means something else, and should not read it in the result's settings.
var meaningless = map[string][]string{
	"throughput": {"rate", "burst", "every", "pace"},
	"latency":    {"burst", "every", "target", "goroutines", "pubs", "slow"},
	"burst":      {"rate", "target"},
	"sizes":      {"size", "rate", "burst", "every", "pace", "target"},
	"fanout":     {"subs", "together", "rate", "burst", "every", "pace", "target"},
	"loss":       {"loss", "baseline", "rate", "burst", "every", "pace", "target"},
	"idle":       {"size", "check", "baseline", "metrics", "rate", "burst", "every", "pace", "target"},
	"all":        {"target"},
	"aims": {
		"t", "transport", "mtu", "size", "subs", "together", "loss", "baseline", "target", "publisher", "receive", "wait", "pace", "rate", "burst", "every", "metrics",
	},
}

// shapeFlags are for two scenarios.
var shapeFlags = []string{"topics", "order", "goroutines", "pubs", "slow", "split", "extra-subscriptions"}

// meaninglessWithin are those that would change nothing where nothing leaves the process.
var meaninglessWithin = []string{"iface", "rcvbuf", "sndbuf", "together"}

// checkMeaning refuses flags that were given and mean nothing here.
func (b *benchmark) checkMeaning(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case err != nil || f.Name == "baseline" && len(b.Baselines) == 0:
		case slices.Contains(meaningless[b.scenario], f.Name):
			err = usagef("-%s would change nothing in %s: leave it out", f.Name, b.scenario)
		case slices.Contains(shapeFlags, f.Name) && b.scenario != "throughput" && b.scenario != "latency":
			err = usagef("-%s is of throughput and latency alone: leave it out of %s", f.Name, b.scenario)
		case f.Name == "seed" && b.Loss == 0 && !isSet(fs, "loss") && b.Order == worker.OrderRound && !slices.Contains([]string{"loss", "all", "aims"}, b.scenario):
			err = usagef("-seed is of losses and of -order zipf and bursts: give -loss or -order too")
		case f.Name == "order" && b.Topics == 1:
			err = usagef("-order would change nothing with one topic: give -topics too")
		case f.Name == "slow" && b.Buses == 1:
			err = usagef("-slow would change nothing with one publisher: give -pubs too")
		case f.Name == "together" && b.Subs == 1 && b.scenario != "all":
			err = usagef("-together would change nothing with one subscriber: give -subs too")
		case b.InProcess() && slices.Contains(meaninglessWithin, f.Name):
			err = usagef("-%s would change nothing with -transport %s, which does not leave the process: leave it out", f.Name, b.Transport)
		}
	})
	return err
}
