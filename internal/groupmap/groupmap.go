// Package groupmap decides in which group of a fabric a topic is. Buses that shall hear
// each other must decide alike: docs/protocol §3.10.
package groupmap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Strategy is a way to map topics to groups, as the URL of a fabric names it. The zero Strategy is hash.
type Strategy struct {
	tokens int    // prefix
	file   string // table
}

// maxTokens is the most that prefix:K can count: more than a topic can have.
const maxTokens = wire.MaxTopicName

// Parse reads a strategy; an empty text is hash:
//
//	hash         by the topic's name, over all groups
//	prefix:K     by its first K tokens, over all groups: topics that begin alike are
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
			return Strategy{}, fmt.Errorf("map=%s: after prefix: comes a number of tokens from 1 to %d, such as prefix:2", text, maxTokens)
		}
		return Strategy{tokens: n}, nil
	case kind == "table":
		if arg == "" {
			return Strategy{}, errors.New("map=table: names no file: write map=table:FILE")
		}
		return Strategy{file: arg}, nil
	}
	return Strategy{}, fmt.Errorf("map=%s is none of hash, prefix:K and table:FILE", text)
}

// Over returns the map of topics to so many groups, at least one. For a table it reads the file: each line has a
// pattern (package pattern) and a group, or a range of groups over which its topics are hashed:
//
//	# exchange           groups
//	md.xnas.>            0-31
//	md.*.trades          32
//	>                    33-63
//
// The first line that matches a topic counts. Topics that no line matches are hashed over all groups. A word that
// begins with # begins a comment. Errors in the file are a *TableError.
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

// Map maps topics to groups. It does not change, and is safe for concurrent use.
type Map struct {
	groups int
	wire   wire.Mapping
	by     by
}

// by is a strategy at work.
type by interface {
	// group is that of a topic.
	group(topic string) int
	// mark sets those groups in which a topic may be that matches a pattern with a wildcard.
	mark(in []bool, p pattern.Pattern)
}

// Len is the number of groups.
func (m *Map) Len() int { return m.groups }

// Wire is the strategy as packets have it.
func (m *Map) Wire() wire.Mapping { return m.wire }

// Group is the group of a topic, from 0 to Len less one.
func (m *Map) Group(topic string) int { return m.by.group(topic) }

// Groups returns the groups in which a topic that matches a pattern can be, in ascending
// order: a subscription to the pattern needs no others.
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

// whole is the strategy hash: docs/protocol §3.10.
type whole struct{ groups int }

func (w whole) group(topic string) int            { return hashed(topic, w.groups) }
func (w whole) mark(in []bool, _ pattern.Pattern) { all(in) }

// prefix is the strategy prefix: docs/protocol §3.14.
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
