package groupmap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// table implements the strategy table: docs/protocol §3.15.
type table struct {
	groups int
	lines  []line
	set    pattern.Set[int] // indices of lines by pattern
}

// line is a line of a table: topics that match p are hashed over the groups first to last.
type line struct {
	p           pattern.Pattern
	first, last int
}

// TableError is the error of a table's file.
type TableError struct {
	File string
	Line int // from 1; 0: the whole file
	Err  error
}

func (e *TableError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

func (e *TableError) Unwrap() error { return e.Err }

// maxTable bounds the file, in bytes.
const maxTable = 16 << 20

// readTable reads the file of a table.
func readTable(file string, groups int) (*table, error) {
	// O_NONBLOCK: a pipe without a writer counts as an empty table.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // TableError contains the file name
		}
		return nil, &TableError{file, 0, fmt.Errorf("the table cannot be read: %w", err)}
	}
	defer f.Close()
	return parseTable(file, f, groups)
}

func parseTable(file string, r io.Reader, groups int) (*table, error) {
	t := &table{groups: groups}
	seen := make(map[pattern.Pattern]int)
	lr := &io.LimitedReader{R: r, N: maxTable + 1}
	in := bufio.NewScanner(lr)
	in.Buffer(nil, maxTable+1)
	number := 0
	for in.Scan() {
		number++
		words := words(in.Text())
		if len(words) == 0 {
			continue
		}
		x, err := parseLine(words, groups)
		if err == nil && seen[x.p] > 0 {
			err = fmt.Errorf("line %d has the same pattern %v, and only the first one counts", seen[x.p], x.p)
		}
		if err != nil {
			return nil, &TableError{file, number, err}
		}
		seen[x.p] = number
		t.set.Add(x.p, len(t.lines))
		t.lines = append(t.lines, x)
	}
	switch err := in.Err(); {
	case lr.N == 0:
		return nil, &TableError{file, 0, fmt.Errorf("the table has more than %d bytes", maxTable)}
	case err != nil:
		return nil, &TableError{file, 0, fmt.Errorf("the table cannot be read: %w", err)}
	case len(t.lines) == 0:
		return nil, &TableError{file, 0, errors.New("the table has no line with a pattern and a group")}
	}
	return t, nil
}

// words returns the words of a line up to a comment.
func words(text string) []string {
	words := strings.Fields(text)
	for i, w := range words {
		if w[0] == '#' {
			return words[:i]
		}
	}
	return words
}

func parseLine(words []string, groups int) (line, error) {
	if len(words) != 2 {
		return line{}, fmt.Errorf("a line must have a pattern and a group or a range of groups, such as %q: this one has %s", "md.xnas.> 0-31", plural.N(len(words), "word"))
	}
	p, err := pattern.Parse(words[0])
	if err != nil {
		return line{}, err
	}
	x := line{p: p}
	low, high, isRange := strings.Cut(words[1], "-")
	if !isRange {
		high = low
	}
	var ok [2]bool
	x.first, ok[0] = parseGroup(low)
	x.last, ok[1] = parseGroup(high)
	switch {
	case !ok[0] || !ok[1]:
		return line{}, fmt.Errorf("%q is neither a group nor a range of groups, such as 5 or 0-31", words[1])
	case x.first > x.last:
		return line{}, fmt.Errorf("the end of the range %s is before its start", words[1])
	case x.last >= groups:
		return line{}, fmt.Errorf("there is no group %d: groups are 0 to %d (groups= in the URL)", x.last, groups-1)
	}
	return x, nil
}

// parseGroup parses a number of digits only.
func parseGroup(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

func (t *table) group(topic string) int {
	var few [16]int
	first := -1
	for _, i := range t.set.Append(few[:0], topic) {
		if first < 0 || i < first {
			first = i
		}
	}
	if first < 0 {
		return hashed(topic, t.groups)
	}
	x := &t.lines[first]
	return x.first + hashed(topic, x.last-x.first+1)
}

func (t *table) mark(in []bool, p pattern.Pattern) {
	for i := range t.lines {
		x := &t.lines[i]
		if !x.p.Overlaps(p) {
			continue
		}
		for g := x.first; g <= x.last; g++ {
			in[g] = true
		}
		if x.p.Covers(p) {
			return
		}
	}
	all(in)
}

// digest returns a hash of the lines, without comments and spaces. Tables that map topics differently most likely have
// different hashes.
func (t *table) digest() uint16 {
	var text strings.Builder
	for i := range t.lines {
		x := &t.lines[i]
		fmt.Fprintf(&text, "%v %d-%d\n", x.p, x.first, x.last)
	}
	return uint16(wire.TopicID(text.String()))
}
