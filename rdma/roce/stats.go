package roce

import "sync/atomic"

// Stats counts the traffic of a device, in datagrams unless a field says otherwise. Drops of queue
// pairs are in rdma.PortAttr (BadPKeys, QKeyViolations, Dropped) and rdma.DropCounter.
//
// Each datagram that a socket gave this process is counted as exactly one of Received, Malformed,
// ICRCErrors, Foreign and RelayRefused; except those of which CheckFull has two copies, one of them
// from the raw socket: the other counts as FromRelay, or not at all. Each of the Received was taken by
// a queue pair, or is one of rdma.PortAttr.Dropped, and then perhaps one of BadPKeys, QKeyViolations,
// rdma.DropCounter, NoQP, Relayed or RelayFailed too, which give the reason.
type Stats struct {
	Sent      uint64
	SentBytes uint64 // of UDP payload
	SendCalls uint64 // system calls that sent
	// SendErrors counts datagrams that the kernel refused: no route, a firewall, an interface that is
	// down or has a smaller MTU. For a queue pair they are sent: UD may lose datagrams;
	// rdma.RefusalCounter counts those of one queue pair.
	SendErrors uint64
	// GSORefused counts trains that the path could not carry; trains are not tried again then.
	GSORefused uint64

	Received      uint64 // with the right ICRC
	ReceivedBytes uint64 // of UDP payload
	ReceiveCalls  uint64
	// Recovered of the Received had an IPv4 identification that was not to be expected, and was computed from the ICRC:
	// their check is 15 bits strong. Always 0 with CheckFull and on IPv6.
	Recovered uint64

	// Malformed were cut, of another opcode or version, or no RoCEv2 at all.
	Malformed uint64
	// ICRCErrors were damaged on the way.
	ICRCErrors uint64
	// Foreign were read from the raw socket, and are for groups, addresses or interfaces that are not the device's.
	Foreign uint64
	// NoQP were sent to a queue pair that does not exist on this host.
	NoQP uint64
	// Overflow were dropped by the kernel because a socket's receive buffer was full (SO_RXQ_OVFL).
	Overflow uint64

	// Relayed were received here and handed to the process that has the queue
	// pair; RelayFailed did not get there, mostly because its queue was full.
	Relayed, RelayFailed uint64
	// FromRelay came from another process, and RelayRefused did, but from one of another user, or were no such thing.
	FromRelay, RelayRefused uint64
}

// counters are Stats as they are counted.
type counters struct {
	sent, sentBytes, sendCalls, sendErrors, gsoRefused atomic.Uint64
	received, receivedBytes, receiveCalls, recovered   atomic.Uint64
	malformed, icrcErrors, foreign, noQP, overflow     atomic.Uint64
	relayed, relayFailed, fromRelay, relayRefused      atomic.Uint64
}

func (c *counters) load() Stats {
	return Stats{
		Sent: c.sent.Load(), SentBytes: c.sentBytes.Load(), SendCalls: c.sendCalls.Load(), SendErrors: c.sendErrors.Load(),
		GSORefused: c.gsoRefused.Load(),
		Received:   c.received.Load(), ReceivedBytes: c.receivedBytes.Load(),
		ReceiveCalls: c.receiveCalls.Load(), Recovered: c.recovered.Load(),
		Malformed: c.malformed.Load(), ICRCErrors: c.icrcErrors.Load(),
		Foreign: c.foreign.Load(), NoQP: c.noQP.Load(), Overflow: c.overflow.Load(),
		Relayed: c.relayed.Load(), RelayFailed: c.relayFailed.Load(),
		FromRelay: c.fromRelay.Load(), RelayRefused: c.relayRefused.Load(),
	}
}
