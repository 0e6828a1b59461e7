// Fanfare publishes and subscribes from the command line, and measures the way between. "fanfare help" says how.
package main

import (
	"os"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/cli"
)

func main() { os.Exit(cli.Main()) }
