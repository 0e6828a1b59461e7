// Package contenders holds what the benchmarks measure: Fanfare itself, and the baselines that it is held against in
// the same run, on the same machine, with the same layout of processes and the same socket buffers.
package contenders

import (
	"fmt"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Names of contenders.
const (
	Fanfare = "fanfare"
	Raw     = "raw"
	Naive   = "naive"
	Channel = "channel"
	Ring    = "ring"
	// UDP is Fanfare over plain UDP, beside Fanfare over another fabric.
	UDP = "udp"
)

// What raw has in a datagram: a header, and before each message its length, with many topics the topic and the
// message's number too.
const (
	rawHeader      = 32
	rawLength      = 4
	rawTopicFields = rawLength + 16
)

const (
	// MaxDatagram is the largest payload of a UDP datagram over IPv4, in bytes: the largest message of Naive's.
	MaxDatagram = 65507
	// MaxRawPaced is the largest message of Raw's where each is a datagram of its own: not under full load.
	MaxRawPaced = MaxDatagram - rawHeader - rawLength
	// MaxRing is the largest message of Ring's.
	MaxRing   = ringBlock - rawHeader - rawLength
	ringBlock = 64 << 10
)

// MaxRaw is the largest message of Raw's under full load, of one topic or of many, in bytes.
func MaxRaw(mtu int, topics bool) int {
	if topics {
		return mtu - rawHeader - rawTopicFields
	}
	return mtu - rawHeader - rawLength
}

// Baseline is what Fanfare is compared with.
type Baseline struct {
	Name string
	What string // it is, in a few words
	open func() worker.Contender
}

// Baselines are those of this package, in the order in which results show them.
var Baselines = []Baseline{
	{Raw, "trains of datagrams sent and parsed through GSO and GRO, unreliable: what the machine can do over UDP; beside shm and mem datagrams of 1472 bytes", func() worker.Contender { return raw{} }},
	{Naive, fmt.Sprintf("net.UDPConn, a datagram a message, up to %d bytes", MaxDatagram), func() worker.Contender { return naive{} }},
	{Channel, "a buffered Go channel of messages of 64 bytes (mem, sim)", func() worker.Contender { return &channel{} }},
	{Ring, "a ring in shared memory, one writer and many readers, messages written and parsed in place, no protocol: what memory can do (shm)", func() worker.Contender { return ring{} }},
	{UDP, "Fanfare over plain UDP, beside another transport; beside shm, in throughput, also with packets of 1472 bytes, as udp-frames", func() worker.Contender { return fanfare{} }},
}

// All are the contenders of this package: Fanfare and its baselines.
func All() worker.Contenders {
	all := worker.Contenders{Fanfare: func() worker.Contender { return fanfare{} }}
	for _, b := range Baselines {
		all[b.Name] = b.open
	}
	return all
}
