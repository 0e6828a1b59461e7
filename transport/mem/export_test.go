package mem

// Registered is the number of named networks in the registry.
func Registered() int {
	registry.Lock()
	defer registry.Unlock()
	return len(registry.byName)
}
