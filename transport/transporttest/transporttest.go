// Package transporttest is the conformance suite of package transport: what every fabric must do for the layers above
// it. A new implementation runs it in one line:
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transporttest.Fabric { … })
//	}
//
// The suite expects a quiet fabric: no other traffic, and no loss but by overflow. It sends no more at a time than the
// receivers' Capabilities say they hold, so that a missing packet is a fault and not bad luck. It measures no time, and
// waits for outcomes only, with a generous limit.
package transporttest

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Fabric is the fabric under test.
type Fabric struct {
	// Open returns a new endpoint on the fabric; all endpoints of one Fabric reach each other. The suite closes it. Open
	// may skip the test, saying why.
	Open func(t testing.TB, o Options) transport.Transport
	// NoOverflowCount means that packets dropped by a full receive queue are not counted: verbs has no counter for it.
	NoOverflowCount bool
	// Delays means that packets are delayed on purpose, as on their way: Batch.More does not include them.
	Delays bool
}

// Options of an endpoint that a test depends on. A zero field leaves the choice
// to the fabric; every endpoint has at least 4 groups.
type Options struct {
	// Queue asks for a receive queue of about that many single packets, or for the smallest that the fabric can make.
	Queue int
	// Peers limits how many peers may be retained.
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
