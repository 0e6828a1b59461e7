package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// Help is written here, from the table of commands and from their flags.

const (
	helpWidth  = 80 // columns
	flagColumn = 18 // where the text about a flag begins
)

const intro = `Fanfare is reliable multicast publish/subscribe: no broker, one datagram for
all subscribers, losses repaired.
`

const tryIt = `
Try it, in two terminals of one machine:

  fanfare sub -t 'udp://?iface=lo' greetings
  echo hello, world | fanfare pub -t 'udp://?iface=lo' -wait 1 greetings

`

func writeExits(b *strings.Builder, own []word) {
	all := []word{
		{"0", "all went well"},
		{"1", "something was lost, is incomplete or failed: standard error says what"},
		{"2", "wrong usage or input: one line on standard error, and nothing sent"},
	}
	all = append(append(all, own...), word{"129, 130, 143", "ended by a hang-up, an interrupt or a termination signal"})
	b.WriteString("Exit codes:\n")
	writeWords(b, all)
}

func helpCommand() command {
	return command{
		name:    "help",
		summary: "show help: fanfare help COMMAND",
		usage:   "fanfare help [COMMAND]",
		about:   "Without a command it lists the commands.\n",
		examples: `fanfare help
fanfare help pub`,
		flags: func(*flagSet) runFunc {
			return func(_ context.Context, e *env, operands []string) error { return help(e, operands) }
		},
	}
}

func help(e *env, operands []string) error {
	text := rootHelp()
	if len(operands) > 0 {
		c := commandNamed(operands[0])
		if c == nil || len(operands) > 1 {
			return usagef("no help on %q; commands are %s", strings.Join(operands, " "), commandNames())
		}
		text = c.help()
	}
	_, err := io.WriteString(e.stdout, text)
	return err
}

func rootHelp() string {
	var b strings.Builder
	b.WriteString(intro + "\nUsage: fanfare COMMAND [flags] [arguments]\n\n")
	writeWords(&b, commandWords())
	b.WriteString(tryIt)
	writeExits(&b, []word{{"3, 4", "what the help of the command says"}})
	return b.String()
}

func (c *command) help() string {
	var b strings.Builder
	b.WriteString(sentence(c.summary) + "\n\n")
	b.WriteString("Usage: " + indented(c.usage, "       "))
	if c.about != "" {
		b.WriteString("\n" + paragraph(c.about))
	}
	if len(c.operands) > 0 {
		fmt.Fprintf(&b, "\n%s is one of:\n", c.operand)
		writeWords(&b, c.operands)
	}
	fs := newFlagSet(c.name)
	c.flags(fs)
	if len(fs.added) > 0 {
		b.WriteString("\nFlags:\n")
	}
	for _, f := range fs.added {
		writeFlag(&b, f)
	}
	if c.notes != "" {
		b.WriteString("\n" + paragraph(c.notes))
	}
	b.WriteString("\nExamples:\n  " + indented(c.examples, "  ") + "\n")
	writeExits(&b, c.exits)
	if c.exitNotes != "" {
		b.WriteString(paragraph(c.exitNotes))
	}
	return b.String()
}

func indented(text, by string) string { return strings.ReplaceAll(text, "\n", "\n"+by) + "\n" }

func paragraph(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

func sentence(summary string) string { return strings.ToUpper(summary[:1]) + summary[1:] + "." }

func writeWords(b *strings.Builder, words []word) {
	width := 0
	for _, w := range words {
		width = max(width, len(w.text))
	}
	for _, w := range words {
		writeItem(b, "  "+w.text, width+4, w.means)
	}
}

func writeFlag(b *strings.Builder, f *flag.Flag) {
	name, usage := unquoteUsage(f)
	left := "  -" + f.Name
	if name != "" {
		left += " " + name
	}
	writeItem(b, left, flagColumn, usage+describeValue(f))
}

func unquoteUsage(f *flag.Flag) (name, usage string) {
	name, usage = flag.UnquoteUsage(f)
	if p, ok := f.Value.(interface{ placeholder() string }); ok && usage == f.Usage {
		name = p.placeholder()
	}
	return name, usage
}

// describeValue says what words a flag takes, and what it is unless given.
func describeValue(f *flag.Flag) string {
	words := wordsOf(f)
	if len(words) == 0 {
		switch f.DefValue {
		case "", "0", "0s", "false":
			return ""
		}
		return ". Default " + f.DefValue
	}
	var list []string
	explained := false
	for _, w := range words {
		text := w.text
		if text == f.DefValue {
			text += " (default)"
		}
		if w.means != "" {
			text, explained = text+": "+w.means, true
		}
		list = append(list, text)
	}
	if explained {
		return ":\n" + strings.Join(list, "\n")
	}
	return ": " + wordsOr(list)
}

func writeItem(b *strings.Builder, left string, column int, text string) {
	if len(left) >= column {
		b.WriteString(left + "\n")
		left = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range losses.Wrap(line, helpWidth-column) {
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s", column, left, part), " ") + "\n")
			left = ""
		}
	}
}

func wordsOr(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}
