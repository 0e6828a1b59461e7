package transport

// Violations count datagrams dropped at the port because their sender is of another partition, or
// has another Q_Key than the queue pairs here (RDMA). A port is shared: other programs' are among them.
type Violations struct {
	PKeyViolations uint64
	QKeyViolations uint64
}

// Injections counts what was done to datagrams on purpose (transport/faulty).
type Injections struct {
	Injected      uint64 // dropped
	InjectedDelay uint64 // held back, so that others came before them
}

// Stats counts events since the transport was opened.
type Stats struct {
	PacketsSent uint64
	BytesSent   uint64
	SendCalls   uint64 // system calls or doorbells
	SendBusy    uint64 // Send or Reply found the queue full
	SendErrors  uint64 // packets lost to an error of Send
	// SendNoMemory counts packets that were lost for a receiver each, because there was no memory for them
	// here (shared memory).
	SendNoMemory    uint64
	PacketsReceived uint64
	BytesReceived   uint64
	ReceiveCalls    uint64
	// ReceiveOverflow counts datagrams dropped on this host because the
	// socket buffer or the receive queue was full (SO_RXQ_OVFL): the reader
	// was too slow, the network was not at fault.
	ReceiveOverflow uint64
	// ReceiveQueueEmpty counts, of ReceiveOverflow, datagrams that found no receive
	// posted (RDMA); the others found a socket's buffer full.
	ReceiveQueueEmpty uint64
	// ReceiveQueueFull counts how often the receive queue was found used up, where the
	// adapter does not count what came then and found no receive posted (RDMA): it may
	// have been none, or any number.
	ReceiveQueueFull uint64
	Injections
	ReceiveTruncated uint64 // datagrams larger than a receive buffer, dropped
	ReceiveErrors    uint64
	// LendRefused counts Polls that could not lend as many trains as the caller
	// had room for, because he kept more than Capabilities.LendMax: what arrives
	// then waits, and is lost when the receive queue is full. Polls that only ask
	// again, with nothing lent or released in between, are not counted again.
	LendRefused     uint64
	PeersRefused    uint64 // Retain beyond the limit on peers
	GSORefused      uint64 // sends that the network card refused as GSO trains
	Joins           uint64
	JoinsFailed     uint64
	MembershipsLost uint64
	Violations
	// Unclaimed counts datagrams that reached the port and no queue pair took,
	// whatever the reason: a violation, no receive posted, too small a buffer, or
	// none of the group (RDMA in software; network cards do not count it).
	Unclaimed uint64
	// Damaged counts datagrams that were dropped because their checksum was
	// wrong, or that were no packet of the fabric (RoCE in user space).
	Damaged uint64
	// SendOnlyRefused counts joins as a sender that the subnet manager admitted
	// only as a full member (RDMA).
	SendOnlyRefused uint64
}
