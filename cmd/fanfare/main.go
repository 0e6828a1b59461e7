// Fanfare publishes and subscribes from the command line, and measures networks. See "fanfare help".
package main

import (
	"os"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/cli"
)

func main() { os.Exit(cli.Main()) }
