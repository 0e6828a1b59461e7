package rdmatest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Statement is a statement of the suite.
type Statement struct {
	Num  int
	Text string
	// At least one tag of Where must apply, and all of Also.
	Where, Also Tags
	// Source of the statement: a file of rdma-core or the kernel, or a manual page.
	Source string
	run    func(t *T)
}

// name returns the name of the subtest.
func (s *Statement) name() string { return fmt.Sprintf("S%03d %s", s.Num, s.Text) }

// both kinds of fabric.
const both = IB | RoCE

// Statements returns all statements, in order.
func Statements() []Statement {
	all := slices.Concat(argumentStatements, stateStatements, addressStatements, mgidStatements,
		eventStatements, attachStatements, leaveStatements, lossStatements, verbsStatements,
		queueStatements, dataStatements, wireStatements, interopStatements)
	slices.SortFunc(all, func(a, b Statement) int { return a.Num - b.Num })
	return all
}

// Outcome of a statement.
type Outcome uint8

const (
	Failed Outcome = iota
	Passed
	NotApplicable
	NotMet
)

// Summary has the numbers of outcomes of a run, and the reasons.
type Summary struct {
	Target  string
	Counts  [4]int // by Outcome
	Reasons []string
}

// T is a test of one statement.
type T struct {
	*testing.T
	target *Target
	net    *Net
	// reason says why the statement does not apply.
	reason string
}

// notApplicable ends the statement as not applicable.
func (t *T) notApplicable(format string, args ...any) {
	t.Helper()
	t.reason = fmt.Sprintf(format, args...)
	t.Skip("not applicable: " + t.reason)
}

// open makes the statement's network.
func (t *T) open(o Options) *Net {
	t.Helper()
	n, err := t.target.Open(t.T, o)
	if errors.Is(err, ErrCannot) {
		t.notApplicable("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.net = n
	return n
}

// is reports whether the provider has one of the tags.
func (t *T) is(tag Tags) bool { return t.target.Tags&tag != 0 }

// can ends the statement as not applicable unless able.
func (t *T) can(able bool, what string) {
	t.Helper()
	if !able {
		t.notApplicable("the provider cannot %s", what)
	}
}

// Run checks all statements with a provider.
func Run(t *testing.T, target Target) Summary {
	sum := Summary{Target: target.Name}
	record := func(s *Statement, o Outcome, reason string) {
		sum.Counts[o]++
		if o == NotApplicable || o == NotMet {
			sum.Reasons = append(sum.Reasons, fmt.Sprintf("S%03d %s: %s (%s)", s.Num,
				[...]string{NotApplicable: "not applicable", NotMet: "not met"}[o], reason, s.Text))
		}
	}
	for _, s := range Statements() {
		switch {
		case s.Where&both != 0 && s.Where&target.Tags == 0:
			record(&s, NotApplicable, "the statement is about "+s.Where.String())
			continue
		case s.Also&^target.Tags != 0:
			record(&s, NotApplicable, "the provider has no "+(s.Also&^target.Tags).String())
			continue
		case target.NotMet[s.Num] != "":
			record(&s, NotMet, target.NotMet[s.Num])
			continue
		}
		outcome, reason := Failed, ""
		t.Run(s.name(), func(t *testing.T) {
			st := &T{T: t, target: &target}
			defer func() {
				switch {
				case t.Failed():
				case st.reason != "":
					outcome, reason = NotApplicable, st.reason
				default:
					outcome = Passed
				}
			}()
			s.run(st)
		})
		record(&s, outcome, reason)
	}
	t.Log(sum.String())
	return sum
}

// String returns the table with the reasons.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "conformance of %s\n", s.Target)
	for _, r := range s.Reasons {
		fmt.Fprintf(&b, "  %s\n", r)
	}
	fmt.Fprintf(&b, "| provider | passed | not applicable | not met | failed |\n")
	fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |", s.Target, s.Counts[Passed], s.Counts[NotApplicable], s.Counts[NotMet], s.Counts[Failed])
	return b.String()
}

func (t Tags) String() string {
	names := map[Tags]string{IB: "InfiniBand", RoCE: "RoCE", Wire: "access to packets", Kernel: "real kernel", Interop: "rdma-core program on the other side"}
	var list []string
	for tag := IB; tag <= Interop; tag <<= 1 {
		if t&tag != 0 {
			list = append(list, names[tag])
		}
	}
	return strings.Join(list, " or ")
}
