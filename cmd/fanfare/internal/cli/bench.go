package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/report"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/outfile"
)

type benchmark struct {
	bench.Settings
	urls    []string // of the fabric, one for each leg
	json    bool
	html    string
	quiet   bool
	verify  checkMode
	compare string

	e        *env
	scenario string
}

type checkMode string

const (
	checkSample checkMode = "sample"
	checkAll    checkMode = "all"
)

func (b *benchmark) check(fs *flagSet, operands []string) error {
	if len(operands) > 1 {
		return usagef("bench takes one scenario: %q is too many", operands[1])
	}
	b.scenario = operands[0]
	b.CheckAll = b.verify == checkAll
	if len(b.urls) > 0 {
		b.URL, b.Legs = b.urls[0], b.urls[1:]
	}
	if b.URL != "" && !fs.isSet("transport") {
		b.Transport, _, _ = strings.Cut(b.URL, ":")
	}
	if err := b.adopt(fs); err != nil {
		return err
	}
	b.chooseBaselines()
	if err := b.checkMeaning(fs); err != nil {
		return err
	}
	if err := b.Settings.Check(b.scenario, contenders.All()); err != nil {
		return &usageError{err}
	}
	switch st, err := os.Stat(b.Profile); {
	case b.html == "-":
		return usagef("-html needs a file name; use -json to write results to standard output")
	case b.Profile != "" && (err != nil || !st.IsDir()):
		return usagef("-cpuprofile %q must be an existing directory", b.Profile)
	case b.Metrics != "" && !strings.HasSuffix(b.Metrics, ":0"):
		return usagef("-metrics %q must end with :0, such as localhost:0: the publisher and each subscriber need separate ports", b.Metrics)
	case b.Metrics != "":
		l, err := net.Listen("tcp", b.Metrics)
		if err != nil {
			return usagef("-metrics: %w", err)
		}
		l.Close()
	}
	return nil
}

// chooseBaselines selects the baselines that suit the settings, unless -baseline names some.
func (b *benchmark) chooseBaselines() {
	switch b.compare {
	case "none", "":
		b.Baselines = []string{}
	case "auto":
		b.Baselines = b.Settings.DefaultBaselines(b.scenario)
	default:
		for name := range strings.SplitSeq(b.compare, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(b.Baselines, name) {
				b.Baselines = append(b.Baselines, name)
			}
		}
	}
}

func (b *benchmark) run(ctx context.Context, e *env) error {
	b.e = e
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the path of this program, to start publisher and subscribers: %w", err)
	}
	// Fail now, not after minutes, if the report cannot be written.
	var page *outfile.File
	if b.html != "" {
		if page, err = outfile.Create(b.html, 0o666); err != nil {
			return &usageError{pathError(err)}
		}
		defer page.Close()
	}
	if err := b.Try(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &usageError{err}
	}
	m := &bench.Bench{Settings: b.Settings, Exe: exe, Contenders: contenders.All()}
	if !b.quiet {
		m.Progress = func(what string) { b.e.console.status(what) }
	}
	result, err := m.Run(ctx, b.scenario)
	b.e.console.clear()
	if result == nil {
		return err
	}
	err = errors.Join(err, bench.Write(b.e.stdout, result, b.json))
	if page != nil {
		err = errors.Join(err, b.writeHTML(page, result))
	}
	if n := result.Lost(); n > 0 {
		err = errors.Join(err, fmt.Errorf("messages lost permanently and reported to subscribers as gaps: %d", n))
	}
	return errors.Join(err, result.Failed())
}

func (b *benchmark) writeHTML(file *outfile.File, result *bench.Result) error {
	page, err := report.Page(result)
	if err == nil {
		err = file.Put(page)
	}
	if err != nil {
		return fmt.Errorf("write report %s: %w", b.html, err)
	}
	return nil
}

func benchCommand() command {
	return command{
		name:     "bench",
		summary:  "measure throughput, latency and more, compared with baselines",
		usage:    "fanfare bench [flags] SCENARIO",
		operand:  "SCENARIO",
		operands: scenarios,
		about: `Publisher and subscribers run as separate processes (with mem and sim: as goroutines
of one process). The bench runs all contenders in turn. Rates count payload bytes at
the slowest subscriber; ratios are medians over neighbouring runs. Each run checks
order and content. A bench that is interrupted or fails prints the results so far and
the reason why they are incomplete (with -json as "incomplete"). A flag that has no
effect in the scenario is refused.`,
		examples: `fanfare bench throughput
fanfare bench throughput -topics 1000 -target 0.7
fanfare bench throughput -topics 1000 -order zipf
fanfare bench throughput -topics 1000 -subs 4 -split
fanfare bench throughput -topics 1000 -wildcard
fanfare bench throughput -keys
fanfare bench throughput -sign
fanfare bench loss -keys
fanfare bench latency -topics 1000 -rate 50000
fanfare bench latency -rate 50000 -loss 0.01 -baseline raw -json
fanfare bench aims -html aims.html
fanfare bench request -subs 3 -loss 0.01 -all-replies`,
		exitNotes: `It is also 1 when a message was received twice, out of order or with wrong content, or
was lost without a reported gap.`,
		flags: func(fs *flagSet) runFunc {
			b := &benchmark{Settings: bench.Defaults("udp")}
			b.register(fs)
			return func(ctx context.Context, e *env, operands []string) error {
				if err := b.check(fs, operands); err != nil {
					return err
				}
				return b.run(ctx, e)
			}
		},
	}
}

var scenarios = []word{
	{"throughput", "messages a second"},
	{"latency", "delay of messages at a steady rate (open loop), counted from the time each was due"},
	{"loss", "throughput with 0 to 30 % of the packets lost"},
	{"idle", "processor time and memory of an idle bus"},
	{"request", "round trips of requests, from the request to the first reply, or to all replies (-all-replies)"},
	{"aims", "the performance aims in docs/performance.md: PASS or MISSED, each with a baseline of the same run. " +
		"Takes a quarter of an hour; a missed aim makes the exit code 1"},
}

func (b *benchmark) register(fs *flagSet) {
	b.registerLoad(fs)
	intVar(fs, &b.Requests, "requests", b.Requests, "scenario request: send `N` requests. Every subscriber process replies to each; -goroutines sets how many goroutines send")
	boolVar(fs, &b.AllReplies, "all-replies", "scenario request: wait for the replies of all subscribers, not only for the first")
	b.registerRuns(fs)
}

func (b *benchmark) registerLoad(fs *flagSet) {
	choiceVar(fs, &b.Transport, "transport", "the transport", plainWords("udp", "shm", "mem", "roce", "sim")...)
	stringVar(fs, &b.Interface, "iface", b.Interface, "the network interface `NAME`. The bench sends as much as it can: use another interface than loopback only where its network may be saturated")
	urlsVar(fs, &b.urls, "t", nil, "the transport as a `URL`, instead of -transport and -iface.\n"+
		"If given several times, Fanfare runs with all of them as legs, and once more with the first alone; the ratio shows the cost of the other legs")
	mtu := &value[int]{val: &b.MTU, parse: bench.ParseMTU, format: strconv.Itoa, must: "a number of bytes, 8K or 64K", name: "BYTES"}
	addValue(fs, "mtu", b.MTU, "datagram size in bytes, or 8K or 64K (65507). With mem the default is 8K; with roce and sim the maximum is 4096", mtu)
	intVar(fs, &b.Size, "size", b.Size, "message size in `BYTES`")
	intVar(fs, &b.Subs, "subs", b.Subs, "run `N` subscribers")
	intVar(fs, &b.Topics, "topics", b.Topics, "publish on `N` topics, each with its own Publisher. Order and count of the messages of each topic are "+
		"checked. The contender \"one\", with one publisher on one topic, runs for comparison, as it does for all flags down to -extra-subscriptions. These flags apply to "+
		"throughput and latency")
	var orders []word
	for _, o := range worker.Orders() {
		orders = append(orders, word{string(o), o.Text()})
	}
	choiceVar(fs, &b.Order, "order", "the order in which topics are published", orders...)
	boolVar(fs, &b.Split, "split", "each subscriber subscribes to an equal share of the topics: a quarter with -subs 4. Rates still count all messages")
	intVar(fs, &b.Goroutines, "goroutines", b.Goroutines, "publish from `N` goroutines that share the bus and its publishers")
	intVar(fs, &b.Buses, "pubs", b.Buses, "publish on `N` buses in one process")
	intVar(fs, &b.Extra, "extra-subscriptions", b.Extra, "add `N` subscriptions to other topics on each subscriber's bus; the contender \"one\" has ten")
	numberVar(fs, &b.Loss, "loss", 0, "drop the share `P` of packets at each subscriber of Fanfare: 0.01 is 1 %. A run without loss is measured for comparison. "+
		"Baselines repair nothing, so nothing is dropped there")
	numberVar(fs, &b.Rate, "rate", b.Rate, "scenario latency: publish `N` messages a second")
}

func (b *benchmark) registerRuns(fs *flagSet) {
	intVar(fs, &b.Runs, "runs", b.Runs, "measure each contender `N` times")
	numberVar(fs, &b.Seconds, "seconds", b.Seconds, "run each contender for `S` seconds")
	list := "the baselines, a `LIST` of:\n"
	for _, base := range contenders.Baselines {
		list += base.Name + ": " + base.What + "\n"
	}
	stringVar(fs, &b.compare, "baseline", "auto", list+
		"none, or auto: those of raw, naive, channel and ring that suit the scenario. Baselines have one topic and one publisher; only udp "+
		"supports -topics and the flags below it, and raw supports -topics in throughput, where raw-one is raw on one topic")
	numberVar(fs, &b.Target, "target", 0, "print PASS if throughput reaches the `SHARE`, such as 0.6, of each baseline, or of "+
		"\"one\" (-topics), by the median ratio of neighbouring runs, otherwise MISSED, which makes the exit code 1")
	choiceVar(fs, &b.Receive, "receive", "how a subscriber receives messages",
		word{string(worker.ReceiveHandle), "a handler that the bus calls"},
		word{string(worker.ReceiveMessages), "a goroutine that ranges over Messages"},
		word{string(worker.ReceiveBatch), "a goroutine that reads batches"})
	choiceVar(fs, &b.Wait, "wait", "how subscribers wait for packets. The raw baseline sleeps in the kernel, or spins with spin",
		plainWords(worker.WaitAdaptive, worker.WaitPark, worker.WaitSpin)...)
	choiceVar(fs, &b.PublisherWait, "publisher-wait", "how the publisher waits for the next message to be due",
		word{string(worker.WaitSpin), "occupies a core; the goroutine is locked to its thread"},
		word{string(worker.WaitPark), "sleeps, which ends some 50 µs late"})
	choiceVar(fs, &b.verify, "check", "what is checked in a message",
		word{string(checkSample), "number and last bytes of every message, and every byte of one message in 64"},
		word{string(checkAll), "every byte"})
	stringVar(fs, &b.Metrics, "metrics", "", "measure once more with each process serving metrics at `ADDR`, which must end with :0, such as localhost:0. They are scraped "+
		"every second")
	boolVar(fs, &b.Top, "top", "measure once more while the processes are inspected every second, as fanfare top does, and with -metrics also scraped")
	intVar(fs, &b.Batch, "batch", 0, "scenario throughput: measure once more with `N` messages in each call of PublishBatch, a power of two; the ratio shows the gain")
	boolVar(fs, &b.Wildcard, "wildcard", "measure once more with subscribers of the pattern >, which matches all topics")
	boolVar(fs, &b.Sealed, "keys", "measure once more with sealed packets, with a new key; the ratio shows the cost. With losses, sealed packets are also measured without losses. For throughput, latency and loss")
	boolVar(fs, &b.Signed, "sign", "measure once more with a publisher that signs and subscribers that trust only its key; the ratio shows the cost")
	boolVar(fs, &b.Alone, "alone", "measure once more with one subscriber; the ratio shows the cost of each further one. For throughput and latency")
	stringVar(fs, &b.Profile, "cpuprofile", "", "write a CPU profile of each process to `DIR`, for go tool pprof")
	boolVar(fs, &b.json, "json", jsonResult)
	stringVar(fs, &b.html, "html", "", "write a report with plots to `FILE`")
	boolVar(fs, &b.quiet, "q", "no progress on standard error")
}

// adopt sets the flags that -t implies, so that baselines use the same transport and settings as Fanfare.
func (b *benchmark) adopt(fs *flagSet) error {
	u, err := url.Parse(b.URL)
	if err != nil {
		return usagef("-t: %w", err)
	}
	q := u.Query()
	if b.Transport == "roce" && u.Host != "" {
		q.Set("iface", u.Host)
	}
	if !fs.isSet("mtu") && !q.Has("size") {
		b.MTU = bench.Defaults(b.Transport).MTU
	}
	for _, c := range []struct {
		option, flag string
		val          *int
	}{{"size", "mtu", &b.MTU}, {"rcvbuf", "rcvbuf", &b.RecvBuf}, {"sndbuf", "sndbuf", &b.SendBuf}} {
		n, err := bench.ParseBytes(q.Get(c.option))
		if err != nil {
			continue // it does not exist, or opening the fabric reports the error
		}
		if fs.isSet(c.flag) && n != *c.val {
			return contradiction(c.flag, strconv.Itoa(*c.val), c.option, q.Get(c.option))
		}
		*c.val = n
	}
	if name := q.Get("iface"); name != "" {
		if fs.isSet("iface") && name != b.Interface {
			return contradiction("iface", b.Interface, "iface", name)
		}
		b.Interface = name
	}
	return nil
}

func contradiction(flag, val, option, of string) error {
	return usagef("-%s %s contradicts %s=%s of -t: use one of the two", flag, val, option, of)
}

// meaningless lists, by scenario, the flags that have no effect there: giving one is probably a mistake.
var meaningless = map[string][]string{
	"throughput": {"rate", "publisher-wait"},
	"latency":    {"target", "goroutines", "pubs"},
	"loss":       {"loss", "baseline", "rate", "publisher-wait", "target"},
	"idle":       {"size", "check", "baseline", "metrics", "top", "rate", "publisher-wait", "target"},
	"request":    {"baseline", "metrics", "top", "rate", "publisher-wait", "target", "seconds", "check", "receive"},
	"aims": {
		"t", "transport", "mtu", "size", "subs", "loss", "baseline", "target", "receive", "wait", "publisher-wait", "rate", "metrics", "top",
	},
}

// shapeFlags apply to the scenarios throughput and latency.
var shapeFlags = []string{"topics", "order", "goroutines", "pubs", "split", "extra-subscriptions", "wildcard", "keys", "sign", "alone"}

func (b *benchmark) checkMeaning(fs *flagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case err != nil || f.Name == "baseline" && len(b.Baselines) == 0:
		case slices.Contains(meaningless[b.scenario], f.Name):
			err = usagef("-%s has no effect in %s: leave it out", f.Name, b.scenario)
		case f.Name == "keys" && b.scenario == "loss", f.Name == "goroutines" && b.scenario == "request":
		case slices.Contains(shapeFlags, f.Name) && b.scenario != "throughput" && b.scenario != "latency":
			err = usagef("-%s is only for throughput and latency%s: leave it out of %s", f.Name, map[bool]string{true: ", and loss"}[f.Name == "keys"], b.scenario)
		case f.Name == "batch" && b.scenario != "throughput":
			err = usagef("-%s is only for throughput: leave it out of %s", f.Name, b.scenario)
		case (f.Name == "requests" || f.Name == "all-replies") && b.scenario != "request":
			err = usagef("-%s is only for request: leave it out of %s", f.Name, b.scenario)
		case f.Name == "alone" && b.Subs == 1:
			err = usagef("-alone has no effect with one subscriber: add -subs")
		case f.Name == "wildcard" && b.Split:
			err = usagef("-wildcard subscribes to all topics and -split to a share of them: use one of the two")
		case b.InProcess() && f.Name == "iface":
			err = usagef("-%s has no effect with -transport %s, which runs in one process: leave it out", f.Name, b.Transport)
		}
	})
	return err
}
