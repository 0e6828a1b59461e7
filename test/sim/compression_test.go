package sim

import (
	"fmt"
	"testing"
	"time"
)

// compressed returns a run with a publisher that compresses.
func compressed(seed uint64, compress string, dictionary bool) Options {
	o := Simple(seed, 2, 5_000)
	o.Publishers[0].Compress, o.Publishers[0].Dictionary = compress, dictionary
	o.Subscribers[1].InPlace, o.Subscribers[1].Readers = false, []Reader{{Block: true}}
	return o
}

// Compressed messages are delivered in place and through cursors, even with losses, and take less
// than half of the bytes. docs/protocol §26.1, §26.4.
func TestCompression(t *testing.T) {
	for _, compress := range []string{"s2", "s2:better", "zstd:fastest", "zstd:default", "zstd:better"} {
		for _, dictionary := range []bool{false, true} {
			if dictionary && compress == "s2:better" {
				continue
			}
			t.Run(fmt.Sprint(compress, dictionary), func(t *testing.T) {
				o := compressed(1, compress, dictionary)
				o.Net.Loss, o.Publishers[0].EqualTrains = 2*Percent, true
				r := mustRun(t, o)
				s := r.Sender
				if r.Messages != 2*5000 || s.PacketsPacked < s.PacketsSent*9/10 || 2*s.BytesSent > s.BytesUnpacked || r.Receiver.Packed == 0 || r.Receiver.Repaired == 0 {
					t.Errorf("%d messages; %d of %d packets compressed, %d of %d bytes; %d unpacked, %d repaired", r.Messages, s.PacketsPacked, s.PacketsSent, s.BytesSent, s.BytesUnpacked, r.Receiver.Packed, r.Receiver.Repaired)
				}
			})
		}
	}
}

// A subscriber without the dictionary reports that, loses the messages compressed with it, requests
// no repair of them, and does not block the publisher. docs/protocol §26.5.
func TestMissingDictionary(t *testing.T) {
	o := compressed(1, "s2", true)
	o.Subscribers[0].NoDictionary, o.Subscribers[1].NoDictionary = true, true
	r := mustRun(t, o)
	x := r.Receiver
	if x.Unreadable == 0 || x.LostUnreadable != x.Unreadable || x.Lost != x.LostUnreadable || x.NAKs > 0 || r.Sender.FlowBlocked > 0 || r.Messages+r.GapMessages != 2*5000 {
		t.Errorf("%d unreadable, %d of %d losses for that reason, %d NAKs, blocked %d times, %d messages and %d lost", x.Unreadable, x.LostUnreadable, x.Lost, x.NAKs, r.Sender.FlowBlocked, r.Messages, r.GapMessages)
	}
}

// Incompressible data is sent uncompressed, after few attempts. docs/protocol §26.1.
func TestIncompressibleData(t *testing.T) {
	o := compressed(1, "s2", false)
	o.Publishers[0].Size = [2]int{7, 7} // one word each
	r := mustRun(t, o)
	if s := r.Sender; r.Messages != 2*5000 || s.BytesSent > s.BytesUnpacked {
		t.Errorf("%d messages, %d of %d bytes", r.Messages, s.BytesSent, s.BytesUnpacked)
	}
}

// Over a link of 1 Gb/s compression raises the message rate.
func TestCompressionOnSlowLink(t *testing.T) {
	elapsed := func(compress string) time.Duration {
		o := compressed(1, compress, true)
		o.Net.Bandwidth, o.Net.Egress = 125_000_000, 64
		o.Publishers[0].Burst, o.Publishers[0].Gap = 1000, time.Microsecond
		o.Publishers[0].Lives[0].Messages = 50_000
		r := mustRun(t, o)
		if r.Messages != 2*50_000 {
			t.Fatalf("%d messages, want %d", r.Messages, 2*50_000)
		}
		return r.Virtual
	}
	raw, less := elapsed(""), elapsed("s2")
	t.Logf("50,000 messages of 64 bytes take %v, compressed %v: %.2f times the rate", raw, less, float64(raw)/float64(less))
	if less > raw*2/3 {
		t.Errorf("50,000 messages of 64 bytes take %v, compressed %v, want at most two thirds", raw, less)
	}
}
