package transport

// Sharer is a Transport of which receivers read packets directly in the sender's memory, if that is from AllocBlocks.
type Sharer interface {
	Transport
	// AllocBlocks allocates blocks of bytes each, as Alloc does. The data of a Send must lie in one block, and must not
	// change before the block is renewed.
	AllocBlocks(blocks, bytes int) ([]byte, error)
	// Renew returns memory to use instead of a block with packets that the sender no longer needs: the same memory, or
	// other memory if a receiver may still read the block. It returns nil if there is no memory. Any goroutine may call
	// it. Memory of AllocBlocks must be freed with Free, even after the transport has ended.
	Renew(block []byte) []byte
}
