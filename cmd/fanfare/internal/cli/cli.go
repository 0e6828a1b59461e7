// Package cli is the command line of Fanfare: its commands as functions that tests can call.
//
// Each file holds one command (ping.go, pub.go with pubflags.go) or one part that all commands share.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Exit codes, as the help documents them. The code for a signal is 128 plus its number.
const (
	exitOK         = 0
	exitIncomplete = 1
	exitUsage      = 2
)

type env struct {
	stdin   io.Reader
	stdout  io.Writer
	console *console // standard error
}

type runFunc func(ctx context.Context, e *env, operands []string) error

// runner is a command with flags, created for each call.
type runner interface {
	register(fs *flagSet)
	check(fs *flagSet, operands []string) error // everything that can be checked without opening a bus
	run(ctx context.Context, e *env) error
}

func flagsOf[R runner](newRunner func() R) func(*flagSet) runFunc {
	return func(fs *flagSet) runFunc {
		r := newRunner()
		r.register(fs)
		return func(ctx context.Context, e *env, operands []string) error {
			if err := r.check(fs, operands); err != nil {
				return err
			}
			return r.run(ctx, e)
		}
	}
}

// command is one of fanfare's commands. Help and shell completion are generated from it.
type command struct {
	name      string
	summary   string // in the list of commands
	usage     string // one line for each form
	about     string // shown before the flags
	operand   string // name of the first operand in the help, if it is one of
	operands  []word // these words, which are checked before the command runs
	notes     string // shown after the flags
	examples  string // one a line
	exits     []word // exit codes beyond those of all commands
	exitNotes string // further meanings of its exit codes
	flags     func(fs *flagSet) runFunc
}

func commands() []command {
	return []command{
		pubCommand(), subCommand(), lsCommand(), lossCommand(), topCommand(), webCommand(), requestCommand(), replyCommand(),
		pingCommand(), benchCommand(), dictCommand(), tapCommand(), doctorCommand(), mckeyCommand(), demoCommand(),
		keyCommand(), completionCommand(), helpCommand(), versionCommand(),
	}
}

func commandNamed(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

func commandWords() (words []word) {
	for _, c := range commands() {
		words = append(words, word{c.name, c.summary})
	}
	return words
}

func commandNames() string { return texts(commandWords(), ", ") }

// usageError is a mistake of the user: the flags, operands or input cannot be used.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// exitError ends a command with its own exit code.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// errReported ends a command that has already reported what is incomplete.
var errReported = errors.New("incomplete")

func Main() int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run runs the command named by args, which exclude the program's name, and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, console: newConsole(stderr, "fanfare")}
	if len(args) > 0 && args[0] == worker.Command { // bench starts this program as its workers
		return worker.Main(ctx, stdin, stdout, contenders.All())
	}
	err := dispatch(ctx, e, args)
	var usage *usageError
	var sig *signalError
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &sig):
		return sig.code() // no message: the sender of the signal knows why
	case !errors.Is(err, errReported):
		e.console.line("%s", plain(err))
	}
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &own):
		return own.code
	}
	return exitIncomplete
}

// plain is the text of an error without the names of packages.
func plain(err error) string {
	if err == nil || errors.Is(err, errReported) {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "pubsub: ")
}

func dispatch(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		return usagef("no command given; commands are %s; see 'fanfare help'", commandNames())
	}
	name, args := args[0], args[1:]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-version", "--version":
		name = "version"
	}
	c := commandNamed(name)
	if c == nil {
		return usagef("%q is not a command; commands are %s; see 'fanfare help'", name, commandNames())
	}
	return c.run(ctx, e, args)
}

func (c *command) run(ctx context.Context, e *env, args []string) error {
	e.console.name = "fanfare " + c.name
	fs := newFlagSet(c.name)
	run := c.flags(fs)
	operands, err := fs.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return help(e, []string{c.name}, false)
	}
	if err != nil {
		return usagef("%w; 'fanfare help -all %s' lists the flags", err, c.name)
	}
	if len(c.operands) > 0 {
		what := strings.ToLower(c.operand)
		if len(operands) == 0 {
			return usagef("no %s given: it is one of %s", what, texts(c.operands, ", "))
		}
		if !slices.ContainsFunc(c.operands, func(w word) bool { return w.text == operands[0] }) {
			return usagef("%q is not a valid %s, which is one of %s", operands[0], what, texts(c.operands, ", "))
		}
	}
	return run(ctx, e, operands)
}

func versionCommand() command {
	return command{
		name:     "version",
		summary:  "show the version",
		usage:    "fanfare version",
		examples: "fanfare version",
		flags: func(*flagSet) runFunc {
			return func(_ context.Context, e *env, operands []string) error {
				if len(operands) > 0 {
					return usagef("version takes no arguments: %q is too many", operands[0])
				}
				_, err := fmt.Fprintln(e.stdout, version())
				return err
			}
		},
	}
}

func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("fanfare %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped: %v", e.sig) }

func (e *signalError) code() int { return 128 + int(e.sig) }

// withSignals returns a context that the first signal cancels; the second signal ends the process at once.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// If the reader of our output closes the pipe, the command must still end its publishers and subscriptions properly.
	signal.Ignore(syscall.SIGPIPE)
	go heed(signals, cancel, os.Exit)
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// echo is how long after the first signal further ones count as the same: timeout(1) sends its
// signal to the command and then to the command's process group, and Ctrl-C arrives both from the
// terminal and from a parent that forwards it.
const echo = 250 * time.Millisecond

// heed calls cancel at the first signal, and exit at the next one that comes after the echo time.
func heed(signals <-chan os.Signal, cancel context.CancelCauseFunc, exit func(int)) {
	var first time.Time
	for s := range signals {
		sig, ok := s.(syscall.Signal)
		switch {
		case !ok:
		case first.IsZero():
			first = time.Now()
			cancel(&signalError{sig})
		case time.Since(first) >= echo:
			exit((&signalError{sig}).code())
		}
	}
}
