package pubsub

import (
	"os"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// shownName is the name that a bus sends to its peers, for people to read: its Config.Name, or host and process.
func shownName(name string) string {
	if name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	process := "/" + strconv.Itoa(os.Getpid())
	return host[:min(len(host), wire.MaxName-len(process))] + process
}
