package stats

// Transport is what the transport of a fabric did.
type Transport struct {
	PacketsSent  uint64 // packets
	BytesSent    uint64 // bytes
	SendCalls    uint64 // system calls or doorbells
	SendBusy     uint64 // calls of Send or Reply that found the queue full
	SendErrors   uint64 // packets lost to an error of Send
	SendNoMemory uint64 // packets lost, for a receiver each, because there was no memory for them here (shared memory)

	PacketsReceived uint64 // packets
	BytesReceived   uint64 // bytes
	ReceiveCalls    uint64 // system calls or polls of a completion queue
	// ReceiveOverflow counts datagrams dropped on this host because the socket buffer or the receive queue was full
	// (SO_RXQ_OVFL): the reader was too slow, the network was not at fault.
	ReceiveOverflow uint64
	// ReceiveQueueEmpty counts, of ReceiveOverflow, datagrams that found no receive posted (RDMA); the others found
	// the buffer of a socket full.
	ReceiveQueueEmpty uint64
	// ReceiveQueueFull counts how often the receive queue was found used up, where the adapter does not count
	// datagrams that then found no receive posted (RDMA): there may have been none, or any number.
	ReceiveQueueFull uint64
	ReceiveTruncated uint64 // datagrams larger than a receive buffer, dropped
	ReceiveErrors    uint64 // calls that failed
	// LendRefused counts Polls that could not lend as many trains as the caller had room for, because it kept more
	// than Capabilities.LendMax: packets that arrive then wait, and are lost when the receive queue is full. Polls
	// that only ask again, with nothing lent or released in between, are not counted again.
	LendRefused  uint64
	PeersRefused uint64 // calls of Retain beyond the limit on peers
	GSORefused   uint64 // sends that the network card refused as GSO trains

	Joins           uint64 // groups joined
	JoinsFailed     uint64 // groups not joined
	MembershipsLost uint64 // memberships of groups
	SendOnlyRefused uint64 // joins as a sender that the subnet manager admitted only as a full member (RDMA)

	// PKeyViolations and QKeyViolations count datagrams dropped at the port because their sender is of another
	// partition, or has another Q_Key than the queue pairs here (RDMA). A port is shared: datagrams for other
	// programs are among them.
	PKeyViolations uint64
	QKeyViolations uint64
	// Unclaimed counts datagrams that reached the port and no queue pair took, for any reason: a violation, no
	// receive posted, too small a buffer, or none of the group (RDMA in software; network cards do not count it).
	Unclaimed uint64
	// Damaged counts datagrams dropped because their checksum was wrong, or because they were no packet of the
	// fabric (RoCE in user space).
	Damaged uint64

	Injected      uint64 // datagrams dropped on purpose (Config.Faults)
	InjectedDelay uint64 // datagrams held back on purpose, so that others arrived before them
}

// Seal counts packets that arrived and were refused because they do not open, each once, by the first check that it
// fails. The checks are in this order.
type Seal struct {
	Foreign    uint64 // no packets of Fanfare, or too short for one
	Open       uint64 // not sealed: sent by a bus without keys, or an attacker
	Version    uint64 // sealed by a version of the format that is not known here
	UnknownKey uint64 // sealed with a key that is not in the keyring, or not valid now
	// Replayed: arrived before, with a counter below those that are remembered of their sender, or with no later time
	// than the latest of their sender when it was forgotten.
	Replayed uint64
	Forged   uint64 // not verified: made up, damaged, of another group, or of a key of the same id with another secret
	Stale    uint64 // sent too long ago, or too far in the future, by the clock of this host
	// Deferred: of a sender that is not known yet, while more of them arrive than are checked, or while as many of
	// its key and host are known as may be.
	Deferred uint64

	Senders  uint64 // senders that are remembered now; no count of packets
	Unsealed uint64 // packets that were not sent because no key is valid
}

// Sign counts packets of publishers that were refused because their signature proves nothing, each once, by the
// first check that it fails.
type Sign struct {
	Unsigned  uint64 // not signed
	Malformed uint64 // signed in a way that is not known here
	Untrusted uint64 // of a publisher with a key that is not trusted for any topic
	Stale     uint64 // signed too long ago, or too far in the future, by the clock of this host
	Replayed  uint64 // arrived before by the same leg, or of a train that is too old to know whether it arrived
	Forged    uint64 // not verified
	// Deferred: not checked, because too many do not verify, or because their key takes more than its share. They are
	// asked for again.
	Deferred uint64

	Streams uint64 // streams that are remembered now; no count of packets
}
