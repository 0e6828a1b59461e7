package book

import (
	"sort"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// side is the levels of one side of a book, the best one last: most changes occur there, and at the
// end of a slice they move the fewest elements.
type side struct {
	levels []Level
	sign   int64 // 1 for bids, where the highest price is best, -1 for asks
}

// find returns the index of a price's level, or the index where to insert it.
func (s *side) find(price itch.Price) (int, bool) {
	key := s.sign * int64(price)
	i := sort.Search(len(s.levels), func(i int) bool { return s.sign*int64(s.levels[i].Price) >= key })
	return i, i < len(s.levels) && s.levels[i].Price == price
}

// add adds an order to the level of its price.
func (s *side) add(price itch.Price, shares uint32) {
	i, ok := s.find(price)
	if !ok {
		s.levels = append(s.levels, Level{})
		copy(s.levels[i+1:], s.levels[i:])
		s.levels[i] = Level{Price: price}
	}
	s.levels[i].Shares += uint64(shares)
	s.levels[i].Orders++
}

// remove removes shares from a level, and one order if filled is set. The level must hold them, which Book ensures.
func (s *side) remove(price itch.Price, shares uint32, filled bool) {
	i, ok := s.find(price)
	if !ok {
		panic("book: an order without a level")
	}
	l := &s.levels[i]
	l.Shares -= uint64(shares)
	if filled {
		l.Orders--
	}
	if l.Orders == 0 {
		s.levels = append(s.levels[:i], s.levels[i+1:]...)
	}
}

func (s *side) best() Level {
	if len(s.levels) == 0 {
		return Level{}
	}
	return s.levels[len(s.levels)-1]
}
