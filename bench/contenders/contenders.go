// Package contenders holds the programs that the benchmarks compare: Fanfare, and the baselines that are
// measured in the same run, on the same machine, with the same processes and socket buffers.
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
	// UDP is Fanfare over plain UDP, compared with Fanfare over another transport.
	UDP = "udp"
)

// Layout of a raw datagram: a header, and before each message its length, with many topics also the
// topic and the message's number.
const (
	rawHeader      = 32
	rawLength      = 4
	rawTopicFields = rawLength + 16
)

const (
	// MaxDatagram is the largest payload of a UDP datagram over IPv4, in bytes: the largest message of Naive.
	MaxDatagram = 65507
	// MaxRawPaced is the largest message of Raw if each is a separate datagram: not under full load.
	MaxRawPaced = MaxDatagram - rawHeader - rawLength
	// MaxRing is the largest message of Ring.
	MaxRing   = ringBlock - rawHeader - rawLength
	ringBlock = 64 << 10
)

// MaxRaw is the largest message of Raw under full load, with one topic or many, in bytes.
func MaxRaw(mtu int, topics bool) int {
	if topics {
		return mtu - rawHeader - rawTopicFields
	}
	return mtu - rawHeader - rawLength
}

// Baseline is a contender that Fanfare is compared with.
type Baseline struct {
	Name string
	What string // short description
	open func() worker.Contender
}

// Baselines are those of this package, in the order of results.
var Baselines = []Baseline{
	{Raw, "trains of datagrams sent and parsed through GSO and GRO, unreliable: what the machine can do over UDP; with shm and mem it uses datagrams of 1472 bytes", func() worker.Contender { return raw{} }},
	{Naive, fmt.Sprintf("net.UDPConn, one datagram for each message, up to %d bytes", MaxDatagram), func() worker.Contender { return naive{} }},
	{Channel, "a buffered Go channel of messages of 64 bytes (mem, sim)", func() worker.Contender { return &channel{} }},
	{Ring, "a ring in shared memory, one writer and many readers, messages written and parsed in place, no protocol: what memory can do (shm)", func() worker.Contender { return ring{} }},
	{UDP, "Fanfare over plain UDP, for another transport; with shm, in throughput, also with packets of 1472 bytes, as udp-frames", func() worker.Contender { return fanfare{} }},
}

// All are the contenders of this package: Fanfare and its baselines.
func All() worker.Contenders {
	all := worker.Contenders{Fanfare: func() worker.Contender { return fanfare{} }}
	for _, b := range Baselines {
		all[b.Name] = b.open
	}
	return all
}
