package rdma

// AHBeginner is an optional interface of a PD: it makes address handles without blocking the caller. CreateAH to a host
// on RoCE asks the network for the host's MAC address, and waits for the answer, which may take seconds or never arrive
// (kernel core/addr.c, rdma_addr_find_l2_eth_by_grh). If a PD does not implement it, CreateAH takes negligible time.
type AHBeginner interface {
	// BeginCreateAH begins CreateAH. When it is over done is called, if it is not nil: once, by another goroutine, after
	// which Done of the pending handle is true. EBADF: the domain is closed. While it is not over, Close of the domain
	// answers EBUSY.
	BeginCreateAH(attr AHAttr, done func()) (PendingAH, error)
}

// PendingAH is an address handle that is being created. It is over when the handle is made or has
// failed, or when it is cancelled and no work is pending.
type PendingAH interface {
	Pending
	// AH hands the handle over, once. ErrNoEvent: it is not over yet; EBADF: it
	// was handed over, or cancelled; otherwise as CreateAH.
	AH() (AH, error)
	// Cancel means that the handle is not wanted: if it is made nevertheless, it is closed. A handle
	// that was returned already stays.
	Cancel()
}
