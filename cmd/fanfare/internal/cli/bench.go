package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/report"
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
	for _, name := range []string{"requests", "all-replies"} {
		if fs.isSet(name) && operands[0] != "request" {
			return usagef("-%s is of request alone: leave it out of %s", name, operands[0])
		}
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
		err = errors.Join(err, fmt.Errorf("messages lost for good, which the subscribers were told: %d", n))
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
