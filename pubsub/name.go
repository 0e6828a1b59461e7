package pubsub

import (
	"fmt"
	"os"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// shownName is what a bus calls itself to its peers, for people to read: its configured
// name, or host and process.
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

// checkName says what is wrong with a Config.Name: subscribers show it as it is.
func checkName(name string) error {
	switch {
	case len(name) > wire.MaxName:
		return fmt.Errorf("pubsub: Name of %d bytes is longer than %d", len(name), wire.MaxName)
	case wire.CleanName([]byte(name)) != name:
		return fmt.Errorf("pubsub: Name %q holds white space, invisible or control characters, or invalid UTF-8", name)
	}
	return nil
}
