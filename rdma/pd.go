package rdma

// PD is a protection domain: its memory regions, queue pairs and address handles may be used together; ibv_alloc_pd(3).
type PD interface {
	// Device returns the device of the domain.
	Device() Device
	// RegisterMemory registers mem, which must be outside the Go heap (internal/sys) and stay mapped until the region is
	// closed, because a network card reads and writes it at any time. ibv_reg_mr(3). Errors: EINVAL if mem is empty, or
	// access has remote rights without AccessLocalWrite; ENOMEM if the memory cannot be locked (RLIMIT_MEMLOCK), or MaxMR
	// is reached.
	RegisterMemory(mem []byte, access Access) (MR, error)
	// CreateQP makes a queue pair in state RESET; ibv_create_qp(3). Errors: EINVAL for a capability above the device's
	// limit, a missing completion queue or an unknown type; EOPNOTSUPP for a flag that the device does not support; ENOMEM
	// if MaxQP is reached.
	CreateQP(attr QPInitAttr) (QP, error)
	// CreateAH makes an address handle; ibv_create_ah(3). It may wait for the network: see AHBeginner. Errors: EINVAL for
	// an unknown port or GID index, and on RoCE if the handle is not global or the source GID has another address family
	// than the destination (for which the kernel's rxe sends garbage instead); ENOMEM if MaxAH is reached.
	CreateAH(attr AHAttr) (AH, error)
	// Close frees the domain. Error EBUSY: it has regions, queue pairs or address handles.
	Close() error
}

// Access has the rights of a memory region (enum ibv_access_flags). The device may always read it.
type Access uint32

const (
	// AccessLocalWrite permits the device to receive into the memory.
	AccessLocalWrite  Access = 1
	AccessRemoteWrite Access = 2
	AccessRemoteRead  Access = 4
)

// MR is registered memory; ibv_reg_mr(3).
type MR interface {
	// LKey returns the key of the region for work requests.
	LKey() uint32
	// Bytes returns the registered memory.
	Bytes() []byte
	// Close ends the registration. Only then the caller may unmap the memory. It does not wait for work requests that use
	// the memory: close queue pairs first.
	Close() error
}

// AH is an address handle, the destination of work requests: a port or a group; ibv_create_ah(3).
type AH interface {
	// Attr returns the attributes given at creation.
	Attr() AHAttr
	// Close destroys the handle. Work requests that use it must have completed, because rxe uses the handle when it sends.
	Close() error
}
