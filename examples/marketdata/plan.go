package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// topicPrefix is the prefix of all topics: market data of the Nasdaq stock market, by its market identifier code.
const topicPrefix = "md.xnas."

// marketTopic carries messages that do not concern a single symbol. Symbols are in upper case, so none has this name.
const marketTopic = topicPrefix + "market"

// topicOf is the topic of a symbol. Dots separate tokens of a topic, so the dot before a share
// class (BRK.B) becomes a dash (BRK-B).
func topicOf(symbol string) string {
	return topicPrefix + strings.Map(func(r rune) rune {
		switch {
		case r == '.':
			return '-'
		case r <= ' ' || r == '*' || r == '>' || r > '~':
			return '_'
		}
		return r
	}, symbol)
}

// plan describes the messages to be published. It is made before anything is sent, so that
// subscribers know the topics, and a damaged file is detected in time.
type plan struct {
	Topics []string
	Locate map[uint16]int // stock locate → index in Topics; others are skipped
	Total  uint64         // messages of those topics
	// Unnamed is the number of topics without a symbol in any message of the file: they are named by stock locate.
	Unnamed int
}

// add adds a stock locate with its topic. Locates that share a symbol (one file can hold several days) share the topic.
func (p *plan) add(locate uint16, topic string) {
	at := slices.Index(p.Topics, topic)
	if at < 0 {
		at = len(p.Topics)
		p.Topics = append(p.Topics, topic)
	}
	p.Locate[locate] = at
}

// makePlan reads the whole feed of a run.
func makePlan(cfg config) (*plan, error) {
	if cfg.File != "" {
		return planFile(cfg)
	}
	g, err := feed.New(cfg.feed())
	if err != nil {
		return nil, err
	}
	p := &plan{Locate: map[uint16]int{}, Total: g.Total()}
	for locate := range uint16(cfg.Symbols) {
		p.add(locate+1, topicOf(g.Symbol(locate+1)))
	}
	p.add(0, marketTopic)
	return p, nil
}

// planFile reads and checks a complete file, and determines the symbol of each stock locate, even
// if the first message that contains it comes late, and the busiest symbols.
func planFile(cfg config) (*plan, error) {
	src, err := openSource(cfg)
	if err != nil {
		return nil, err
	}
	defer src.close()
	type stock struct {
		locate   uint16
		symbol   string
		messages uint64
	}
	stocks := map[uint16]*stock{}
	for {
		err := src.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		m := &src.msg
		s := stocks[m.Locate]
		if s == nil {
			s = &stock{locate: m.Locate}
			stocks[s.locate] = s
		}
		s.messages++
		if s.symbol == "" && m.Stock != (itch.Symbol{}) && s.locate != 0 {
			s.symbol = m.Stock.String()
		}
	}
	if len(stocks) == 0 {
		return nil, fmt.Errorf("%s: no messages", cfg.File)
	}

	busiest := make([]*stock, 0, len(stocks))
	for _, s := range stocks {
		busiest = append(busiest, s)
	}
	slices.SortFunc(busiest, func(a, b *stock) int {
		return cmp.Or(cmp.Compare(b.messages, a.messages), cmp.Compare(a.locate, b.locate))
	})
	p := &plan{Locate: map[uint16]int{}}
	chosen := 0
	for _, s := range busiest {
		switch {
		case s.locate == 0:
			p.add(0, marketTopic)
		case cfg.Symbols > 0 && chosen == cfg.Symbols:
			continue
		default:
			chosen++
			if s.symbol == "" {
				p.Unnamed++
				p.add(s.locate, fmt.Sprintf("%slocate-%d", topicPrefix, s.locate))
			} else {
				p.add(s.locate, topicOf(s.symbol))
			}
		}
		p.Total += s.messages
	}
	return p, nil
}
