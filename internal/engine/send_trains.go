package engine

// openTrains says how trains leave, to who fills one.
type openTrains uint8

const (
	loneTrain     openTrains = iota
	fullTrains               // one at a time, and each of many because it was full, also the last
	severalTrains            // more than one publication has an open train
)

// trains says it as of now.
func (b *batcher) trains() openTrains {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.open)-b.head > 1:
		return severalTrains
	case b.full >= saturatedSends && b.lastFull:
		return fullTrains
	}
	return loneTrain
}
