package cli

import (
	"flag"
	"slices"
)

// meaningless are, by scenario, the flags that would change nothing in it. Whoever gives
// one means something else, and should not read it in the result's settings.
var meaningless = map[string][]string{
	"throughput": {"rate", "burst", "every", "pace"},
	"latency":    {"burst", "every", "target"},
	"burst":      {"rate", "target"},
	"sizes":      {"size", "rate", "burst", "every", "pace", "target"},
	"fanout":     {"subs", "together", "rate", "burst", "every", "pace", "target"},
	"loss":       {"loss", "baseline", "rate", "burst", "every", "pace", "target"},
	"idle":       {"size", "check", "baseline", "metrics", "rate", "burst", "every", "pace", "target"},
	"all":        {"target"},
}

// meaninglessWithin are those that would change nothing where nothing leaves the process.
var meaninglessWithin = []string{"iface", "rcvbuf", "sndbuf"}

// checkMeaning refuses flags that were given and mean nothing here.
func (b *benchmark) checkMeaning(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case err != nil || f.Name == "baseline" && len(b.Baselines) == 0:
		case slices.Contains(meaningless[b.scenario], f.Name):
			err = usagef("-%s would change nothing in %s: leave it out", f.Name, b.scenario)
		case b.InProcess() && slices.Contains(meaninglessWithin, f.Name):
			err = usagef("-%s would change nothing with -transport %s, which does not leave the process: leave it out", f.Name, b.Transport)
		}
	})
	return err
}
