package signed

import (
	"bytes"

	"github.com/fanfaremq/fanfare/internal/wire"
)

const (
	// maxStreams bounds the streams that are known, each some 10 KiB, and more where trains are
	// long. Only who is trusted makes one known.
	maxStreams = 4096
	// recentTrains is how many trains of a stream are remembered: what comes behind so many later
	// ones is refused, and is missing.
	recentTrains = 64
	// sweepEvery is how often those are looked for that can be forgotten, in seconds.
	sweepEvery = 10
)

// streams are those of which a train has verified.
type streams struct {
	all   map[streamName]*stream
	last  *stream // the one of the last packet
	most  int
	sweep int64 // when to look for some to forget, in seconds since 1970
}

// stream is what is known of one stream: the trains that have verified of late.
type stream struct {
	name   streamName
	by     *trusted
	newest uint64 // counter of the latest train
	heard  int64  // when that came, in seconds since 1970
	fails  budget
	recent [recentTrains]signedTrain // by counter
}

func newStreams(most int) streams { return streams{all: make(map[streamName]*stream), most: most} }

// find returns the stream of that name, or nil.
func (x *streams) find(name streamName) *stream {
	if x.last != nil && x.last.name == name {
		return x.last
	}
	st := x.all[name]
	if st != nil {
		x.last = st
	}
	return st
}

// add makes a stream known.
func (x *streams) add(name streamName, by *trusted) *stream {
	st := &stream{name: name, by: by}
	x.all[name], x.last = st, st
	return st
}

// room reports whether one more may become known at now. It forgets those that were not heard for so
// long that what was signed before is too old.
func (x *streams) room(now int64) bool {
	if len(x.all) < x.most {
		return true
	}
	if now >= x.sweep {
		x.sweep = now + sweepEvery
		for name, st := range x.all {
			if now > st.heard+2*skewSeconds {
				delete(x.all, name)
			}
		}
		x.last = nil
	}
	return len(x.all) < x.most
}

// use forgets the streams of keys that are others now. Those that are not trusted any more stay: a
// key may come back, and what has come is not to be taken again.
func (x *streams) use(set *Trust) {
	for name, st := range x.all {
		if k := set.find(IDOfPublisher(name.publisher)); k != nil && !bytes.Equal(k.key, st.by.key) {
			delete(x.all, name)
		}
	}
	x.last = nil
}

// find returns the train of a counter, or nil if none has verified. old says that it is too long ago
// to tell.
func (st *stream) find(counter uint64) (t *signedTrain, old bool) {
	if counter+recentTrains <= st.newest {
		return nil, true
	}
	if t = &st.recent[counter%recentTrains]; t.known && t.counter == counter {
		return t, false
	}
	return nil, false
}

// add notes a train that has verified.
func (st *stream) add(s *wire.Signed, root node) *signedTrain {
	st.newest = max(st.newest, s.Counter)
	t := &st.recent[s.Counter%recentTrains]
	if n := 2 << s.Depth(); cap(t.nodes) < n {
		t.nodes = make([]node, n)
	}
	*t = signedTrain{
		known: true, counter: s.Counter, time: s.Time, depth: s.Depth(), nodes: t.nodes[:2<<s.Depth()],
		salt: [saltLen]byte(s.Salt), signature: [signatureLen]byte(s.Signature),
	}
	t.learn(1, root)
	return t
}

// signedTrain is a train whose signature has verified, and what is known of its tree.
type signedTrain struct {
	known     bool
	depth     int
	counter   uint64
	time      uint32
	salt      [saltLen]byte
	signature [signatureLen]byte
	have      [2]uint64 // a bit for each node that is known
	nodes     []node
}

// begins reports whether a packet says the same of its train.
func (t *signedTrain) begins(s *wire.Signed) bool {
	return s.Time == t.time && s.Depth() == t.depth && [saltLen]byte(s.Salt) == t.salt && [signatureLen]byte(s.Signature) == t.signature
}

func (t *signedTrain) learn(number uint8, n node) {
	t.nodes[number] = n
	t.have[number/64] |= 1 << (number % 64)
}

func (t *signedTrain) has(number uint8) bool { return t.have[number/64]&(1<<(number%64)) != 0 }

// take reports whether a packet whose leaf is n belongs to the train. It climbs as far as to a node
// that is known, most often to the leaf itself, as its neighbour's sibling, and then knows
// those on the way.
func (t *signedTrain) take(s *wire.Signed, n node) bool {
	var on, beside [wire.SignedDepth]node
	path, number, level := s.Path, s.Node, 0
	for !t.has(number) {
		on[level], beside[level] = n, node(path)
		path = path[wire.SignedNodeLen:]
		n = above(s.Salt, number, &on[level], &beside[level])
		number >>= 1
		level++
	}
	if n != t.nodes[number] {
		return false
	}
	for i := range level {
		t.learn(s.Node>>i, on[i])
		t.learn(s.Node>>i^1, beside[i])
	}
	return true
}
