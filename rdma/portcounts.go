package rdma

// PortCounting is an optional interface of a Device with a slow Port, for callers that need only the port's counters.
type PortCounting interface {
	// PortCounts is Port without GIDTableLen, PKeyTableLen, NetDev and Addrs, which may be zero: it
	// does not query network interfaces.
	PortCounts(num uint8) (PortAttr, error)
}
