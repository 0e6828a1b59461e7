package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

const (
	helpWidth  = 80 // columns
	flagColumn = 18 // column where the text of a flag begins
)

const intro = `Fanfare is reliable multicast publish/subscribe: no broker, one datagram for all
subscribers, repair of losses.
`

const tryIt = `
Try it, in two terminals of one machine:

  fanfare sub -t 'udp://?iface=lo' greetings
  echo hello, world | fanfare pub -t 'udp://?iface=lo' -wait 1 greetings

`

func writeExits(b *strings.Builder, own []word) {
	all := []word{
		{"0", "success"},
		{"1", "something failed, was lost or is incomplete: see standard error"},
		{"2", "wrong usage or input: one line on standard error, nothing sent"},
	}
	all = append(append(all, own...), word{"129, 130, 143", "ended by a hang-up, an interrupt or a termination signal"})
	b.WriteString("Exit codes:\n")
	writeWords(b, all)
}

func helpCommand() command {
	return command{
		name:    "help",
		summary: "show help: fanfare help COMMAND",
		usage:   "fanfare help [-all] [COMMAND]",
		about:   "Without a command it lists the commands. \"fanfare help url\" explains the URLs of -t.\n",
		examples: `fanfare help
fanfare help -all pub
fanfare help url`,
		flags: func(fs *flagSet) runFunc {
			var all bool
			boolVar(fs, &all, "all", "also show all flags of the command, notes and exit codes")
			return func(_ context.Context, e *env, operands []string) error { return help(e, operands, all) }
		},
	}
}

func help(e *env, operands []string, all bool) error {
	text := rootHelp()
	if len(operands) > 0 {
		c := commandNamed(operands[0])
		switch {
		case len(operands) == 1 && operands[0] == "url":
			text = urlHelp
		case c == nil || len(operands) > 1:
			return usagef("no help on %q; topics are url and the commands %s", strings.Join(operands, " "), commandNames())
		default:
			text = c.help(all)
		}
	}
	_, err := io.WriteString(e.stdout, text)
	return err
}

func rootHelp() string {
	var b strings.Builder
	b.WriteString(intro + "\nUsage: fanfare COMMAND [flags] [arguments]\n\n")
	writeWords(&b, commandWords())
	b.WriteString(tryIt)
	writeExits(&b, []word{{"3, 4", "see fanfare help -all COMMAND"}})
	return b.String()
}

// shortFlags is the number of flags in the help without -all; the most important flags are registered first.
const shortFlags = 6

func (c *command) help(all bool) string {
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
	for i, f := range fs.added {
		if i == shortFlags && !all {
			break
		}
		writeFlag(&b, f)
	}
	if c.notes != "" && all {
		b.WriteString("\n" + paragraph(c.notes))
	}
	b.WriteString("\nExamples:\n  " + indented(c.examples, "  ") + "\n")
	if !all {
		more := "Notes and exit codes"
		if n := len(fs.added); n > shortFlags {
			more = "All " + count(n, "flag") + ", notes and exit codes"
		}
		b.WriteString(more + ": fanfare help -all " + c.name + "\n")
		return b.String()
	}
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

type shell struct {
	name   string
	load   string // the command that loads the script
	script func([]completion) string
}

var shells = []shell{
	{"bash", "source <(fanfare completion bash)", bashScript},
	{"zsh", "source <(fanfare completion zsh)", zshScript},
	{"fish", "fanfare completion fish | source", fishScript},
}

func completionCommand() command {
	c := command{
		name:    "completion",
		summary: "print a script that makes a shell complete commands and flags",
		usage:   "fanfare completion SHELL",
		operand: "SHELL",
		notes: `Put the line for your shell into its startup file: ~/.bashrc, ~/.zshrc (after
compinit) or ~/.config/fish/config.fish.`,
		flags: func(*flagSet) runFunc { return writeCompletion },
	}
	for _, s := range shells {
		c.operands = append(c.operands, word{s.name, s.load})
		c.examples = strings.TrimSpace(c.examples + "\n" + s.load)
	}
	return c
}

func writeCompletion(_ context.Context, e *env, operands []string) error {
	if len(operands) > 1 {
		return usagef("completion takes one shell: %q is too many", operands[1])
	}
	i := slices.IndexFunc(shells, func(s shell) bool { return s.name == operands[0] })
	_, err := io.WriteString(e.stdout, shells[i].script(completions()))
	return err
}

type completion struct {
	command word
	flags   []flagCompletion
	operand string // name of the operands; empty: none
	words   []word // valid words for the operand
}

type flagCompletion struct {
	name, means string
	value       string // name of its value; empty: none
	words       []word
}

// Values with these names are completed as files and directories.
const (
	valueFile = "FILE"
	valueDir  = "DIR"
)

func completions() []completion {
	var list []completion
	for _, c := range commands() {
		l := completion{command: word{c.name, c.summary}, operand: c.operand, words: c.operands}
		if c.name == "help" { // it would be its own operand in the table
			l.operand, l.words = "COMMAND", commandWords()
		}
		fs := newFlagSet(c.name)
		c.flags(fs)
		for _, f := range fs.added {
			value, usage := unquoteUsage(f)
			l.flags = append(l.flags, flagCompletion{name: f.Name, means: brief(usage), value: value, words: wordsOf(f)})
		}
		list = append(list, l)
	}
	return list
}

// brief is the beginning of a text, for a single line.
func brief(text string) string {
	for _, end := range []string{"\n", ". ", ": ", "; ", " (", ", such as"} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}

func texts(words []word, between string) string {
	var list []string
	for _, w := range words {
		list = append(list, w.text)
	}
	return strings.Join(list, between)
}

// pick selects how a shell completes the flag's value: one of its words, a file, a directory, or other.
func (f *flagCompletion) pick(words, file, dir, other string) string {
	switch {
	case f.value == "":
		return ""
	case len(f.words) > 0:
		return words
	case f.value == valueFile:
		return file
	case f.value == valueDir:
		return dir
	}
	return other
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// bashScript works with bash 3.2 or later and nothing else.
func bashScript(list []completion) string {
	var values, command strings.Builder
	var names []word
	for _, c := range list {
		names = append(names, c.command)
		var flags []string
		for _, f := range c.flags {
			flags = append(flags, f.name)
			reply := f.pick(fmt.Sprintf("_fanfare_words '%s'; return", texts(f.words, " ")), "_fanfare_files -f; return", "_fanfare_files -d; return", "return")
			if reply != "" {
				fmt.Fprintf(&values, "\t%s:-%s) %s ;;\n", c.command.text, f.name, reply)
			}
		}
		fmt.Fprintf(&command, "\t%s) flags='%s' operands='%s' ;;\n", c.command.text, strings.Join(flags, " "), texts(c.words, " "))
	}
	return `# Completion of fanfare in bash: source <(fanfare completion bash)

_fanfare_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }

_fanfare_files() {
	local IFS=$'\n'
	compopt -o filenames 2>/dev/null # not in bash 3.2
	COMPREPLY=($(compgen "$1" -- "$cur"))
}

_fanfare() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
	local flags= operands= dashes=- i
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_fanfare_words '` + texts(names, " ") + `'
		return
	fi
	# bash splits -flag=value into three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	[[ $prev == --?* ]] && prev=${prev#-}
	case $command:$prev in
` + values.String() + `	esac
	case $command in
` + command.String() + `	esac
	for ((i = 2; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -- ]] && flags=
	done
	case $cur in
	-*)
		[[ $cur == --* ]] && dashes=--
		COMPREPLY=($(compgen -P "$dashes" -W "$flags" -- "${cur#"$dashes"}"))
		;;
	*) _fanfare_words "$operands" ;;
	esac
}

complete -F _fanfare fanfare
`
}

// zshScript works when it is sourced, and as a file _fanfare in a directory of fpath.
func zshScript(list []completion) string {
	// In specifications of _arguments a colon ends a field and brackets enclose a text.
	field := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `[`, `\[`, `]`, `\]`)
	describe := func(words []word) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(" " + quote(field.Replace(w.text)+":"+field.Replace(brief(w.means))))
		}
		return b.String()
	}
	var names []word
	var cases strings.Builder
	for _, c := range list {
		names = append(names, c.command)
		fmt.Fprintf(&cases, "\t\t%s)\n\t\t\t_arguments", c.command.text)
		for _, f := range c.flags {
			for _, dashes := range []string{"-", "--"} {
				spec := fmt.Sprintf("(-%s --%s)%s%s", f.name, f.name, dashes, f.name)
				if f.value != "" {
					spec += "="
				}
				spec += "[" + field.Replace(f.means) + "]"
				value := ":" + f.value + ":"
				spec += f.pick(value+"("+texts(f.words, " ")+")", value+"_files", value+"_files -/", ":"+field.Replace(f.value)+": ")
				cases.WriteString(" \\\n\t\t\t\t" + quote(spec))
			}
		}
		if len(c.words) > 0 {
			fmt.Fprintf(&cases, " \\\n\t\t\t\t%s", quote("1:"+c.operand+":("+texts(c.words, " ")+")"))
		} else {
			cases.WriteString(" \\\n\t\t\t\t'*:argument:()'") // an empty completion of typed text; with a message there zsh would not complete flags
		}
		cases.WriteString("\n\t\t\t;;\n")
	}
	return `#compdef fanfare
# Completion of fanfare in zsh: source <(fanfare completion zsh)

_fanfare() {
	local context state state_descr line
	local -a commands
	local -A opt_args
	commands=(` + describe(names) + `)
	_arguments -C '1: :->command' '*:: :->arguments'
	case $state in
	command) _describe -t commands command commands ;;
	arguments)
		case $words[1] in
` + cases.String() + `		esac
		;;
	esac
}

if [[ $funcstack[1] == _fanfare ]]; then
	_fanfare "$@"
else
	compdef _fanfare fanfare
fi
`
}

func fishScript(list []completion) string {
	var b strings.Builder
	b.WriteString(`# Completion of fanfare in fish: fanfare completion fish | source

function __fanfare_in
	set -l words (commandline -opc)
	test (count $words) -gt 1; and test $words[2] = $argv[1]
end

function __fanfare_first
	test (count (commandline -opc)) -eq 1
end

complete -c fanfare -e
complete -c fanfare -f
`)
	// In single quotes fish treats a backslash as an escape.
	text := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	for _, c := range list {
		fmt.Fprintf(&b, "complete -c fanfare -n __fanfare_first -a %s -d %s\n", c.command.text, text(c.command.means))
	}
	for _, c := range list {
		in := "complete -c fanfare -n '__fanfare_in " + c.command.text + "'"
		for _, f := range c.flags {
			short := "-o"
			if len(f.name) == 1 {
				short = "-s"
			}
			line := fmt.Sprintf("%s %s %s -l %s", in, short, f.name, f.name)
			line += f.pick(" -x -a "+text(texts(f.words, " ")), " -r -F", " -x -a '(__fish_complete_directories)'", " -x")
			b.WriteString(line + " -d " + text(f.means) + "\n")
		}
		for _, w := range c.words {
			b.WriteString(in + " -a " + w.text)
			if w.means != "" {
				b.WriteString(" -d " + text(brief(w.means)))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
