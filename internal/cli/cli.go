// Package cli is the command line of Fanfare: its commands as functions that
// tests can call.
//
// A file holds a command (pub.go, sub.go, ping.go) or a concern of all:
// flags.go reads the command line, usage.go holds the help, framing.go cuts
// streams into messages and joins them again, source.go is where pub reads,
// console.go writes to standard error, meter.go shows progress.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Exit codes, as in the help. A signal's is 128 and its number.
const (
	exitOK         = 0
	exitIncomplete = 1
	exitUsage      = 2
)

// env is what a command has to do with.
type env struct {
	stdin   io.Reader
	stdout  io.Writer
	console *console // standard error
}

// command is one of fanfare's commands.
type command struct {
	name string
	help string
	// flags registers the command's flags and returns how to run it.
	flags func(fs *flag.FlagSet) func(ctx context.Context, e *env, operands []string) error
}

func commands() []command {
	return []command{
		{"pub", pubHelp, pubCommand},
		{"sub", subHelp, subCommand},
		{"ping", pingHelp, pingCommand},
		{"bench", benchHelp, benchCommand},
		{"mckey", mckeyHelp, mckeyCommand},
		{"doctor", doctorHelp, doctorCommand},
		{"demo", demoHelp, demoCommand},
	}
}

// usageError is the user's mistake: what was given cannot be used.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errReported ends a command that has already said what is incomplete.
var errReported = errors.New("incomplete")

// Main runs the process's command line and returns its exit code.
func Main() int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run runs the command that args, without the program's name, call for. It
// returns the exit code. When ctx ends the command ends in order.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, console: newConsole(stderr, "fanfare")}
	if len(args) > 0 && args[0] == worker.Command {
		return benchWorker(ctx, e)
	}
	err := dispatch(ctx, e, args)
	var usage *usageError
	var sig *signalError
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &sig):
		return sig.code() // no need to tell who sent it
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

// plain is an error's text for those who use commands and no packages.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "pubsub: ") }

func dispatch(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		return usagef("no command given; commands are %s; 'fanfare help' says more", commandNames())
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(e, args)
	case "version", "-version", "--version":
		_, err := fmt.Fprintln(e.stdout, version())
		return err
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, e, args)
		}
	}
	return usagef("%q is no command; commands are %s; 'fanfare help' says more", name, commandNames())
}

func (c *command) run(ctx context.Context, e *env, args []string) error {
	e.console.name = "fanfare " + c.name
	fs := newFlagSet(c.name)
	run := c.flags(fs)
	operands, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(e.stdout, c.help)
		return err
	}
	if err != nil {
		return usagef("%w; 'fanfare help %s' lists the flags", err, c.name)
	}
	return run(ctx, e, operands)
}

func help(e *env, args []string) error {
	if len(args) == 0 {
		_, err := io.WriteString(e.stdout, rootHelp)
		return err
	}
	for _, c := range commands() {
		if c.name == args[0] && len(args) == 1 {
			_, err := io.WriteString(e.stdout, c.help)
			return err
		}
	}
	return usagef("no help on %q; commands are %s", strings.Join(args, " "), commandNames())
}

func commandNames() string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}
