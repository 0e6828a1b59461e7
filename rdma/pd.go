package rdma

// PD is a protection domain: what its memory regions, queue pairs and address
// handles may be used with one another; ibv_alloc_pd(3).
type PD interface {
	// Device that the domain belongs to.
	Device() Device
	// RegisterMemory registers mem, which must lie outside the Go heap (internal/sys) and stay mapped until the region is
	// closed: a NIC reads and writes it at any time. ibv_reg_mr(3). EINVAL: mem is empty, or access has remote rights
	// without AccessLocalWrite; ENOMEM: the memory cannot be locked (RLIMIT_MEMLOCK), or MaxMR is reached.
	RegisterMemory(mem []byte, access Access) (MR, error)
	// CreateQP makes a queue pair in state RESET; ibv_create_qp(3). EINVAL: a capability above the device's limit, no
	// completion queue, a type that does not exist; EOPNOTSUPP: a flag that the device does not know; ENOMEM: MaxQP is
	// reached.
	CreateQP(attr QPInitAttr) (QP, error)
	// CreateAH makes an address handle; ibv_create_ah(3). It may wait for the network: see AHBeginner. EINVAL: no such
	// port or GID index, not global on RoCE, or a source GID of another address family than the destination's on RoCE
	// (there the kernel's rxe sends garbage instead); ENOMEM: MaxAH is reached.
	CreateAH(attr AHAttr) (AH, error)
	// Close frees the domain. EBUSY: regions, queue pairs or address handles are left in it.
	Close() error
}

// Access are the rights on a memory region (enum ibv_access_flags). Reading by the device is always allowed.
type Access uint32

const (
	// AccessLocalWrite lets the device receive into the memory.
	AccessLocalWrite  Access = 1
	AccessRemoteWrite Access = 2
	AccessRemoteRead  Access = 4
)

// MR is registered memory; ibv_reg_mr(3).
type MR interface {
	// LKey names the region in work requests.
	LKey() uint32
	// Bytes is the memory that was registered.
	Bytes() []byte
	// Close ends the registration; the caller may unmap the memory then, and not before. It does not wait for work
	// requests that use it: close queue pairs first.
	Close() error
}

// AH is an address handle: the way to a port or group, ready for use in work requests; ibv_create_ah(3).
type AH interface {
	// Attr is the attributes given at creation.
	Attr() AHAttr
	// Close destroys the handle. Work requests that use it must have completed: rxe looks the handle up when it sends.
	Close() error
}
