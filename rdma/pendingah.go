package rdma

// AHBeginner is an optional interface of a PD: it makes address handles without blocking the caller. On RoCE, CreateAH
// requests a host's MAC address from the network and waits for the answer, which may take seconds or never arrive
// (kernel core/addr.c, rdma_addr_find_l2_eth_by_grh). If a PD does not implement AHBeginner, CreateAH takes negligible
// time.
type AHBeginner interface {
	// BeginCreateAH begins CreateAH. At its end another goroutine calls done once, unless it is nil, and Done of the
	// pending handle returns true. Error EBADF: the domain is closed. Until the end, Close of the domain returns EBUSY.
	BeginCreateAH(attr AHAttr, done func()) (PendingAH, error)
}

// PendingAH is an address handle that is being created. It is done when the handle is made, when that has failed, or
// when it was cancelled and the provider no longer works on it.
type PendingAH interface {
	Pending
	// AH returns the handle, once. Errors: ErrNoEvent if it is not done; EBADF if the handle was already returned or
	// cancelled; and those of CreateAH.
	AH() (AH, error)
	// Cancel ends the creation: if a handle is still made, it is closed. A handle that AH has returned stays open.
	Cancel()
}
