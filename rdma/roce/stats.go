package roce

import "sync/atomic"

// Stats counts the traffic of a device, in datagrams unless stated otherwise. Drops of queue pairs are in rdma.PortAttr
// (BadPKeys, QKeyViolations, Dropped) and rdma.DropCounter.
//
// Each datagram read from a socket is counted in exactly one of Received, Malformed, ICRCErrors, Foreign and
// RelayRefused. Exception: with CheckFull some are read twice, once from the raw socket; the second copy is counted in
// FromRelay, or not at all. Each Received datagram was delivered to a queue pair or counted in rdma.PortAttr.Dropped,
// and then perhaps also in BadPKeys, QKeyViolations, rdma.DropCounter, NoQP, Relayed or RelayFailed, for the reason.
type Stats struct {
	Sent      uint64
	SentBytes uint64 // of UDP payload
	SendCalls uint64 // system calls for sending
	// SendErrors counts datagrams that the kernel refused: no route, a firewall, an interface that is down or has a
	// smaller MTU. For the queue pair they count as sent, because UD may lose datagrams; rdma.RefusalCounter counts them
	// for each queue pair.
	SendErrors uint64
	// GSORefused counts trains that the path did not support; afterwards no trains are sent.
	GSORefused uint64

	Received      uint64 // datagrams with the right ICRC
	ReceivedBytes uint64 // of UDP payload
	ReceiveCalls  uint64
	// Recovered counts the Received with an unexpected IPv4 identification, which was computed from the ICRC: for them the
	// check has only 15 bits. Always 0 with CheckFull and on IPv6.
	Recovered uint64

	// Malformed counts truncated datagrams, and those with another opcode or version, or of another protocol.
	Malformed uint64
	// ICRCErrors counts datagrams damaged in transit.
	ICRCErrors uint64
	// Foreign counts datagrams read from the raw socket that are for groups, addresses or interfaces of others.
	Foreign uint64
	// NoQP counts datagrams to queue pairs that do not exist on this host.
	NoQP uint64
	// Overflow counts datagrams that the kernel dropped because a socket's receive buffer was full (SO_RXQ_OVFL).
	Overflow uint64

	// Relayed counts datagrams relayed to the process with the queue pair; RelayFailed those that could not be relayed,
	// mostly because that process's queue was full.
	Relayed, RelayFailed uint64
	// FromRelay counts datagrams relayed by another process; RelayRefused those refused because that process belongs to
	// another user, or because they are invalid.
	FromRelay, RelayRefused uint64
}

// counters has the counters of Stats.
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
