package reliable

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

var update = flag.Bool("update", false, "write the results into testdata/*.txt")

// TestScripts runs the exchanges in testdata/*.txt: commands, each with the packets and deliveries
// that it causes. After a change of the protocol
//
//	go test ./reliable -run TestScripts -update
//
// rewrites them: review the difference. The commands are those of scriptCommands.
func TestScripts(t *testing.T) {
	if *update {
		if err := flag.Set("rewrite", "true"); err != nil {
			t.Fatal(err)
		}
	}
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) {
			x := &exchange{}
			datadriven.RunTest(t, script, x.do)
		})
	}
}

// do executes a command and returns its output.
func (x *exchange) do(t *testing.T, d *datadriven.TestData) string {
	x.t, x.out = t, &strings.Builder{}
	command, ok := scriptCommands[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	command(x, d)
	x.flush()
	if d.Cmd == "run" && x.out.Len() == 0 {
		return "nothing\n"
	}
	return x.out.String()
}

var scriptCommands = map[string]func(*exchange, *datadriven.TestData){
	// subscribers NAME... [window=PACKETS]: starts subscribers.
	"subscribers": func(x *exchange, d *datadriven.TestData) {
		window := 32
		d.MaybeScanArgs(x.t, "window", &window)
		for _, name := range words(d) {
			x.subscribe(name, window)
		}
		x.pump()
	},
	// publisher NAME [window=PACKETS] [flow=none]: starts a publisher, or restarts it after kill: its
	// second epoch is called NAME.2.
	"publisher": func(x *exchange, d *datadriven.TestData) {
		window, flow := 16, "min"
		d.MaybeScanArgs(x.t, "window", &window)
		d.MaybeScanArgs(x.t, "flow", &flow)
		x.publisher(words(d)[0], window, flow)
		x.pump()
	},
	// publish TEXT... | publish count=N: one message, in a packet of its own, for each text.
	"publish": func(x *exchange, d *datadriven.TestData) {
		texts, count := words(d), 0
		d.MaybeScanArgs(x.t, "count", &count)
		for range count {
			x.texts++
			texts = append(texts, fmt.Sprintf("m%d", x.texts))
		}
		p := x.publishers[len(x.publishers)-1]
		p.backlog = append(p.backlog, texts...)
		x.pump()
	},
	// lose to=NAME type=TYPE [count=N]: the network loses the next packets of a type, such as data,
	// repair, nak or status, to a host; type any: all packets.
	"lose": func(x *exchange, d *datadriven.TestData) {
		l := loss{count: 1}
		d.ScanArgs(x.t, "to", &l.to)
		d.ScanArgs(x.t, "type", &l.kind)
		d.MaybeScanArgs(x.t, "count", &l.count)
		x.losses = append(x.losses, l)
	},
	// run DURATION: lets time pass.
	"run": func(x *exchange, d *datadriven.TestData) {
		for _, w := range words(d) {
			dt, err := time.ParseDuration(w)
			if err != nil {
				d.Fatalf(x.t, "%v", err)
			}
			x.run(x.now.Add(dt))
		}
	},
	// end: the publisher ends its stream, and exits when all subscribers have everything.
	"end": func(x *exchange, d *datadriven.TestData) {
		p := x.publishers[len(x.publishers)-1]
		p.ending = true
		p.s.End(x.now)
		x.pump()
	},
	// kill: the publisher is killed.
	"kill": func(x *exchange, d *datadriven.TestData) {
		x.publishers[len(x.publishers)-1].dead = true
	},
	// leave NAME: a subscriber leaves and exits.
	"leave": func(x *exchange, d *datadriven.TestData) {
		name := words(d)[0]
		i := slices.IndexFunc(x.subscribers, func(s *scriptSubscriber) bool { return s.name == name })
		if i < 0 {
			d.Fatalf(x.t, "no subscriber has the name %q", name)
		}
		s := x.subscribers[i]
		s.r.Close(x.now)
		x.pump()
		s.left = true
		x.subscribers = slices.Delete(x.subscribers, i, i+1)
	},
}

// words returns the arguments of a command without a value.
func words(d *datadriven.TestData) (all []string) {
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			all = append(all, a.Key)
		}
	}
	return all
}
