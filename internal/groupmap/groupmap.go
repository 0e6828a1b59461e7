// Package groupmap maps topics to groups of a fabric. Buses that exchange messages must use the same mapping:
// docs/protocol §3.10.
package groupmap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Strategy is a mapping of topics to groups, as in the URL of a fabric. The zero Strategy is hash.
type Strategy struct {
	tokens int    // of prefix
	file   string // of table
}

// maxTokens is the maximum of K in prefix:K: more than a topic can have.
const maxTokens = wire.MaxTopicName

// Parse parses a strategy. An empty text means hash:
//
//	hash         by the topic's name, over all groups
//	prefix:K     by its first K tokens, over all groups: topics with the same ones are
//	             in one group
//	table:FILE   by the lines of a file (see Strategy.Over)
func Parse(text string) (Strategy, error) {
	kind, arg, has := strings.Cut(text, ":")
	switch {
	case text == "", kind == "hash" && !has:
		return Strategy{}, nil
	case kind == "prefix":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 || n > maxTokens {
			return Strategy{}, fmt.Errorf("map=%s: after prefix: there must be a number of tokens from 1 to %d, such as prefix:2", text, maxTokens)
		}
		return Strategy{tokens: n}, nil
	case kind == "table":
		if arg == "" {
			return Strategy{}, errors.New("map=table: has no file: write map=table:FILE")
		}
		return Strategy{file: arg}, nil
	}
	return Strategy{}, fmt.Errorf("map=%s must be hash, prefix:K or table:FILE", text)
}

// Over returns the map for the number of groups, at least one. For a table it reads the file: each line has a pattern
// (package pattern) and a group, or a range of groups over which its topics are hashed:
//
//	# exchange           groups
//	md.xnas.>            0-31
//	md.*.trades          32
//	>                    33-63
//
// The first line that matches a topic counts. Topics that no line matches are hashed over all groups. A word with # at
// its beginning starts a comment. Errors in the file are a *TableError.
func (s Strategy) Over(groups int) (*Map, error) {
	m := &Map{groups: groups}
	switch {
	case s.tokens > 0:
		m.wire = wire.Mapping{Kind: wire.MappingPrefix, Param: uint16(s.tokens)}
		m.by = prefix{s.tokens, groups}
	case s.file != "":
		t, err := readTable(s.file, groups)
		if err != nil {
			return nil, err
		}
		m.wire = wire.Mapping{Kind: wire.MappingTable, Param: t.digest()}
		m.by = t
	default:
		m.wire = wire.Mapping{Kind: wire.MappingHash}
		m.by = whole{groups}
	}
	return m, nil
}

// Map maps topics to groups. It is immutable and safe for concurrent use.
type Map struct {
	groups int
	wire   wire.Mapping
	by     by
}

// by implements a strategy.
type by interface {
	// group returns the group of a topic.
	group(topic string) int
	// mark sets the groups of topics that can match a pattern with a wildcard.
	mark(in []bool, p pattern.Pattern)
}

// Len returns the number of groups.
func (m *Map) Len() int { return m.groups }

// Wire returns the strategy as in packets.
func (m *Map) Wire() wire.Mapping { return m.wire }

// Group returns the group of a topic, from 0 to Len()-1.
func (m *Map) Group(topic string) int { return m.by.group(topic) }

// Groups returns the groups of topics that can match a pattern, in ascending order: those that a subscription to the
// pattern needs.
func (m *Map) Groups(p pattern.Pattern) []int {
	if !p.Wild() {
		return []int{m.by.group(p.String())}
	}
	in := make([]bool, m.groups)
	m.by.mark(in, p)
	var list []int
	for i, yes := range in {
		if yes {
			list = append(list, i)
		}
	}
	return list
}

// hashed maps a text to one of n groups.
func hashed(text string, n int) int { return int(wire.TopicID(text) % uint64(n)) }

// all marks all groups.
func all(in []bool) {
	for i := range in {
		in[i] = true
	}
}

// whole implements the strategy hash: docs/protocol §3.10.
type whole struct{ groups int }

func (w whole) group(topic string) int            { return hashed(topic, w.groups) }
func (w whole) mark(in []bool, _ pattern.Pattern) { all(in) }

// prefix implements the strategy prefix: docs/protocol §3.14.
type prefix struct{ tokens, groups int }

func (x prefix) group(topic string) int {
	head, _ := pattern.Head(topic, x.tokens)
	return hashed(head, x.groups)
}

func (x prefix) mark(in []bool, p pattern.Pattern) {
	if p.Literal() < x.tokens {
		all(in)
		return
	}
	in[x.group(p.String())] = true
}
