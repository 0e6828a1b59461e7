package rdma

// PortCounting is what a Device may also implement, where Port takes long: a caller that
// only wants the port's counters asks for these.
type PortCounting interface {
	// PortCounts is Port without GIDTableLen, PKeyTableLen, NetDev and Addrs,
	// which may be missing: it does not look at network interfaces.
	PortCounts(num uint8) (PortAttr, error)
}
