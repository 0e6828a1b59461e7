package signed

import (
	"bytes"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

const (
	// maxStreams bounds the known streams, each about 14 KiB, or 44 KiB with long trains. Only packets of trusted
	// publishers make a stream known.
	maxStreams = 4096
	// recentTrains is the number of remembered trains of a stream: packets of older trains are refused, and are missing.
	recentTrains = 64
	// recentTrees is the number of remembered trees: for packets of other trains the path to the root is computed, with a
	// hash for each level.
	recentTrees = 8
	// sweepEvery is the interval, in seconds, at which old streams are removed.
	sweepEvery = 10
)

// streams are the known streams: those of which a train has verified.
type streams struct {
	all   map[streamName]*stream
	keys  map[KeyID]*account // of keys with streams, now or before
	last  *stream            // the stream of the last packet
	limit int
	sweep int64 // time of the next sweep, in seconds since 1970
}

// stream is the state of one stream: the trains that have verified recently.
type stream struct {
	name        streamName
	by          *trusted
	key         *account
	newest      uint64 // counter of the latest train
	lastArrival int64  // arrival of the latest train, in seconds since 1970
	fails       budget
	failed      time.Time                 // when a packet last did not verify
	recent      [recentTrains]signedTrain // by counter
	trees       [recentTrees]knownTree    // by counter
}

// account is the use of a receiver's resources by one key.
type account struct {
	streams int
	work    budget // verifications
}

func newStreams(limit int) streams {
	return streams{all: make(map[streamName]*stream), keys: make(map[KeyID]*account), limit: limit}
}

// account returns the account of a trusted key.
func (x *streams) account(id KeyID) *account {
	a := x.keys[id]
	if a == nil {
		a = new(account)
		x.keys[id] = a
	}
	return a
}

// find returns the stream with a name, or nil.
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
	st := &stream{name: name, by: by, key: x.account(idOfPublisher(name.Publisher))}
	st.key.streams++
	x.all[name], x.last = st, st
	return st
}

// room reports whether one more stream of a key may become known at now. It removes streams that have been silent for
// so long that their packets would be refused as too old.
func (x *streams) room(key *account, now int64) bool {
	if x.fair(key) {
		return true
	}
	if now >= x.sweep {
		x.sweep = now + sweepEvery
		for _, st := range x.all {
			if now > st.lastArrival+2*skewSeconds {
				x.forget(st)
			}
		}
	}
	return x.fair(key)
}

// fair reports whether the free room is at least what a key uses. So each key has a share whatever the others do: one
// part in n + 1 if n keys use all they can.
func (x *streams) fair(key *account) bool { return key.streams < x.limit-len(x.all) }

func (x *streams) forget(st *stream) {
	st.key.streams--
	delete(x.all, st.name)
	x.last = nil
}

// use applies a Trust: it removes the streams of replaced keys. Streams of keys that are no longer trusted stay,
// because a key may be trusted again, and received packets must not be accepted twice.
func (x *streams) use(set *Trust) {
	for name, st := range x.all {
		if k := set.find(idOfPublisher(name.Publisher)); k != nil && !bytes.Equal(k.key, st.by.key) {
			x.forget(st)
		}
	}
	for id, a := range x.keys {
		if a.streams == 0 && set.find(id) == nil {
			delete(x.keys, id)
		}
	}
}

// find returns the train with a counter, or nil if none has verified. old: the train is too old to know.
func (st *stream) find(counter uint64) (t *signedTrain, old bool) {
	if counter+recentTrains <= st.newest {
		return nil, true
	}
	if t = &st.recent[counter%recentTrains]; t.known && t.counter == counter {
		return t, false
	}
	return nil, false
}

// add records a train that was verified with a packet with a leaf, and returns it.
func (st *stream) add(s *wire.Signed, root, leaf node) *signedTrain {
	st.newest = max(st.newest, s.Counter)
	t := &st.recent[s.Counter%recentTrains]
	*t = signedTrain{
		known: true, counter: s.Counter, time: s.Time, depth: s.Depth(), root: root,
		salt: [saltLen]byte(s.Salt), signature: [signatureLen]byte(s.Signature),
	}
	if k := &st.trees[s.Counter%recentTrees]; k.nodes == nil || k.counter < s.Counter {
		k.begin(t)
		k.verify(s, leaf)
	}
	return t
}

// tree returns the known part of a train's tree, or nil if it is not remembered.
func (st *stream) tree(counter uint64) *knownTree {
	if k := &st.trees[counter%recentTrees]; k.counter == counter && k.nodes != nil {
		return k
	}
	return nil
}

// signedTrain is a train with a verified signature.
type signedTrain struct {
	known     bool
	depth     int
	counter   uint64
	time      uint32
	salt      [saltLen]byte
	signature [signatureLen]byte
	root      node
	leaves    [transport.MaxLegs][wire.MaxSignedTrain / 64]uint64 // a bit for each packet that arrived on a leg
}

// has reports whether the packet at a node has arrived on a leg. Its number is signed, so a packet resealed by another
// key holder has the same number.
func (t *signedTrain) has(number, leg uint8) bool {
	at, bit := t.leaf(number, leg)
	return *at&bit != 0
}

func (t *signedTrain) setArrived(number, leg uint8) {
	at, bit := t.leaf(number, leg)
	*at |= bit
}

// leaf is the position of a node's bit, for any number.
func (t *signedTrain) leaf(number, leg uint8) (at *uint64, bit uint64) {
	i := number % wire.MaxSignedTrain // unique among the leaves of one depth
	return &t.leaves[leg%transport.MaxLegs][i/64], 1 << (i % 64)
}

// begins reports whether a packet has the same data about its train.
func (t *signedTrain) begins(s *wire.Signed) bool {
	return s.Time == t.time && s.Depth() == t.depth && [saltLen]byte(s.Salt) == t.salt &&
		[signatureLen]byte(s.Signature) == t.signature
}

// knownTree is the known part of one train's tree.
type knownTree struct {
	counter uint64
	have    [2 * wire.MaxSignedTrain / 64]uint64 // a bit for each known node
	nodes   []node                               // by number
}

// begin resets k to the tree of train t.
func (k *knownTree) begin(t *signedTrain) {
	n := 2 << t.depth
	if cap(k.nodes) < n {
		k.nodes = make([]node, n)
	}
	*k = knownTree{counter: t.counter, nodes: k.nodes[:n]}
	k.learn(1, t.root)
}

func (k *knownTree) learn(number uint8, n node) {
	k.nodes[number] = n
	k.have[number/64] |= 1 << (number % 64)
}

func (k *knownTree) has(number uint8) bool { return k.have[number/64]&(1<<(number%64)) != 0 }

// verify reports whether a packet with leaf n belongs to the tree. It computes the path up to the first known node,
// most often the leaf itself, known as the sibling of its neighbour, and then remembers the nodes on the path.
func (k *knownTree) verify(s *wire.Signed, n node) bool {
	var on, siblings [wire.SignedDepth]node
	path, number, level := s.Path, s.Node, 0
	for !k.has(number) {
		on[level], siblings[level] = n, node(path)
		path = path[wire.SignedNodeLen:]
		n = above(s.Salt, number, &on[level], &siblings[level])
		number >>= 1
		level++
	}
	if n != k.nodes[number] {
		return false
	}
	for i := range level {
		k.learn(s.Node>>i, on[i])
		k.learn(s.Node>>i^1, siblings[i])
	}
	return true
}
