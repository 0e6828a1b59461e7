// Package contenders holds what the benchmarks measure: Fanfare itself, and the
// baselines that it is held against in the same run, on the same machine, with
// the same layout of processes and the same socket buffers.
package contenders

import "github.com/fanfaremq/fanfare/bench/worker"

// Names of contenders.
const (
	Fanfare = "fanfare"
	Raw     = "raw"
	Naive   = "naive"
	Channel = "channel"
	// UDP is Fanfare over plain UDP, beside Fanfare over another fabric.
	UDP = "udp"
)

// MaxDatagram is the largest payload of a UDP datagram over IPv4, in bytes: the largest
// message of Naive's.
const MaxDatagram = 65507

// MaxRawPaced is the largest message of Raw's where each is a datagram of its own, in
// bytes: not under full load.
const MaxRawPaced = MaxDatagram - 36

// All are the contenders of this package.
func All() worker.Contenders {
	return worker.Contenders{
		Fanfare: func() worker.Contender { return fanfare{} },
		Raw:     func() worker.Contender { return raw{} },
		Naive:   func() worker.Contender { return naive{} },
		Channel: func() worker.Contender { return newChannel() },
		UDP:     func() worker.Contender { return fanfare{} },
	}
}

// Baselines are the names of what Fanfare is compared with.
func Baselines() []string { return []string{Raw, Naive, Channel, UDP} }
