package ring

// Set is a list of distinct values. Adding, removing and finding a value take constant time. The zero Set is empty. It
// is not safe for concurrent use.
type Set[T comparable] struct {
	list []T
	at   map[T]int // index of each value; nil: there are few
}

// few is the number of values up to which the list is searched.
const few = 16

// List returns the values. It belongs to the set, and is valid until the set changes.
func (s *Set[T]) List() []T { return s.list }

// Len returns the number of values.
func (s *Set[T]) Len() int { return len(s.list) }

// Has reports whether v is in the set.
func (s *Set[T]) Has(v T) bool { return s.index(v) >= 0 }

// Add appends a value. It returns false if the set has it already.
func (s *Set[T]) Add(v T) bool {
	if s.Has(v) {
		return false
	}
	s.list = append(s.list, v)
	switch n := len(s.list); {
	case s.at != nil:
		s.at[v] = n - 1
	case n > few:
		s.at = make(map[T]int, 2*n)
		for i, x := range s.list {
			s.at[x] = i
		}
	}
	return true
}

// Remove removes a value, and moves the last one to its place. It returns false if the set does not have it.
func (s *Set[T]) Remove(v T) bool {
	i := s.index(v)
	if i < 0 {
		return false
	}
	var none T
	n := len(s.list) - 1
	last := s.list[n]
	s.list[i], s.list[n] = last, none
	if s.list = s.list[:n]; s.at != nil && i < n {
		s.at[last] = i
	}
	delete(s.at, v)
	if n == 0 {
		*s = Set[T]{}
	}
	return true
}

func (s *Set[T]) index(v T) int {
	if s.at != nil {
		if i, ok := s.at[v]; ok {
			return i
		}
		return -1
	}
	for i, x := range s.list {
		if x == v {
			return i
		}
	}
	return -1
}
