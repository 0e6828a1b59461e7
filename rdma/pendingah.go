package rdma

// AHBeginner is what a PD may also implement: it makes address handles without
// holding the caller up. CreateAH to a host on RoCE asks the network for the
// address of its network card, and waits for the answer, which may take seconds
// and never come (kernel core/addr.c, rdma_addr_find_l2_eth_by_grh). Where it is
// missing CreateAH takes no time worth mentioning.
type AHBeginner interface {
	// BeginCreateAH begins CreateAH. When it is over done is called, if it is
	// not nil: once, by another goroutine, after which Done of the pending
	// handle is true. EBADF: the domain is closed. While it is not over,
	// Close of the domain answers EBUSY.
	BeginCreateAH(attr AHAttr, done func()) (PendingAH, error)
}

// PendingAH is an address handle in the making. It is over when the handle is
// made or could not be, or when it is cancelled and nothing is under way.
type PendingAH interface {
	Pending
	// AH hands the handle over, once. ErrNoEvent: it is not over yet; EBADF: it
	// was handed over, or cancelled; otherwise as CreateAH.
	AH() (AH, error)
	// Cancel says that the handle is not wanted: if it comes nevertheless, it is
	// closed. What was handed over stays.
	Cancel()
}
