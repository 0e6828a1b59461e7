package transport

// Sharer is a Transport whose receivers read packets where they were sent from, if they lie in
// memory of AllocBlocks: it need not copy them.
type Sharer interface {
	Transport
	// AllocBlocks is Alloc of that many blocks of that many bytes. What is given to a Send lies
	// in one block, and does not change before the block was renewed.
	AllocBlocks(blocks, bytes int) ([]byte, error)
	// Renew returns the memory in which a block goes on, when its packets are not needed any
	// more by the sender: the same, or other where somebody may still be reading. It returns nil where no
	// memory is to be had. Any goroutine may call it. Free takes what AllocBlocks returned, and
	// is to be called for it when the transport has ended.
	Renew(block []byte) []byte
}
