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

// benchmark is the command bench: it reads the flags; package bench measures.
type benchmark struct {
	bench.Settings
	urls    []string // of the fabric, one a leg
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
		return usagef("-html needs the name of a file; -json writes to standard output")
	case b.Profile != "" && (err != nil || !st.IsDir()):
		return usagef("-cpuprofile %q must be a directory that is there", b.Profile)
	case b.Metrics != "" && !strings.HasSuffix(b.Metrics, ":0"):
		return usagef("-metrics %q must end with :0, such as localhost:0: publisher and subscribers each need a port of their own", b.Metrics)
	case b.Metrics != "":
		l, err := net.Listen("tcp", b.Metrics)
		if err != nil {
			return usagef("-metrics: %w", err)
		}
		l.Close()
	}
	return nil
}

// chooseBaselines: those that the settings suit, unless some are asked for.
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
		return fmt.Errorf("find this program, to run it as publisher and subscriber: %w", err)
	}
	// A report that cannot be written should not be learnt of after minutes.
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
		err = errors.Join(err, fmt.Errorf("messages lost permanently, which subscribers got as gaps: %d", n))
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
		summary:  "measure throughput, latency and more, beside baselines",
		usage:    "fanfare bench [flags] SCENARIO",
		operand:  "SCENARIO",
		operands: scenarios,
		about: `Publisher and subscribers are processes of their own (mem and sim: goroutines of
one). Contenders take turns. Rates are those of the slowest subscriber, of payload;
ratios are medians over neighbouring runs. Each run checks order and content. A bench
that is interrupted or fails prints what it has measured, and why that is not all
(with -json as "incomplete"). A flag that would change nothing in the scenario is
refused.`,
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
		exitNotes: `It is 1 too when a message came twice, out of order, with wrong content, or not at
all without word of it.`,
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
	{"latency", "how late messages are at a steady rate: open loop, counted from when each was due"},
	{"loss", "throughput with 0 to 30 % of the packets lost"},
	{"idle", "what a bus costs that has nothing to do"},
	{"request", "round trips of requests: from the question to the first reply, or to all (-all-replies)"},
	{"aims", "what Fanfare aims at (docs/performance.md): PASS or MISSED, each beside what a baseline did meanwhile. " +
		"A quarter of an hour; MISSED is exit code 1"},
}

func (b *benchmark) register(fs *flagSet) {
	b.registerLoad(fs)
	intVar(fs, &b.Requests, "requests", b.Requests, "`N` requests, in request. Each subscriber, a process, answers each; -goroutines ask")
	boolVar(fs, &b.AllReplies, "all-replies", "wait for the replies of all subscribers, in request, and not for the first")
	b.registerRuns(fs)
}

func (b *benchmark) registerLoad(fs *flagSet) {
	choiceVar(fs, &b.Transport, "transport", "the fabric", plainWords("udp", "shm", "mem", "roce", "sim")...)
	stringVar(fs, &b.Interface, "iface", b.Interface, "the interface `NAME`. Traffic is heavy: name another one than loopback only where you may fill it")
	urlsVar(fs, &b.urls, "t", nil, "the fabric by its `URL`, in place of the two above.\n"+
		"Given more than once, Fanfare runs over all of them, its legs, and once more over the first alone: the ratio says what the others cost")
	mtu := &value[int]{val: &b.MTU, parse: bench.ParseMTU, format: strconv.Itoa, must: "a number of bytes, 8K or 64K", name: "BYTES"}
	addValue(fs, "mtu", b.MTU, "bytes in a datagram, or 8K or 64K (65507); mem: 8K unless given; roce and sim: up to 4096", mtu)
	intVar(fs, &b.Size, "size", b.Size, "`BYTES` in a message")
	intVar(fs, &b.Subs, "subs", b.Subs, "`N` subscribers")
	intVar(fs, &b.Topics, "topics", b.Topics, "go through `N` topics, with a Publisher each. Order and count of each topic's messages are "+
		"checked. Beside it, as \"one\", one publisher on one topic, as beside all flags down to -extra-subscriptions, which are of "+
		"throughput and latency")
	var orders []word
	for _, o := range worker.Orders() {
		orders = append(orders, word{string(o), o.Text()})
	}
	choiceVar(fs, &b.Order, "order", "how to go through the topics", orders...)
	boolVar(fs, &b.Split, "split", "each subscriber takes its share of the topics: with -subs 4 a quarter. Its rate counts for all messages")
	intVar(fs, &b.Goroutines, "goroutines", b.Goroutines, "`N` goroutines publish, sharing the bus and its publishers")
	intVar(fs, &b.Buses, "pubs", b.Buses, "`N` buses publish, in one process")
	intVar(fs, &b.Extra, "extra-subscriptions", b.Extra, "`N` subscriptions to other topics on each subscriber's bus; the \"one\" beside it has ten")
	numberVar(fs, &b.Loss, "loss", 0, "share `P` of packets lost at each subscriber of Fanfare's: 0.01 is 1 %. Beside it the same without loss. "+
		"Baselines, which repair nothing, lose none")
	numberVar(fs, &b.Rate, "rate", b.Rate, "`N` messages a second of latency")
}

func (b *benchmark) registerRuns(fs *flagSet) {
	intVar(fs, &b.Runs, "runs", b.Runs, "`N` runs of each contender")
	numberVar(fs, &b.Seconds, "seconds", b.Seconds, "length `S` of a run")
	list := "what to compare with, a `LIST` of:\n"
	for _, base := range contenders.Baselines {
		list += base.Name + ": " + base.What + "\n"
	}
	stringVar(fs, &b.compare, "baseline", "auto", list+
		"none, or auto: what suits the scenario, of raw, naive, channel and ring. They have one topic and one publisher: of -topics and the "+
		"like only udp knows, and of -topics, in throughput, raw: beside it, as raw-one, raw on one topic")
	numberVar(fs, &b.Target, "target", 0, "say PASS or MISSED: whether throughput reaches `SHARE`, such as 0.6, of each baseline's, or of "+
		"\"one\" (-topics), by the median ratio of neighbouring runs. MISSED is exit code 1")
	choiceVar(fs, &b.Receive, "receive", "how a subscriber takes messages",
		word{string(worker.ReceiveHandle), "a handler, which the bus calls"},
		word{string(worker.ReceiveMessages), "a goroutine, which ranges over Messages"},
		word{string(worker.ReceiveBatch), "a goroutine, many at a time"})
	choiceVar(fs, &b.Wait, "wait", "how subscribers wait. The raw baseline sleeps in the kernel, or spins with spin",
		plainWords(worker.WaitAdaptive, worker.WaitPark, worker.WaitSpin)...)
	choiceVar(fs, &b.PublisherWait, "publisher-wait", "how the publisher waits for the next message to be due",
		word{string(worker.WaitSpin), "it takes a core and locks its thread"},
		word{string(worker.WaitPark), "it oversleeps by 50 µs"})
	choiceVar(fs, &b.verify, "check", "what of a message is checked",
		word{string(checkSample), "number and end of every message, every byte of one in 64"},
		word{string(checkAll), "every byte"})
	stringVar(fs, &b.Metrics, "metrics", "", "measure once more with metrics served at `ADDR`, at ports of their own: localhost:0. They are read "+
		"each second")
	boolVar(fs, &b.Top, "top", "measure once more while the processes are read each second as by fanfare top, and their metrics with -metrics")
	intVar(fs, &b.Batch, "batch", 0, "measure once more with `N` messages a call (PublishBatch), a power of two: the ratio says what that gains. Of throughput alone")
	boolVar(fs, &b.Wildcard, "wildcard", "measure once more with subscribers that take all topics by the pattern >")
	boolVar(fs, &b.Sealed, "keys", "measure once more with every packet sealed, by a key that is made for it: the ratio says what that costs. With losses once more without them. Of throughput, latency and loss")
	boolVar(fs, &b.Signed, "sign", "measure once more with a publisher that signs, and subscribers that trust its key alone: the ratio says what that costs")
	boolVar(fs, &b.Alone, "alone", "measure once more with one subscriber: the ratio says what the others cost each. Of throughput and latency")
	stringVar(fs, &b.Profile, "cpuprofile", "", "write a CPU profile of each process to `DIR`, for go tool pprof")
	boolVar(fs, &b.json, "json", jsonResult)
	stringVar(fs, &b.html, "html", "", "write a report with plots to `FILE`")
	boolVar(fs, &b.quiet, "q", "no progress on standard error")
}

// adopt takes from -t what flags say otherwise, so that baselines measure beside Fanfare.
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
			continue // it is not there, or the fabric will say what is wrong
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
	return usagef("-%s %s contradicts %s=%s of -t: give one of them", flag, val, option, of)
}

// meaningless are the flags that would change nothing in a scenario: they were given for something else.
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

// shapeFlags are for two scenarios.
var shapeFlags = []string{"topics", "order", "goroutines", "pubs", "split", "extra-subscriptions", "wildcard", "keys", "sign", "alone"}

func (b *benchmark) checkMeaning(fs *flagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case err != nil || f.Name == "baseline" && len(b.Baselines) == 0:
		case slices.Contains(meaningless[b.scenario], f.Name):
			err = usagef("-%s would change nothing in %s: leave it out", f.Name, b.scenario)
		case f.Name == "keys" && b.scenario == "loss", f.Name == "goroutines" && b.scenario == "request":
		case slices.Contains(shapeFlags, f.Name) && b.scenario != "throughput" && b.scenario != "latency":
			err = usagef("-%s is of throughput and latency alone%s: leave it out of %s", f.Name, map[bool]string{true: ", and loss"}[f.Name == "keys"], b.scenario)
		case f.Name == "batch" && b.scenario != "throughput":
			err = usagef("-%s is of throughput alone: leave it out of %s", f.Name, b.scenario)
		case (f.Name == "requests" || f.Name == "all-replies") && b.scenario != "request":
			err = usagef("-%s is of request alone: leave it out of %s", f.Name, b.scenario)
		case f.Name == "alone" && b.Subs == 1:
			err = usagef("-alone would change nothing with one subscriber: give -subs too")
		case f.Name == "wildcard" && b.Split:
			err = usagef("-wildcard takes all topics, and -split a share of them: give one")
		case b.InProcess() && f.Name == "iface":
			err = usagef("-%s would change nothing with -transport %s, which does not leave the process: leave it out", f.Name, b.Transport)
		}
	})
	return err
}
