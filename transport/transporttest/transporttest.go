// Package transporttest is the conformance suite of package transport: it tests what the layers above require of every
// fabric. A new implementation runs it with one call:
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transporttest.Fabric { … })
//	}
//
// The suite expects a fabric without other traffic, and without loss except overflow. It sends no more at a time than
// ReceiveCapacity of the receivers, so that a missing packet is an error. It does not measure time, but waits for
// results, with a long timeout.
package transporttest

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Fabric is the fabric under test.
type Fabric struct {
	// Open returns a new endpoint on the fabric; all endpoints of one Fabric reach each other. The suite closes it. Open
	// may skip the test with a reason.
	Open func(t testing.TB, o Options) transport.Transport
	// NoOverflowCount: packets dropped by a full receive queue are not counted, as with verbs.
	NoOverflowCount bool
	// Delays: the fabric delays packets on purpose, as on their way, so Batch.More does not include them.
	Delays bool
}

// Options are properties of an endpoint that a test depends on. A zero field leaves the choice to the fabric; every
// endpoint has at least 4 groups.
type Options struct {
	// Queue is the approximate size of the receive queue in single packets, or as small as the fabric can make it.
	Queue int
	// Peers is the maximum number of retained peers.
	Peers int
}

// Run runs the suite. It calls open once for each test.
func Run(t *testing.T, open func(t *testing.T) Fabric) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, f *fabric)
	}{
		// deliver.go
		{"Capabilities", testCapabilities},
		{"Sizes", testSizes},
		{"Trains", testTrains},
		{"IrregularTrains", testIrregularTrains},
		{"BadTrains", testBadTrains},
		{"TwoReceivers", testTwoReceivers},
		{"OwnPackets", testOwnPackets},
		{"ManySenders", testManySenders},
		{"BatchLimit", testBatchLimit},
		{"Overflow", testOverflow},
		{"Stats", testStats},
		// groups.go
		{"GroupAddress", testGroupAddress},
		{"JoinAndLeave", testJoinAndLeave},
		{"NoSuchGroup", testNoSuchGroup},
		{"Isolation", testIsolation},
		{"LeaveEndsDelivery", testLeaveEndsDelivery},
		{"LeaveWithBacklog", testLeaveWithBacklog},
		{"PollWithoutWait", testPollWithoutWait},
		{"EventLimit", testEventLimit},
		// peers.go
		{"Reply", testReply},
		{"ReplyToClosed", testReplyToClosed},
		{"ReadReplies", testReadReplies},
		{"Addresses", testAddresses},
		{"RetainAndForget", testRetainAndForget},
		{"PeerLimit", testPeerLimit},
		// rounds.go
		{"Rounds", testRounds},
		// memory.go
		{"LentMemory", testLentMemory},
		{"LendLimit", testLendLimit},
		{"Alloc", testAlloc},
		{"SharedBlocks", testSharedBlocks},
		{"NoAllocations", testNoAllocations},
		// lifecycle.go
		{"WaitAndWake", testWaitAndWake},
		{"WaitInFlood", testWaitInFlood},
		{"CloseWakesWait", testCloseWakesWait},
		{"Closed", testClosed},
		{"CloseWhileSending", testCloseWhileSending},
		{"Concurrency", testConcurrency},
		{"Leaks", testLeaks},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(t, &fabric{open: open(t)})
		})
	}
}
